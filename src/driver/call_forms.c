/* call_forms.c: see call_forms.h. */
#include "driver/call_forms.h"

#include "base/checked.h"
#include "kernel/record.h"

#include <string.h>

const char hn_call_form_own[] = "own";

/* ---- what a call is known by ---- */

static bool add_symbols(const hn_variants_of *of, hn_expr e, hn_kernel_identity *out) {
    hn_sym *sym = of->program->sym;
    hn_expr symbols[HN_VARIANT_SYMBOLS_MAX];
    const uint32_t count = e ? hn_sym_symbols(sym, e, symbols, HN_VARIANT_SYMBOLS_MAX) : 0;
    if (count > HN_VARIANT_SYMBOLS_MAX) return false;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = 0;
        while (at < out->symbol_count && out->symbols[at] != symbols[k]) at++;
        if (at < out->symbol_count) continue;
        if (at == HN_VARIANT_SYMBOLS_MAX || hn_sym_symbol_kind(sym, symbols[k]) != HN_SYMBOL_SIZE)
            return false;
        out->symbols[out->symbol_count++] = symbols[k];
    }
    return true;
}

/* At a few sizes, so that names do not count. -1: it has no value there. */
static void add_values(const hn_variants_of *of, const hn_kernel_identity *id, hn_expr e,
                       hn_digest_state *state) {
    static const int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31};
    int64_t values[HN_VARIANT_SYMBOLS_MAX], value;
    for (uint32_t point = 0; point < 3; point++) {
        for (uint32_t k = 0; k < id->symbol_count; k++) values[k] = primes[point + k] << 7 * point;
        if (!hn_sym_eval(of->program->sym, e, id->symbols, values, id->symbol_count, &value))
            value = -1;
        hn_digest_update(state, &value, sizeof value);
    }
}

static const hn_buffer *buffer_of(const hn_variants_of *of, uint32_t operand) {
    const hn_buf b = of->call->operands[operand].buffer;
    return b ? &of->program->buffers.items[b] : NULL;
}

/* The parameter that says whether the weights, operand 2, are a constant. */
static bool is_constant(const hn_variants_of *of, uint32_t operand) {
    const hn_extern *call = of->call;
    int64_t value = 0;
    if (operand != 2) return false;
    if (call->kind == HN_EXTERN_MATMUL)
        hn_sym_is_int(of->program->sym, call->params[HN_MATMUL_B_CONSTANT], &value);
    if (call->kind == HN_EXTERN_CONV)
        hn_sym_is_int(of->program->sym, call->params[HN_CONV_W_CONSTANT], &value);
    return value != 0;
}

static hn_digest digest_of(const hn_variants_of *of, const hn_kernel_identity *id) {
    hn_digest_state state;
    const hn_extern *call = of->call;
    hn_digest_begin(&state);
    hn_digest_update(&state, &call->kind, sizeof call->kind);
    for (uint32_t k = 0; k < call->operand_count; k++) {
        const hn_buffer *b = buffer_of(of, k);
        const uint8_t dtype = b ? (uint8_t)b->dtype : 0;
        hn_digest_update(&state, &dtype, sizeof dtype);
    }
    for (uint32_t k = 0; k < call->param_count; k++) add_values(of, id, call->params[k], &state);
    return hn_digest_end(&state);
}

static bool add_operand_symbols(const hn_variants_of *of, const hn_buffer *b,
                                hn_kernel_identity *out) {
    bool is_known = true;
    for (uint32_t d = 0; d < b->rank && is_known; d++)
        is_known = add_symbols(of, b->sizes[d], out) && add_symbols(of, b->strides[d], out);
    return is_known;
}

hn_status hn_call_identify(const hn_variants_of *of, hn_kernel_identity *out) {
    bool is_known = true;
    *out = (hn_kernel_identity){.symbol_count = 0};
    for (uint32_t k = 0; k < of->call->param_count && is_known; k++)
        is_known = add_symbols(of, of->call->params[k], out);
    for (uint32_t k = 0; k < of->call->operand_count && is_known; k++)
        is_known = !of->call->operands[k].buffer ||
                   (add_operand_symbols(of, buffer_of(of, k), out) &&
                    add_symbols(of, of->call->operands[k].offset_elems, out));
    out->is_tunable = is_known;
    if (!is_known) out->symbol_count = 0;
    out->digest = digest_of(of, out);
    return NULL;
}

/* ---- forms ---- */

bool hn_call_is_tunable(const hn_variants_of *of) {
    const hn_target_kind *kind = of->target->kind;
    if (of->call->kind == HN_EXTERN_MATMUL || of->call->kind == HN_EXTERN_CONV)
        return kind->device == HN_DEVICE_CPU ||
               hn_operation_of(kind->limits->operations, of->program, of->call);
    return of->call->kind == HN_EXTERN_ATTENTION && kind->device == HN_DEVICE_CPU;
}

static hn_status name_form(const hn_ext_form *form, hn_arena *arena, hn_form_name *out) {
    char text[HN_EXT_FORM_TEXT];
    hn_ext_form_print(form, text);
    const char *own = hn_arena_strndup(arena, text, strlen(text));
    *out = (hn_form_name){hn_str_of(hn_ext_form_kind(form)), {own, strlen(text)}};
    return own ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the name of a form");
}

hn_status hn_call_forms_list(const hn_variants_of *of, hn_arena *arena, hn_variants *out) {
    hn_ext_form all[HN_EXT_FORMS_MAX];
    const bool has_weights = of->call->kind == HN_EXTERN_MATMUL && is_constant(of, 2);
    *out = (hn_variants){
        .count = of->target->kind->device == HN_DEVICE_CPU
                     ? hn_ext_forms_all(of->call->kind, has_weights, (int)of->threads, all)
                     : hn_ext_forms_library(of->call->kind, all)};
    _Static_assert((int)HN_EXT_FORMS_MAX <= (int)HN_VARIANTS_MAX, "a list has room for all");
    const double ns = hn_call_time(of);
    for (uint32_t k = 0; k < out->count; k++) {
        HN_TRY(name_form(&all[k], arena, &out->items[k].name));
        out->items[k].ns = ns;
    }
    return NULL;
}

static hn_status read_form(const hn_form_name *name, hn_ext_form *out) {
    char text[2 * HN_EXT_FORM_TEXT];
    snprintf(text, sizeof text, HN_STR_FMT " " HN_STR_FMT, HN_STR_ARG(name->name),
             HN_STR_ARG(name->parameters));
    return hn_ext_form_read(text, out);
}

hn_status hn_call_form_named(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena,
                             hn_variant *out) {
    hn_ext_form form;
    hn_status status = read_form(name, &form);
    *out = (hn_variant){.ns = hn_call_time(of)};
    if (!status) return name_form(&form, arena, &out->name);
    hn_status told = HN_ERROR(HN_NOT_FOUND, "%s", hn_status_message(status));
    hn_status_free(status);
    return told;
}

/* Additions and bytes that one thread does in a nanosecond, roughly: only their sums over calls
 * matter. A GPU has units for products: of f32 two additions of each of its own count as one, of
 * 16-bit floats sixteen. */
static const double operations_each_ns = 50, bytes_each_ns = 10;
enum { PRODUCTS_OF_F32 = 2, PRODUCTS_OF_HALVES = 16 };

static double time_there(const hn_variants_of *of, const hn_work_record *work, double bytes) {
    const hn_gpu_facts *facts = of->target->gpu;
    const hn_buffer *result = buffer_of(of, 0);
    const bool is_half = result && hn_dtype_facts(result->dtype)->size_bytes == 2;
    const double rate = facts->ops_per_ns * (is_half ? PRODUCTS_OF_HALVES : PRODUCTS_OF_F32);
    return facts->launch_ns + (double)work->operations / rate + bytes / facts->bytes_per_ns;
}

double hn_call_time(const hn_variants_of *of) {
    hn_work_record work;
    hn_call_record_of(of->program, of->call, &work);
    const double bytes = (double)(work.traffic.read_bytes + work.traffic.written_bytes),
                 threads = of->threads ? of->threads : 1;
    if (of->target->kind->device != HN_DEVICE_CPU) return time_there(of, &work, bytes);
    return 1 + (double)work.operations / operations_each_ns / threads + bytes / bytes_each_ns;
}

/* ---- at some sizes ---- */

static hn_status eval(const hn_variants_of *of, const hn_ref_sizes *sizes, hn_expr e,
                      int64_t *out) {
    *out = 0;
    if (!e || hn_sym_eval(of->program->sym, e, sizes->symbols, sizes->values, sizes->count, out))
        return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "a call cannot be compared at these sizes");
}

/* From the first element to behind the last one that its strides reach. */
static hn_status eval_elems(const hn_variants_of *of, const hn_ref_sizes *sizes, const hn_buffer *b,
                            int64_t *out) {
    int64_t size, stride, last;
    *out = 1;
    for (uint32_t d = 0; d < b->rank && *out; d++) {
        HN_TRY(eval(of, sizes, b->sizes[d], &size));
        HN_TRY(eval(of, sizes, b->strides[d], &stride));
        if (!size) *out = 0;
        else if (!hn_mul_i64(size - 1, stride, &last) || !hn_add_i64(*out, last, out)) *out = -1;
    }
    return NULL;
}

static hn_status describe_operand(const hn_variants_of *of, const hn_ref_sizes *sizes, uint32_t k,
                                  hn_call_subject *out) {
    const hn_buffer *b = buffer_of(of, k);
    int64_t elems, offset;
    if (!b) return NULL;
    const int64_t each = hn_dtype_facts(b->dtype)->size_bytes;
    HN_TRY(eval_elems(of, sizes, b, &elems));
    HN_TRY(eval(of, sizes, of->call->operands[k].offset_elems, &offset));
    out->dtypes[k] = (uint8_t)b->dtype;
    out->is_constant[k] = is_constant(of, k);
    out->is_written[k] = of->call->operands[k].written;
    if (elems < 0 || offset < 0 || elems > INT64_MAX / each || offset > INT64_MAX / each)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a call cannot be compared at these sizes");
    out->bytes[k] = elems * each;
    out->offset_bytes[k] = offset * each;
    return NULL;
}

/* Of all calls of the program, each buffer once. */
static hn_status count_constants(const hn_program *p, hn_arena *arena, int64_t *out) {
    bool *seen;
    *out = 0;
    HN_NEW(arena, seen, p->buffers.count);
    for (hn_item i = 1; i < p->items.count; i++) {
        const hn_extern *call = p->items.items[i].ext;
        const hn_variants_of of = {.program = p, .call = call};
        for (uint32_t k = 0; call && k < call->operand_count; k++) {
            const hn_buf b = call->operands[k].buffer;
            int64_t elems;
            if (!is_constant(&of, k) || !b || seen[b]) continue;
            seen[b] = true;
            if (hn_sym_is_int(p->sym, p->buffers.items[b].extent, &elems))
                *out += elems * (int64_t)hn_dtype_facts(p->buffers.items[b].dtype)->size_bytes;
        }
    }
    return NULL;
}

hn_status hn_call_subject_init(const hn_variants_of *of, const hn_ref_sizes *sizes, hn_arena *arena,
                               hn_call_subject *out) {
    const hn_extern *call = of->call;
    int64_t *params;
    HN_NEW(arena, params, call->param_count + 1u);
    for (uint32_t k = 0; k < call->param_count; k++)
        HN_TRY(eval(of, sizes, call->params[k], &params[k]));
    const hn_target *target = of->target;
    *out = (hn_call_subject){.kind = call->kind,
                             .params = params,
                             .threads = of->threads ? (int)of->threads : 1,
                             .device = {.kind = target->kind->device, .number = target->device}};
    for (uint32_t k = 0; k < call->operand_count; k++) HN_TRY(describe_operand(of, sizes, k, out));
    return count_constants(of->program, arena, &out->constant_bytes);
}

/* ---- whether a form can be had ---- */

bool hn_call_form_is_kind(hn_str kind) {
    hn_ext_form form;
    hn_status status = read_form(&(hn_form_name){kind, HN_STR("")}, &form);
    const bool is_one = !status;
    hn_status_free(status);
    return is_one;
}

static hn_status prepare(const hn_call_subject *s, const hn_ext_form *form, hn_ext_shared *shared) {
    hn_ext_call call = {.kind = s->kind,
                        .params = s->params,
                        .param_count = hn_ext_param_count(s->kind),
                        .knows_rooms = true,
                        .threads = s->threads,
                        .form = form,
                        .shared = shared};
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++) {
        call.dtypes[k] = s->dtypes[k];
        call.rooms[k] = (hn_ext_room){s->offset_bytes[k], s->bytes[k] - s->offset_bytes[k]};
    }
    HN_TRY(hn_ext_prepare(&call));
    hn_ext_release(&call);
    return NULL;
}

static hn_status try_at_hints(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena) {
    hn_kernel_identity id;
    hn_variant_sizes sizes;
    hn_call_subject subject;
    hn_ext_form form;
    hn_ext_shared *shared;
    HN_TRY(hn_call_identify(of, &id));
    if (!id.is_tunable) return NULL; /* its sizes are known only as the program runs */
    HN_TRY(hn_variant_sizes_list(of, &id, NULL, arena, &sizes));
    const hn_ref_sizes first = hn_variant_sizes_at(&sizes, 0);
    HN_TRY(hn_call_subject_init(of, &first, arena, &subject));
    HN_TRY(read_form(name, &form));
    HN_TRY(hn_ext_shared_create(&shared));
    hn_status status = prepare(&subject, &form, shared);
    hn_ext_shared_destroy(shared);
    return status;
}

hn_status hn_call_form_try(const hn_variants_of *of, const hn_form_name *name, hn_arena *arena) {
    if (of->target->kind->device != HN_DEVICE_CPU) return NULL;
    hn_status status = try_at_hints(of, name, arena);
    if (hn_status_code(status) != HN_UNSUPPORTED) return status;
    hn_status told = HN_ERROR(HN_NOT_FOUND, "%s", hn_status_message(status));
    hn_status_free(status);
    return told;
}
