/* reference.c: see the header. */
#include "interp/reference.h"

#include "ir/interp_impl.h"
#include "ops/cpu/ext.h"
#include "sched/sched.h"

#include <string.h>

/* One line being run. What it writes is written to copies, which go to the operands at the end. */
typedef struct reference {
    hn_arena *arena;
    const hn_line *line;
    const hn_reference_how *how;
    const hn_line_memory *memory; /* per operand */
    uint8_t **written;            /* per operand: its copy; NULL: it is only read */
} reference;

/* ---- operands ---- */

/* The first operand with this buffer of the loops; operand_count: there is none. */
static uint32_t operand_of(const hn_line *line, hn_buf buffer) {
    uint32_t k = 0;
    while (k < line->operand_count && line->meaning->buffers[k] != buffer) k++;
    return k;
}

static bool is_written(const hn_line *line, hn_buf buffer) {
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->meaning->buffers[k] == buffer && line->operands[k].written) return true;
    return false;
}

/* Operands that are one buffer have one copy. */
static hn_status copy_written(reference *r) {
    HN_NEW(r->arena, r->written, r->line->operand_count);
    for (uint32_t k = 0; k < r->line->operand_count; k++) {
        const hn_buf buffer = r->line->meaning->buffers[k];
        if (!buffer || !r->memory[k].bytes || !is_written(r->line, buffer)) continue;
        const uint32_t first = operand_of(r->line, buffer);
        r->written[k] = r->written[first];
        if (r->written[k]) continue;
        HN_NEW(r->arena, r->written[k], r->memory[k].len);
        memcpy(r->written[k], r->memory[k].bytes, (size_t)r->memory[k].len);
    }
    return NULL;
}

static void store_written(const reference *r) {
    for (uint32_t k = 0; k < r->line->operand_count; k++)
        if (r->written[k] && operand_of(r->line, r->line->meaning->buffers[k]) == k)
            memcpy(r->memory[k].bytes, r->written[k], (size_t)r->memory[k].len);
}

/* Where operand k is read and written. */
static uint8_t *memory_of(const reference *r, uint32_t k) {
    return r->written[k] ? r->written[k] : r->memory[k].bytes;
}

/* ---- kernels ---- */

static hn_status eval(const reference *r, hn_expr e, int64_t *out) {
    const hn_ref_sizes *sizes = &r->how->sizes;
    const hn_sym *sym = r->line->meaning->program->sym;
    return hn_sym_eval(sym, e, sizes->symbols, sizes->values, sizes->count, out)
               ? NULL
               : HN_ERROR(HN_INTERNAL, "a size of a kernel is not known");
}

static bool is_written_by_loops(const hn_kernel *kernel, hn_buf b) {
    for (uint32_t k = 0; k < kernel->loop_count; k++)
        if (kernel->loops[k].loop.store.buffer == b || kernel->loops[k].loop.indices.buffer == b)
            return true;
    return false;
}

/* Memory that is the kernel's own. What the loops load of other memory without being given it
 * decides nothing, such as the one element of which a position is asked: any numbers will do. */
static hn_status make_own(const reference *r, hn_buf b, hn_ref_buffer *out) {
    const hn_buffer *buffer = &r->line->meaning->program->buffers.items[b];
    int64_t elems = 1, size, stride;
    for (uint32_t d = 0; d < buffer->rank && elems; d++) {
        HN_TRY(eval(r, buffer->sizes[d], &size));
        HN_TRY(eval(r, buffer->strides[d], &stride));
        elems = size > 0 ? elems + (size - 1) * stride : 0;
    }
    HN_TRY(hn_ref_buffer_init(r->arena, buffer->dtype, elems, out));
    if (!is_written_by_loops(r->line->meaning->kernel, b))
        for (int64_t n = 0; n < elems; n++) out->is_set[n] = true;
    return NULL;
}

/* The memory of an operand, or the kernel's own. */
static hn_status find_buffer(const reference *r, hn_buf b, hn_ref_buffer *buffers) {
    const hn_buffer *buffer = &r->line->meaning->program->buffers.items[b];
    const uint32_t k = operand_of(r->line, b);
    if (!b || buffers[b].bytes || buffers[b].items) return NULL;
    if (k < r->line->operand_count) {
        static uint8_t none; /* of an operand without elements */
        uint8_t *bytes = memory_of(r, k);
        buffers[b] =
            (hn_ref_buffer){.dtype = buffer->dtype,
                            .elems = r->memory[k].len / hn_dtype_facts(buffer->dtype)->size_bytes,
                            .bytes = bytes ? bytes : &none};
        return NULL;
    }
    return make_own(r, b, &buffers[b]);
}

static hn_status find_buffers(const reference *r, const hn_loop *loop, hn_ref_buffer *buffers) {
    HN_TRY(find_buffer(r, loop->store.buffer, buffers));
    HN_TRY(find_buffer(r, loop->indices.buffer, buffers));
    for (hn_sid s = 1; s < loop->body.count; s++)
        if (loop->body.items[s].kind == HN_SOP_LOAD)
            HN_TRY(find_buffer(r, loop->body.items[s].buffer, buffers));
    return NULL;
}

/* Which loops something depends on: the line's operands, or such a loop behind. A kernel leaves the
 * others out, and what they read is no operand of it then. */
static hn_status find_needed(const reference *r, const hn_kernel *kernel, bool **out) {
    bool *is_read; /* per buffer of the program */
    HN_NEW(r->arena, *out, kernel->loop_count);
    HN_NEW(r->arena, is_read, r->line->meaning->program->buffers.count);
    for (uint32_t k = 0; k < r->line->operand_count; k++)
        is_read[r->line->meaning->buffers[k]] = r->line->meaning->buffers[k] != 0;
    for (uint32_t k = kernel->loop_count; k-- > 0;) {
        const hn_loop *loop = &kernel->loops[k].loop;
        (*out)[k] = is_read[loop->store.buffer] || is_read[loop->indices.buffer];
        for (hn_sid s = 1; (*out)[k] && s < loop->body.count; s++)
            if (loop->body.items[s].kind == HN_SOP_LOAD) is_read[loop->body.items[s].buffer] = true;
    }
    return NULL;
}

static hn_status run_kernel(reference *r, const hn_kernel *kernel) {
    const hn_program *program = r->line->meaning->program;
    hn_ref_buffer *buffers;
    bool *is_needed;
    HN_NEW(r->arena, buffers, program->buffers.count);
    HN_TRY(find_needed(r, kernel, &is_needed));
    for (uint32_t k = 0; k < kernel->loop_count; k++) {
        const hn_kernel_loop *part = &kernel->loops[k];
        if (!is_needed[k]) continue;
        const hn_loop_how how = {.sizes = r->how->sizes,
                                 .is_wide = r->how->is_wide,
                                 .slabs = part->is_column ? kernel->slabs : 0,
                                 .row_rank = part->row_rank,
                                 .slab_elems = kernel->slab_elems};
        HN_TRY(find_buffers(r, &part->loop, buffers));
        HN_TRY(
            hn_status_annotate(hn_loop_run_how(program, &part->loop, &how, buffers), "loop %u", k));
    }
    return NULL;
}

/* ---- calls ---- */

/* Of the others, what the runtime runs is as plain as it gets. */
static bool has_plain_loops(hn_extern_kind kind) {
    return kind == HN_EXTERN_MATMUL || kind == HN_EXTERN_CONV || kind == HN_EXTERN_ATTENTION ||
           kind == HN_EXTERN_ATTENTION_BACKWARD || kind == HN_EXTERN_SORT || kind == HN_EXTERN_TOPK;
}

static hn_status set_operand(const reference *r, uint32_t k, hn_ext_call *call) {
    const hn_buf b = r->line->meaning->buffers[k];
    int64_t offset = 0;
    if (!b) return NULL;
    const hn_dtype dtype = r->line->meaning->program->buffers.items[b].dtype;
    if (r->line->operands[k].offset_elems)
        HN_TRY(eval(r, r->line->operands[k].offset_elems, &offset));
    offset *= hn_dtype_facts(dtype)->size_bytes;
    call->dtypes[k] = (uint8_t)dtype;
    call->rooms[k] = (hn_ext_room){.before = offset, .behind = r->memory[k].len - offset};
    if (memory_of(r, k)) call->operands[k] = memory_of(r, k) + offset;
    return NULL;
}

/* hn_ext_prepare checks the call; whatever implementation it chooses, the plain one runs. */
static hn_status prepare(hn_ext_call *call) {
    void *operands[HN_EXT_MAX_OPERANDS];
    memcpy(operands, call->operands, sizeof operands);
    memset(call->operands, 0, sizeof call->operands);
    hn_status status = hn_ext_prepare(call);
    if (!status && has_plain_loops(call->kind)) {
        hn_ext_release(call);
        call->scratch_bytes = 0;
        status = hn_ext_reference.prepare(call);
        call->impl = &hn_ext_reference;
    }
    memcpy(call->operands, operands, sizeof operands);
    return status;
}

static hn_status run_prepared(const reference *r, hn_ext_call *call) {
    void *scratch = NULL;
    HN_TRY(prepare(call));
    hn_status status = hn_arena_array(r->arena, call->scratch_bytes + 1, 1, &scratch);
    if (!status) status = hn_ext_run(call, scratch);
    hn_ext_release(call);
    return status;
}

static hn_status run_call(reference *r, const hn_extern *ext) {
    hn_ext_call call = {
        .kind = ext->kind, .param_count = ext->param_count, .threads = 1, .knows_rooms = true};
    int64_t *params;
    HN_NEW(r->arena, params, ext->param_count);
    for (uint32_t k = 0; k < ext->param_count; k++) HN_TRY(eval(r, ext->params[k], &params[k]));
    call.params = params;
    for (uint32_t k = 0; k < r->line->operand_count; k++) HN_TRY(set_operand(r, k, &call));
    HN_TRY(hn_ext_shared_create(&call.shared));
    hn_status status = run_prepared(r, &call);
    hn_ext_shared_destroy(call.shared);
    return hn_ext_annotate(&call, status);
}

/* ---- calls that are several kernels ---- */

static bool is_part_of(const hn_line *line, const hn_extern *call) {
    return line->kind == HN_LINE_KERNEL && line->meaning && line->meaning->call == call;
}

/* The operand of the line that is this buffer of the program. */
static void take_operand(const hn_line *line, hn_buf buffer, hn_woperand *out) {
    const uint32_t k = operand_of(line, buffer);
    if (k < line->operand_count) out->buffer = line->operands[k].buffer;
}

hn_status hn_line_whole_call(const hn_wrapper *w, uint32_t line, hn_arena *arena, hn_line *out,
                             uint32_t *out_last) {
    const hn_line *first = &w->lines.items[line];
    const hn_extern *call = first->meaning->call;
    uint32_t seen = 0, *buffers;
    hn_woperand *operands;
    hn_wmeaning *meaning;
    HN_NEW(arena, operands, call->operand_count);
    HN_NEW(arena, buffers, call->operand_count);
    HN_NEW(arena, meaning, 1);
    for (uint32_t i = line; i < w->lines.count && seen < first->meaning->count; i++) {
        if (!is_part_of(&w->lines.items[i], call)) continue;
        for (uint32_t k = 0; k < call->operand_count; k++)
            if (call->operands[k].buffer)
                take_operand(&w->lines.items[i], call->operands[k].buffer, &operands[k]);
        seen++;
        *out_last = i;
    }
    for (uint32_t k = 0; k < call->operand_count; k++) {
        buffers[k] = call->operands[k].buffer;
        operands[k].offset_elems = call->operands[k].offset_elems;
        operands[k].written = call->operands[k].written;
        if (buffers[k] && !operands[k].buffer)
            return HN_ERROR(HN_INTERNAL, "no kernel of an operation has its operand %u", k);
        if (buffers[k]) operands[k].dtype = w->buffers.items[operands[k].buffer].dtype;
    }
    *meaning = (hn_wmeaning){
        .program = first->meaning->program, .call = call, .count = 1, .buffers = buffers};
    *out = (hn_line){.kind = HN_LINE_EXTERN,
                     .device = first->device,
                     .origin = first->origin,
                     .extern_kind = call->kind,
                     .operand_count = call->operand_count,
                     .operands = operands,
                     .meaning = meaning};
    return seen == first->meaning->count
               ? NULL
               : HN_ERROR(HN_INTERNAL, "an operation lacks some of its kernels");
}

/* ---- a line ---- */

const char *hn_line_reference_missing(const hn_line *line) {
    const hn_wmeaning *meaning = line->meaning;
    if (line->kind != HN_LINE_KERNEL && line->kind != HN_LINE_EXTERN)
        return "the line is no kernel and no call";
    if (!meaning)
        return "the line was read from a text, which does not say what its kernel computes; "
               "interpret the program of a model";
    if (meaning->kernel) return NULL;
    if (meaning->count > 1) return "the kernel is a part of an operation";
    return hn_ext_impls[meaning->call->kind] ? NULL : "the operation has no reference";
}

hn_status hn_line_reference(const hn_line *line, const hn_reference_how *how,
                            const hn_line_memory *memory) {
    const char *missing = hn_line_reference_missing(line);
    hn_arena arena;
    if (missing) return HN_ERROR(HN_UNSUPPORTED, "there is no reference: %s", missing);
    hn_arena_init(&arena);
    reference r = {.arena = &arena, .line = line, .how = how, .memory = memory};
    hn_status status = copy_written(&r);
    if (!status)
        status = line->meaning->kernel ? run_kernel(&r, line->meaning->kernel)
                                       : run_call(&r, line->meaning->call);
    if (!status) store_written(&r);
    hn_arena_deinit(&arena);
    return status;
}
