/* to_source.c: model.c of an emitted project: tables of inputs and outputs, the numbers that follow from sizes, memory; the
 * walk over the steps is source_steps.c. Everything a caller's mistake could break is checked by share/source/support.c, which
 * reads the tables. */
#include "wrapper/source_impl.h"

#include "henry/tensor.h"

#include <inttypes.h>

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
        bool beside_star = (k && text.ptr[k - 1] == '*') || (k + 1 < text.len && text.ptr[k + 1] == '*');
        if (c == '/' && beside_star) c = '|';
        hn_strbuf_putc(out, (unsigned char)c < 32 ? ' ' : c);
    }
}

void hn_source_indent(source_printer *p) {
    for (uint32_t k = 0; k < p->depth; k++) hn_strbuf_puts(p->out, "    ");
}

void hn_source_where(source_printer *p, uint32_t origin) {
    const hnb_origin *o = &p->b->origins[origin];
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "node '%s'", hn_bundle_text(p->b, o->node));
    if (o->source.len) hn_strbuf_printf(&text, " (%s)", hn_bundle_text(p->b, o->source));
    hn_source_string(p->out, hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
}

void hn_source_int(hn_strbuf *out, int64_t value) {
    if (value == INT64_MIN) hn_strbuf_puts(out, "UNDEFINED");
    else if (value > INT32_MAX || value < -INT32_MAX) hn_strbuf_printf(out, "INT64_C(%" PRId64 ")", value);
    else hn_strbuf_printf(out, "%" PRId64, value);
}

void hn_source_number(source_printer *p, uint32_t node) {
    int64_t value;
    if (!node) hn_strbuf_putc(p->out, '0');
    else if (hn_bundle_expr_const(p->b, node, &value)) hn_source_int(p->out, value);
    else PUTS("n[%u]", node);
}

/* A dim of support.h. */
static void put_dim(source_printer *p, uint32_t node) {
    int64_t value = 0;
    bool literal = !node || hn_bundle_expr_const(p->b, node, &value);
    if (literal) hn_strbuf_puts(p->out, "{0, "), hn_source_int(p->out, value), hn_strbuf_putc(p->out, '}');
    else PUTS("{%u, 0}", node);
}

static void put_dims(source_printer *p, const char *name, uint32_t k, uint32_t first, uint32_t count) {
    if (!count) return;
    PUTS("static const dim %s_%u[] = {", name, k);
    for (uint32_t d = 0; d < count; d++) {
        if (d) hn_strbuf_puts(p->out, ", ");
        put_dim(p, p->b->dims[first + d]);
    }
    hn_strbuf_puts(p->out, "};\n");
}

static void put_dims_name(source_printer *p, const char *name, uint32_t k, uint32_t rank) {
    if (rank) PUTS("%s_%u", name, k);
    else hn_strbuf_puts(p->out, "NULL");
}

static void put_expr_comment(source_printer *p, uint32_t node) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_bundle_expr_print(p->b, node, &text);
    hn_strbuf_puts(p->out, " /* ");
    hn_source_comment(p->out, hn_strbuf_str(&text));
    hn_strbuf_puts(p->out, " */\n");
    hn_strbuf_deinit(&text);
}

/* --- addresses --- */

static void put_base(source_printer *p, uint32_t buffer) {
    const hnb_buffer *f = &p->b->buffers[buffer];
    switch (f->kind) {
    case HNB_BUFFER_INPUT: PUTS("m->inputs[%u]", f->source); break;
    case HNB_BUFFER_OUTPUT: PUTS("m->blocks[%u]", p->blocks[buffer]); break;
    case HNB_BUFFER_SLOT: PUTS("m->slots[%u].bytes", f->source); break;
    case HNB_BUFFER_TEMP: hn_strbuf_puts(p->out, "m->workspace.bytes + "), hn_source_number(p, f->offset); break;
    default:
        if (p->owns[f->source]) PUTS("m->owns[%u].bytes + %" PRIu64, p->owns[f->source] - 1, f->byte_offset);
        else PUTS("m->weights + %" PRIu64, p->source->weight_offsets[f->source] + f->byte_offset);
    }
}

void hn_source_address(source_printer *p, uint32_t buffer, uint32_t offset, uint32_t elem_bytes) {
    int64_t value = 0;
    put_base(p, buffer);
    if (!offset || (hn_bundle_expr_const(p->b, offset, &value) && value == 0)) return;
    hn_strbuf_puts(p->out, " + ");
    hn_source_number(p, offset);
    if (elem_bytes != 1) PUTS(" * %u", elem_bytes);
}

/* --- what is known when --- */

static uint32_t later(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void mark_size(source_printer *p, uint32_t node) {
    int64_t value;
    if (node && !hn_bundle_expr_const(p->b, node, &value)) p->is_size[node] = 1;
}

static void mark_sizes(source_printer *p) {
    const hn_bundle *b = p->b;
    mark_size(p, b->info->workspace);
    for (uint32_t k = 1; k < b->buffers_count; k++) mark_size(p, b->buffers[k].bytes), mark_size(p, b->buffers[k].offset);
    for (uint32_t k = 0; k < b->operands_count; k++) mark_size(p, b->operands[k].offset);
    for (uint32_t k = 0; k < b->launches_count; k++) mark_size(p, b->launches[k].extent), mark_size(p, b->launches[k].scratch);
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        mark_size(p, b->outputs[k].offset);
        for (uint32_t d = 0; b->outputs[k].kind == HNB_VALUE_TENSOR && d < b->outputs[k].rank; d++)
            mark_size(p, b->dims[b->outputs[k].dims + d]);
    }
}

static void find_stages(source_printer *p) {
    const hn_bundle *b = p->b;
    while (p->first_late < b->symbols_count && b->symbols[p->first_late].input != HNB_BY_STEP) p->first_late++;
    for (uint32_t k = 0; k < b->symbols_count; k++) p->symbol_numbers[k] = b->nodes_count + k;
    for (uint32_t k = 1; k < b->nodes_count; k++) {
        const hnb_node *n = &b->nodes[k];
        if (n->op == HNB_OP_SYMBOL) {
            p->symbol_numbers[n->a] = k;
            p->stages[k] = n->a >= p->first_late ? n->a - p->first_late + 1 : 0;
        } else if (n->op >= HNB_OP_ADD) {
            p->stages[k] = later(p->stages[n->a], p->stages[(uint32_t)n->b]);
        }
    }
}

static void number_things(source_printer *p) {
    const hn_bundle *b = p->b;
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (b->storages[k].is_mutable) p->owns[k] = ++p->own_count;
    for (uint32_t k = 1; k < b->buffers_count; k++) {
        if (b->buffers[k].kind == HNB_BUFFER_OUTPUT) p->blocks[k] = p->block_count++;
        if (b->buffers[k].kind == HNB_BUFFER_SLOT) p->slot_count = later(p->slot_count, b->buffers[k].source + 1);
    }
    for (uint32_t k = 0; k < b->steps_count; k++) p->extern_count += b->steps[k].kind == HNB_STEP_EXTERN;
}

/* --- tables --- */

void hn_source_shape(const hn_bundle *b, uint32_t kind, uint32_t first, uint32_t rank, hn_strbuf *out) {
    if (kind != HNB_VALUE_TENSOR) return;
    hn_strbuf_putc(out, '[');
    for (uint32_t d = 0; d < rank; d++) {
        if (d) hn_strbuf_puts(out, ", ");
        hn_bundle_expr_print(b, b->dims[first + d], out);
    }
    hn_strbuf_putc(out, ']');
}

uint32_t hn_source_type(uint32_t kind, uint32_t dtype) {
    return kind == HNB_VALUE_TENSOR ? dtype : kind == HNB_VALUE_INT ? HN_I64 : kind == HNB_VALUE_FLOAT ? HN_F64 : HN_BOOL;
}

/* An input: sizes of the example; else those that are known. */
static void put_info(source_printer *p, hnb_str name, uint32_t kind, uint32_t dtype, uint32_t rank, uint32_t dims, const hn_winput *example,
                     bool is_changed) {
    int64_t size;
    hn_strbuf shape;
    hn_strbuf_init(&shape);
    hn_source_shape(p->b, kind, dims, rank, &shape);
    hn_strbuf_puts(p->out, "    {");
    hn_source_string(p->out, hn_bundle_str(p->b, name));
    PUTS(", (model_kind)%u, (model_type)%u, %u, %d, ", kind, hn_source_type(kind, dtype), kind == HNB_VALUE_TENSOR ? rank : 0, is_changed);
    hn_source_string(p->out, hn_strbuf_str(&shape));
    hn_strbuf_puts(p->out, ", {");
    for (uint32_t d = 0; kind == HNB_VALUE_TENSOR && d < rank; d++) {
        if (d) hn_strbuf_puts(p->out, ", ");
        if (example) size = hn_sym_hint(p->source->wrapper->sym, example->sizes[d], 1);
        else if (!hn_bundle_expr_const(p->b, p->b->dims[dims + d], &size)) size = -1;
        hn_source_int(p->out, size);
    }
    hn_strbuf_puts(p->out, kind == HNB_VALUE_TENSOR && rank ? "}},\n" : "0}},\n");
    hn_strbuf_deinit(&shape);
}

static const char no_info[] = "    {NULL, MODEL_NONE, MODEL_BOOL, 0, 0, \"\", {0}}, /* the end */\n};\n\n";

static bool is_input_changed(const hn_bundle *b, uint32_t input) {
    for (uint32_t k = 0; k < b->outputs_count; k++)
        if (b->outputs[k].is_mutation && b->outputs[k].target_input == (int32_t)input) return true;
    return false;
}

bool hn_source_is_state(const hnb_output *o) { return o->is_mutation && o->target_input < 0; }

static void put_infos(source_printer *p) {
    const hn_bundle *b = p->b;
    hn_strbuf_puts(p->out, "const model_info model_inputs[] = {\n");
    for (uint32_t k = 0; k < b->inputs_count; k++) {
        const hnb_input *in = &b->inputs[k];
        put_info(p, in->name, in->kind, in->dtype, in->rank, in->dims, &p->source->wrapper->inputs.items[k], is_input_changed(b, k));
    }
    PUTS("%sconst model_info model_outputs[] = {\n", no_info);
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        const hnb_output *o = &b->outputs[k];
        if (!o->is_mutation) put_info(p, o->name, o->kind, o->dtype, o->rank, o->dims, NULL, false);
    }
    PUTS("%sconst model_info model_buffers[] = {\n", no_info);
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        const hnb_output *o = &b->outputs[k];
        if (hn_source_is_state(o)) put_info(p, o->name, o->kind, o->dtype, o->rank, o->dims, NULL, true);
    }
    hn_strbuf_puts(p->out, no_info);
}

static void put_inputs(source_printer *p) {
    const hn_bundle *b = p->b;
    for (uint32_t k = 0; k < b->inputs_count; k++) {
        if (b->inputs[k].kind != HNB_VALUE_TENSOR) continue;
        put_dims(p, "in_sizes", k, b->inputs[k].dims, b->inputs[k].rank);
        put_dims(p, "in_strides", k, b->inputs[k].dims + b->inputs[k].rank, b->inputs[k].rank);
    }
    hn_strbuf_puts(p->out, "static const input_facts inputs[] = {\n");
    for (uint32_t k = 0; k < b->inputs_count; k++) {
        const hnb_input *in = &b->inputs[k];
        uint32_t rank = in->kind == HNB_VALUE_TENSOR ? in->rank : 0;
        hn_strbuf_puts(p->out, "    {");
        put_dims_name(p, "in_sizes", k, rank);
        hn_strbuf_puts(p->out, ", ");
        put_dims_name(p, "in_strides", k, rank);
        hn_strbuf_puts(p->out, ", ");
        put_dim(p, in->kind == HNB_VALUE_INT ? in->expr : 0);
        PUTS(", UINT64_C(%" PRIu64 ")},\n", in->bits);
    }
    hn_strbuf_puts(p->out, "    {NULL, NULL, {0, 0}, 0},\n};\n\n");
}

static void put_output(source_printer *p, uint32_t k, int output) {
    const hnb_output *o = &p->b->outputs[k];
    bool tensor = o->kind == HNB_VALUE_TENSOR, own = hn_source_is_state(o);
    uint32_t rank = tensor ? o->rank : 0, place = tensor ? p->b->buffers[o->buffer].kind : HNB_BUFFER_NONE;
    int64_t target = 0;
    if (own && o->target_offset) (void)hn_bundle_expr_const(p->b, o->target_offset, &target);
    PUTS("    {%d, %u, %u, %d, %d, %u, ", output, o->kind, hn_source_type(o->kind, o->dtype), place == HNB_BUFFER_INPUT || place == HNB_BUFFER_CONSTANT,
         place == HNB_BUFFER_OUTPUT, rank);
    put_dims_name(p, "out_sizes", k, rank);
    hn_strbuf_puts(p->out, ", ");
    put_dims_name(p, "out_strides", k, rank);
    hn_strbuf_puts(p->out, ", ");
    put_dim(p, o->kind == HNB_VALUE_INT ? o->expr : 0);
    PUTS(", UINT64_C(%" PRIu64 "), %d, %d, %" PRId64 ", ", o->bits, o->is_mutation ? o->target_input : -1,
         own ? (int)p->owns[o->target_storage] - 1 : -1, target * hn_bundle_dtype_bytes(o->dtype));
    put_dims_name(p, "target_strides", k, own ? rank : 0);
    hn_strbuf_puts(p->out, "},\n");
}

static void put_outputs(source_printer *p) {
    const hn_bundle *b = p->b;
    int outputs = 0;
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        const hnb_output *o = &b->outputs[k];
        if (o->kind != HNB_VALUE_TENSOR) continue;
        put_dims(p, "out_sizes", k, o->dims, o->rank);
        put_dims(p, "out_strides", k, o->dims + o->rank, o->rank);
        if (hn_source_is_state(o)) put_dims(p, "target_strides", k, o->dims + 2 * o->rank, o->rank);
    }
    hn_strbuf_puts(p->out, "static const output_facts outputs[] = {\n");
    for (uint32_t k = 0; k < b->outputs_count; k++) put_output(p, k, b->outputs[k].is_mutation ? -1 : outputs++);
    hn_strbuf_puts(p->out, "    {-1, MODEL_NONE, 0, 0, 0, 0, NULL, NULL, {0, 0}, 0, -1, -1, 0, NULL},\n};\n\nstatic const own_facts owns[] = {");
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (p->owns[k]) PUTS("{%" PRIu64 ", %" PRIu64 "}, ", p->source->weight_offsets[k], b->storages[k].bytes);
    hn_strbuf_puts(p->out, "{0, 0}};\n\n");
}

/* The result that lies in a block of output memory alone: it may be computed in the caller's memory. */
static int block_output(const hn_bundle *b, uint32_t buffer) {
    int found = -1;
    for (uint32_t k = 0; k < b->outputs_count; k++) {
        const hnb_output *o = &b->outputs[k];
        int64_t offset = 0;
        if (o->kind != HNB_VALUE_TENSOR || o->buffer != buffer) continue;
        if (found >= 0 || o->is_mutation || (o->offset && (!hn_bundle_expr_const(b, o->offset, &offset) || offset))) return -1;
        found = (int)k;
    }
    return found;
}

static void put_blocks_and_states(source_printer *p) {
    const hn_bundle *b = p->b;
    hn_strbuf_puts(p->out, "static const int block_outputs[] = {");
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (b->buffers[k].kind == HNB_BUFFER_OUTPUT) PUTS("%d, ", block_output(b, k));
    hn_strbuf_puts(p->out, "-1}, state_outputs[] = {");
    for (uint32_t k = 0; k < b->outputs_count; k++)
        if (hn_source_is_state(&b->outputs[k])) PUTS("%u, ", k);
    hn_strbuf_puts(p->out, "-1};\n\n");
}

/* What the dimension that tells a symbol must be: "2*s0 + 1". */
static void put_symbol_text(source_printer *p, const hnb_symbol *s) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    if (s->coeff != 1) hn_strbuf_printf(&text, "%" PRId64 "*", s->coeff);
    hn_strbuf_puts(&text, hn_bundle_text(p->b, s->name));
    if (s->rest) hn_strbuf_puts(&text, " + "), hn_bundle_expr_print(p->b, s->rest, &text);
    hn_source_string(p->out, hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
}

static void put_symbols(source_printer *p) {
    const hn_bundle *b = p->b;
    if (!b->symbols_count) return;
    hn_strbuf_puts(p->out, "static const symbol symbols[] = {\n");
    for (uint32_t k = 0; k < b->symbols_count; k++) {
        const hnb_symbol *s = &b->symbols[k];
        bool late = s->input == HNB_BY_STEP;
        hn_strbuf_puts(p->out, "    {");
        hn_source_string(p->out, hn_bundle_str(b, s->name));
        hn_strbuf_puts(p->out, ", ");
        put_symbol_text(p, s);
        hn_strbuf_puts(p->out, ", ");
        hn_source_int(p->out, s->lo);
        hn_strbuf_puts(p->out, ", ");
        hn_source_int(p->out, s->hi);
        hn_strbuf_puts(p->out, ", ");
        hn_source_int(p->out, s->coeff);
        PUTS(", %d, %d},\n", late ? -1 : (int)s->input, late || s->dim == HNB_DIM_VALUE ? -1 : (int)s->dim);
    }
    hn_strbuf_puts(p->out, "};\n\n");
}

static void put_kernels(source_printer *p) {
    for (uint32_t k = 1; k < p->b->kernels_count; k++) PUTS("kernel %s;\n", hn_bundle_text(p->b, p->b->kernels[k].name));
    hn_strbuf_putc(p->out, '\n');
}

/* --- numbers --- */

static void put_solve(source_printer *p, uint32_t k) {
    PUTS("    TRY(solve(m, &symbols[%u], in, ", k);
    hn_source_number(p, p->b->symbols[k].rest);
    PUTS(", &n[%u]));\n", p->symbol_numbers[k]);
}

/* The numbers of a stage, in the order in which they depend on each other. */
static void put_numbers(source_printer *p, uint32_t stage) {
    static const char *const functions[HNB_OP_COUNT] = {[HNB_OP_ADD] = "n_add",     [HNB_OP_MUL] = "n_mul", [HNB_OP_FLOORDIV] = "n_div",
                                                        [HNB_OP_MOD] = "n_mod",     [HNB_OP_MIN] = "n_min", [HNB_OP_MAX] = "n_max"};
    for (uint32_t k = 1; k < p->b->nodes_count; k++) {
        const hnb_node *n = &p->b->nodes[k];
        int64_t value;
        if (p->stages[k] != stage || hn_bundle_expr_const(p->b, k, &value)) continue;
        if (n->op == HNB_OP_SYMBOL && n->a < p->first_late) put_solve(p, n->a);
        if (n->op == HNB_OP_SYMBOL) continue;
        PUTS("    n[%u] = %s(", k, functions[n->op]);
        hn_source_number(p, n->a);
        hn_strbuf_puts(p->out, ", ");
        hn_source_number(p, (uint32_t)n->b);
        hn_strbuf_puts(p->out, ");");
        put_expr_comment(p, k);
    }
}

static void put_guards(source_printer *p, uint32_t stage) {
    static const char *const names[HNB_RELATION_COUNT] = {"GUARD_EQ", "GUARD_NE", "GUARD_LT", "GUARD_LE"},
                      *const signs[HNB_RELATION_COUNT] = {" == ", " != ", " < ", " <= "};
    for (uint32_t k = 0; k < p->b->guards_count; k++) {
        const hnb_guard *g = &p->b->guards[k];
        hn_strbuf text;
        if (later(p->stages[g->lhs], p->stages[g->rhs]) != stage) continue;
        hn_strbuf_init(&text);
        hn_bundle_expr_print(p->b, g->lhs, &text);
        hn_strbuf_puts(&text, signs[g->relation]);
        hn_bundle_expr_print(p->b, g->rhs, &text);
        PUTS("    TRY(guard(m, %s, ", names[g->relation]);
        hn_source_number(p, g->lhs);
        hn_strbuf_puts(p->out, ", ");
        hn_source_number(p, g->rhs);
        hn_strbuf_puts(p->out, ", ");
        hn_source_string(p->out, hn_strbuf_str(&text));
        hn_strbuf_puts(p->out, "));\n");
        hn_strbuf_deinit(&text);
    }
}

static void put_size_checks(source_printer *p, uint32_t stage) {
    uint32_t count = 0;
    for (uint32_t k = 1; k < p->b->nodes_count; k++) {
        if (!p->is_size[k] || p->stages[k] != stage) continue;
        if (!count) hn_strbuf_puts(p->out, "    static const uint32_t sizes[] = {");
        PUTS("%s%u", !count ? "" : count % 20 ? ", " : ",\n                                     ", k);
        count++;
    }
    if (count) PUTS("};\n    TRY(check_sizes(m, sizes, %u));\n", count);
}

static void put_memory(source_printer *p, uint32_t stage) {
    for (uint32_t k = 1; k < p->b->buffers_count; k++) {
        const hnb_buffer *f = &p->b->buffers[k];
        if (f->kind != HNB_BUFFER_OUTPUT && f->kind != HNB_BUFFER_SLOT) continue;
        if (p->stages[f->bytes] != stage) continue;
        if (f->kind == HNB_BUFFER_OUTPUT) PUTS("    TRY(take_block(m, %u, ", p->blocks[k]);
        else PUTS("    TRY(reserve(m, &m->slots[%u], ", f->source);
        hn_source_number(p, f->bytes);
        hn_strbuf_puts(p->out, "));\n");
    }
}

static void put_begin(source_printer *p) {
    hn_strbuf_puts(p->out, "/* What the sizes of the inputs tell. */\n"
                           "static int begin(model *m, const model_array *in) {\n    int64_t *const n = m->numbers;\n    (void)n;\n");
    put_numbers(p, 0);
    for (uint32_t k = 0; k < p->first_late; k++)
        if (p->symbol_numbers[k] >= p->b->nodes_count) put_solve(p, k);
    hn_strbuf_puts(p->out, "    TRY(check_inputs(m, in));\n");
    put_guards(p, 0);
    put_size_checks(p, 0);
    hn_strbuf_puts(p->out, "    TRY(reserve(m, &m->workspace, ");
    hn_source_number(p, p->b->info->workspace);
    hn_strbuf_puts(p->out, "));\n");
    put_memory(p, 0);
    hn_strbuf_puts(p->out, "    return 0;\n}\n\n");
}

/* A function for each number that only the data tells: what follows from it. */
static void put_defines(source_printer *p) {
    for (uint32_t k = p->first_late; k < p->b->symbols_count; k++) {
        uint32_t stage = k - p->first_late + 1;
        hn_strbuf_puts(p->out, "/* ");
        hn_source_comment(p->out, hn_bundle_str(p->b, p->b->symbols[k].name));
        PUTS(", which depends on data */\nstatic int define_%u(model *m, int64_t value, const char *where) {\n", stage - 1);
        PUTS("    int64_t *const n = m->numbers;\n    bool known;\n    TRY(define(m, &symbols[%u], value, &n[%u], &known, where));\n"
             "    if (known) return 0;\n", k, p->symbol_numbers[k]);
        put_numbers(p, stage);
        put_guards(p, stage);
        put_size_checks(p, stage);
        put_memory(p, stage);
        hn_strbuf_puts(p->out, "    return 0;\n}\n\n");
    }
}

/* --- the rest --- */

static void put_content(source_printer *p) {
    hn_strbuf_puts(p->out, "/* Where an output lies after the last step. */\n"
                           "static uint8_t *content(model *m, uint32_t output) {\n    const int64_t *const n = m->numbers;\n    (void)n;\n"
                           "    switch (output) {\n");
    for (uint32_t k = 0; k < p->b->outputs_count; k++) {
        const hnb_output *o = &p->b->outputs[k];
        if (o->kind != HNB_VALUE_TENSOR) continue;
        PUTS("    case %u: return ", k);
        hn_source_address(p, o->buffer, o->offset, hn_bundle_dtype_bytes(o->dtype));
        hn_strbuf_puts(p->out, ";\n");
    }
    hn_strbuf_puts(p->out, "    }\n    return NULL;\n}\n\n");
}

static void put_program(source_printer *p) {
    const hn_bundle *b = p->b;
    hn_strbuf_puts(p->out, "static const char *const features[] = {");
    for (uint32_t k = 0; k < b->features_count; k++) {
        hn_source_string(p->out, hn_bundle_str(b, b->features[k]));
        hn_strbuf_puts(p->out, ", ");
    }
    hn_strbuf_puts(p->out, "NULL};\n\nconst program model_program = {\n");
    PUTS("    .weights_bytes = UINT64_C(%" PRIu64 "), .weights_id = UINT64_C(%" PRIu64 "),\n", p->source->weights_bytes, p->source->weights_id);
    PUTS("    .inputs = %u, .outputs = %u, .numbers = %u, .blocks = %u, .slots = %u, .owns = %u, .externs = %u,\n", b->inputs_count,
         b->outputs_count, b->nodes_count + b->symbols_count, p->block_count, p->slot_count, p->own_count, p->extern_count);
    PUTS("    .input = inputs, .output = outputs, .own = owns, .features = features,\n"
         "    .block_output = block_outputs, .state_output = state_outputs,\n"
         "    .begin = begin, .steps = steps, .content = content, .externs_close = %s,\n};\n", p->extern_count ? "externs_close" : "NULL");
}

static hn_status print(source_printer *p) {
    hn_strbuf_puts(p->out, "/* model.c: the program, written by henry. Numbers n[] are sizes and offsets; what each is stands beside it. */\n"
                           "#include \"support.h\"\n\n#include <string.h>\n\n");
    put_kernels(p);
    put_infos(p);
    put_inputs(p);
    put_outputs(p);
    put_blocks_and_states(p);
    put_symbols(p);
    put_begin(p);
    put_defines(p);
    HN_TRY(hn_source_steps(p));
    put_content(p);
    put_program(p);
    return hn_strbuf_status(p->out);
}

bool hn_source_calls(const hn_bundle *b, hn_extern_kind kind) {
    for (uint32_t k = 0; k < b->steps_count; k++)
        if (b->steps[k].kind == HNB_STEP_EXTERN && b->steps[k].extern_kind == kind) return true;
    return false;
}

bool hn_source_has_externs(const hn_bundle *b) {
    for (uint32_t k = 0; k < b->steps_count; k++)
        if (b->steps[k].kind == HNB_STEP_EXTERN) return true;
    return false;
}

hn_status hn_wrapper_to_source(const hn_to_source *source, hn_strbuf *out) {
    const hn_bundle *b = source->program;
    source_printer p = {.source = source, .b = b, .out = out};
    HN_NEW(source->arena, p.stages, b->nodes_count);
    HN_NEW(source->arena, p.is_size, b->nodes_count);
    HN_NEW(source->arena, p.owns, (size_t)b->storages_count + 1);
    HN_NEW(source->arena, p.blocks, (size_t)b->buffers_count + 1);
    HN_NEW(source->arena, p.symbol_numbers, (size_t)b->symbols_count + 1);
    find_stages(&p);
    number_things(&p);
    mark_sizes(&p);
    return print(&p);
}
