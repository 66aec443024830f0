/* shipped.c: see shipped.h. */
#include "tune/shipped.h"

#include "base/checked.h"

#include <string.h>

/* Arguments of a kernel at one set of sizes, but the first, take no more. */
static const int64_t bytes_most = (int64_t)1 << 28;

/* ---- sizes ---- */

static hn_bundle_call call_of(const hn_shipped *s, uint32_t variant) {
    return hn_bundle_call_by(s->b, s->step, s->target, s->choice, variant);
}

static void mark(uint8_t *used, uint32_t node) { used[node] = 1; }

static void mark_launch(const hn_shipped *s, const hn_bundle_call *call, uint8_t *used) {
    const hnb_launch *l = call->launch;
    mark(used, l->extent), mark(used, l->scratch), mark(used, l->shared);
    for (uint32_t d = 0; d < 3; d++) mark(used, l->grid[d]);
    for (uint32_t k = 0; k < l->param_count; k++) mark(used, s->b->params[l->params + k]);
}

static void mark_buffer(const hn_bundle *b, uint32_t buffer, uint8_t *used) {
    const hnb_buffer *f = &b->buffers[buffer];
    if (f->kind == HNB_BUFFER_CONSTANT) return;
    if (f->kind != HNB_BUFFER_INPUT) {
        mark(used, f->bytes);
        return;
    }
    const hnb_input *in = &b->inputs[f->source];
    for (uint32_t d = 0; d < 2u * in->rank; d++) mark(used, b->dims[in->dims + d]);
}

/* What a call of an operation is computed from. */
static void mark_operation(const hn_shipped *s, uint8_t *used) {
    for (uint32_t k = 0; k < s->step->param_count; k++)
        mark(used, s->b->params[s->step->params + k]);
    for (uint32_t k = 0; k < s->step->operand_count; k++) {
        const hnb_operand *o = &s->b->operands[s->step->operands + k];
        if (!o->buffer) continue;
        mark(used, o->offset);
        mark_buffer(s->b, o->buffer, used);
    }
}

/* Operands come first, so one walk from the end finds what expressions are made of. */
static void mark_parts(const hn_bundle *b, uint8_t *used) {
    for (uint32_t k = b->nodes_count; k-- > 1;) {
        const hnb_node *n = &b->nodes[k];
        if (!used[k] || n->op < HNB_OP_ADD) continue;
        used[n->a] = 1;
        used[(uint32_t)n->b] = 1;
    }
}

/* False: one of them is known only as the program runs, or there are too many. */
static bool take_symbols(hn_shipped *s, const uint8_t *used) {
    for (uint32_t k = 1; k < s->b->nodes_count; k++) {
        const hnb_node *n = &s->b->nodes[k];
        if (!used[k] || n->op != HNB_OP_SYMBOL) continue;
        if (s->b->symbols[n->a].input == HNB_BY_STEP || s->symbol_count == HN_TUNING_SIZES_MAX)
            return false;
        s->symbols[s->symbol_count] = n->a;
        s->axes[s->symbol_count++] = k;
    }
    return true;
}

static int64_t hint_of(const hnb_symbol *symbol) {
    enum { USUAL = 32 };
    if (symbol->hint != INT64_MIN) return symbol->hint;
    if (symbol->hi < USUAL) return symbol->hi;
    return symbol->lo > USUAL ? symbol->lo : USUAL;
}

static void evaluate(hn_shipped *s) {
    hn_bundle_eval(s->b, s->values, s->b->symbols_count, s->numbers, s->bad);
}

void hn_shipped_at(hn_shipped *s, uint32_t sample) {
    for (uint32_t k = 0; k < s->b->symbols_count; k++) s->values[k] = hint_of(&s->b->symbols[k]);
    for (uint32_t k = 0; k < s->symbol_count; k++)
        s->values[s->symbols[k]] = s->sizes[sample * s->symbol_count + k];
    evaluate(s);
}

static bool number(const hn_shipped *s, uint32_t node, int64_t *out) {
    *out = node ? s->numbers[node] : 0;
    return !node || !s->bad[node];
}

/* Bytes of a buffer; false: they cannot be computed here. */
static bool buffer_bytes(const hn_shipped *s, uint32_t buffer, int64_t *out) {
    const hnb_buffer *f = &s->b->buffers[buffer];
    if (f->kind == HNB_BUFFER_CONSTANT) {
        *out = (int64_t)(s->b->storages[f->source].bytes - f->byte_offset);
        return true;
    }
    if (f->kind != HNB_BUFFER_INPUT) return number(s, f->bytes, out) && *out >= 0;
    const hnb_input *in = &s->b->inputs[f->source];
    int64_t last = 1, size, stride, step;
    for (uint32_t d = 0; d < in->rank; d++) {
        if (!number(s, s->b->dims[in->dims + d], &size) || size < 0 ||
            !number(s, s->b->dims[in->dims + in->rank + d], &stride) || stride < 0 ||
            !hn_mul_i64(size ? size - 1 : 0, stride, &step) || !hn_add_i64(last, step, &last))
            return false;
        if (!size) return *out = 0, true;
    }
    return hn_mul_i64(last, hn_bundle_dtype_bytes(in->dtype), out);
}

/* Of all operands. */
static bool is_small(const hn_shipped *s) {
    int64_t all = 0, bytes;
    for (uint32_t k = 0; k < s->step->operand_count; k++) {
        const hnb_operand *o = &s->b->operands[s->step->operands + k];
        if (!o->buffer) continue;
        if (!buffer_bytes(s, o->buffer, &bytes) || !hn_add_i64(all, bytes, &all)) return false;
    }
    return all <= bytes_most;
}

static bool keeps_guards(const hn_shipped *s) {
    for (uint32_t k = 0; k < s->b->guards_count; k++) {
        const hnb_guard *g = &s->b->guards[k];
        int64_t x, y;
        if (number(s, g->lhs, &x) && number(s, g->rhs, &y) &&
            !hn_bundle_relation_holds(g->relation, x, y))
            return false;
    }
    return true;
}

/* Keeps the sizes of the sample behind the last one, if the program may have them. */
static void keep_sample(hn_shipped *s) {
    const uint32_t n = s->symbol_count;
    const int64_t *own = &s->sizes[s->sample_count * n];
    for (uint32_t k = 0; k < s->sample_count; k++)
        if (!n || memcmp(&s->sizes[k * n], own, n * sizeof *own) == 0) return;
    hn_shipped_at(s, s->sample_count);
    if (!s->sample_count || (keeps_guards(s) && is_small(s))) s->sample_count++;
}

static int64_t clamp(const hnb_symbol *symbol, int64_t value) {
    if (value > symbol->hi) value = symbol->hi;
    return value < symbol->lo ? symbol->lo : value;
}

/* The hints, each symbol by itself, and all together, at powers of four. */
static void list_samples(hn_shipped *s) {
    enum { POWERS = 10 };
    const uint32_t n = s->symbol_count;
    for (uint32_t which = 0; which <= n; which++)
        for (uint32_t p = 0; p <= POWERS && s->sample_count < HN_SHIPPED_SAMPLES; p++) {
            int64_t *own = &s->sizes[s->sample_count * n];
            for (uint32_t k = 0; k < n; k++) {
                const hnb_symbol *symbol = &s->b->symbols[s->symbols[k]];
                const bool is_hint = !p || (which < n && which != k);
                own[k] = is_hint ? hint_of(symbol) : clamp(symbol, (int64_t)1 << 2 * (p - 1));
            }
            keep_sample(s);
        }
}

hn_status hn_shipped_init(const hn_bundle *b, const hnb_choice *choice, hn_arena *arena,
                          hn_shipped *out, bool *out_is_tunable) {
    uint8_t *used;
    *out = (hn_shipped){
        .b = b, .choice = choice, .step = &b->steps[choice->step], .target = choice->target};
    HN_NEW(arena, used, (size_t)b->nodes_count + 1);
    HN_NEW(arena, out->bad, (size_t)b->nodes_count + 1);
    HN_NEW(arena, out->numbers, (size_t)b->nodes_count + 1);
    HN_NEW(arena, out->values, (size_t)b->symbols_count + 1);
    const bool is_kernel = out->step->kind == HNB_STEP_KERNEL;
    if (!is_kernel) mark_operation(out, used);
    for (uint32_t v = 0; is_kernel && v < choice->head.variant_count; v++) {
        const hn_bundle_call call = call_of(out, v);
        mark_launch(out, &call, used);
    }
    mark_parts(b, used);
    *out_is_tunable = take_symbols(out, used);
    if (*out_is_tunable) list_samples(out);
    return NULL;
}

/* ---- arguments ---- */

static hn_status not_known(void) {
    return HN_ERROR(HN_UNSUPPORTED, "a size of the kernel is known only when the program runs");
}

/* An argument is the memory of a buffer: all operands that lie in it look into that. */
typedef struct arguments {
    hn_bench_arg *items;
    uint32_t *buffers;
    uint32_t count;
} arguments;

static uint32_t arg_of(const arguments *a, uint32_t buffer) {
    uint32_t k = 0;
    while (k < a->count && a->buffers[k] != buffer) k++;
    return k;
}

/* What is read and written is restored behind each call; so is what a scatter adds to. */
static void set_access(const hn_shipped *s, const hnb_operand *o, bool is_new, hn_bench_arg *arg) {
    const hn_str form = {hn_bundle_text(s->b, call_of(s, 0).form), call_of(s, 0).form.len};
    const bool adds = hn_str_starts_with(form, HN_STR("scatter"));
    const hn_bench_access access = !o->written ? HN_BENCH_READ
                                   : adds      ? HN_BENCH_UPDATE
                                               : HN_BENCH_WRITE;
    if (is_new) arg->access = access;
    else if (arg->access != access) arg->access = HN_BENCH_UPDATE;
}

static hn_status add_operand(const hn_shipped *s, const hnb_operand *o, hn_arena *arena,
                             arguments *a) {
    const uint32_t at = arg_of(a, o->buffer);
    const int64_t elem = hn_bundle_dtype_bytes(o->dtype);
    const bool is_new = at == a->count;
    int64_t *sizes;
    if (is_new) {
        HN_NEW(arena, sizes, 1);
        if (!o->buffer || elem <= 0 || !buffer_bytes(s, o->buffer, sizes)) return not_known();
        *sizes /= elem;
        a->buffers[at] = o->buffer;
        a->items[at] = (hn_bench_arg){.type = (hn_scalar_type)o->dtype, .rank = 1, .sizes = sizes};
        a->count++;
    }
    set_access(s, o, is_new, &a->items[at]);
    return NULL;
}

/* Of operands with indices, the range that the kernel checks. */
static void limit_indices(const hn_shipped *s, const arguments *a) {
    for (uint32_t k = 0; k + HNB_CHECK_PARAMS <= s->step->param_count; k += HNB_CHECK_PARAMS) {
        const uint32_t *check = &s->b->params[s->step->params + k];
        int64_t operand, limit;
        if (!number(s, check[0], &operand) || !number(s, check[1], &limit) || operand < 0 ||
            operand >= s->step->operand_count || limit < 1)
            continue;
        const uint32_t buffer = s->b->operands[s->step->operands + (uint32_t)operand].buffer;
        const uint32_t at = arg_of(a, buffer);
        if (at < a->count && (!a->items[at].index_limit || limit < a->items[at].index_limit))
            a->items[at].index_limit = limit;
    }
}

/* ---- calls ---- */

static hn_status place_operands(const hn_shipped *s, const hn_bundle_call *call, arguments *a,
                                hn_arena *arena, hn_bench_place *places) {
    for (uint32_t k = 0; k < call->arg_count; k++) {
        const hnb_operand *o = &s->b->operands[call->launch->operands + k];
        int64_t offset;
        HN_TRY(add_operand(s, o, arena, a));
        if (!number(s, o->offset, &offset) ||
            !hn_mul_i64(offset, hn_bundle_dtype_bytes(o->dtype), &offset))
            return not_known();
        places[k] = (hn_bench_place){.arg = arg_of(a, o->buffer), .offset_bytes = offset};
    }
    return NULL;
}

static hn_status set_numbers(const hn_shipped *s, const hnb_launch *l, long long *params,
                             hn_bench_launch *out) {
    int64_t extent, value;
    if (!number(s, l->extent, &extent) || !number(s, l->scratch, &out->scratch_bytes) ||
        !number(s, l->shared, &out->shared_bytes))
        return not_known();
    for (uint32_t d = 0; d < 3; d++)
        if (!number(s, l->grid[d], &out->groups[d])) return not_known();
    for (uint32_t k = 0; k < l->param_count; k++) {
        if (!number(s, s->b->params[l->params + k], &value)) return not_known();
        params[k] = value;
    }
    out->params = params;
    out->param_count = l->param_count;
    out->extent = extent;
    out->grain = l->grain;
    memcpy(out->threads, l->block, sizeof out->threads);
    return NULL;
}

static hn_status make_launch(const hn_shipped *s, uint32_t variant, arguments *a, hn_arena *arena,
                             hn_bench_launch *out) {
    const hn_bundle_call call = call_of(s, variant);
    const hnb_code *code = hn_bundle_code(s->b, call.kernel, s->target);
    hn_bench_place *places;
    long long *params;
    hn_str object;
    HN_NEW(arena, places, call.arg_count + 1u);
    HN_NEW(arena, params, call.launch->param_count + 1u);
    HN_TRY(place_operands(s, &call, a, arena, places));
    HN_TRY(set_numbers(s, call.launch, params, out));
    if (code->object == HNB_NO_OBJECT)
        return HN_ERROR(HN_UNSUPPORTED, "the bundle has no code of a form for this machine");
    HN_TRY(hn_bundle_object_get(s->b, code->object, true, &object));
    out->code = object.ptr;
    out->code_len = object.len;
    out->symbol = hn_bundle_text(s->b, code->symbol);
    out->places = places;
    out->place_count = call.arg_count;
    return NULL;
}

static hn_status make_kernel(const hn_shipped *s, uint32_t variant, arguments *a, hn_arena *arena,
                             hn_bench_kernel *out) {
    hn_bench_launch *launch;
    HN_NEW(arena, launch, 1);
    HN_TRY(make_launch(s, variant, a, arena, launch));
    *out = (hn_bench_kernel){.name = hn_bundle_text(s->b, call_of(s, variant).form),
                             .launches = launch,
                             .launch_count = 1};
    return NULL;
}

hn_status hn_shipped_subject(const hn_shipped *s, hn_arena *arena, hn_bench_subject *out_subject,
                             hn_bench_kernel **out_kernels) {
    const uint32_t count = s->choice->head.variant_count;
    arguments a = {.count = 0};
    hn_bench_kernel *kernels;
    HN_NEW(arena, a.items, s->step->operand_count + 1u);
    HN_NEW(arena, a.buffers, s->step->operand_count + 1u);
    HN_NEW(arena, kernels, count);
    for (uint32_t v = 0; v < count; v++) HN_TRY(make_kernel(s, v, &a, arena, &kernels[v]));
    limit_indices(s, &a);
    *out_subject = (hn_bench_subject){.args = a.items, .arg_count = a.count};
    *out_kernels = kernels;
    return NULL;
}

/* ---- calls of operations ---- */

static hn_status describe_operand(const hn_shipped *s, uint32_t k, hn_call_subject *out) {
    const hnb_operand *o = &s->b->operands[s->step->operands + k];
    const hnb_buffer *f = &s->b->buffers[o->buffer];
    int64_t offset;
    if (!o->buffer) return NULL;
    out->dtypes[k] = o->dtype;
    out->is_written[k] = o->written;
    out->is_constant[k] = f->kind == HNB_BUFFER_CONSTANT && !s->b->storages[f->source].is_mutable;
    if (!buffer_bytes(s, o->buffer, &out->bytes[k]) || !number(s, o->offset, &offset) ||
        !hn_mul_i64(offset, hn_bundle_dtype_bytes(o->dtype), &out->offset_bytes[k]) || offset < 0 ||
        out->offset_bytes[k] > out->bytes[k])
        return not_known();
    return NULL;
}

static hn_status list_forms(const hn_shipped *s, hn_arena *arena, hn_ext_form **out_forms,
                            const char ***out_names) {
    const uint32_t count = s->choice->head.variant_count;
    HN_NEW(arena, *out_forms, count);
    HN_NEW(arena, *out_names, count);
    for (uint32_t v = 0; v < count; v++) {
        (*out_names)[v] = hn_bundle_text(s->b, call_of(s, v).form);
        HN_TRY(hn_ext_form_read((*out_names)[v], &(*out_forms)[v]));
    }
    return NULL;
}

hn_status hn_shipped_call(const hn_shipped *s, hn_arena *arena, hn_call_subject *out_subject,
                          hn_ext_form **out_forms, const char ***out_names) {
    int64_t *params;
    HN_NEW(arena, params, s->step->param_count + 1u);
    for (uint32_t k = 0; k < s->step->param_count; k++)
        if (!number(s, s->b->params[s->step->params + k], &params[k])) return not_known();
    *out_subject = (hn_call_subject){.kind = (hn_extern_kind)s->step->extern_kind,
                                     .params = params,
                                     .constant_bytes = (int64_t)hn_bundle_storage_bytes(s->b)};
    for (uint32_t k = 0; k < s->step->operand_count; k++)
        HN_TRY(describe_operand(s, k, out_subject));
    return list_forms(s, arena, out_forms, out_names);
}

/* ---- equal steps ---- */

static void add_arg(hn_digest_state *state, const hn_bench_arg *arg) {
    const int64_t facts[] = {arg->type, arg->sizes[0], arg->access, arg->index_limit};
    hn_digest_update(state, facts, sizeof facts);
}

static void add_kernel(hn_digest_state *state, const hn_bench_kernel *kernel) {
    const hn_bench_launch *l = kernel->launches;
    const int64_t facts[] = {l->extent,    l->grain,      l->groups[0],    l->groups[1],
                             l->groups[2], l->threads[0], l->shared_bytes, l->scratch_bytes};
    hn_digest_update(state, l->symbol, strlen(l->symbol) + 1);
    hn_digest_update(state, facts, sizeof facts);
    for (uint32_t k = 0; k < l->param_count; k++)
        hn_digest_update(state, &l->params[k], sizeof l->params[k]);
    for (uint32_t k = 0; k < l->place_count; k++) {
        const int64_t place[] = {l->places[k].arg, l->places[k].offset_bytes};
        hn_digest_update(state, place, sizeof place);
    }
}

static hn_status add_kernels(const hn_shipped *s, hn_arena *arena, hn_digest_state *state) {
    hn_bench_subject subject;
    hn_bench_kernel *kernels;
    HN_TRY(hn_shipped_subject(s, arena, &subject, &kernels));
    for (uint32_t k = 0; k < subject.arg_count; k++) add_arg(state, &subject.args[k]);
    for (uint32_t v = 0; v < s->choice->head.variant_count; v++) add_kernel(state, &kernels[v]);
    return NULL;
}

static hn_status add_call(const hn_shipped *s, hn_arena *arena, hn_digest_state *state) {
    hn_call_subject call;
    hn_ext_form *forms;
    const char **names;
    HN_TRY(hn_shipped_call(s, arena, &call, &forms, &names));
    const int64_t facts[] = {call.kind, s->step->device, s->choice->head.variant_count};
    hn_digest_update(state, facts, sizeof facts);
    hn_digest_update(state, call.params, s->step->param_count * sizeof *call.params);
    hn_digest_update(state, call.dtypes, sizeof call.dtypes);
    hn_digest_update(state, call.is_constant, sizeof call.is_constant);
    hn_digest_update(state, call.bytes, sizeof call.bytes);
    hn_digest_update(state, call.offset_bytes, sizeof call.offset_bytes);
    for (uint32_t v = 0; v < s->choice->head.variant_count; v++)
        hn_digest_update(state, names[v], strlen(names[v]) + 1);
    return NULL;
}

hn_status hn_shipped_digest(hn_shipped *s, hn_arena *arena, hn_digest *out) {
    const bool is_kernel = s->step->kind == HNB_STEP_KERNEL;
    hn_digest_state state;
    hn_digest_begin(&state);
    for (uint32_t sample = 0; sample < s->sample_count; sample++) {
        hn_shipped_at(s, sample);
        HN_TRY(is_kernel ? add_kernels(s, arena, &state) : add_call(s, arena, &state));
    }
    *out = hn_digest_end(&state);
    return NULL;
}
