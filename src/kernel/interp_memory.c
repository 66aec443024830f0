/* interp_memory.c: memories of a form that is run, and races for their elements. */
#include "kernel/interp_impl.h"

#include <inttypes.h>
#include <math.h>

hn_status hn_run_find(const hn_run *r, hn_fmem m, int64_t index, uint32_t thread, int64_t *out) {
    const hn_run_memory *memory = &r->memories[m];
    if (index < -memory->first || index >= memory->end - memory->first)
        return HN_ERROR(HN_INTERNAL, "element %" PRId64 " of memory m%u, which has %" PRId64, index,
                        m, memory->end - memory->first);
    *out = memory->first + index + thread * memory->apart;
    return NULL;
}

/* --- races --- */

static hn_status race_of_threads(const hn_run *r, const hn_run_access *a, uint32_t other,
                                 const char *other_does) {
    const char *who = r->f->lanes ? "lane" : "thread",
               *how = r->f->lanes ? "in the same vector" : "without a barrier between";
    return HN_ERROR(
        HN_INTERNAL, "a race: %s %u %s element %" PRId64 " of memory m%u, which %s %u %s %s", who,
        a->thread, a->does, a->at - r->memories[a->m].first, a->m, who, other, other_does, how);
}

static hn_status race_of_groups(const hn_run *r, const hn_run_access *a, uint32_t other,
                                const char *other_does) {
    const char *who = r->f->lanes ? "range" : "group";
    return HN_ERROR(
        HN_INTERNAL, "a race: %s %u %s element %" PRId64 " of memory m%u, which %s %u %s", who,
        r->group, a->does, a->at - r->memories[a->m].first, a->m, who, other, other_does);
}

static hn_status check_written(const hn_run *r, const hn_run_access *a, const hn_run_cell *c) {
    bool shared_by_groups = r->memories[a->m].info->space == HN_SPACE_ARGUMENT;
    bool may_meet = a->in_order && a->in_order == c->in_order;
    if (c->write_time == r->time && c->writer != a->thread && !may_meet)
        return race_of_threads(r, a, c->writer, "writes");
    may_meet &= a->is_atomic;
    if (shared_by_groups && c->write_time && c->write_group != r->group && !may_meet)
        return race_of_groups(r, a, c->write_group, "writes");
    return NULL;
}

static hn_status check_read(const hn_run *r, const hn_run_access *a, const hn_run_cell *c) {
    bool shared_by_groups = r->memories[a->m].info->space == HN_SPACE_ARGUMENT;
    for (int k = 0; k < 2 && c->read_time; k++) {
        if (c->read_time == r->time && c->readers[k] != a->thread && c->readers[k] != HN_RUN_NOBODY)
            return race_of_threads(r, a, c->readers[k], "reads");
        if (shared_by_groups && c->read_groups[k] != r->group && c->read_groups[k] != HN_RUN_NOBODY)
            return race_of_groups(r, a, c->read_groups[k], "reads");
    }
    return NULL;
}

/* One more of those who came: two that differ are enough to find one that is not oneself. */
static void note(uint32_t who[2], uint32_t comer) {
    if (who[0] != comer && who[1] == HN_RUN_NOBODY) who[who[0] != HN_RUN_NOBODY] = comer;
}

static hn_status read_cell(hn_run *r, const hn_run_access *a) {
    hn_run_cell *c = &r->memories[a->m].cells[a->at];
    HN_TRY(check_written(r, a, c));
    if (a->in_order) return NULL; /* its write follows */
    if (!c->read_time) c->read_groups[0] = c->read_groups[1] = HN_RUN_NOBODY;
    if (c->read_time != r->time) c->readers[0] = c->readers[1] = HN_RUN_NOBODY;
    c->read_time = r->time;
    note(c->readers, a->thread);
    note(c->read_groups, r->group);
    return NULL;
}

static hn_status write_cell(hn_run *r, const hn_run_access *a) {
    hn_run_cell *c = &r->memories[a->m].cells[a->at];
    HN_TRY(check_written(r, a, c));
    HN_TRY(check_read(r, a, c));
    c->write_time = r->time;
    c->writer = a->thread;
    c->write_group = r->group;
    c->in_order = a->in_order;
    c->batch = r->memories[a->m].info->space == HN_SPACE_STAGED ? r->batches[a->thread] : 0;
    return NULL;
}

/* --- elements --- */

static bool is_set(const hn_run *r, hn_fmem m, int64_t at) {
    const hn_run_memory *memory = &r->memories[m];
    if (memory->info->space == HN_SPACE_ARGUMENT) return memory->is_set[at];
    return memory->cells && memory->cells[at].write_time &&
           memory->cells[at].write_group == r->group;
}

hn_ref_elem hn_run_odd_number(hn_dtype dtype, int64_t at) {
    if (hn_dtype_is_float(dtype)) return (hn_ref_elem){.f = at % 2 ? (double)NAN : -12345.0};
    return (hn_ref_elem){.i = dtype == HN_DTYPE_BOOL ? at % 2 : 85};
}

/* What a MOVE brings to STAGED memory may not be read on its way. */
static hn_status check_arrived(const hn_run *r, const hn_run_access *a) {
    const hn_run_cell *c = &r->memories[a->m].cells[a->at];
    if (!c->batch || c->write_group != r->group || c->batch <= r->arrived[c->writer]) return NULL;
    return HN_ERROR(HN_INTERNAL,
                    "thread %u reads element %" PRId64 " of memory m%u, which is on its way",
                    a->thread, a->at - r->memories[a->m].first, a->m);
}

hn_status hn_run_read(hn_run *r, const hn_run_access *a, hn_ref_elem *out) {
    const hn_run_memory *memory = &r->memories[a->m];
    if (memory->cells) HN_TRY(read_cell(r, a));
    if (memory->cells) HN_TRY(check_arrived(r, a));
    if (memory->moved && !(memory->moved[a->at] & HN_RUN_WRITTEN))
        memory->moved[a->at] |= HN_RUN_READ;
    if (is_set(r, a->m, a->at)) {
        *out = memory->items[a->at];
        return NULL;
    }
    *out = hn_run_odd_number(memory->info->dtype, a->at);
    if (memory->info->stale) return NULL;
    return HN_ERROR(HN_INTERNAL, "element %" PRId64 " of memory m%u is read before it is written",
                    a->at - memory->first, a->m);
}

hn_status hn_run_write(hn_run *r, const hn_run_access *a, hn_ref_elem value) {
    hn_run_memory *memory = &r->memories[a->m];
    if (!memory->cells) return HN_ERROR(HN_INTERNAL, "memory m%u is not written", a->m);
    HN_TRY(write_cell(r, a));
    memory->items[a->at] = value;
    if (memory->moved) memory->moved[a->at] |= HN_RUN_WRITTEN;
    if (memory->is_set) memory->is_set[a->at] = true;
    return NULL;
}

/* --- preparation --- */

/* Elements of a buffer that several arguments name have one set of cells. */
static hn_status cells_of(hn_run *r, hn_fmem m, hn_run_cell **out) {
    const hn_form_memory *info = r->memories[m].info;
    for (hn_fmem e = 1; e < m; e++)
        if (r->memories[e].info->space == HN_SPACE_ARGUMENT &&
            r->memories[e].info->buffer == info->buffer)
            *out = r->memories[e].cells;
    bool is_written = false;
    for (hn_fmem e = 1; e < r->f->memories.count; e++)
        is_written |= r->f->memories.items[e].space == HN_SPACE_ARGUMENT &&
                      r->f->memories.items[e].buffer == info->buffer &&
                      r->f->memories.items[e].is_written;
    if (!*out && is_written) HN_NEW(r->arena, *out, r->memories[m].end);
    return NULL;
}

/* So have they one set of these. */
static hn_status moved_of(hn_run *r, hn_fmem m, uint8_t **out) {
    for (hn_fmem e = 1; e < m; e++)
        if (r->memories[e].info->space == HN_SPACE_ARGUMENT &&
            r->memories[e].info->buffer == r->memories[m].info->buffer)
            *out = r->memories[e].moved;
    if (!*out) HN_NEW(r->arena, *out, r->memories[m].end);
    return NULL;
}

static hn_status prepare_argument(hn_run *r, hn_fmem m) {
    hn_run_memory *memory = &r->memories[m];
    hn_ref_buffer *buffer = &r->buffers[memory->info->buffer];
    if (buffer->dtype != memory->info->dtype)
        return HN_ERROR(HN_INTERNAL, "memory m%u has another dtype than its buffer", m);
    memory->items = buffer->items;
    memory->is_set = buffer->is_set;
    memory->end = buffer->elems;
    if (memory->info->base && !hn_run_eval_size(r, memory->info->base, &memory->first))
        return hn_run_no_value(r, memory->info->base);
    if (memory->first < 0) return HN_ERROR(HN_INTERNAL, "memory m%u begins before its buffer", m);
    if (r->counts) HN_TRY(moved_of(r, m, &memory->moved));
    return cells_of(r, m, &memory->cells);
}

hn_status hn_run_prepare_memory(hn_run *r, hn_fmem m) {
    hn_run_memory *memory = &r->memories[m];
    memory->info = &r->f->memories.items[m];
    if (memory->info->space == HN_SPACE_ARGUMENT) return prepare_argument(r, m);
    if (!hn_run_eval_size(r, memory->info->elems, &memory->end))
        return hn_run_no_value(r, memory->info->elems);
    if (memory->end < 0)
        return HN_ERROR(HN_INTERNAL, "memory m%u has %" PRId64 " elements", m, memory->end);
    if (memory->info->space == HN_SPACE_PRIVATE) memory->apart = memory->end;
    const int64_t all = memory->apart ? memory->apart * r->width : memory->end;
    HN_NEW(r->arena, memory->items, all);
    HN_NEW(r->arena, memory->cells, all);
    return NULL;
}
