/* verify_devices.c: see verify_devices.h. One walk over the lines; for each buffer of the host it
 * keeps what copies that nobody has waited for do to it. */
#include "wrapper/verify_devices.h"

#define BAD(...) HN_ERROR(HN_INTERNAL, "wrapper: " __VA_ARGS__)

/* What a copy under way does to memory of the host. */
enum { IS_READ = 1, IS_WRITTEN = 2 };

typedef struct checker {
    const hn_wrapper *w;
    hn_arena *arena;
    hn_device_kind device; /* the one that is not the host; the CPU while none was seen */
} checker;

static hn_device_kind device_of(const checker *c, hn_wbuf buffer) {
    return c->w->buffers.items[buffer].device;
}

static const char *name_of(hn_device_kind device) { return hn_device_name(device); }

/* ---- where things are ---- */

static hn_status see_device(checker *c, hn_device_kind device) {
    if ((uint32_t)device >= HN_DEVICE_KIND_COUNT) return BAD("unknown device %d", (int)device);
    if (device == HN_DEVICE_CPU || device == c->device) return NULL;
    if (c->device != HN_DEVICE_CPU)
        return BAD("the program is for %s and for %s", name_of(c->device), name_of(device));
    c->device = device;
    return NULL;
}

static hn_status check_operands(const checker *c, const hn_line *line, uint32_t i) {
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_wbuf buffer = line->operands[k].buffer;
        if (buffer && device_of(c, buffer) != line->device)
            return BAD("line %u runs on %s and uses buffer %u on %s", i, name_of(line->device),
                       buffer, name_of(device_of(c, buffer)));
    }
    return NULL;
}

static hn_status check_place(checker *c, const hn_line *line, uint32_t i) {
    HN_TRY(see_device(c, line->device));
    const bool is_host = line->device == HN_DEVICE_CPU;
    if (line->shared_bytes && !line->threads)
        return BAD("line %u has shared memory and no groups of threads", i);
    switch (line->kind) {
    case HN_LINE_KERNEL:
        if (is_host != !line->threads)
            return BAD("line %u runs on %s in groups of %u threads", i, name_of(line->device),
                       line->threads);
        return check_operands(c, line, i);
    case HN_LINE_EXTERN:
        if (line->kernel && (is_host || !line->threads))
            return BAD("line %u: the kernel of an operation is not for a device", i);
        return check_operands(c, line, i);
    case HN_LINE_WAIT: return is_host ? BAD("line %u: the host waits for itself", i) : NULL;
    default: return is_host ? NULL : BAD("line %u of kind %d names a device", i, (int)line->kind);
    }
}

/* ---- what is under way ---- */

static hn_status use(const uint8_t *state, hn_wbuf buffer, bool is_written, uint32_t i) {
    if (state[buffer] & IS_WRITTEN)
        return BAD("line %u uses buffer %u, and nobody has waited for the copy into it", i, buffer);
    if (is_written && state[buffer] & IS_READ)
        return BAD("line %u changes buffer %u, and nobody has waited for the copy of it", i,
                   buffer);
    return NULL;
}

static hn_status use_operands(const checker *c, const uint8_t *state, const hn_line *line,
                              uint32_t i) {
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_woperand *o = &line->operands[k];
        if (o->buffer && device_of(c, o->buffer) == HN_DEVICE_CPU)
            HN_TRY(use(state, hn_wrapper_root(c->w, o->buffer), o->written, i));
    }
    return NULL;
}

/* A device makes its copies in order, so that one may use what another has not written yet. */
static hn_status copy(const checker *c, uint8_t *state, const hn_line *line, uint32_t i) {
    if (hn_line_device(c->w, line) == HN_DEVICE_CPU) {
        HN_TRY(use(state, line->from, false, i));
        return use(state, line->buffer, true, i);
    }
    if (device_of(c, line->from) == HN_DEVICE_CPU) state[line->from] |= IS_READ;
    if (device_of(c, line->buffer) == HN_DEVICE_CPU) state[line->buffer] |= IS_WRITTEN;
    return NULL;
}

static hn_status check_line(checker *c, uint8_t *state, const hn_line *line, uint32_t i) {
    HN_TRY(check_place(c, line, i));
    switch (line->kind) {
    case HN_LINE_COPY: return copy(c, state, line, i);
    case HN_LINE_WAIT: memset(state, 0, c->w->buffers.count); return NULL;
    case HN_LINE_FREE: return use(state, line->buffer, true, i);
    case HN_LINE_REUSE: return use(state, line->from, true, i);
    default: return use_operands(c, state, line, i);
    }
}

static hn_status check_block(checker *c, uint8_t *state, uint32_t first, uint32_t end);

/* What is under way when a round ends is so when the next begins: two walks find it all. */
static hn_status check_loop(checker *c, uint8_t *state, const hn_line *line, uint32_t i) {
    const uint32_t count = c->w->buffers.count, middle = i + 1 + line->then_count;
    uint8_t *round;
    HN_NEW(c->arena, round, count);
    for (uint32_t walk = 0; walk < 2; walk++) {
        memcpy(round, state, count);
        HN_TRY(check_block(c, round, i + 1, middle));
        HN_TRY(use_operands(c, round, line, i));
        HN_TRY(check_block(c, round, middle, middle + line->otherwise_count));
        for (uint32_t b = 0; b < count; b++) state[b] |= round[b];
    }
    return NULL;
}

/* Behind a conditional everything may be under way that is so behind one of its bodies. */
static hn_status check_block(checker *c, uint8_t *state, uint32_t first, uint32_t end) {
    const uint32_t count = c->w->buffers.count;
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &c->w->lines.items[i];
        const uint32_t middle = i + 1 + line->then_count, last = middle + line->otherwise_count;
        uint8_t *other;
        HN_TRY(line->kind == HN_LINE_LOOP ? check_place(c, line, i)
                                          : check_line(c, state, line, i));
        if (!hn_line_has_bodies(line->kind)) continue;
        if (line->kind == HN_LINE_LOOP) {
            HN_TRY(check_loop(c, state, line, i));
            i = last - 1;
            continue;
        }
        HN_NEW(c->arena, other, count);
        memcpy(other, state, count);
        HN_TRY(check_block(c, state, i + 1, middle));
        HN_TRY(check_block(c, other, middle, last));
        for (uint32_t b = 0; b < count; b++) state[b] |= other[b];
        i = last - 1;
    }
    return NULL;
}

/* Programs of the host alone are most of all. */
static bool has_device(const hn_wrapper *w) {
    for (hn_wbuf b = 1; b < w->buffers.count; b++)
        if (w->buffers.items[b].device != HN_DEVICE_CPU) return true;
    for (uint32_t i = 0; i < w->lines.count; i++)
        if (w->lines.items[i].device != HN_DEVICE_CPU || w->lines.items[i].threads) return true;
    return false;
}

hn_status hn_wrapper_devices_verify(const hn_wrapper *w, hn_arena *arena) {
    checker c = {.w = w, .arena = arena};
    uint8_t *state;
    if (!has_device(w)) return NULL;
    for (hn_wbuf b = 1; b < w->buffers.count; b++)
        HN_TRY(see_device(&c, w->buffers.items[b].device));
    HN_NEW(arena, state, w->buffers.count);
    return check_block(&c, state, 0, w->lines.count);
}
