/* stages.c: what of a program waits for the data.
 *
 * Most programs know every size when they know their inputs. Others have symbols that steps define:
 * those are numbered, and everything that uses one belongs to the stage of the last that it uses.
 * Stage 0 is known from the inputs. The step that defines symbol k works out stage k: expressions,
 * guards, memory, outputs, steps (bound.c). */
#include "runtime/module_impl.h"

#include <stdlib.h>

typedef struct stager {
    hn_module *m;
    const hn_bundle *b;
} stager;

static hn_status no_memory(void) {
    return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to load a module");
}

static uint32_t later(uint32_t a, uint32_t b) { return a > b ? a : b; }
static uint32_t node_stage(const stager *x, uint32_t node) { return x->m->stages.nodes.of[node]; }

static uint32_t nodes_stage(const stager *x, const uint32_t *nodes, uint32_t count) {
    uint32_t stage = 0;
    for (uint32_t k = 0; k < count; k++) stage = later(stage, node_stage(x, nodes[k]));
    return stage;
}

static uint32_t stage_of_node(const stager *x, uint32_t node) {
    const hnb_node *n = &x->b->nodes[node];
    uint32_t first = x->m->stages.first_symbol;
    if (n->op == HNB_OP_SYMBOL) return n->a >= first ? n->a - first + 1 : 0;
    return n->op >= HNB_OP_ADD ? later(node_stage(x, n->a), node_stage(x, (uint32_t)n->b)) : 0;
}

static uint32_t stage_of_guard(const stager *x, uint32_t guard) {
    return later(node_stage(x, x->b->guards[guard].lhs), node_stage(x, x->b->guards[guard].rhs));
}

static uint32_t stage_of_buffer(const stager *x, uint32_t buffer) {
    const hnb_buffer *f = &x->b->buffers[buffer];
    if (f->kind == HNB_BUFFER_INPUT || f->kind == HNB_BUFFER_CONSTANT) return 0;
    return later(node_stage(x, f->bytes), node_stage(x, f->offset));
}

static uint32_t buffer_stage(const stager *x, uint32_t buffer) {
    return x->m->stages.buffers.of[buffer];
}

static uint32_t stage_of_output(const stager *x, uint32_t output) {
    const hnb_output *o = &x->b->outputs[output];
    bool own_target = o->is_mutation && o->target_input < 0;
    uint32_t stage = later(node_stage(x, o->expr),
                           later(node_stage(x, o->offset), node_stage(x, o->target_offset)));
    if (o->kind != HNB_VALUE_TENSOR) return stage;
    stage = later(stage, nodes_stage(x, x->b->dims + o->dims, o->rank * (own_target ? 3 : 2)));
    return later(stage, buffer_stage(x, o->buffer));
}

static uint32_t stage_of_launch(const stager *x, const hnb_launch *l) {
    const uint32_t stage =
        later(node_stage(x, l->extent), later(node_stage(x, l->scratch), node_stage(x, l->shared)));
    return later(stage, later(nodes_stage(x, l->grid, 3),
                              nodes_stage(x, x->b->params + l->params, l->param_count)));
}

/* Of all variants of a step, and of what chooses between them. */
static uint32_t stage_of_variants(const stager *x, uint32_t step) {
    const hnb_choice *choice = x->m->ways[step].choice;
    const uint32_t count = choice ? choice->head.variant_count : 1;
    uint32_t stage = choice ? nodes_stage(x, choice->axes, choice->head.axis_count) : 0;
    for (uint32_t v = 0; v < count; v++) {
        const hn_bundle_call call = hn_bundle_call_of(x->b, step, x->m->target, v);
        if (call.launch) stage = later(stage, stage_of_launch(x, call.launch));
    }
    return stage;
}

static uint32_t stage_of_step(const stager *x, uint32_t step) {
    const hnb_step *s = &x->b->steps[step];
    const bool has_variants = s->kind == HNB_STEP_KERNEL || x->m->ways[step].choice;
    uint32_t stage = has_variants ? stage_of_variants(x, step) : 0;
    if (s->kind == HNB_STEP_KERNEL || s->kind == HNB_STEP_ZERO)
        stage = later(stage, buffer_stage(x, s->buffer));
    if (s->kind == HNB_STEP_COPY)
        return later(stage, later(buffer_stage(x, s->buffer), buffer_stage(x, s->from)));
    if (s->kind != HNB_STEP_KERNEL)
        stage = later(stage, nodes_stage(x, x->b->params + s->params, s->param_count));
    for (uint32_t k = 0; k < s->operand_count; k++) {
        const hnb_operand *o = &x->b->operands[s->operands + k];
        stage = later(stage, later(node_stage(x, o->offset), buffer_stage(x, o->buffer)));
    }
    return stage;
}

/* Items `first`, first + 1, ... below `count`: their stages, and for each stage the list of them in
 * order. */
static hn_status fill_list(const stager *x, hn_stage_list *list, uint32_t first, uint32_t count,
                           uint32_t (*stage_of)(const stager *x, uint32_t item)) {
    uint32_t stages = x->m->stages.count + 1;
    list->of = calloc((size_t)count + 1, sizeof *list->of);
    list->first = calloc((size_t)stages + 1, sizeof *list->first);
    list->items = calloc((size_t)count + 1, sizeof *list->items);
    if (!list->of || !list->first || !list->items) return no_memory();
    for (uint32_t k = first; k < count; k++) {
        list->of[k] = stage_of(x, k);
        list->first[list->of[k] + 1]++;
    }
    for (uint32_t s = 0; s < stages; s++) list->first[s + 1] += list->first[s];
    uint32_t *next = calloc(stages, sizeof *next);
    if (!next) return no_memory();
    for (uint32_t k = first; k < count; k++)
        list->items[list->first[list->of[k]] + next[list->of[k]]++] = k;
    free(next);
    return NULL;
}

hn_status hn_stages_init(hn_module *m) {
    const hn_bundle *b = &m->view;
    hn_stages *s = &m->stages;
    stager x = {.m = m, .b = b};
    while (s->first_symbol < b->symbols_count && b->symbols[s->first_symbol].input != HNB_BY_STEP)
        s->first_symbol++;
    s->count = b->symbols_count - s->first_symbol;
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (b->buffers[k].kind == HNB_BUFFER_SLOT)
            s->slot_count = later(s->slot_count, b->buffers[k].source + 1);
    if (!s->count)
        return s->slot_count ? HN_ERROR(HN_CORRUPT, "a slot in a program whose sizes are all known")
                             : NULL;
    HN_TRY(fill_list(&x, &s->nodes, 1, b->nodes_count, stage_of_node));
    HN_TRY(fill_list(&x, &s->guards, 0, b->guards_count, stage_of_guard));
    HN_TRY(fill_list(&x, &s->buffers, 1, b->buffers_count, stage_of_buffer));
    HN_TRY(fill_list(&x, &s->outputs, 0, b->outputs_count, stage_of_output));
    HN_TRY(fill_list(&x, &s->steps, 0, b->steps_count, stage_of_step));
    for (uint32_t k = 1; k < b->buffers_count; k++)
        if (b->buffers[k].kind == HNB_BUFFER_SLOT && !s->buffers.of[k])
            return HN_ERROR(HN_CORRUPT,
                            "buffer %u has a slot, but its size does not depend on data", k);
    return NULL;
}

static void forget_stage(const hn_module *m, hn_bound *bound, uint32_t stage) {
    const hn_stage_list *nodes = &m->stages.nodes, *steps = &m->stages.steps;
    if (!bound->stage_done[stage]) return;
    bound->stage_done[stage] = 0;
    for (uint32_t k = nodes->first[stage]; k < nodes->first[stage + 1]; k++)
        bound->bad[nodes->items[k]] = 1;
    for (uint32_t k = steps->first[stage]; k < steps->first[stage + 1]; k++)
        bound->steps[steps->items[k]].kind = HNB_STEP_NONE;
}

void hn_bound_forget(const hn_module *m, hn_bound *bound) {
    for (uint32_t stage = 1; stage <= m->stages.count; stage++) forget_stage(m, bound, stage);
}

void hn_bound_forget_range(const hn_module *m, hn_bound *bound, uint32_t first, uint32_t end) {
    for (uint32_t k = first; m->stages.count && k < end; k++)
        if (m->view.steps[k].kind == HNB_STEP_DEFINE)
            forget_stage(m, bound, m->view.steps[k].symbol - m->stages.first_symbol + 1);
}

static void list_deinit(hn_stage_list *list) {
    free(list->of);
    free(list->first);
    free(list->items);
}

void hn_stages_deinit(hn_stages *s) {
    list_deinit(&s->nodes);
    list_deinit(&s->guards);
    list_deinit(&s->buffers);
    list_deinit(&s->outputs);
    list_deinit(&s->steps);
}
