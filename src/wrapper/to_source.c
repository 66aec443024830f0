/* to_source.c: model.c of an emitted project: the numbers that follow from sizes, memory; the
 * tables of inputs and outputs are source_tables.c, the walk over the steps is source_steps.c.
 * Everything a caller's mistake could break is checked by share/source/support.c, which reads the
 * tables. */
#include "wrapper/source_impl.h"

#include "henry/tensor.h"

#include <inttypes.h>
#include <string.h>

#define PUTS(...) hn_strbuf_printf(p->out, __VA_ARGS__)

/* --- texts --- */

void hn_source_string(hn_strbuf *out, hn_str text) {
    hn_strbuf_putc(out, '"');
    for (size_t k = 0; k < text.len; k++) {
        unsigned char c = (unsigned char)text.ptr[k];
        if (c == '"' || c == '\\' || c == '?') hn_strbuf_putc(out, '\\'); /* "?": no trigraphs */
        if (c < 32 || c > 126) hn_strbuf_printf(out, "\\%03o", c);
        else hn_strbuf_putc(out, (char)c);
    }
    hn_strbuf_putc(out, '"');
}

void hn_source_comment(hn_strbuf *out, hn_str text) {
    for (size_t k = 0; k < text.len; k++) {
        char c = text.ptr[k];
        bool beside_star =
            (k && text.ptr[k - 1] == '*') || (k + 1 < text.len && text.ptr[k + 1] == '*');
        if (c == '/' && beside_star) c = '|';
        hn_strbuf_putc(out, (unsigned char)c < 32 ? ' ' : c);
    }
}

void hn_source_indent(source_printer *p) {
    for (uint32_t k = 0; k < p->depth; k++) hn_strbuf_puts(p->out, "    ");
}

hn_origin hn_source_origin(const hn_wrapper *w, uint32_t origin) {
    const uint32_t known = hn_wrapper_origin(w, origin);
    return known ? w->graph->origins.items[known] : (hn_origin){HN_STR(""), HN_STR("")};
}

void hn_source_where(source_printer *p, uint32_t origin) {
    const hn_origin o = hn_source_origin(p->w, origin);
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "node '" HN_STR_FMT "'", HN_STR_ARG(o.node));
    if (o.source.len) hn_strbuf_printf(&text, " (" HN_STR_FMT ")", HN_STR_ARG(o.source));
    hn_source_string(p->out, hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
}

void hn_source_int(hn_strbuf *out, int64_t value) {
    if (value == INT64_MIN) hn_strbuf_puts(out, "UNDEFINED");
    else if (value > INT32_MAX || value < -INT32_MAX)
        hn_strbuf_printf(out, "INT64_C(%" PRId64 ")", value);
    else hn_strbuf_printf(out, "%" PRId64, value);
}

static uint32_t node_of(const source_printer *p, hn_expr e) {
    return hn_wnumbering_node(p->numbering, e);
}

bool hn_source_const(const source_printer *p, hn_expr e, int64_t *out_value) {
    return hn_nodes_const(p->nodes, node_of(p, e), out_value);
}

static void put_node(source_printer *p, uint32_t node) {
    int64_t value;
    if (!node) hn_strbuf_putc(p->out, '0');
    else if (hn_nodes_const(p->nodes, node, &value)) hn_source_int(p->out, value);
    else PUTS("n[%u]", node);
}

void hn_source_number(source_printer *p, hn_expr e) { put_node(p, node_of(p, e)); }

/* A dim of support.h. */
void hn_source_dim(source_printer *p, hn_expr e) {
    const uint32_t node = node_of(p, e);
    int64_t value = 0;
    bool literal = !node || hn_nodes_const(p->nodes, node, &value);
    if (literal)
        hn_strbuf_puts(p->out, "{0, "), hn_source_int(p->out, value), hn_strbuf_putc(p->out, '}');
    else PUTS("{%u, 0}", node);
}

void hn_source_node(const hn_wnumbering *numbering, uint32_t node, hn_strbuf *out) {
    const hn_named_nodes nodes = hn_wnumbering_named(numbering);
    hn_nodes_print(&nodes, node, out);
}

static void put_expr_comment(source_printer *p, uint32_t node) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_source_node(p->numbering, node, &text);
    hn_strbuf_puts(p->out, " /* ");
    hn_source_comment(p->out, hn_strbuf_str(&text));
    hn_strbuf_puts(p->out, " */\n");
    hn_strbuf_deinit(&text);
}

/* --- addresses --- */

static void put_base(source_printer *p, hn_wbuf buffer, bool is_remote) {
    const hn_wplace *at = &p->numbering->places.buffers[buffer];
    switch (at->kind) {
    case HNB_BUFFER_INPUT:
        PUTS(is_remote ? "m->device_inputs[%u].bytes" : "m->inputs[%u]", at->source);
        break;
    case HNB_BUFFER_OUTPUT: PUTS("m->blocks[%u]", p->blocks[buffer]); break;
    case HNB_BUFFER_SLOT: PUTS("m->slots[%u].bytes", at->source); break;
    case HNB_BUFFER_TEMP:
        PUTS("m->%sworkspace.bytes + ", is_remote ? "device_" : "");
        hn_source_number(p, at->offset);
        break;
    default:
        if (p->owns[at->source])
            PUTS("m->owns[%u].bytes + %" PRIu64, p->owns[at->source] - 1, at->byte_offset);
        else if (is_remote)
            PUTS("m->device_weights.bytes + %" PRIu64,
                 p->device_offsets[at->source] + at->byte_offset);
        else PUTS("m->weights + %" PRIu64, p->source->weight_offsets[at->source] + at->byte_offset);
    }
}

static void put_address(source_printer *p, hn_wbuf buffer, hn_expr offset, uint32_t elem_bytes,
                        bool is_remote) {
    put_base(p, buffer, is_remote);
    if (!offset || hn_sym_is_value(p->w->sym, offset, 0)) return;
    hn_strbuf_puts(p->out, " + ");
    hn_source_number(p, offset);
    if (elem_bytes != 1) PUTS(" * %u", elem_bytes);
}

void hn_source_address(source_printer *p, hn_wbuf buffer, hn_expr offset, uint32_t elem_bytes) {
    put_address(p, buffer, offset, elem_bytes, hn_source_is_remote(p, buffer));
}

/* --- what is known when --- */

static uint32_t later(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void mark_size(source_printer *p, hn_expr e) {
    const uint32_t node = node_of(p, e);
    int64_t value;
    if (node && !hn_nodes_const(p->nodes, node, &value)) p->is_size[node] = 1;
}

static void mark_sizes_of_line(source_printer *p, const hn_line *line) {
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->operands[k].buffer) mark_size(p, hn_woperand_offset(p->w, &line->operands[k]));
    if (!line->kernel || line->variant_count) return; /* of variants the one that runs is asked */
    for (uint32_t t = 0; t < p->w->target_count; t++) {
        const hn_wlaunch l = hn_line_launch(line, 0, t);
        mark_size(p, l.extent), mark_size(p, l.scratch_bytes);
    }
}

static void mark_sizes(source_printer *p) {
    const hn_wrapper *w = p->w;
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++)
        mark_size(p, p->numbering->plan->workspaces[k]);
    for (uint32_t k = 0; k < p->numbering->plan->pool_list.count; k++)
        mark_size(p, p->numbering->plan->pool_list.items[k].bytes);
    for (hn_wbuf k = 1; k < w->buffers.count; k++) {
        const hn_wplace *at = &p->numbering->places.buffers[k];
        mark_size(p, at->bytes), mark_size(p, at->offset);
    }
    for (uint32_t k = 0; k < w->lines.count; k++) mark_sizes_of_line(p, &w->lines.items[k]);
    for (uint32_t k = 0; k < w->outputs.count; k++) {
        const hn_wvalue *v = &p->numbering->outputs[k];
        mark_size(p, hn_woutput_offset(w, &w->outputs.items[k]));
        for (uint32_t d = 0; v->kind == HNB_VALUE_TENSOR && d < v->rank; d++)
            mark_size(p, v->sizes[d]);
    }
}

static void find_stages(source_printer *p) {
    for (uint32_t k = 0; k < p->numbering->symbols.count; k++)
        p->symbol_numbers[k] = p->node_count + k;
    for (uint32_t k = 1; k < p->node_count; k++) {
        const hnb_node *n = &p->nodes[k];
        if (n->op == HNB_OP_SYMBOL) {
            p->symbol_numbers[n->a] = k;
            p->stages[k] = n->a >= p->first_late ? n->a - p->first_late + 1 : 0;
        } else if (n->op >= HNB_OP_ADD) {
            p->stages[k] = later(p->stages[n->a], p->stages[(uint32_t)n->b]);
        }
    }
}

static bool is_host_extern(const hn_line *line) {
    return line->kind == HN_LINE_EXTERN && line->device == HN_DEVICE_CPU;
}

static void number_things(source_printer *p) {
    const hn_wplaces *places = &p->numbering->places;
    for (uint32_t k = 1; k < places->storages.count; k++)
        if (places->storages.items[k].is_mutable) p->owns[k] = ++p->own_count;
    p->block_count = p->numbering->plan->pool_list.count;
    for (hn_wbuf k = 1; k < p->w->buffers.count; k++)
        if (places->buffers[k].kind == HNB_BUFFER_OUTPUT) p->blocks[k] = p->block_count++;
    p->slot_count = p->numbering->plan->slot_count;
    for (uint32_t k = 0; k < p->w->lines.count; k++)
        p->extern_count += is_host_extern(&p->w->lines.items[k]);
    hn_source_device_count(p);
}

/* --- symbols and kernels --- */

static hn_str symbol_name(const source_printer *p, const hn_wsymbol *s) {
    return hn_sym_symbol_name(p->w->sym, s->symbol);
}

/* What is added to the symbol's multiple; 0 for nothing. */
static hn_expr rest_of(const source_printer *p, const hn_wsymbol *s) {
    return s->by_line || hn_sym_is_value(p->w->sym, s->rest, 0) ? 0 : s->rest;
}

/* What the dimension that tells a symbol must be: "2*s0 + 1". */
static void put_symbol_text(source_printer *p, const hn_wsymbol *s) {
    const hn_expr rest = rest_of(p, s);
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (!s->by_line && s->coeff != 1) hn_strbuf_printf(&text, "%" PRId64 "*", s->coeff);
    hn_strbuf_append(&text, symbol_name(p, s).ptr, symbol_name(p, s).len);
    if (rest) hn_strbuf_puts(&text, " + "), hn_source_node(p->numbering, node_of(p, rest), &text);
    hn_source_string(p->out, hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
}

static void put_symbol(source_printer *p, const hn_wsymbol *s) {
    int64_t lo, hi;
    hn_sym_range(p->w->sym, s->symbol, &lo, &hi);
    hn_strbuf_puts(p->out, "    {");
    hn_source_string(p->out, symbol_name(p, s));
    hn_strbuf_puts(p->out, ", ");
    put_symbol_text(p, s);
    hn_strbuf_puts(p->out, ", ");
    hn_source_int(p->out, lo);
    hn_strbuf_puts(p->out, ", ");
    hn_source_int(p->out, hi);
    hn_strbuf_puts(p->out, ", ");
    hn_source_int(p->out, s->by_line ? 1 : s->coeff);
    PUTS(", %d, %d},\n", s->by_line ? -1 : (int)s->input,
         s->by_line || s->dim == HN_WDIM_VALUE ? -1 : (int)s->dim);
}

static void put_symbols(source_printer *p) {
    const hn_wsymbols *symbols = &p->numbering->symbols;
    if (!symbols->count) return;
    hn_strbuf_puts(p->out, "static const symbol symbols[] = {\n");
    for (uint32_t k = 0; k < symbols->count; k++) put_symbol(p, &symbols->items[k]);
    hn_strbuf_puts(p->out, "};\n\n");
}

static void put_kernels(source_printer *p) {
    if (p->device != HN_DEVICE_CPU) return; /* source_device.c */
    for (hn_wkernel k = 1; k < p->w->kernels.count; k++)
        PUTS("kernel " HN_STR_FMT ";\n", HN_STR_ARG(p->w->kernels.items[k].name));
    hn_strbuf_putc(p->out, '\n');
}

/* --- numbers --- */

static void put_solve(source_printer *p, uint32_t k) {
    PUTS("    TRY(solve(m, &symbols[%u], in, ", k);
    hn_source_number(p, rest_of(p, &p->numbering->symbols.items[k]));
    PUTS(", &n[%u]));\n", p->symbol_numbers[k]);
}

/* The numbers of a stage, in the order in which they depend on each other. */
static void put_numbers(source_printer *p, uint32_t stage) {
    static const char *const functions[HNB_OP_COUNT] = {
        [HNB_OP_ADD] = "n_add", [HNB_OP_MUL] = "n_mul", [HNB_OP_FLOORDIV] = "n_div",
        [HNB_OP_MOD] = "n_mod", [HNB_OP_MIN] = "n_min", [HNB_OP_MAX] = "n_max"};
    for (uint32_t k = 1; k < p->node_count; k++) {
        const hnb_node *n = &p->nodes[k];
        if (p->stages[k] != stage || n->op == HNB_OP_CONST) continue;
        if (n->op == HNB_OP_SYMBOL && n->a < p->first_late) put_solve(p, n->a);
        if (n->op == HNB_OP_SYMBOL) continue;
        PUTS("    n[%u] = %s(", k, functions[n->op]);
        put_node(p, n->a);
        hn_strbuf_puts(p->out, ", ");
        put_node(p, (uint32_t)n->b);
        hn_strbuf_puts(p->out, ");");
        put_expr_comment(p, k);
    }
}

static void put_guards(source_printer *p, uint32_t stage) {
    static const char *const
        names[] = {[HN_REL_EQ] = "GUARD_EQ",
                   [HN_REL_NE] = "GUARD_NE",
                   [HN_REL_LT] = "GUARD_LT",
                   [HN_REL_LE] = "GUARD_LE"},
        *const signs[] = {
            [HN_REL_EQ] = " == ", [HN_REL_NE] = " != ", [HN_REL_LT] = " < ", [HN_REL_LE] = " <= "};
    for (uint32_t k = 0; k < p->numbering->guards.count; k++) {
        const hn_guard *g = &p->numbering->guards.items[k];
        const uint32_t lhs = node_of(p, g->lhs), rhs = node_of(p, g->rhs);
        hn_strbuf text;
        if (later(p->stages[lhs], p->stages[rhs]) != stage) continue;
        hn_strbuf_init(&text);
        hn_source_node(p->numbering, lhs, &text);
        hn_strbuf_puts(&text, signs[g->relation]);
        hn_source_node(p->numbering, rhs, &text);
        PUTS("    TRY(guard(m, %s, ", names[g->relation]);
        put_node(p, lhs);
        hn_strbuf_puts(p->out, ", ");
        put_node(p, rhs);
        hn_strbuf_puts(p->out, ", ");
        hn_source_string(p->out, hn_strbuf_str(&text));
        hn_strbuf_puts(p->out, "));\n");
        hn_strbuf_deinit(&text);
    }
}

static void put_size_checks(source_printer *p, uint32_t stage) {
    uint32_t count = 0;
    for (uint32_t k = 1; k < p->node_count; k++) {
        if (!p->is_size[k] || p->stages[k] != stage) continue;
        if (!count) hn_strbuf_puts(p->out, "    static const uint32_t sizes[] = {");
        PUTS("%s%u",
             !count       ? ""
             : count % 20 ? ", "
                          : ",\n                                     ",
             k);
        count++;
    }
    if (count) PUTS("};\n    TRY(check_sizes(m, sizes, %u));\n", count);
}

/* Memory of its own, or that of an input. */
static void put_pools(source_printer *p) {
    const hn_memory_plan *plan = p->numbering->plan;
    for (uint32_t k = 0; k < plan->pool_list.count; k++) {
        const hn_wpool *pool = &plan->pool_list.items[k];
        const bool is_remote = pool->device != HN_DEVICE_CPU;
        PUTS("    TRY(%s(m, %u, ",
             pool->input ? (is_remote ? "device_input_block" : "input_block")
                         : (is_remote ? "device_block" : "take_block"),
             k);
        if (pool->input) PUTS("%u, ", p->w->buffers.items[pool->input].source);
        hn_source_number(p, pool->bytes);
        hn_strbuf_puts(p->out, "));\n");
    }
}

static void put_buffer(source_printer *p, hn_wbuf b) {
    const hn_wplace *at = &p->numbering->places.buffers[b];
    const bool is_remote = hn_source_is_remote(p, b);
    if (at->kind == HNB_BUFFER_SLOT)
        PUTS("    TRY(%s(m, &m->slots[%u], ", is_remote ? "device_reserve" : "reserve", at->source);
    else if (at->source) PUTS("    TRY(share_block(m, %u, %u, ", p->blocks[b], at->source - 1);
    else PUTS("    TRY(%s(m, %u, ", is_remote ? "device_block" : "take_block", p->blocks[b]);
    if (at->kind == HNB_BUFFER_OUTPUT && at->source)
        hn_source_number(p, at->offset), hn_strbuf_puts(p->out, ", ");
    hn_source_number(p, at->bytes);
    hn_strbuf_puts(p->out, "));\n");
}

static void put_memory(source_printer *p, uint32_t stage) {
    if (!stage) put_pools(p);
    for (hn_wbuf k = 1; k < p->w->buffers.count; k++) {
        const hn_wplace *at = &p->numbering->places.buffers[k];
        if ((at->kind == HNB_BUFFER_OUTPUT || at->kind == HNB_BUFFER_SLOT) &&
            p->stages[node_of(p, at->bytes)] == stage)
            put_buffer(p, k);
    }
}

static void put_begin(source_printer *p) {
    hn_strbuf_puts(
        p->out,
        "/* What the sizes of the inputs tell. */\n"
        "static int begin(model *m, const model_array *in) {\n    int64_t *const n = m->numbers;\n    (void)n;\n");
    put_numbers(p, 0);
    for (uint32_t k = 0; k < p->first_late; k++)
        if (p->symbol_numbers[k] >= p->node_count) put_solve(p, k);
    hn_strbuf_puts(p->out, "    TRY(check_inputs(m, in));\n");
    put_guards(p, 0);
    put_size_checks(p, 0);
    hn_source_picks(p, 0);
    hn_strbuf_puts(p->out, "    TRY(reserve(m, &m->workspace, ");
    hn_source_number(p, p->numbering->plan->workspaces[HN_DEVICE_CPU]);
    hn_strbuf_puts(p->out, "));\n");
    if (p->device != HN_DEVICE_CPU) {
        hn_strbuf_puts(p->out, "    TRY(device_reserve(m, &m->device_workspace, ");
        hn_source_number(p, p->numbering->plan->workspaces[p->device]);
        hn_strbuf_puts(p->out, "));\n");
    }
    put_memory(p, 0);
    hn_strbuf_puts(p->out, "    return 0;\n}\n\n");
}

/* A function for each number that only the data tells: what follows from it. */
static void put_defines(source_printer *p) {
    for (uint32_t k = p->first_late; k < p->numbering->symbols.count; k++) {
        uint32_t stage = k - p->first_late + 1;
        hn_strbuf_puts(p->out, "/* ");
        hn_source_comment(p->out, symbol_name(p, &p->numbering->symbols.items[k]));
        PUTS(
            ", which depends on data */\nstatic int define_%u(model *m, int64_t value, const char *where) {\n",
            stage - 1);
        PUTS(
            "    int64_t *const n = m->numbers;\n    bool known;\n    TRY(define(m, &symbols[%u], value, &n[%u], &known, where));\n"
            "    if (known) return 0;\n",
            k, p->symbol_numbers[k]);
        put_numbers(p, stage);
        put_guards(p, stage);
        put_size_checks(p, stage);
        hn_source_picks(p, stage);
        put_memory(p, stage);
        hn_strbuf_puts(p->out, "    return 0;\n}\n\n");
    }
}

/* --- the rest --- */

static void put_content(source_printer *p) {
    hn_strbuf_puts(
        p->out,
        "/* Where an output lies after the last step. */\n"
        "static uint8_t *content(model *m, uint32_t output) {\n    const int64_t *const n = m->numbers;\n    (void)n;\n"
        "    switch (output) {\n");
    for (uint32_t k = 0; k < p->w->outputs.count; k++) {
        const hn_woutput *o = &p->w->outputs.items[k];
        if (o->kind == HN_WOUTPUT_SCALAR) continue;
        PUTS("    case %u: return ", k);
        put_address(p, hn_wrapper_root(p->w, o->buffer), hn_woutput_offset(p->w, o),
                    hn_dtype_facts(o->dtype)->size_bytes, hn_source_output_is_remote(p, o));
        hn_strbuf_puts(p->out, ";\n");
    }
    hn_strbuf_puts(p->out, "    }\n    return NULL;\n}\n\n");
}

static void put_program(source_printer *p) {
    const hn_str features = p->source->features;
    hn_strbuf_puts(p->out, "static const char *const features[] = {");
    for (size_t at = 0, len; at < features.len; at += len + 1) {
        len = strnlen(features.ptr + at, features.len - at);
        if (!len) continue;
        hn_source_string(p->out, (hn_str){features.ptr + at, len});
        hn_strbuf_puts(p->out, ", ");
    }
    hn_strbuf_puts(p->out, "NULL};\n\nconst program model_program = {\n");
    PUTS("    .weights_bytes = UINT64_C(%" PRIu64 "), .weights_id = UINT64_C(%" PRIu64 "),\n",
         p->source->weights_bytes, p->source->weights_id);
    PUTS("    .inputs = %u, .outputs = %u, .numbers = %u, .blocks = %u, .slots = %u, .owns = %u, "
         ".externs = %u,\n",
         p->w->inputs.count, p->w->outputs.count, p->first_pick + hn_source_pick_count(p->w),
         p->block_count, p->slot_count, p->own_count, p->extern_count);
    PUTS("    .input = inputs, .output = outputs, .own = owns, .features = features,\n"
         "    .block_output = block_outputs, .state_output = state_outputs,\n"
         "    .begin = begin, .steps = steps, .content = content, .externs_close = %s,\n",
         p->extern_count ? "externs_close" : "NULL");
    if (p->device != HN_DEVICE_CPU)
        hn_strbuf_puts(p->out, "    .device = &device_cuda, .places = &places,\n"
                               "#ifdef MODEL_DEBUG\n    .debug_device = &debug_device_cuda,\n"
                               "#endif\n");
    hn_strbuf_puts(p->out, "};\n");
}

static hn_status print(source_printer *p) {
    hn_strbuf_puts(
        p->out,
        "/* model.c: the program, written by henry. Numbers n[] are sizes and offsets; what each is stands beside it. */\n"
        "#include \"support.h\"\n\n#include <string.h>\n\n");
    put_kernels(p);
    hn_source_tables(p);
    put_symbols(p);
    put_begin(p);
    put_defines(p);
    HN_TRY(hn_source_steps(p));
    put_content(p);
    HN_TRY(hn_source_debug_table(p));
    if (p->device != HN_DEVICE_CPU) hn_source_device_tables(p);
    put_program(p);
    return hn_strbuf_status(p->out);
}

bool hn_source_has_externs(const hn_wrapper *w) {
    for (uint32_t k = 0; k < w->lines.count; k++)
        if (is_host_extern(&w->lines.items[k])) return true;
    return false;
}

hn_device_kind hn_source_device(const hn_wrapper *w) {
    for (hn_wbuf b = 1; b < w->buffers.count; b++)
        if (w->buffers.items[b].device != HN_DEVICE_CPU) return w->buffers.items[b].device;
    return HN_DEVICE_CPU;
}

static hn_status check_device(const source_printer *p) {
    if (p->device == HN_DEVICE_CPU || p->device == HN_DEVICE_CUDA) return NULL;
    return HN_ERROR(HN_UNSUPPORTED,
                    "there is no C source of programs for %s; compile it for a CPU or for CUDA",
                    hn_device_name(p->device));
}

hn_status hn_wrapper_to_source(const hn_to_source *source, hn_strbuf *out) {
    const hn_wnumbering *n = source->numbering;
    source_printer p = {.source = source,
                        .w = n->w,
                        .numbering = n,
                        .nodes = n->nodes.items,
                        .out = out,
                        .node_count = n->nodes.count,
                        .first_late = n->symbols.solved_count,
                        .first_pick = n->nodes.count + n->symbols.count,
                        .device = hn_source_device(n->w)};
    HN_TRY(check_device(&p));
    HN_NEW(source->arena, p.stages, p.node_count);
    HN_NEW(source->arena, p.is_size, p.node_count);
    HN_NEW(source->arena, p.owns, n->places.storages.count);
    HN_NEW(source->arena, p.device_offsets, n->places.storages.count);
    HN_NEW(source->arena, p.blocks, p.w->buffers.count);
    HN_NEW(source->arena, p.symbol_numbers, (size_t)n->symbols.count + 1);
    find_stages(&p);
    number_things(&p);
    mark_sizes(&p);
    return print(&p);
}
