/* from_schedule.c: see from_schedule.h. Inputs come first, then a line for each step of the
 * schedule, then outputs; a buffer is added when it is first mentioned. */
#include "wrapper/from_schedule.h"

#include "base/map.h"
#include "wrapper/variants.h"
#include "wrapper/workspaces.h"

#include <string.h>

typedef struct emitter {
    const hn_wrapper_source *source;
    const hn_program *program;
    const hn_graph *graph;
    hn_sym *sym;
    hn_arena *scratch;
    hn_wrapper *w;
    hn_wbuf *buffers;     /* per loop IR buffer */
    uint32_t *user_input; /* per graph input: its number among the wrapper's inputs */
    hn_strmap kernels;    /* digests for all targets -> kernel of the wrapper */
    struct {
        uint32_t *items;
        uint32_t count, cap;
    } branches; /* open conditionals: their lines */
} emitter;

static const hn_value_info *value_of(emitter *e, hn_value v) { return hn_graph_value(e->graph, v); }

static hn_status contiguous(emitter *e, const hn_value_info *vi, const hn_expr **out) {
    hn_expr *strides;
    HN_NEW(e->w->arena, strides, vi->rank);
    hn_contiguous_strides(e->sym, vi->sizes, vi->rank, strides);
    *out = strides;
    return NULL;
}

static hn_status add_user_input(emitter *e, uint32_t index) {
    const hn_input *in = &e->graph->inputs.items[index];
    hn_winput input = {.name = in->name};
    e->user_input[index] = e->w->inputs.count;
    if (in->kind == HN_INPUT_SCALAR) {
        input.is_scalar = true;
        input.scalar = in->scalar;
    } else if (value_of(e, in->value)->kind == HN_VALUE_SYM_INT) {
        input.is_scalar = true;
        input.scalar = hn_arg_expr(value_of(e, in->value)->expr);
    } else {
        const hn_value_info *vi = value_of(e, in->value);
        input.dtype = vi->dtype;
        input.rank = vi->rank;
        input.sizes = vi->sizes;
        input.strides = vi->strides;
        if (!vi->strides) HN_TRY(contiguous(e, vi, &input.strides));
        hn_wbuffer buffer = {.kind = HN_WBUF_INPUT,
                             .dtype = vi->dtype,
                             .device = e->program->device,
                             .rank = input.rank,
                             .sizes = input.sizes,
                             .strides = input.strides,
                             .source = e->w->inputs.count,
                             .name = in->name};
        HN_TRY(hn_wrapper_add_buffer(e->w, buffer, &input.buffer));
    }
    HN_PUSH(e->w->arena, &e->w->inputs, input);
    return NULL;
}

/* The node of the model whose value a buffer holds, by the name that the model has for it. */
static hn_str node_of(const emitter *e, const hn_buffer *b) {
    const hn_value_info *vi = b->value ? hn_graph_value(e->graph, b->value) : NULL;
    if (!vi) return e->graph->origins.items[b->origin].node;
    if (!vi->producer || vi->name.len) return vi->producer ? vi->name : HN_STR("");
    return e->graph->origins.items[hn_graph_node(e->graph, vi->producer)->origin].node;
}

static hn_status buffer_of(emitter *e, hn_buf b, hn_wbuf *out) {
    *out = b ? e->buffers[b] : 0;
    if (!b || *out) return NULL;
    const hn_buffer *buffer = &e->program->buffers.items[b];
    const hn_dtype_info *facts = hn_dtype_facts(buffer->dtype);
    hn_wbuffer made = {.dtype = buffer->dtype,
                       .device = buffer->device,
                       .rank = buffer->rank,
                       .sizes = buffer->sizes,
                       .strides = buffer->strides};
    if (buffer->kind == HN_BUFFER_INPUT) {
        const hn_input *in = &e->graph->inputs.items[buffer->input];
        if (in->kind == HN_INPUT_USER) {
            *out = e->buffers[b] = e->w->inputs.items[e->user_input[buffer->input]].buffer;
            return NULL;
        }
        made.kind = HN_WBUF_CONSTANT;
        made.source = in->storage;
        made.byte_offset = (uint64_t)in->storage_offset_elems * facts->size_bytes;
        made.name = in->name;
    } else {
        made.kind = buffer->kind == HN_BUFFER_OUTPUT ? HN_WBUF_OUTPUT : HN_WBUF_TEMP;
        made.bytes = hn_sym_mul(e->sym, buffer->extent, hn_sym_int(e->sym, facts->size_bytes));
        made.node = node_of(e, buffer);
    }
    HN_TRY(hn_wrapper_add_buffer(e->w, made, out));
    e->buffers[b] = *out;
    return NULL;
}

/* One of the kernels of a step: an operation may have several, one behind the other; a kernel of
 * the schedule may have variants. */
typedef struct place {
    uint32_t step, number, variant;
} place;

static const hn_kernel_code *kernel_code(const emitter *e, uint32_t target, place at) {
    const hn_kernel_code *kernel = &e->source->targets[target].kernels[at.step];
    for (uint32_t k = 0; k < at.number && kernel; k++) kernel = kernel->next;
    /* a target with fewer variants runs its first in place of those that it does not have */
    return at.variant && at.variant <= kernel->variant_count ? &kernel->variants[at.variant - 1]
                                                             : kernel;
}

static hn_str form_of(const hn_kernel_code *kernel) {
    if (kernel->form) return hn_str_of(kernel->form);
    return hn_str_of(kernel->record.shape ? kernel->record.shape : "");
}

static hn_wkernel_info function_of(const emitter *e, uint32_t target, place at) {
    const hn_kernel_code *kernel = kernel_code(e, target, at);
    return (hn_wkernel_info){.name = hn_str_of(kernel->name), .object = kernel->object};
}

static hn_status make_kernel(emitter *e, place at, hn_wkernel *out) {
    hn_wkernel_info info = function_of(e, 0, at), *others;
    HN_NEW(e->w->arena, others, e->source->target_count);
    for (uint32_t t = 1; t < e->source->target_count; t++) others[t - 1] = function_of(e, t, at);
    if (e->source->target_count > 1) info.others = others;
    return hn_wrapper_add_kernel(e->w, info, out);
}

/* The kernel of a step: those are one whose texts are equal for every target. */
static hn_status kernel_of(emitter *e, place at, hn_wkernel *out) {
    hn_digest *digests;
    HN_NEW(e->scratch, digests, e->source->target_count);
    for (uint32_t t = 0; t < e->source->target_count; t++)
        digests[t] = kernel_code(e, t, at)->digest;
    const hn_str key = {(const char *)digests, e->source->target_count * sizeof *digests};
    const uint64_t *known = hn_strmap_get(&e->kernels, key);
    if (known) {
        *out = (hn_wkernel)*known;
        return NULL;
    }
    HN_TRY(make_kernel(e, at, out));
    return hn_strmap_put(&e->kernels, key, *out);
}

/* How another target's kernel wants the operands of `first`. */
static hn_status order_of(const hn_kernel_code *first, const hn_kernel_code *own, uint32_t *order) {
    if (own->buffer_count != first->buffer_count)
        return HN_ERROR(HN_INTERNAL, "a kernel has other arguments for another target");
    for (uint32_t k = 0; k < own->buffer_count; k++) {
        uint32_t at = 0;
        while (at < first->buffer_count &&
               (first->buffers[at] != own->buffers[k] || first->offsets[at] != own->offsets[k]))
            at++;
        if (at == first->buffer_count || first->written[at] != own->written[k])
            return HN_ERROR(HN_INTERNAL, "a kernel has other arguments for another target");
        order[k] = at;
    }
    return NULL;
}

/* The first argument of the segment that argument b is of. */
static uint32_t segment_begin(const hn_kernel_code *kernel, uint32_t b) {
    return kernel->segment_arguments ? b / kernel->segment_arguments * kernel->segment_arguments
                                     : 0;
}

/* May argument b of the first target's kernel lie where `in`, of the same segment, lies, as this
 * kernel goes about it? No, if that has `in` in another segment, or too far behind to say. */
static bool is_over(const hn_kernel_code *own, const uint32_t *order, uint32_t b, uint32_t in) {
    uint32_t own_b = UINT32_MAX, own_in = UINT32_MAX;
    for (uint32_t k = 0; k < own->buffer_count; k++) {
        if (order[k] == b) own_b = k;
        if (order[k] == in) own_in = k;
    }
    if (own_b == UINT32_MAX || own_in == UINT32_MAX) return false;
    const uint32_t first = segment_begin(own, own_b);
    return own_in >= first && own_in - first < 64 && own->over[own_b] >> (own_in - first) & 1;
}

/* `over` keeps what this target's kernel allows, too. */
static void restrict_over(const hn_kernel_code *own, const uint32_t *order, hn_woperand *operands) {
    for (uint32_t b = 0; b < own->buffer_count; b++)
        for (uint32_t k = 0; k < 64 && operands[b].over; k++)
            if (operands[b].over >> k & 1 && !is_over(own, order, b, operands[b].over_first + k))
                operands[b].over &= ~(UINT64_C(1) << k);
}

static hn_status add_launches(emitter *e, place at, hn_woperand *operands, hn_line *line) {
    hn_wlaunch *launches;
    HN_NEW(e->w->arena, launches, e->source->target_count);
    for (uint32_t t = 1; t < e->source->target_count; t++) {
        const hn_kernel_code *own = kernel_code(e, t, at);
        uint32_t *order;
        HN_NEW(e->w->arena, order, own->buffer_count);
        HN_TRY(order_of(kernel_code(e, 0, at), own, order));
        restrict_over(own, order, operands);
        launches[t - 1] = (hn_wlaunch){.arg_count = own->buffer_count,
                                       .order = order,
                                       .form = form_of(own),
                                       .param_count = own->size_count,
                                       .params = own->sizes,
                                       .extent = own->extent,
                                       .grain = own->grain,
                                       .threads = own->threads,
                                       .shared_bytes = own->shared_bytes,
                                       .scratch_bytes = own->scratch_bytes};
    }
    if (e->source->target_count > 1) line->others = launches;
    return NULL;
}

/* The argument that has the indices of a check: what is loaded, perhaps in another type. */
static uint32_t operand_of_index(const hn_kernel_code *kernel, const hn_body *body, hn_sid s) {
    const hn_sop *op = &body->items[body->items[s].args[0]];
    while (op->kind == HN_SOP_CAST) op = &body->items[op->args[0]];
    for (uint32_t k = 0; op->kind == HN_SOP_LOAD && k < kernel->buffer_count; k++)
        if (kernel->buffers[k] == op->buffer) return k;
    return UINT32_MAX;
}

static uint32_t origin_of_index(const emitter *e, hn_expr symbol) {
    const hn_program *p = e->program;
    for (uint32_t k = 0; k < p->index_origins.count; k++)
        if (p->index_origins.items[k].symbol == symbol) return p->index_origins.items[k].origin;
    return 0;
}

static hn_status add_checks(emitter *e, const hn_kernel *k, const hn_kernel_code *kernel,
                            hn_line *line) {
    struct {
        hn_wcheck *items;
        uint32_t count, cap;
    } checks = {0};
    for (uint32_t i = 0; i < k->phases.count; i++) {
        const hn_body *body = &k->phases.items[i].body;
        for (hn_sid s = 1; s < body->count; s++) {
            const hn_sop *op = &body->items[s];
            if (op->kind != HN_SOP_INDIRECT) continue;
            hn_wcheck check = {operand_of_index(kernel, body, s),
                               hn_sym_symbol_extent(e->sym, op->index), op->imm.i & 1,
                               origin_of_index(e, op->index)};
            HN_PUSH(e->w->arena, &checks, check);
        }
    }
    line->checks = checks.items;
    line->check_count = checks.count;
    return NULL;
}

static hn_status add_meaning(emitter *e, hn_wmeaning meaning, const hn_buf *buffers,
                             hn_line *line) {
    hn_wmeaning *kept;
    uint32_t *list;
    HN_NEW(e->w->arena, kept, 1);
    HN_NEW(e->w->arena, list, line->operand_count);
    for (uint32_t k = 0; k < line->operand_count; k++) list[k] = buffers[k];
    meaning.program = e->program;
    meaning.buffers = list;
    *kept = meaning;
    line->meaning = kept;
    return NULL;
}

/* What the line is made of. Of the kernels of an operation the first one has its numbers. */
static hn_status add_record(emitter *e, place at, hn_line *line) {
    static const hn_work_record none = {.category = HN_CATEGORY_CALL};
    const hn_work_record *work = e->source->work ? &e->source->work[at.step] : NULL;
    const hn_form_record **forms;
    hn_wrecord *record;
    if (!work) return NULL;
    HN_NEW(e->w->arena, record, 1);
    *record = (hn_wrecord){.work = at.number ? &none : work, .part = at.number};
    line->record = record;
    if (e->source->schedule->steps.items[at.step].kind != HN_STEP_KERNEL) return NULL;
    HN_NEW(e->w->arena, forms, e->source->target_count);
    for (uint32_t t = 0; t < e->source->target_count; t++)
        forms[t] = &kernel_code(e, t, at)->record;
    record->forms = forms;
    return NULL;
}

/* A call of a kernel, which has no memory for scratch yet. `workspace` is its argument that is no
 * buffer of the program; 0: none. */
static hn_status describe_call(emitter *e, place at, hn_wbuf workspace, hn_line *out) {
    const hn_kernel_code *kernel = kernel_code(e, 0, at);
    hn_woperand *operands;
    HN_NEW(e->scratch, operands, kernel->buffer_count);
    for (uint32_t b = 0; b < kernel->buffer_count; b++) {
        const hn_buf buffer = kernel->buffers[b];
        operands[b].buffer = workspace;
        if (buffer) HN_TRY(buffer_of(e, buffer, &operands[b].buffer));
        operands[b].dtype = buffer ? e->program->buffers.items[buffer].dtype : HN_DTYPE_U8;
        operands[b].offset_elems = kernel->offsets[b];
        operands[b].written = kernel->written[b];
        operands[b].over = kernel->over[b];
        operands[b].over_first = segment_begin(kernel, b);
    }
    *out = (hn_line){.kind = HN_LINE_KERNEL,
                     .device = e->program->device,
                     .operands = operands,
                     .operand_count = kernel->buffer_count,
                     .form = form_of(kernel),
                     .params = kernel->sizes,
                     .param_count = kernel->size_count,
                     .extent = kernel->extent,
                     .grain = kernel->grain,
                     .threads = kernel->threads,
                     .shared_bytes = kernel->shared_bytes,
                     .scratch_bytes = kernel->scratch_bytes};
    HN_TRY(add_launches(e, at, operands, out));
    HN_TRY(add_record(e, at, out));
    return kernel_of(e, at, &out->kernel);
}

static hn_status add_scratch(emitter *e, hn_line *line) {
    return hn_wrapper_add_workspace(e->w, line->device, hn_workspace_of_groups(e->w, line),
                                    &line->workspace);
}

/* Of each target; one that has no variants runs its only kernel at all sizes. */
static hn_status add_choices(emitter *e, uint32_t step, hn_line *line) {
    hn_sym_choice *choices;
    HN_NEW(e->scratch, choices, e->source->target_count);
    for (uint32_t t = 0; t < e->source->target_count; t++) {
        const hn_kernel_code *kernel = &e->source->targets[t].kernels[step];
        if (kernel->variant_count) choices[t] = *kernel->choice;
        choices[t].head.variant_count = hn_line_variants(line);
    }
    return hn_line_set_choices(e->w, line, choices);
}

/* The other ways to do what `line` does. */
static hn_status add_variants(emitter *e, uint32_t step, hn_line *line) {
    place at = {.step = step};
    uint32_t count = 0;
    for (uint32_t t = 0; t < e->source->target_count; t++) {
        const uint32_t own = e->source->targets[t].kernels[step].variant_count;
        if (own > count) count = own;
    }
    for (at.variant = 1; at.variant <= count; at.variant++) {
        hn_line variant;
        HN_TRY(describe_call(e, at, 0, &variant));
        HN_TRY(hn_line_add_variant(e->w, line, &variant));
    }
    return count ? add_choices(e, step, line) : NULL;
}

/* For each operand of a call of a kernel of the schedule its buffer in loop IR: of those behind the
 * first variant's own one that has the memory. */
static hn_status list_buffers(emitter *e, uint32_t step, const hn_line *line, const hn_buf **out) {
    const hn_kernel_code *kernel = kernel_code(e, 0, (place){.step = step});
    hn_buf *list;
    *out = kernel->buffers;
    if (line->operand_count == kernel->buffer_count) return NULL;
    HN_NEW(e->scratch, list, line->operand_count);
    memcpy(list, kernel->buffers, kernel->buffer_count * sizeof *list);
    for (uint32_t k = kernel->buffer_count; k < line->operand_count; k++)
        while (e->buffers[list[k]] != line->operands[k].buffer) list[k]++;
    *out = list;
    return NULL;
}

/* The list of a line that does `origin` and `others`; none where it does `origin` alone. */
static void set_origins(hn_line *line, uint32_t origin, const hn_origins *others) {
    line->origin = origin;
    if (others->count == (origin != 0) && (!others->count || others->items[0] == origin)) return;
    line->origin_count = others->count;
    line->origins = others->items;
}

/* Says in front of a line what is fused in it. */
static hn_status add_comment(emitter *e, const hn_line *line) {
    if (line->origin_count < 2) return NULL;
    return hn_wrapper_add_line(e->w, (hn_line){.kind = HN_LINE_COMMENT,
                                               .origins = line->origins,
                                               .origin_count = line->origin_count});
}

static hn_status add_kernel_call(emitter *e, uint32_t step) {
    const hn_kernel *k = e->source->schedule->steps.items[step].kernel;
    const place at = {.step = step};
    const hn_buf *buffers;
    hn_line line;
    HN_TRY(describe_call(e, at, 0, &line));
    HN_TRY(add_variants(e, step, &line));
    HN_TRY(add_scratch(e, &line));
    HN_TRY(add_checks(e, k, kernel_code(e, 0, at), &line));
    HN_TRY(list_buffers(e, step, &line, &buffers));
    HN_TRY(add_meaning(e, (hn_wmeaning){.kernel = k}, buffers, &line));
    set_origins(&line, k->origin, &k->origins);
    HN_TRY(add_comment(e, &line));
    return hn_wrapper_add_line(e->w, line);
}

/* An operation that is several kernels: calls, one behind the other. */
static hn_status add_kernel_calls(emitter *e, uint32_t step, const hn_item_info *item,
                                  const hn_origins *origins) {
    hn_wmeaning meaning = {.call = item->ext};
    hn_workspace wanted = {0};
    hn_wbuf workspace;
    for (uint32_t t = 0; t < e->source->target_count; t++)
        wanted = hn_workspace_merge(
            e->sym, wanted,
            (hn_workspace){.bytes = kernel_code(e, t, (place){.step = step})->workspace_bytes});
    HN_TRY(hn_wrapper_add_workspace(e->w, e->program->device, wanted, &workspace));
    while (kernel_code(e, 0, (place){.step = step, .number = meaning.count})) meaning.count++;
    for (place at = {.step = step}; at.number < meaning.count; at.number++) {
        hn_line line;
        HN_TRY(describe_call(e, at, workspace, &line));
        HN_TRY(add_scratch(e, &line));
        meaning.number = at.number;
        HN_TRY(add_meaning(e, meaning, kernel_code(e, 0, at)->buffers, &line));
        set_origins(&line, item->origin, origins);
        if (!at.number) HN_TRY(add_comment(e, &line));
        HN_TRY(hn_wrapper_add_line(e->w, line));
    }
    return NULL;
}

/* The kernel of an operation, whose arguments are those of the call on every target. */
static hn_status add_operation_kernel(emitter *e, uint32_t step, hn_line *line) {
    const place at = {.step = step};
    const hn_kernel_code *kernel = kernel_code(e, 0, at);
    hn_wlaunch *launches;
    if (!kernel->text.ptr) return NULL;
    line->extent = kernel->extent;
    line->threads = kernel->threads;
    line->shared_bytes = kernel->shared_bytes;
    HN_NEW(e->w->arena, launches, e->source->target_count);
    for (uint32_t t = 1; t < e->source->target_count; t++) {
        const hn_kernel_code *own = kernel_code(e, t, at);
        uint32_t *order;
        HN_NEW(e->w->arena, order, line->operand_count);
        for (uint32_t k = 0; k < line->operand_count; k++) order[k] = k;
        launches[t - 1] = (hn_wlaunch){.arg_count = line->operand_count,
                                       .order = order,
                                       .param_count = own->size_count,
                                       .params = own->sizes,
                                       .extent = own->extent,
                                       .threads = own->threads,
                                       .shared_bytes = own->shared_bytes};
    }
    if (e->source->target_count > 1) line->others = launches;
    return kernel_of(e, at, &line->kernel);
}

/* The forms of all targets, each once; of a target which of them its own are. */
typedef struct form_list {
    hn_str items[HN_CHOICE_VARIANTS];
    uint32_t count;
} form_list;

static hn_status add_form(form_list *list, const hn_kernel_code *own, uint32_t *out) {
    const hn_str form = hn_str_of(own->form ? own->form : "own");
    for (*out = 0; *out < list->count; ++*out)
        if (hn_str_eq(list->items[*out], form)) return NULL;
    if (list->count == HN_CHOICE_VARIANTS)
        return HN_ERROR(HN_INTERNAL, "a call with more than %d forms", HN_CHOICE_VARIANTS);
    list->items[list->count++] = form;
    return NULL;
}

/* The table of a target by the numbers of the list. */
static hn_status renumber_choice(emitter *e, const hn_kernel_code *own, form_list *list,
                                 hn_sym_choice *out) {
    uint32_t numbers[HN_CHOICE_VARIANTS];
    hn_choice_box *boxes;
    HN_TRY(add_form(list, own, &numbers[0]));
    for (uint32_t v = 0; v < own->variant_count; v++)
        HN_TRY(add_form(list, &own->variants[v], &numbers[v + 1]));
    if (own->choice) *out = *own->choice;
    HN_NEW(e->scratch, boxes, (size_t)out->head.box_count + 1);
    for (uint32_t k = 0; k < out->head.box_count; k++) {
        boxes[k] = out->boxes[k];
        boxes[k].variant = numbers[boxes[k].variant];
    }
    out->boxes = boxes;
    out->head.fallback = numbers[out->head.fallback];
    return NULL;
}

/* Which form the operation is asked for, where the driver says so. */
static hn_status add_forms(emitter *e, uint32_t step, hn_line *line) {
    const uint32_t targets = e->source->target_count;
    form_list list = {.count = 0};
    hn_sym_choice *choices;
    bool is_asked = false;
    for (uint32_t t = 0; t < targets; t++)
        is_asked |= e->source->targets[t].kernels[step].form != NULL;
    if (!is_asked) return NULL;
    HN_NEW(e->scratch, choices, targets);
    for (uint32_t t = 0; t < targets; t++)
        HN_TRY(renumber_choice(e, &e->source->targets[t].kernels[step], &list, &choices[t]));
    for (uint32_t t = 0; t < targets; t++) choices[t].head.variant_count = list.count;
    return hn_line_set_forms(e->w, line, list.items, list.count, choices);
}

static hn_status add_extern_call(emitter *e, uint32_t step, const hn_item_info *item) {
    const hn_extern *ext = item->ext;
    hn_woperand operands[HN_EXTERN_OPERANDS_MAX] = {{0}};
    hn_buf buffers[HN_EXTERN_OPERANDS_MAX] = {0};
    hn_origins origins = {0};
    for (uint32_t k = 0; k < ext->origins.count; k++)
        HN_TRY(hn_origins_add(e->scratch, &origins, ext->origins.items[k]));
    HN_TRY(hn_origins_add(e->scratch, &origins, item->origin));
    if (kernel_code(e, 0, (place){.step = step})->next)
        return add_kernel_calls(e, step, item, &origins);
    for (uint32_t k = 0; k < ext->operand_count; k++) {
        hn_buf b = ext->operands[k].buffer;
        HN_TRY(buffer_of(e, b, &operands[k].buffer));
        buffers[k] = b;
        operands[k].dtype = b ? e->program->buffers.items[b].dtype : HN_DTYPE_NONE;
        operands[k].offset_elems = ext->operands[k].offset_elems;
        operands[k].written = ext->operands[k].written;
    }
    const bool is_own = hn_operation_of(e->source->operations, e->program, ext) != NULL;
    hn_line line = {.kind = HN_LINE_EXTERN,
                    .device = is_own ? e->program->device : HN_DEVICE_CPU,
                    .extern_kind = ext->kind,
                    .operands = operands,
                    .operand_count = ext->operand_count,
                    .params = ext->params,
                    .param_count = ext->param_count};
    HN_TRY(add_meaning(e, (hn_wmeaning){.call = ext, .count = 1}, buffers, &line));
    set_origins(&line, item->origin, &origins);
    HN_TRY(add_comment(e, &line));
    HN_TRY(add_operation_kernel(e, step, &line));
    HN_TRY(add_forms(e, step, &line));
    HN_TRY(add_record(e, (place){.step = step}, &line));
    return hn_wrapper_add_line(e->w, line);
}

static hn_status add_assert(emitter *e, const hn_item_info *item) {
    hn_woperand operand = {.dtype = HN_DTYPE_BOOL};
    HN_TRY(buffer_of(e, item->cond, &operand.buffer));
    hn_line line = {.kind = HN_LINE_ASSERT,
                    .origin = item->origin,
                    .operands = &operand,
                    .operand_count = 1,
                    .text = item->message};
    return hn_wrapper_add_line(e->w, line);
}

static hn_status add_definition(emitter *e, const hn_item_info *item) {
    hn_woperand operand = {.dtype = e->program->buffers.items[item->cond].dtype};
    HN_TRY(buffer_of(e, item->cond, &operand.buffer));
    hn_line line = {.kind = HN_LINE_DEFINE,
                    .origin = item->origin,
                    .operands = &operand,
                    .operand_count = 1,
                    .symbol = item->symbol};
    return hn_wrapper_add_line(e->w, line);
}

/* The lines between this bracket of a conditional and the next one of the same level are counted
 * when they are there. */
static hn_status open_branch(emitter *e, const hn_item_info *item) {
    hn_woperand operand = {.dtype = HN_DTYPE_BOOL};
    HN_TRY(buffer_of(e, item->cond, &operand.buffer));
    HN_PUSH(e->scratch, &e->branches, e->w->lines.count);
    return hn_wrapper_add_line(e->w, (hn_line){.kind = HN_LINE_COND,
                                               .origin = item->origin,
                                               .operands = &operand,
                                               .operand_count = 1});
}

static hn_status open_loop(emitter *e, const hn_item_info *item) {
    HN_PUSH(e->scratch, &e->branches, e->w->lines.count);
    return hn_wrapper_add_line(
        e->w, (hn_line){.kind = HN_LINE_LOOP, .origin = item->origin, .rounds = item->rounds});
}

/* The lines so far were the loop's test. */
static hn_status end_test(emitter *e, const hn_item_info *item) {
    const uint32_t at = e->branches.items[e->branches.count - 1];
    hn_woperand *operand;
    HN_NEW(e->w->arena, operand, 1);
    operand->dtype = HN_DTYPE_BOOL;
    HN_TRY(buffer_of(e, item->cond, &operand->buffer));
    hn_line *line = &e->w->lines.items[at];
    line->operands = operand;
    line->operand_count = 1;
    line->then_count = e->w->lines.count - at - 1;
    return NULL;
}

static hn_status add_copy(emitter *e, const hn_item_info *item) {
    hn_line line = {.kind = HN_LINE_COPY, .origin = item->origin};
    HN_TRY(buffer_of(e, item->to, &line.buffer));
    HN_TRY(buffer_of(e, item->cond, &line.from));
    return hn_wrapper_add_line(e->w, line);
}

static hn_status add_other(emitter *e, const hn_item_info *item) {
    if (item->kind == HN_ITEM_ASSERT) return add_assert(e, item);
    if (item->kind == HN_ITEM_DEFINE) return add_definition(e, item);
    if (item->kind == HN_ITEM_BRANCH_THEN) return open_branch(e, item);
    if (item->kind == HN_ITEM_REPEAT) return open_loop(e, item);
    if (item->kind == HN_ITEM_WHILE) return end_test(e, item);
    if (item->kind == HN_ITEM_COPY) return add_copy(e, item);
    uint32_t at = e->branches.items[e->branches.count - 1];
    hn_line *line = &e->w->lines.items[at];
    if (item->kind == HN_ITEM_BRANCH_ELSE) {
        line->then_count = e->w->lines.count - at - 1;
        return NULL;
    }
    line->otherwise_count = e->w->lines.count - at - 1 - line->then_count;
    e->branches.count--;
    return NULL;
}

static hn_status add_step(emitter *e, uint32_t k) {
    const hn_step *step = &e->source->schedule->steps.items[k];
    if (step->kind == HN_STEP_KERNEL) return add_kernel_call(e, k);
    const hn_item_info *item = &e->program->items.items[step->item];
    return step->kind == HN_STEP_EXTERN ? add_extern_call(e, k, item) : add_other(e, item);
}

static const hn_result *result_of(emitter *e, uint32_t output) {
    for (uint32_t k = 0; k < e->program->results.count; k++)
        if (e->program->results.items[k].output == output) return &e->program->results.items[k];
    return NULL;
}

static bool same_shape(const hn_wbuffer *b, const hn_result *result) {
    const size_t bytes = result->rank * sizeof(hn_expr);
    return b->rank == result->rank && (!bytes || (memcmp(b->sizes, result->sizes, bytes) == 0 &&
                                                  memcmp(b->strides, result->strides, bytes) == 0));
}

/* A result that is not the whole tensor of a buffer is a view of it. */
static hn_status add_view(emitter *e, const hn_result *result, hn_woutput *out) {
    const hn_wbuffer *b = &e->w->buffers.items[out->buffer];
    const bool has_offset = result->offset && !hn_sym_is_value(e->sym, result->offset, 0);
    hn_line line = {.kind = HN_LINE_VIEW, .from = out->buffer};
    if (!has_offset && b->dtype == out->dtype && same_shape(b, result)) return NULL;
    hn_wbuffer view = {.kind = HN_WBUF_VIEW,
                       .dtype = out->dtype,
                       .device = b->device,
                       .rank = out->rank,
                       .sizes = out->sizes,
                       .strides = out->strides,
                       .root = out->buffer,
                       .offset_elems = has_offset ? result->offset : 0,
                       .name = out->name};
    HN_TRY(hn_wrapper_add_buffer(e->w, view, &out->buffer));
    line.buffer = out->buffer;
    return hn_wrapper_add_line(e->w, line);
}

static hn_status add_output(emitter *e, uint32_t index) {
    const hn_output *out = &e->graph->outputs.items[index];
    const hn_result *result = result_of(e, index);
    hn_woutput made = {.name = out->name, .target_input = -1};
    if (!result) {
        if (out->value && !value_of(e, out->value)->expr)
            return HN_ERROR(HN_UNSUPPORTED,
                            "output %u is a number that nothing in the program computes", index);
        made.kind = HN_WOUTPUT_SCALAR;
        made.scalar = out->scalar;
        if (out->value) made.scalar = hn_arg_expr(value_of(e, out->value)->expr);
        HN_PUSH(e->w->arena, &e->w->outputs, made);
        return NULL;
    }
    made.kind = out->kind == HN_OUTPUT_MUTATION ? HN_WOUTPUT_MUTATION : HN_WOUTPUT_TENSOR;
    HN_TRY(buffer_of(e, result->buffer, &made.buffer));
    made.dtype = value_of(e, out->value)->dtype;
    made.rank = result->rank;
    made.sizes = result->sizes;
    made.strides = result->strides;
    HN_TRY(add_view(e, result, &made));
    if (out->kind == HN_OUTPUT_MUTATION) {
        const hn_input *target = &e->graph->inputs.items[out->target];
        made.name = target->name;
        if (target->kind == HN_INPUT_USER) made.target_input = (int32_t)e->user_input[out->target];
    }
    HN_PUSH(e->w->arena, &e->w->outputs, made);
    return NULL;
}

static hn_status build(emitter *e) {
    for (uint32_t k = 0; k < e->graph->inputs.count; k++) {
        hn_input_kind kind = e->graph->inputs.items[k].kind;
        if (kind == HN_INPUT_USER || kind == HN_INPUT_SCALAR) HN_TRY(add_user_input(e, k));
    }
    for (uint32_t k = 0; k < e->source->schedule->steps.count; k++) HN_TRY(add_step(e, k));
    for (uint32_t k = 0; k < e->graph->outputs.count; k++) HN_TRY(add_output(e, k));
    return hn_sym_status(e->sym);
}

hn_status hn_wrapper_from_schedule(const hn_wrapper_source *source, hn_arena *arena,
                                   hn_arena *scratch, hn_wrapper **out) {
    emitter e = {.source = source,
                 .program = source->program,
                 .graph = source->program->graph,
                 .sym = source->program->sym,
                 .scratch = scratch};
    HN_TRY(hn_wrapper_create(arena, e.sym, e.graph, &e.w));
    e.w->target_count = source->target_count;
    HN_NEW(scratch, e.buffers, e.program->buffers.count);
    HN_NEW(scratch, e.user_input, e.graph->inputs.count);
    hn_strmap_init(&e.kernels, scratch);
    HN_TRY(build(&e));
    *out = e.w;
    return NULL;
}
