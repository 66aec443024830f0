/* model.c: what only the compiler knows: the nodes of the model, the texts of the kernels, and
 * which forms the planner has compared. */
#include "report/internal.h"

#include "base/arena.h"
#include "base/map.h"
#include "driver/variants.h"
#include "ir/text.h"

/* ---- nodes ---- */

typedef struct node_printer {
    const hn_graph *graph;
    hn_strbuf *out;
    hn_strbuf text; /* scratch */
} node_printer;

/* "f32[2, 32, 64]" */
static void put_value_type(node_printer *p, hn_value v) {
    const hn_value_info *info = hn_graph_value(p->graph, v);
    hn_strbuf_reset(&p->text);
    if (info->kind == HN_VALUE_TENSOR) {
        hn_strbuf_printf(&p->text, "%s[", hn_dtype_facts(info->dtype)->name);
        for (uint32_t d = 0; d < info->rank; d++) {
            if (d) hn_strbuf_puts(&p->text, ", ");
            hn_text_print_expr(p->graph->sym, info->sizes[d], &p->text);
        }
        hn_strbuf_putc(&p->text, ']');
    } else if (info->expr) {
        hn_text_print_expr(p->graph->sym, info->expr, &p->text);
    }
    hn_json_item_put(p->out);
    hn_strbuf_json(p->out, hn_strbuf_str(&p->text));
}

/* Where an operand comes from: the name of a node or of an input. */
static void put_operand(void *user, hn_value v) {
    node_printer *p = user;
    const hn_value_info *info = hn_graph_value(p->graph, v);
    const uint32_t origin = info->producer ? hn_graph_node(p->graph, info->producer)->origin : 0;
    hn_json_item_put(p->out);
    hn_strbuf_json(p->out, info->producer ? p->graph->origins.items[origin].node : info->name);
}

static void put_node(node_printer *p, hn_node n) {
    const hn_node_info *node = hn_graph_node(p->graph, n);
    const hn_origin *origin = &p->graph->origins.items[node->origin];
    hn_json_open_put(p->out, '{');
    hn_json_text_put(p->out, "name", origin->node);
    hn_json_text_put(p->out, "op", hn_str_of(hn_op_facts(node->op)->name));
    hn_json_text_put(p->out, "source", origin->source);
    hn_json_key_put(p->out, "types"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < node->result_count; k++)
        if (node->results[k]) put_value_type(p, node->results[k]);
    hn_json_close_put(p->out, ']');
    hn_json_key_put(p->out, "from"), hn_json_open_put(p->out, '[');
    hn_node_each_value(node, put_operand, p);
    hn_json_close_put(p->out, ']');
    hn_json_close_put(p->out, '}');
}

/* Bodies of conditionals and loops stand behind their node. */
static hn_status put_nodes_of(const hn_graph *graph, hn_strbuf *out) {
    node_printer p = {.graph = graph, .out = out};
    hn_status status = NULL;
    hn_strbuf_init(&p.text);
    for (hn_node n = 1; n < graph->nodes.count && !status; n++) {
        const hn_node_info *node = hn_graph_node(graph, n);
        if (node->dead) continue;
        put_node(&p, n);
        for (uint32_t k = 0; k < node->arg_count && !status; k++)
            if (node->args[k].kind == HN_ARG_GRAPH)
                status = put_nodes_of(node->args[k].as.graph, out);
    }
    out->failed |= p.text.failed;
    hn_strbuf_deinit(&p.text);
    return status;
}

hn_status hn_report_put_nodes(const hn_graph *graph, hn_strbuf *out) {
    hn_json_key_put(out, "nodes"), hn_json_open_put(out, '[');
    HN_TRY(put_nodes_of(graph, out));
    hn_json_close_put(out, ']');
    return NULL;
}

/* ---- fusions ---- */

static hn_str node_of(const hn_driver *d, uint32_t origin) {
    return d->graph->origins.items[origin].node;
}

static void put_fusion(const hn_driver *d, const hn_refusal *r, hn_strbuf *out) {
    const hn_refusal_kind *kind = hn_refusal_kind_of(r->why);
    hn_json_open_put(out, '{');
    hn_json_text_put(out, "first", node_of(d, r->first));
    hn_json_text_put(out, "second", node_of(d, r->second));
    hn_json_text_put(out, "reason", hn_str_of(kind->name));
    hn_json_text_put(out, "sentence", hn_str_of(kind->sentence));
    if (r->mismatch) {
        const hn_mismatch_kind *mismatch = hn_mismatch_kind_of(r->mismatch);
        hn_json_text_put(out, "mismatch", hn_str_of(mismatch->name));
        hn_json_text_put(out, "mismatch_sentence", hn_str_of(mismatch->sentence));
    }
    hn_json_int_put(out, "bytes", r->bytes);
    hn_json_close_put(out, '}');
}

void hn_report_put_fusions(const hn_driver *d, hn_strbuf *out) {
    hn_json_key_put(out, "fusions"), hn_json_open_put(out, '[');
    for (uint32_t k = 0; k < d->schedule.refusals.count; k++)
        put_fusion(d, &d->schedule.refusals.items[k], out);
    hn_json_close_put(out, ']');
}

/* ---- kernels ---- */

enum { FORMS_MOST = 4 };

typedef struct kernel_printer {
    const hn_driver *d;
    const hn_driver_level *level;
    hn_strbuf *out;
    hn_arena arena, scratch;
    hn_strmap seen; /* digests of texts */
} kernel_printer;

static hn_status put_form(kernel_printer *p, const hn_form *form) {
    const hn_form_record record = hn_form_record_of(form);
    hn_form_name name;
    HN_TRY(hn_variant_name(form, &p->arena, &name));
    hn_json_open_put(p->out, '{');
    hn_report_put_form_name("name", &name, p->out);
    hn_json_int_put(p->out, "predicted_ns", (int64_t)record.cost.ns);
    hn_json_int_put(p->out, "loads", record.loads);
    hn_json_int_put(p->out, "stores", record.stores);
    hn_json_int_put(p->out, "loops", record.loops);
    hn_json_int_put(p->out, "reductions", record.reductions);
    hn_json_int_put(p->out, "barriers", record.barriers);
    hn_json_int_put(p->out, "lanes", record.lanes);
    hn_json_int_put(p->out, "threads", record.threads);
    hn_json_bool_put(p->out, "is_vectorized", record.is_vectorized);
    hn_json_close_put(p->out, '}');
    return NULL;
}

/* The forms that the planner expects to be the fastest. The kernel has the first one that the
 * processor takes, unless records of tuning say another one. */
static hn_status put_forms(kernel_printer *p, const hn_kernel *kernel) {
    hn_form *forms[FORMS_MOST];
    uint32_t count = 0;
    const hn_target *target = &p->level->target;
    hn_status status = target->kind->plan(p->d->program, kernel, target, FORMS_MOST, &p->arena,
                                          &p->scratch, forms, &count);
    if (status) return status;
    hn_json_key_put(p->out, "forms"), hn_json_open_put(p->out, '[');
    for (uint32_t k = 0; k < count; k++) HN_TRY(put_form(p, forms[k]));
    hn_json_close_put(p->out, ']');
    return NULL;
}

/* `kernel` NULL: the planner is not asked. */
static hn_status put_kernel(kernel_printer *p, const hn_kernel_code *code, const hn_kernel *kernel,
                            bool is_picked) {
    hn_strbuf text;
    const hn_str digest = {(const char *)code->digest.bytes, sizeof code->digest.bytes};
    if (hn_strmap_get(&p->seen, digest)) return NULL;
    HN_TRY(hn_strmap_put(&p->seen, digest, 1));
    hn_strbuf_init(&text);
    hn_kernel_code_put(code, &text);
    hn_json_open_put(p->out, '{');
    hn_json_text_put(p->out, "name", hn_str_of(code->name));
    hn_json_text_put(p->out, "target", hn_str_of(p->level->target.name));
    hn_json_text_put(p->out, "language", hn_str_of(p->level->target.kind->language));
    hn_json_text_put(p->out, "text", hn_strbuf_str(&text));
    hn_json_bool_put(p->out, "is_picked", is_picked);
    if (code->form) hn_json_text_put(p->out, "form", hn_str_of(code->form));
    p->out->failed |= text.failed;
    hn_strbuf_deinit(&text);
    if (kernel) HN_TRY(put_forms(p, kernel));
    hn_json_close_put(p->out, '}');
    hn_arena_reset(&p->arena);
    hn_arena_reset(&p->scratch);
    return NULL;
}

static hn_status put_level(kernel_printer *p) {
    const hn_driver *d = p->d;
    for (uint32_t k = 0; k < d->schedule.steps.count; k++) {
        const hn_step *step = &d->schedule.steps.items[k];
        const hn_kernel *kernel = step->kind == HN_STEP_KERNEL ? step->kernel : NULL;
        for (const hn_kernel_code *code = &p->level->step_kernels[k]; code && code->text.ptr;
             code = code->next) {
            HN_TRY(put_kernel(p, code, kernel, code->is_picked));
            for (uint32_t v = 0; v < code->variant_count; v++)
                HN_TRY(put_kernel(p, &code->variants[v], NULL, code->is_picked));
        }
    }
    return NULL;
}

hn_status hn_report_put_kernels(const hn_driver *d, hn_strbuf *out) {
    hn_status status = NULL;
    hn_json_key_put(out, "kernels"), hn_json_open_put(out, '[');
    for (uint32_t l = 0; l < d->level_count && !status; l++) {
        kernel_printer p = {.d = d, .level = &d->levels[l], .out = out};
        hn_arena map;
        hn_arena_init(&map);
        hn_arena_init(&p.arena);
        hn_arena_init(&p.scratch);
        hn_strmap_init(&p.seen, &map);
        status = put_level(&p);
        hn_arena_deinit(&p.scratch);
        hn_arena_deinit(&p.arena);
        hn_arena_deinit(&map);
    }
    hn_json_close_put(out, ']');
    return status;
}
