/* loop.c: building loop IR. */
#include "ir/loop.h"

#include <string.h>

hn_status hn_program_create(hn_graph *graph, hn_arena *arena, hn_program **out) {
    hn_program *p;
    HN_NEW(arena, p, 1);
    p->arena = arena;
    p->sym = graph->sym;
    p->graph = graph;
    HN_PUSH(arena, &p->buffers, (hn_buffer){0});
    HN_PUSH(arena, &p->items, (hn_item_info){0});
    *out = p;
    return NULL;
}

hn_status hn_program_add_buffer(hn_program *p, hn_buffer buffer, hn_buf *out) {
    if (buffer.device == HN_DEVICE_CPU) buffer.device = p->device;
    HN_PUSH(p->arena, &p->buffers, buffer);
    *out = p->buffers.count - 1;
    return NULL;
}

int64_t hn_program_begin_of(const hn_program *p, hn_buf b) {
    const hn_buffer *buffer = &p->buffers.items[b];
    if (buffer->kind != HN_BUFFER_INPUT || buffer->input >= p->graph->inputs.count) return 0;
    const hn_input *in = &p->graph->inputs.items[buffer->input];
    return in->kind == HN_INPUT_USER ? 0 : in->storage_offset_elems;
}

void hn_program_set_device(hn_program *p, hn_device_kind device) {
    p->device = device;
    for (hn_buf b = 1; b < p->buffers.count; b++) p->buffers.items[b].device = device;
}

static hn_status add_item(hn_program *p, hn_item_info item, hn_item *out) {
    HN_PUSH(p->arena, &p->items, item);
    *out = p->items.count - 1;
    return NULL;
}

hn_status hn_program_add_loop(hn_program *p, const hn_loop *loop, uint32_t origin, hn_item *out) {
    hn_loop *copy;
    HN_NEW(p->arena, copy, 1);
    *copy = *loop;
    return add_item(p, (hn_item_info){.kind = HN_ITEM_LOOP, .origin = origin, .loop = copy}, out);
}

hn_status hn_program_add_extern(hn_program *p, const hn_extern *ext, uint32_t origin,
                                hn_item *out) {
    hn_extern *copy;
    HN_NEW(p->arena, copy, 1);
    *copy = *ext;
    return add_item(p, (hn_item_info){.kind = HN_ITEM_EXTERN, .origin = origin, .ext = copy}, out);
}

hn_status hn_program_add_item(hn_program *p, hn_item_info item) {
    hn_item ignored;
    return add_item(p, item, &ignored);
}

hn_status hn_origins_add(hn_arena *arena, hn_origins *list, uint32_t origin) {
    uint32_t at = list->count;
    while (at && list->items[at - 1] > origin) at--;
    if (!origin || (at && list->items[at - 1] == origin)) return NULL;
    HN_PUSH(arena, list, origin);
    for (uint32_t k = list->count - 1; k > at; k--) list->items[k] = list->items[k - 1];
    list->items[at] = origin;
    return NULL;
}

static bool sop_equal(const hn_sop *a, const hn_sop *b) {
    return a->kind == b->kind && a->op == b->op && a->dtype == b->dtype && a->buffer == b->buffer &&
           a->index == b->index && memcmp(a->args, b->args, sizeof a->args) == 0 &&
           memcmp(&a->imm, &b->imm, sizeof a->imm) == 0;
}

hn_sid hn_body_add(hn_arena *arena, hn_body *body, const hn_sop *sop) {
    for (hn_sid s = body->count; s-- > 1;)
        if (sop_equal(&body->items[s], sop)) return s;
    uint32_t need = body->count ? body->count + 1 : 2;
    if (need > body->cap) {
        hn_status status =
            hn_arena_grow(arena, &body->items, &body->cap, body->count, need, sizeof(hn_sop));
        if (status) {
            hn_status_free(status);
            return 0;
        }
    }
    if (body->count == 0) body->items[body->count++] = (hn_sop){0};
    body->items[body->count] = *sop;
    return body->count++;
}

/* ---- operations ---- */

/* The gradients of attention of f64 are products, which are faster than the plain loops that
 * src/ops has for that dtype (opt/decompose/attention_training.c). */
#define DTYPES(kind)                                                                               \
    ((kind) == HN_EXTERN_ATTENTION_BACKWARD                                                        \
         ? 1u << HN_DTYPE_F32 | 1u << HN_DTYPE_F16 | 1u << HN_DTYPE_BF16                           \
         : UINT32_MAX)
#define EVERYTHING(kind)                                                                           \
    {                                                                                              \
        .dtypes = DTYPES(kind), .epilogues = UINT32_MAX,                                           \
        .does = HN_DOES_RESIDUAL | HN_DOES_CHANNELS | HN_DOES_SCALE | HN_DOES_STRIDES              \
    }
#define ROW(kind, name, operands, needed, written, params) [kind] = EVERYTHING(kind),
const hn_operations hn_operations_all = {.of = {HN_EXTERN_KINDS(ROW)}};

const hn_operation *hn_operation_of(const hn_operations *operations, const hn_program *program,
                                    const hn_extern *call) {
    uint32_t read = 0;
    if (!operations) return NULL;
    while (call->operands[read].written) read++;
    const hn_operation *o = &operations->of[call->kind];
    if (!(o->dtypes >> program->buffers.items[call->operands[read].buffer].dtype & 1)) return NULL;
    return !o->takes || o->takes(program->sym, call) ? o : NULL;
}
