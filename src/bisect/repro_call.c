/* repro_call.c: an operation of the CPU's library as a folder of its own, with the sources that C
 * projects carry. */
#include "bisect/repro_impl.h"
#include "bisect/repro_texts.h"

#include "driver/source_parts.h"
#include "driver/source_files.h"
#include "wrapper/names.h"
#include "wrapper/place.h"

#include <string.h>

REPRO_TEXT(hn_repro_call, "call.c");

/* A weight that never changes may be packed. */
static bool is_constant(const hn_repro *r, uint32_t k) {
    const hn_driver *d = r->lines->d;
    const hn_wbuf buffer = r->line->operands[k].buffer;
    if (!buffer) return false;
    const hn_wbuffer *root = &d->wrapper->buffers.items[hn_wrapper_root(d->wrapper, buffer)];
    if (root->kind != HN_WBUF_CONSTANT) return false;
    for (uint32_t o = 0; o < d->wrapper->outputs.count; o++)
        if (hn_woutput_storage(d->wrapper, &d->wrapper->outputs.items[o]) == root->source)
            return false;
    return true;
}

static void print_list(const hn_repro *r, const char *name, bool of_types, hn_strbuf *out) {
    hn_strbuf_printf(out, "static const unsigned char %s[] = {", name);
    for (uint32_t k = 0; k < r->count; k++) {
        const hn_step_operand *o = &r->operands[k].info;
        const unsigned type = o->buffer ? (unsigned)o->type : 0u;
        hn_strbuf_printf(out, "%s%u", k ? ", " : "", of_types ? type : is_constant(r, k));
    }
    hn_strbuf_puts(out, "};\n");
}

void hn_repro_call_head(const hn_repro *r, hn_strbuf *out) {
    hn_strbuf_printf(out, "#define REPRO_KIND %u /* %s */\n#define REPRO_THREADS %d\n",
                     (unsigned)r->line->extern_kind, hn_wextern_names[r->line->extern_kind],
                     hn_options_threads(&r->lines->d->options));
    print_list(r, "types", true, out);
    print_list(r, "constants", false, out);
}

/* ---- the files ---- */

static hn_source_called called_by(const hn_repro *r) {
    return (hn_source_called){
        .w = r->lines->d->wrapper, .only = r->line, .variant = r->lines->d->levels[0].target.ops};
}

static bool comes_along(const hn_repro *r, const hn_source_text *t) {
    const hn_source_called call = called_by(r);
    const bool is_runtime = strncmp(t->path, "lib/runtime/", 12) == 0;
    return strncmp(t->path, "lib/", 4) == 0 && !is_runtime &&
           (!t->wanted_by || t->wanted_by & HN_TEXT_EXTERNS) &&
           hn_source_part_is_needed(&call, t->path);
}

static hn_status add_library(hn_repro *r, hn_strbuf *out_objects) {
    for (const hn_source_text *t = hn_source_texts; t->path; t++) {
        if (!comes_along(r, t)) continue;
        HN_TRY(hn_repro_add_file(r, t->path, t->begin, (size_t)(t->end - t->begin)));
        if (hn_source_is_c(t->path))
            hn_strbuf_printf(out_objects, " %.*s.o", (int)strlen(t->path) - 2, t->path);
    }
    return NULL;
}

static hn_status add_makefile(hn_repro *r, hn_str flags, hn_str objects) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(
        &text,
        "CC = cc\nCFLAGS = -O2\nFLAGS = -std=gnu17 -D_GNU_SOURCE -I. -Ilib -pthread -Wno-psabi " HN_STR_FMT
        "\nOBJECTS =" HN_STR_FMT "\n\nrun: repro\n\t./repro\n\n"
        "repro: call.c check.h repro.h $(OBJECTS)\n"
        "\t$(CC) $(FLAGS) $(CFLAGS) -o $@ call.c $(OBJECTS) -lm\n\n"
        "$(OBJECTS): %%.o: %%.c\n\t$(CC) $(FLAGS) $(CFLAGS) -c -o $@ $<\n\n"
        "clean:\n\trm -f repro $(OBJECTS)\n",
        HN_STR_ARG(flags), HN_STR_ARG(objects));
    hn_status status = hn_repro_add_text(r, "Makefile", &text);
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_repro_call_add(hn_repro *r) {
    const hn_source_called call = called_by(r);
    hn_str flags;
    hn_strbuf objects;
    HN_TRY(hn_source_part_flags(&call, &r->arena, &flags));
    HN_TRY(
        hn_repro_add_file(r, "call.c", hn_repro_call, (size_t)(hn_repro_call_end - hn_repro_call)));
    hn_strbuf_init(&objects);
    hn_status status = add_library(r, &objects);
    if (!status) status = hn_strbuf_status(&objects);
    if (!status) status = add_makefile(r, flags, hn_strbuf_str(&objects));
    hn_strbuf_deinit(&objects);
    return status;
}
