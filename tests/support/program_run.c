/* program_run.c: see the header. */
#include "tests/support/program_run.h"

#include "driver/driver.h"
#include "lower/lower.h"
#include "ops/cpu/ext.h"

#include <stdlib.h>
#include <string.h>

/* --- memory --- */

/* Elements from the first to the last that the strides reach. */
static int64_t reach(uint32_t rank, const int64_t *sizes, const int64_t *strides) {
    int64_t last = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (sizes[d] == 0) return 0;
        last += (sizes[d] - 1) * strides[d];
    }
    return last;
}

static int64_t offset_of(uint32_t rank, const int64_t *at, const int64_t *strides) {
    int64_t offset = 0;
    for (uint32_t d = 0; d < rank; d++) offset += at[d] * strides[d];
    return offset;
}

/* The elements that an input has, in a program's own order of them. */
static hn_status content_of(hn_program_run *r, const hn_input *in, const hn_ref_tensor *given,
                            const int64_t *sizes, const int64_t *strides, hn_ref_tensor *out) {
    const hn_value_info *vi = hn_graph_value(r->graph, in->value);
    if (in->kind == HN_INPUT_USER) {
        *out = *given;
        return NULL;
    }
    const uint8_t *data;
    HN_TRY(hn_graph_storage_data(r->graph, in->storage, r->arena, &data));
    data += (size_t)in->storage_offset_elems * hn_dtype_facts(vi->dtype)->size_bytes;
    return hn_ref_tensor_load(r->arena, vi->dtype, vi->rank, sizes, strides, data, out);
}

static hn_status fill_input(hn_program_run *r, hn_buf b, const hn_ref_tensor *given) {
    const hn_buffer *buffer = &r->p->buffers.items[b];
    hn_ref_buffer *memory = &r->buffers[b];
    hn_ref_tensor from;
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK], at[HN_MAX_RANK] = {0};
    HN_TRY(hn_ref_eval_sizes(&r->at, buffer->rank, buffer->sizes, sizes));
    HN_TRY(hn_ref_eval_sizes(&r->at, buffer->rank, buffer->strides, strides));
    HN_TRY(content_of(r, &r->graph->inputs.items[buffer->input], given, sizes, strides, &from));
    HN_TRY(
        hn_ref_buffer_init(r->arena, buffer->dtype, reach(buffer->rank, sizes, strides), memory));
    for (int64_t n = 0; n < from.numel; n++, hn_ref_next(at, sizes, buffer->rank)) {
        int64_t place = offset_of(buffer->rank, at, strides);
        memory->items[place] = hn_ref_get(&from, n);
        memory->is_set[place] = true;
    }
    return NULL;
}

/* The user input of each buffer is the one of that number among user inputs. */
static hn_status fill_inputs(hn_program_run *r, const hn_ref_tensor *inputs) {
    for (hn_buf b = 1; b < r->p->buffers.count; b++) {
        const hn_buffer *buffer = &r->p->buffers.items[b];
        uint32_t user = 0;
        for (uint32_t k = 0; k < buffer->input; k++)
            user += r->graph->inputs.items[k].kind == HN_INPUT_USER;
        if (buffer->kind == HN_BUFFER_INPUT) HN_TRY(fill_input(r, b, &inputs[user]));
    }
    return NULL;
}

static bool is_known(const hn_program_run *r, hn_expr e, int64_t *out) {
    return hn_sym_eval(r->p->sym, e, r->at.symbols.items, r->at.values.items, r->at.symbols.count,
                       out);
}

/* Memory for the buffers whose sizes have become known. */
static hn_status allocate(hn_program_run *r) {
    for (hn_buf b = 1; b < r->p->buffers.count; b++) {
        const hn_buffer *buffer = &r->p->buffers.items[b];
        int64_t elems;
        if (buffer->kind == HN_BUFFER_INPUT || r->buffers[b].items ||
            !is_known(r, buffer->extent, &elems))
            continue;
        HN_TRY(hn_ref_buffer_init(r->arena, buffer->dtype, elems > 0 ? elems : 0, &r->buffers[b]));
    }
    return NULL;
}

hn_status hn_program_run_begin(hn_arena *arena, const hn_program *p, hn_graph *graph,
                               const hn_ref_tensor *inputs, uint32_t input_count,
                               hn_program_run *out) {
    const hn_ref_tensor **list;
    *out = (hn_program_run){
        .arena = arena, .p = p, .graph = graph, .at = {.arena = arena, .sym = p->sym}};
    HN_NEW(arena, list, input_count + 1);
    for (uint32_t k = 0; k < input_count; k++) list[k] = &inputs[k];
    HN_NEW(arena, out->buffers, p->buffers.count);
    HN_TRY(hn_ref_bind_inputs(&out->at, graph, list, input_count));
    HN_TRY(fill_inputs(out, inputs));
    return allocate(out);
}

hn_ref_sizes hn_program_run_sizes(const hn_program_run *r) {
    return (hn_ref_sizes){
        .symbols = r->at.symbols.items, .values = r->at.values.items, .count = r->at.symbols.count};
}

/* --- extern operations --- */

/* The buffer as a tensor of one dimension, over the same elements. */
static hn_ref_tensor flat(const hn_ref_buffer *buffer) {
    hn_ref_tensor t = {
        .dtype = buffer->dtype, .rank = 1, .sizes = {buffer->elems}, .numel = buffer->elems};
    if (hn_dtype_is_float(buffer->dtype)) t.data.f = &buffer->items->f;
    else t.data.i = &buffer->items->i;
    return t;
}

/* Memory of the operand in its dtype's own format; a buffer that is an operand twice has one. */
static hn_status pack_operand(hn_program_run *r, const hn_extern *ext, uint32_t k, uint8_t **bytes,
                              hn_ext_call *call) {
    hn_buf b = ext->operands[k].buffer;
    if (!b) return NULL;
    const hn_ref_buffer *buffer = &r->buffers[b];
    int64_t elem_bytes = hn_dtype_facts(buffer->dtype)->size_bytes, offset = 0;
    for (uint32_t e = 0; e < k && !bytes[k]; e++)
        if (ext->operands[e].buffer == b) bytes[k] = bytes[e];
    if (!bytes[k]) {
        hn_ref_tensor whole = flat(buffer);
        HN_NEW(r->arena, bytes[k], (buffer->elems + 1) * elem_bytes);
        hn_ref_tensor_store(&whole, bytes[k]);
    }
    if (ext->operands[k].offset_elems)
        HN_TRY(hn_ref_eval(&r->at, ext->operands[k].offset_elems, &offset));
    call->dtypes[k] = (uint8_t)buffer->dtype;
    call->rooms[k] = (hn_ext_room){.before = offset * elem_bytes,
                                   .behind = (buffer->elems - offset) * elem_bytes};
    call->operands[k] = bytes[k] + offset * elem_bytes;
    return NULL;
}

static hn_status unpack_operand(hn_program_run *r, hn_buf b, const uint8_t *bytes) {
    hn_ref_buffer *buffer = &r->buffers[b];
    hn_ref_tensor read;
    HN_TRY(hn_ref_tensor_load(r->arena, buffer->dtype, 1, &buffer->elems, NULL, bytes, &read));
    for (int64_t n = 0; n < buffer->elems; n++)
        buffer->items[n] = hn_ref_get(&read, n), buffer->is_set[n] = true;
    return NULL;
}

/* Of the others, what the runtime runs is as plain as it gets. */
static bool has_reference(hn_extern_kind kind) {
    return kind == HN_EXTERN_MATMUL || kind == HN_EXTERN_CONV || kind == HN_EXTERN_ATTENTION ||
           kind == HN_EXTERN_SORT || kind == HN_EXTERN_TOPK;
}

static hn_status prepare_reference(hn_ext_call *call) {
    hn_ext_release(call);
    call->scratch_bytes = 0;
    HN_TRY(hn_ext_reference.prepare(call));
    call->impl = &hn_ext_reference;
    return NULL;
}

/* hn_ext_prepare checks the call; whatever implementation it chooses, the plain one runs. */
static hn_status run_reference(hn_program_run *r, hn_ext_call *call) {
    void *operands[HN_EXT_MAX_OPERANDS], *scratch;
    memcpy(operands, call->operands, sizeof operands);
    memset(call->operands, 0, sizeof call->operands);
    HN_TRY(hn_ext_prepare(call));
    if (has_reference(call->kind)) HN_TRY(prepare_reference(call));
    memcpy(call->operands, operands, sizeof operands);
    hn_status status = hn_arena_array(r->arena, call->scratch_bytes + 1, 1, &scratch);
    if (!status) status = hn_ext_run(call, scratch);
    hn_ext_release(call);
    return status;
}

static hn_status run_extern(hn_program_run *r, const hn_extern *ext) {
    hn_ext_call call = {
        .kind = ext->kind, .param_count = ext->param_count, .threads = 1, .knows_rooms = true};
    uint8_t *bytes[HN_EXT_MAX_OPERANDS] = {NULL};
    int64_t params[HN_COUNT_OF(ext->params)];
    HN_TRY(hn_ref_eval_sizes(&r->at, ext->param_count, ext->params, params));
    for (uint32_t k = 0; k < ext->operand_count; k++) HN_TRY(pack_operand(r, ext, k, bytes, &call));
    call.params = params;
    HN_TRY(hn_ext_shared_create(&call.shared));
    hn_status status = run_reference(r, &call);
    hn_ext_shared_destroy(call.shared);
    for (uint32_t k = 0; k < ext->operand_count && !status; k++)
        if (ext->operands[k].written) status = unpack_operand(r, ext->operands[k].buffer, bytes[k]);
    return status;
}

static hn_status run_call(hn_program_run *r, const hn_extern *ext) {
    const hn_ref_sizes sizes = hn_program_run_sizes(r);
    if (r->calls == HN_RUN_OPERATIONS || !ext->loop_count) return run_extern(r, ext);
    for (uint32_t k = 0; k < ext->loop_count; k++)
        HN_TRY(hn_status_annotate(hn_loop_run(r->p, &ext->loops[k], &sizes, r->buffers), "loop %u",
                                  k));
    return NULL;
}

/* --- items --- */

bool hn_program_run_is_active(const hn_program_run *r) {
    for (uint32_t k = 0; k < r->depth; k++)
        if (!r->holds[k]) return false;
    return true;
}

static hn_status read_condition(const hn_program_run *r, hn_buf b, int64_t *out) {
    const hn_ref_buffer *buffer = &r->buffers[b];
    if (!buffer->elems || !buffer->is_set[0])
        return HN_ERROR(HN_INTERNAL, "buffer b%u is read before it is written", b);
    *out = buffer->items[0].i;
    return NULL;
}

static hn_status open_branch(hn_program_run *r, hn_buf cond) {
    int64_t truth = 0;
    if (r->depth == HN_PROGRAM_RUN_DEPTH)
        return HN_ERROR(HN_UNSUPPORTED, "conditionals are nested more than %d deep",
                        HN_PROGRAM_RUN_DEPTH);
    if (hn_program_run_is_active(r)) HN_TRY(read_condition(r, cond, &truth));
    r->holds[r->depth++] = truth != 0;
    return NULL;
}

static hn_status define(hn_program_run *r, const hn_item_info *item) {
    int64_t value = 0;
    HN_TRY(read_condition(r, item->cond, &value));
    HN_TRY(hn_ref_bind(&r->at, item->symbol, value, "a number that the data gives"));
    for (hn_buf b = 1; b < r->p->buffers.count; b++) /* of another round of a loop */
        if (hn_sym_uses(r->p->sym, r->p->buffers.items[b].extent, item->symbol))
            r->buffers[b].items = NULL;
    return allocate(r);
}

static hn_status check_assert(const hn_program_run *r, const hn_item_info *item) {
    int64_t truth = 0;
    HN_TRY(read_condition(r, item->cond, &truth));
    return truth ? NULL : HN_ERROR(HN_INVALID_ARGUMENT, HN_STR_FMT, HN_STR_ARG(item->message));
}

static hn_status copy(hn_program_run *r, const hn_item_info *item) {
    const hn_ref_buffer *from = &r->buffers[item->cond];
    hn_ref_buffer *to = &r->buffers[item->to];
    if (to->elems != from->elems)
        return HN_ERROR(HN_INTERNAL, "a copy between buffers of other sizes");
    for (int64_t n = 0; n < to->elems; n++)
        to->items[n] = from->items[n], to->is_set[n] = from->is_set[n];
    return NULL;
}

static hn_status run_item(hn_program_run *r, const hn_item_info *item) {
    const hn_ref_sizes sizes = hn_program_run_sizes(r);
    switch (item->kind) {
    case HN_ITEM_BRANCH_THEN: return open_branch(r, item->cond);
    case HN_ITEM_BRANCH_ELSE: r->holds[r->depth - 1] = !r->holds[r->depth - 1]; return NULL;
    case HN_ITEM_BRANCH_END: r->depth--; return NULL;
    default: break;
    }
    if (!hn_program_run_is_active(r)) return NULL;
    switch (item->kind) {
    case HN_ITEM_LOOP: return hn_loop_run(r->p, item->loop, &sizes, r->buffers);
    case HN_ITEM_EXTERN: return run_call(r, item->ext);
    case HN_ITEM_ASSERT: return check_assert(r, item);
    case HN_ITEM_COPY: return copy(r, item);
    case HN_ITEM_DEFINE: return define(r, item);
    default: return HN_ERROR(HN_UNSUPPORTED, "loops are run as a whole");
    }
}

hn_status hn_program_run_item(hn_program_run *r, hn_item item) {
    return hn_status_annotate(run_item(r, &r->p->items.items[item]), "item %u", item);
}

/* --- loops --- */

static hn_item end_of_loop(const hn_program *p, hn_item i) {
    uint32_t depth = 0;
    for (;; i++) {
        depth += p->items.items[i].kind == HN_ITEM_REPEAT;
        if (p->items.items[i].kind == HN_ITEM_AGAIN && --depth == 0) return i;
    }
}

static hn_status run_range(hn_program_run *r, hn_item first, hn_item end, bool *out_goes_on);

/* What items [first, end) of a loop define is another number in each round. */
static void forget_symbols(hn_program_run *r, hn_item first, hn_item end) {
    for (hn_item i = first; i < end; i++)
        if (r->p->items.items[i].kind == HN_ITEM_DEFINE)
            hn_ref_unbind(&r->at, r->p->items.items[i].symbol);
}

/* Items up to AGAIN, until WHILE ends it or all rounds are done. */
static hn_status run_loop(hn_program_run *r, hn_item first, hn_item end) {
    const hn_expr rounds = r->p->items.items[first].rounds;
    int64_t count = 0;
    bool goes_on = true;
    if (rounds) HN_TRY(hn_ref_eval(&r->at, rounds, &count));
    for (int64_t n = 0; goes_on && (!rounds || n < count); n++) {
        forget_symbols(r, first, end);
        HN_TRY(run_range(r, first + 1, end, &goes_on));
    }
    forget_symbols(r, first, end);
    return NULL;
}

static hn_status run_range(hn_program_run *r, hn_item first, hn_item end, bool *out_goes_on) {
    for (hn_item i = first; i < end; i++) {
        const hn_item_info *item = &r->p->items.items[i];
        const bool is_active = hn_program_run_is_active(r);
        int64_t truth = 1;
        if (is_active && item->kind == HN_ITEM_WHILE) {
            HN_TRY(read_condition(r, item->cond, &truth));
            *out_goes_on = truth != 0;
            if (!truth) return NULL;
            forget_symbols(r, first, i);
        } else if (is_active && item->kind == HN_ITEM_REPEAT) {
            const hn_item last = end_of_loop(r->p, i);
            HN_TRY(run_loop(r, i, last));
            i = last;
        } else {
            HN_TRY(hn_program_run_item(r, i));
        }
    }
    return NULL;
}

/* --- outputs --- */

static hn_status read_result(hn_program_run *r, const hn_result *result, hn_ref_tensor *out) {
    const hn_ref_buffer *from = &r->buffers[result->buffer];
    int64_t sizes[HN_MAX_RANK], strides[HN_MAX_RANK], at[HN_MAX_RANK] = {0}, first;
    HN_TRY(hn_ref_eval_sizes(&r->at, result->rank, result->sizes, sizes));
    HN_TRY(hn_ref_eval_sizes(&r->at, result->rank, result->strides, strides));
    HN_TRY(hn_ref_eval(&r->at, result->offset, &first));
    HN_TRY(hn_ref_tensor_init(r->arena, from->dtype, result->rank, sizes, out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(at, sizes, result->rank)) {
        int64_t place = first + offset_of(result->rank, at, strides);
        if (place < 0 || place >= from->elems || !from->is_set[place])
            return HN_ERROR(HN_INTERNAL, "output %u: nothing has written its element %lld",
                            result->output, (long long)n);
        hn_ref_set(out, n, from->items[place]);
    }
    return NULL;
}

hn_status hn_program_run_outputs(hn_program_run *r, hn_ref_tensor *out_outputs) {
    for (uint32_t k = 0; k < r->graph->outputs.count; k++)
        out_outputs[k] = (hn_ref_tensor){.dtype = HN_DTYPE_NONE};
    for (uint32_t k = 0; k < r->p->results.count; k++)
        HN_TRY(
            read_result(r, &r->p->results.items[k], &out_outputs[r->p->results.items[k].output]));
    return NULL;
}

hn_status hn_program_run_all(hn_arena *arena, const hn_program *p, hn_graph *graph,
                             const hn_ref_tensor *inputs, uint32_t input_count, hn_run_calls calls,
                             hn_ref_tensor *out_outputs) {
    hn_program_run r;
    HN_TRY(hn_program_run_begin(arena, p, graph, inputs, input_count, &r));
    r.calls = calls;
    bool goes_on = true;
    HN_TRY(run_range(&r, 1, p->items.count, &goes_on));
    return hn_program_run_outputs(&r, out_outputs);
}

/* --- whole graphs --- */

hn_status hn_program_of_graph(hn_graph *graph, hn_arena *arena, hn_program **out) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    hn_status status = NULL;
    for (uint32_t k = 0; !status && hn_driver_pass_name(k); k++)
        status = hn_driver_pass_run(graph, hn_driver_pass_name(k), &scratch);
    if (!status) status = hn_lower(graph, NULL, arena, &scratch, out);
    if (!status) status = hn_program_verify(*out);
    hn_arena_deinit(&scratch);
    return status;
}

hn_status hn_outputs_compare(const hn_ref_tensor *actual, const hn_ref_tensor *expected,
                             const double *tolerance, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        if (actual[k].dtype == HN_DTYPE_NONE) continue;
        hn_strbuf why;
        hn_strbuf_init(&why);
        bool fits = hn_ref_compare(&actual[k], &expected[k], tolerance[k], tolerance[k], &why);
        hn_status status =
            fits ? NULL : HN_ERROR(HN_INTERNAL, "output %u differs: %s", k, why.ptr ? why.ptr : "");
        hn_strbuf_deinit(&why);
        if (status) return status;
    }
    return NULL;
}
