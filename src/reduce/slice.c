/* slice.c: see slice.h. */
#include "reduce/slice.h"

#include <string.h>

/* --- the importer of slices --- */

static hn_status add_watches(hn_graph *g) {
    for (hn_node n = 1; n < g->nodes.count; n++) {
        const hn_node_info *node = &g->nodes.items[n];
        for (uint32_t k = 0; k < node->result_count; k++) {
            const hn_value v = node->results[k];
            if (!v || hn_graph_value(g, v)->kind != HN_VALUE_TENSOR) continue;
            HN_TRY(hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER,
                                                      .value = v,
                                                      .name = hn_graph_value(g, v)->name}));
        }
    }
    return NULL;
}

static hn_status copy_graph(const hn_slice *slice, hn_arena *arena, hn_sym *sym, hn_graph **out) {
    hn_graph *g = NULL;
    HN_TRY(hn_graph_parse(arena, sym, slice->text, &g));
    for (uint32_t k = 1; k < g->storages.count; k++) g->storages.items[k].data = slice->storages[k];
    for (uint32_t k = 0; k < g->inputs.count; k++) g->inputs.items[k].example = slice->examples[k];
    hn_status status = slice->is_watched ? add_watches(g) : NULL;
    if (status) {
        hn_graph_deinit(g);
        return status;
    }
    *out = g;
    return NULL;
}

static hn_status import(hn_model_file *file, const char *model, hn_arena *arena, hn_sym *sym,
                        hn_graph **out) {
    (void)model; /* it was chosen when the slice was made */
    return copy_graph((const hn_slice *)file, arena, sym, out);
}

static void forget_reads(hn_model_file *file) { (void)file; }
static void file_close(hn_model_file *file) { (void)file; }

/* What a compilation of an open file asks for (bisect/subject.h). */
static const hn_importer slice_importer = {
    .name = "slice", .close = file_close, .import = import, .forget_reads = forget_reads};

/* --- making one --- */

static hn_status take(hn_graph *graph, hn_slice *out) {
    hn_strbuf text;
    out->storage_count = graph->storages.count;
    out->input_count = graph->inputs.count;
    HN_NEW(&out->arena, out->storages, out->storage_count);
    HN_NEW(&out->arena, out->examples, out->input_count + 1u);
    for (uint32_t k = 1; k < graph->storages.count; k++) {
        hn_storage *storage = &graph->storages.items[k];
        storage->file_record = HN_STR("");
        storage->file_offset = 0;
        out->storages[k] = storage->data;
        out->weight_bytes += storage->size_bytes;
    }
    for (uint32_t k = 0; k < graph->inputs.count; k++)
        out->examples[k] = graph->inputs.items[k].example;
    for (hn_node n = 1; n < graph->nodes.count; n++) out->node_count += !graph->nodes.items[n].dead;
    hn_strbuf_init(&text);
    hn_graph_print(graph, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) {
        out->text = hn_strbuf_str(&text);
        out->text.ptr = hn_arena_strndup(&out->arena, out->text.ptr, out->text.len);
        if (!out->text.ptr) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a graph");
    }
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_slice_init(hn_graph *graph, hn_slice *out) {
    *out = (hn_slice){.file = {.importer = &slice_importer}};
    hn_arena_init(&out->arena);
    return take(graph, out);
}

void hn_slice_deinit(hn_slice *slice) { hn_arena_deinit(&slice->arena); }

hn_status hn_slice_graph(const hn_slice *slice, hn_arena *arena, hn_graph **out) {
    hn_sym *sym;
    HN_TRY(hn_sym_create(arena, &sym));
    return copy_graph(slice, arena, sym, out);
}

/* A comment ends with its line, whatever it holds. */
static void put_comment(const char *text, hn_strbuf *out) {
    hn_strbuf_puts(out, "# ");
    for (; *text; text++) hn_strbuf_putc(out, (unsigned char)*text < ' ' ? ' ' : *text);
    hn_strbuf_putc(out, '\n');
}

hn_status hn_slice_write(const hn_slice *slice, const char *const *comments, uint32_t count,
                         hn_strbuf *out) {
    hn_arena arena;
    hn_graph *graph;
    hn_arena_init(&arena);
    hn_status status = hn_slice_graph(slice, &arena, &graph);
    if (!status) {
        for (uint32_t k = 0; k < count; k++) put_comment(comments[k], out);
        hn_graph_print_whole(graph, out);
        hn_graph_deinit(graph);
        status = hn_strbuf_status(out);
    }
    hn_arena_deinit(&arena);
    return status;
}
