/* import_fixture.h: importing a program that is written in a test, and what is expected of it. */
#ifndef HN_TESTS_UNIT_FRONT_IMPORT_FIXTURE_H
#define HN_TESTS_UNIT_FRONT_IMPORT_FIXTURE_H

#include "unit/harness.h"

#include "base/compiler.h"
#include "front/importer.h"
#include "unit/front/pickle_writer.h"
#include "unit/front/program_text.h"

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_model_file *file;
    hn_graph *graph;
    zip_writer zip;
} fixture;

static HN_UNUSED hn_status import_zip(fixture *f, const char *model) {
    hn_arena_init(&f->arena);
    zip_writer_end(&f->zip);
    HN_TRY(hn_sym_create(&f->arena, &f->sym));
    HN_TRY(hn_model_open_memory(f->zip.bytes, f->zip.len, &f->file));
    HN_TRY(f->file->importer->import(f->file, model, &f->arena, f->sym, &f->graph));
    return hn_graph_verify(f->graph, HN_LEGAL_ANY);
}

static HN_UNUSED hn_status import_parts(fixture *f, const program_parts *parts,
                                        const char *weights) {
    char *json = program_text(parts);
    *f = (fixture){0};
    program_archive(&f->zip, json, weights);
    free(json);
    return import_zip(f, NULL);
}

static HN_UNUSED void done(fixture *f) {
    hn_graph_deinit(f->graph);
    hn_arena_deinit(&f->arena);
    hn_model_close(f->file);
    zip_writer_free(&f->zip);
}

static HN_UNUSED void expect_text(fixture *f, const char *expected) {
    hn_strbuf text;
    if (!f->graph) return;
    hn_strbuf_init(&text);
    hn_graph_print(f->graph, &text);
    EXPECT_STR(text.ptr, expected);
    hn_strbuf_deinit(&text);
}

static HN_UNUSED void expect_graph(const program_parts *parts, const char *expected) {
    fixture f;
    EXPECT_OK(import_parts(&f, parts, NULL));
    expect_text(&f, expected);
    done(&f);
}

static HN_UNUSED void expect_refused(const program_parts *parts, hn_code code,
                                     const char *message) {
    fixture f;
    EXPECT_ERROR(import_parts(&f, parts, NULL), code, message);
    done(&f);
}

/* One input x, one node that makes y, one output y; both f32[2, 3]. */
static HN_UNUSED program_parts one_node(const char *node) {
    return (program_parts){.inputs = TENSOR("x"),
                           .outputs = TENSOR("y"),
                           .nodes = node,
                           .metas = F23("x") ", " F23("y"),
                           .input_specs = USER_INPUT(TENSOR("x")),
                           .output_specs = USER_OUTPUT(TENSOR("y"))};
}

#endif
