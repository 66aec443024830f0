/* roofline.c: one run is looked at by a hook: what each step must do, and where its operands are.
 * Times are those of the profile. */
#include "measure/roofline.h"

#include <stdlib.h>

/* A call of a step. */
typedef struct event {
    uint32_t step; /* of the module */
    uint32_t row;  /* of `steps` */
    uint32_t device;
    hn_roof_work work;
} event;

typedef struct look {
    const hn_roofline_run *run;
    hn_roofline *out;
    uint32_t *row_of;   /* per step of the module, from 1; 0: it has none yet */
    uint32_t *calls_of; /* likewise: in the run at hand */
    event *events;
    hn_touch *touches;
    uint32_t event_count, event_cap, touch_count, touch_cap, step_cap;
    uint32_t last_row; /* of the last event, from 1 */
} look;

static hn_status grow(void **items, uint32_t count, uint32_t *cap, size_t item_bytes) {
    if (count < *cap) return NULL;
    const uint32_t wanted = *cap ? 2 * *cap : 64;
    void *more = wanted < *cap ? NULL : realloc(*items, wanted * item_bytes);
    if (!more) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to look at a run");
    *items = more;
    *cap = wanted;
    return NULL;
}

/* ---- one step ---- */

/* The device's place among those of the roofline, whose ceilings are taken when it is new. */
static hn_status device_of(look *l, hn_device device, uint32_t *out) {
    hn_roofline *r = l->out;
    for (*out = 0; *out < r->device_count; ++*out)
        if (r->ceilings[*out].device.kind == device.kind &&
            r->ceilings[*out].device.number == device.number)
            return NULL;
    if (r->device_count == HN_ROOFLINE_DEVICES)
        return HN_ERROR(HN_INTERNAL, "a program on more than %d devices", HN_ROOFLINE_DEVICES);
    hn_ceilings_options options = l->run->ceilings;
    options.device = device;
    HN_TRY(hn_ceilings_get(&options, &r->ceilings[r->device_count], NULL));
    r->device_count++;
    return NULL;
}

/* A later part of an operation belongs to its first. */
static hn_status row_for(look *l, const hn_step_info *info, const hn_step_record *record,
                         uint32_t *out) {
    hn_roofline *r = l->out;
    if (!l->row_of[info->index] && record->part && l->last_row)
        l->row_of[info->index] = l->last_row;
    if (!l->row_of[info->index]) {
        HN_TRY(grow((void **)&r->steps, r->count, &l->step_cap, sizeof *r->steps));
        r->steps[r->count++] = (hn_roofline_step){.step = info->index,
                                                  .device = info->device,
                                                  .name = record->name,
                                                  .node = record->node,
                                                  .category = record->category_name,
                                                  .is_known = record->has_work,
                                                  .is_bound = record->is_bound};
        l->row_of[info->index] = r->count;
    }
    *out = l->row_of[info->index] - 1;
    return NULL;
}

/* The type of an operation's first operand that is no result. */
static hn_status math_of(const hn_step_info *info, const hn_step_record *record,
                         hn_ceiling_math *out) {
    *out = HN_CEILING_ADD;
    if (record->category != HN_CATEGORY_CALL) return NULL;
    for (uint32_t k = 0; k < info->operand_count; k++) {
        hn_step_operand o;
        HN_TRY(hn_step_operand_get(info, k, &o));
        if (!o.buffer || o.is_written) continue;
        *out = hn_ceiling_math_of(o.type);
        break;
    }
    return NULL;
}

/* Memory of several devices has addresses that may be equal. */
static uint64_t address_of(const hn_step_operand *o) {
    return ((uint64_t)(uintptr_t)o->data + (uint64_t)o->offset_bytes) ^ (uint64_t)o->device.kind
                                                                            << 60;
}

/* Of a large operand, of which the step reads some rows, no more than it reads at all. */
static hn_status add_touches(look *l, const hn_step_info *info, const event *e) {
    for (uint32_t k = 0; k < info->operand_count; k++) {
        hn_step_operand o;
        HN_TRY(hn_step_operand_get(info, k, &o));
        const double most =
            o.is_written ? e->work.read_bytes + e->work.written_bytes : e->work.read_bytes;
        int64_t bytes = o.bytes - o.offset_bytes;
        if (!o.buffer || !o.data || bytes <= 0) continue;
        if ((double)bytes > most) bytes = (int64_t)most;
        HN_TRY(grow((void **)&l->touches, l->touch_count, &l->touch_cap, sizeof *l->touches));
        l->touches[l->touch_count++] = (hn_touch){.step = l->event_count,
                                                  .is_written = o.is_written,
                                                  .address = address_of(&o),
                                                  .bytes = bytes};
    }
    return NULL;
}

static hn_status look_at(void *user, const hn_step_info *info, uint64_t *note) {
    look *l = user;
    hn_step_record record;
    event e = {.step = info->index};
    (void)note;
    HN_TRY(hn_step_record_get(info, &record));
    if (info->has_failed || record.category == HN_CATEGORY_CONTROL) return NULL;
    HN_TRY(device_of(l, info->device, &e.device));
    HN_TRY(row_for(l, info, &record, &e.row));
    HN_TRY(math_of(info, &record, &e.work.math));
    if (record.has_work && !record.part) {
        e.work.read_bytes = (double)record.read_bytes;
        e.work.written_bytes = (double)record.written_bytes;
        e.work.operations = (double)record.operations;
    }
    HN_TRY(grow((void **)&l->events, l->event_count, &l->event_cap, sizeof *l->events));
    HN_TRY(add_touches(l, info, &e));
    l->events[l->event_count++] = e;
    l->last_row = e.row + 1;
    return NULL;
}

/* ---- sums ---- */

static void add_roof(hn_roofline_step *s, const hn_roof_work *work, hn_roof roof) {
    s->work.math = work->math;
    s->work.read_bytes += work->read_bytes;
    s->work.written_bytes += work->written_bytes;
    s->work.operations += work->operations;
    if (!s->roof.limit || !*s->roof.limit) s->roof.limit = roof.limit;
    s->roof.move_ns += roof.move_ns;
    s->roof.math_ns += roof.math_ns;
    s->roof.ns += roof.ns;
}

static hn_status add_roofs(look *l, hn_footprint *all) {
    hn_reuse *reuse = calloc((size_t)l->event_count + 1, sizeof *reuse);
    hn_status status = reuse ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory to look at a run");
    for (uint32_t d = 0; d < l->out->device_count && !status; d++) {
        const hn_ceilings *c = &l->out->ceilings[d];
        status = hn_reuse_of(l->touches, l->touch_count, l->event_count, c, reuse, all);
        for (uint32_t k = 0; k < l->event_count && !status; k++) {
            const event *e = &l->events[k];
            if (e->device == d)
                add_roof(&l->out->steps[e->row], &e->work, hn_roof_of(c, &e->work, &reuse[k]));
        }
    }
    free(reuse);
    return status;
}

/* Of all calls of a step the fastest one counts, as often as the step was called in one run. */
static hn_status add_times(look *l) {
    const uint32_t count = hn_module_step_count(l->run->module);
    for (uint32_t k = 0; k < count; k++) {
        hn_module_step_profile p;
        HN_TRY(hn_module_profile(l->run->module, k, &p));
        if (!l->row_of[k] || !p.calls) continue;
        hn_roofline_step *s = &l->out->steps[l->row_of[k] - 1];
        s->ns += (double)p.min_ns * l->calls_of[k];
    }
    return NULL;
}

static double bytes_of_outputs(const hn_roofline_run *run) {
    double bytes = 0;
    for (uint32_t k = 0; k < run->output_count; k++)
        if (run->outputs[k])
            bytes += (double)hn_tensor_numel(run->outputs[k]) *
                     (double)hn_scalar_type_bytes(hn_tensor_type(run->outputs[k]));
    return bytes;
}

static void sum_up(look *l, const hn_footprint *all) {
    hn_roofline *r = l->out;
    double math_ns = 0;
    for (uint32_t k = 0; k < r->count; k++) {
        hn_roofline_step *s = &r->steps[k];
        if (!s->is_known) r->unknown_ns += s->ns;
        if (!s->is_known) continue;
        s->lost_ns = s->ns > s->roof.ns ? s->ns - s->roof.ns : 0;
        r->ns += s->ns;
        r->roof_ns += s->ns - s->lost_ns;
        r->lost_ns += s->lost_ns;
        math_ns += s->roof.math_ns;
    }
    if (r->device_count)
        r->whole =
            hn_roof_of_run(&r->ceilings[0], all->given_bytes, bytes_of_outputs(l->run), math_ns);
}

/* ---- all ---- */

static hn_status run_once(look *l) {
    const hn_roofline_run *run = l->run;
    const hn_step_hook hook = {.after = look_at, .user = l};
    HN_TRY(hn_module_hook_add(run->module, &hook));
    hn_status status =
        hn_module_run(run->module, run->inputs, run->input_count, run->outputs, run->output_count);
    hn_status_free(hn_module_hook_remove(run->module, &hook));
    return status;
}

static hn_status make(look *l) {
    hn_footprint all = {.bytes = 0};
    HN_TRY(run_once(l));
    for (uint32_t k = 0; k < l->event_count; k++) {
        const event *e = &l->events[k];
        hn_roofline_step *s = &l->out->steps[e->row];
        l->calls_of[e->step]++;
        s->calls += s->step == e->step;
    }
    HN_TRY(add_roofs(l, &all));
    HN_TRY(add_times(l));
    sum_up(l, &all);
    return NULL;
}

hn_status hn_roofline_make(const hn_roofline_run *run, hn_roofline *out) {
    look l = {.run = run, .out = out};
    *out = (hn_roofline){.whole = {.limit = ""}};
    l.row_of = calloc(hn_module_step_count(run->module) + 1u, sizeof *l.row_of);
    l.calls_of = calloc(hn_module_step_count(run->module) + 1u, sizeof *l.calls_of);
    hn_status status = l.row_of && l.calls_of
                           ? make(&l)
                           : HN_ERROR(HN_OUT_OF_MEMORY, "no memory to look at a run");
    free(l.row_of);
    free(l.calls_of);
    free(l.events);
    free(l.touches);
    return status;
}

void hn_roofline_deinit(hn_roofline *roofline) {
    free(roofline->steps);
    *roofline = (hn_roofline){.count = 0};
}
