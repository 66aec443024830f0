/* to_json.c: the program of an emitted project as JSON, for tools: docs/program-json.md. It has what
 * the lines need besides themselves: where weights lie in weights.bin, where symbols come from, what
 * is guarded, what outputs change. */
#include "wrapper/json_words.h"
#include "wrapper/names.h"
#include "wrapper/to_source.h"

#include <inttypes.h>

enum { PROGRAM_JSON_VERSION = 1 };

typedef struct printer {
    hn_json_out json;
    const hn_to_source *source;
    const hn_wnumbering *n;
} printer;

static void put_u64(printer *p, const char *name, uint64_t value) {
    hn_json_put_key(&p->json, name);
    hn_strbuf_printf(p->json.out, "%" PRIu64, value);
}

static void put_dtypes(printer *p) {
    hn_json_put_key(&p->json, "dtypes");
    hn_json_put_open(&p->json, '[');
    for (uint32_t k = 1; k < HN_DTYPE_COUNT; k++) {
        hn_json_put_open(&p->json, '{');
        hn_json_put_text(&p->json, "name", hn_str_of(hn_dtype_facts((hn_dtype)k)->name));
        hn_json_put_number(&p->json, "number", k);
        hn_json_put_number(&p->json, "bytes", hn_dtype_facts((hn_dtype)k)->size_bytes);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

static void put_operations(printer *p) {
    hn_json_put_key(&p->json, "operations");
    hn_json_put_open(&p->json, '[');
    for (uint32_t k = 1; k < HN_EXTERN_KIND_COUNT; k++) {
        hn_json_put_open(&p->json, '{');
        hn_json_put_text(&p->json, "name", hn_str_of(hn_wextern_names[k]));
        hn_json_put_number(&p->json, "number", k);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

/* Storages by their numbers in the graph, which the buffers of constants have as `source`. */
static void put_weights(printer *p) {
    const hn_wplaces *places = &p->n->places;
    hn_json_put_key(&p->json, "weights");
    hn_json_put_open(&p->json, '{');
    hn_json_put_text(&p->json, "file", HN_STR("weights.bin"));
    put_u64(p, "bytes", p->source->weights_bytes);
    hn_json_put_key(&p->json, "storages");
    hn_json_put_open(&p->json, '[');
    for (uint32_t k = 1; k < places->storages.count; k++) {
        const hn_wstorage *s = &places->storages.items[k];
        hn_json_put_open(&p->json, '{');
        hn_json_put_number(&p->json, "storage", s->storage);
        hn_json_put_text(&p->json, "name", s->name);
        put_u64(p, "offset", HN_SOURCE_HEAD_BYTES + p->source->weight_offsets[k]);
        put_u64(p, "bytes", hn_wnumbering_storage(p->n, k)->size_bytes);
        hn_json_put_truth(&p->json, "is_changed", s->is_mutable);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
    hn_json_put_close(&p->json, '}');
}

static void put_symbol(printer *p, const hn_wsymbol *s) {
    int64_t low, high;
    hn_sym_range(p->n->w->sym, s->symbol, &low, &high);
    hn_json_put_open(&p->json, '{');
    hn_json_put_text(&p->json, "name", hn_sym_symbol_name(p->n->w->sym, s->symbol));
    hn_json_put_number(&p->json, "low", low);
    hn_json_put_number(&p->json, "high", high);
    if (!s->by_line) {
        hn_json_put_number(&p->json, "input", s->input);
        if (s->dim != HN_WDIM_VALUE) hn_json_put_number(&p->json, "dimension", s->dim);
        hn_json_put_number(&p->json, "coefficient", s->coeff);
        hn_json_put_optional(&p->json, "rest", s->rest);
    }
    hn_json_put_close(&p->json, '}');
}

static void put_symbols(printer *p) {
    hn_json_put_key(&p->json, "symbols");
    hn_json_put_open(&p->json, '[');
    for (uint32_t k = 0; k < p->n->symbols.count; k++) put_symbol(p, &p->n->symbols.items[k]);
    hn_json_put_close(&p->json, ']');
}

static void put_guards(printer *p) {
    static const char *const relations[] = {
        [HN_REL_EQ] = "==", [HN_REL_NE] = "!=", [HN_REL_LT] = "<", [HN_REL_LE] = "<="};
    hn_json_put_key(&p->json, "guards");
    hn_json_put_open(&p->json, '[');
    for (uint32_t k = 0; k < p->n->guards.count; k++) {
        const hn_guard *g = &p->n->guards.items[k];
        hn_json_put_open(&p->json, '{');
        hn_json_put_key(&p->json, "left");
        hn_json_put_expr(&p->json, g->lhs);
        hn_json_put_text(&p->json, "relation", hn_str_of(relations[g->relation]));
        hn_json_put_key(&p->json, "right");
        hn_json_put_expr(&p->json, g->rhs);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

/* Where in the weights the outputs go that change them. */
static void put_targets(printer *p) {
    hn_json_put_key(&p->json, "changed_weights");
    hn_json_put_open(&p->json, '[');
    for (uint32_t k = 0; k < p->n->w->outputs.count; k++) {
        const hn_wtarget *t = &p->n->places.targets[k];
        if (!t->storage) continue;
        hn_json_put_open(&p->json, '{');
        hn_json_put_number(&p->json, "output", k);
        hn_json_put_number(&p->json, "storage", p->n->places.storages.items[t->storage].storage);
        hn_json_put_optional(&p->json, "offset", t->offset_elems);
        hn_json_put_exprs(&p->json, "strides", t->strides, p->n->w->outputs.items[k].rank);
        hn_json_put_close(&p->json, '}');
    }
    hn_json_put_close(&p->json, ']');
}

void hn_wrapper_to_json(const hn_to_source *source, hn_strbuf *out) {
    const hn_wnumbering *n = source->numbering;
    printer p = {{n->w->sym, out}, source, n};
    hn_json_put_open(&p.json, '{');
    hn_json_put_number(&p.json, "version", PROGRAM_JSON_VERSION);
    hn_json_put_text(&p.json, "model", source->model);
    hn_json_put_text(&p.json, "target", source->target);
    put_dtypes(&p);
    put_operations(&p);
    put_weights(&p);
    put_symbols(&p);
    put_guards(&p);
    put_targets(&p);
    hn_json_put_key(&p.json, "program");
    hn_wrapper_print_json(n->w, out);
    hn_json_put_close(&p.json, '}');
    hn_strbuf_putc(out, '\n');
}
