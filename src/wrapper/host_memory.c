/* host_memory.c: gives the lines that run on the host memory of the host.
 *
 * Lowering puts every buffer on the device of the kernels. Operations that the device does not have
 * run on the host:
 *
 *   call k1(b1, out b2) on opencl               call k1(b1, out b2) on opencl
 *   extern matmul(out b3, b2, b4)               copy b6 from b2
 *   call k2(b3, out b5) on opencl        ->     wait opencl
 *                                               extern matmul(out b7, b6, b4)
 *                                               copy b3 from b7
 *                                               call k2(b3, out b5) on opencl
 *
 * Below, "kernel" is any line that runs on the device, also an operation that it has. A buffer that
 * no kernel uses moves to the host (b4 above, a weight). Of a weight or an input that both use, the
 * host has a second buffer: such memory never changes, so nothing is copied. Any other buffer that
 * an operation of the host uses has a temporary of the host beside it, from the first use until a
 * kernel changes the buffer. Where the newest content is, is known at every line, so that a copy is
 * made only when the other side needs it, and once for all operands of a line there is one WAIT. A
 * line that asks for one element (ASSERT, DEFINE, COND, LOOP) takes it from where it is.
 *
 * Conditionals: before a body ends, what the bodies write is brought to the device if something
 * behind needs it, so that both bodies leave it in the same place. What else the bodies copy is
 * forgotten behind them unless both know it.
 *
 * Loops: what the rounds write is on the device when the loop begins, and is brought there before a
 * round ends; so each round finds it in the same place.
 *
 * Requires: no memory lines; views only of outputs, which are brought to the device as a whole.
 * Establishes: what verify_devices.h checks. */
#include "wrapper/place.h"

#include "ir/loop.h"

/* Where the newest content of a buffer of the device is: on the device, in `host`, or in both. */
typedef struct content {
    hn_wbuf host; /* 0: not on the host */
    bool on_device;
    bool is_written; /* by some line so far */
    bool is_read;    /* a copy of `host` to the device may still be under way */
} content;

typedef struct placer {
    hn_wrapper *w;
    hn_arena *scratch;
    uint32_t count;        /* of buffers before this pass */
    hn_device_kind device; /* that is not the host */
    uint32_t *last; /* per buffer: the last line that mentions it; an output is behind all lines */
    bool *is_of_kernels; /* per buffer: some line of the device uses it */
    bool *is_mutable;    /* per buffer: a weight that the program changes */
    content *now;        /* per buffer */
    struct {
        hn_line *items;
        uint32_t count, cap;
    } out;
} placer;

static hn_wbuffer *buffer_at(const placer *p, hn_wbuf b) { return &p->w->buffers.items[b]; }
static bool is_on_device(const placer *p, hn_wbuf b) {
    return b && buffer_at(p, b)->device != HN_DEVICE_CPU;
}

static bool runs_on_device(const hn_line *line) {
    return line->kind == HN_LINE_KERNEL || line->kind == HN_LINE_COPY ||
           (line->kind == HN_LINE_EXTERN && line->device != HN_DEVICE_CPU);
}

/* ---- who uses what ---- */

static void mention(placer *p, const hn_line *line, uint32_t i, hn_wbuf b) {
    p->last[b] = i;
    p->is_of_kernels[b] |= runs_on_device(line);
}

static void find_uses(placer *p) {
    const hn_wrapper *w = p->w;
    for (uint32_t i = 0; i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        mention(p, line, i, line->buffer);
        mention(p, line, i, line->from);
        mention(p, line, i, line->workspace);
        for (uint32_t k = 0; k < line->operand_count; k++)
            mention(p, line, i, line->operands[k].buffer);
    }
    for (uint32_t i = 0; i < w->outputs.count; i++)
        p->last[hn_wrapper_root(w, w->outputs.items[i].buffer)] = w->lines.count;
}

/* All buffers in a storage that the program changes are in one place: on the device if a kernel
 * uses any of them. */
static void find_mutable(placer *p, uint32_t storage) {
    bool is_of_kernels = false;
    for (hn_wbuf b = 1; b < p->count; b++) {
        const hn_wbuffer *own = buffer_at(p, b);
        if (own->kind != HN_WBUF_CONSTANT || own->source != storage) continue;
        p->is_mutable[b] = true;
        is_of_kernels |= p->is_of_kernels[b];
    }
    for (hn_wbuf b = 1; b < p->count; b++)
        if (p->is_mutable[b] && buffer_at(p, b)->source == storage)
            p->is_of_kernels[b] = is_of_kernels;
}

static hn_status choose_places(placer *p) {
    find_uses(p);
    for (uint32_t i = 0; i < p->w->outputs.count; i++) {
        const uint32_t storage = hn_woutput_storage(p->w, &p->w->outputs.items[i]);
        if (storage) find_mutable(p, storage);
    }
    for (hn_wbuf b = 1; b < p->count; b++)
        if (!p->is_of_kernels[hn_wrapper_root(p->w, b)]) buffer_at(p, b)->device = HN_DEVICE_CPU;
    for (hn_wbuf b = 1; b < p->count; b++) p->now[b].on_device = true;
    return NULL;
}

/* ---- lines ---- */

static hn_status put(placer *p, hn_line line) {
    HN_PUSH(p->w->arena, &p->out, line);
    return NULL;
}

static hn_status put_copy(placer *p, hn_wbuf to, hn_wbuf from, uint32_t origin) {
    return put(p, (hn_line){.kind = HN_LINE_COPY, .buffer = to, .from = from, .origin = origin});
}

static hn_status put_wait(placer *p) {
    for (hn_wbuf b = 1; b < p->count; b++) p->now[b].is_read = false;
    return put(p, (hn_line){.kind = HN_LINE_WAIT, .device = p->device});
}

/* A buffer of the host of the same shape: a temporary, or the same input or weight once more. */
static hn_status add_host_buffer(placer *p, hn_wbuf b, hn_wbuf *out) {
    hn_wbuffer made = *buffer_at(p, b);
    made.device = HN_DEVICE_CPU;
    if (made.kind == HN_WBUF_INPUT) return hn_wrapper_add_buffer(p->w, made, out);
    if (made.kind == HN_WBUF_CONSTANT && !p->is_mutable[b])
        return hn_wrapper_add_buffer(p->w, made, out);
    if (made.kind == HN_WBUF_CONSTANT) {
        hn_sym *sym = p->w->sym;
        const hn_expr extent = hn_strided_extent(sym, made.sizes, made.strides, made.rank);
        made.bytes =
            hn_sym_mul(sym, extent, hn_sym_int(sym, hn_dtype_facts(made.dtype)->size_bytes));
    }
    made.kind = HN_WBUF_TEMP;
    made.source = 0;
    made.byte_offset = 0;
    made.name = HN_STR("");
    return hn_wrapper_add_buffer(p->w, made, out);
}

/* ---- content ---- */

static hn_status bring_to_device(placer *p, hn_wbuf b, uint32_t origin) {
    content *c = &p->now[b];
    if (c->on_device) return NULL;
    c->on_device = true;
    c->is_read = true;
    return put_copy(p, b, c->host, origin);
}

/* `*out_waits` is set when the host must wait for the device before it goes on. */
static hn_status bring_to_host(placer *p, hn_wbuf b, uint32_t origin, bool *out_waits) {
    content *c = &p->now[b];
    if (c->host) return NULL;
    HN_TRY(add_host_buffer(p, b, &c->host));
    c->is_read = false;
    if (buffer_at(p, c->host)->kind != HN_WBUF_TEMP) return NULL;
    *out_waits = true;
    return put_copy(p, c->host, b, origin);
}

/* Memory for what the host writes. It may be a part of the buffer only, so that what is there
 * already comes along. */
static hn_status take_for_host(placer *p, hn_wbuf b, uint32_t origin, bool *out_waits) {
    content *c = &p->now[b];
    if (!c->host && !c->is_written) HN_TRY(add_host_buffer(p, b, &c->host));
    HN_TRY(bring_to_host(p, b, origin, out_waits));
    *out_waits |= c->is_read;
    c->on_device = false;
    c->is_written = true;
    return NULL;
}

/* ---- kinds of lines ---- */

static hn_status take_for_device(placer *p, hn_wbuf b, bool is_written, uint32_t origin) {
    if (!is_on_device(p, b)) return NULL;
    HN_TRY(bring_to_device(p, b, origin));
    if (!is_written) return NULL;
    p->now[b] = (content){.on_device = true, .is_written = true};
    return NULL;
}

/* Reads first: an operand may be written, too. */
static hn_status place_device_line(placer *p, const hn_line *line) {
    HN_TRY(take_for_device(p, line->from, false, line->origin));
    for (uint32_t written = 0; written < 2; written++)
        for (uint32_t k = 0; k < line->operand_count; k++)
            if (line->operands[k].written == written)
                HN_TRY(take_for_device(p, line->operands[k].buffer, written, line->origin));
    HN_TRY(take_for_device(p, line->buffer, true, line->origin));
    return put(p, *line);
}

static hn_status place_host_line(placer *p, const hn_line *line) {
    hn_woperand *operands;
    bool waits = false;
    HN_NEW(p->w->arena, operands, line->operand_count);
    for (uint32_t written = 0; written < 2; written++)
        for (uint32_t k = 0; k < line->operand_count; k++) {
            const hn_wbuf b = line->operands[k].buffer;
            if (line->operands[k].written != written) continue;
            operands[k] = line->operands[k];
            if (!is_on_device(p, b)) continue;
            HN_TRY((written ? take_for_host : bring_to_host)(p, b, line->origin, &waits));
            operands[k].buffer = p->now[b].host;
        }
    if (waits) HN_TRY(put_wait(p));
    hn_line placed = *line;
    placed.operands = operands;
    return put(p, placed);
}

/* An element of a buffer is read where it is; where both have it, without a wait. */
static hn_status place_operand(placer *p, const hn_line *line, const hn_woperand **out) {
    hn_woperand *operand;
    HN_NEW(p->w->arena, operand, 1);
    *operand = line->operands[0];
    if (is_on_device(p, operand->buffer) && p->now[operand->buffer].host)
        operand->buffer = p->now[operand->buffer].host;
    *out = operand;
    return NULL;
}

static hn_status place_element(placer *p, const hn_line *line) {
    hn_line placed = *line;
    HN_TRY(place_operand(p, line, &placed.operands));
    return put(p, placed);
}

/* ---- conditionals ---- */

static void find_written(const placer *p, uint32_t first, uint32_t end, bool *is_written) {
    for (uint32_t i = first; i < end; i++) {
        const hn_line *line = &p->w->lines.items[i];
        is_written[line->buffer] = true;
        for (uint32_t k = 0; k < line->operand_count; k++)
            if (line->operands[k].written) is_written[line->operands[k].buffer] = true;
    }
}

static hn_status place_block(placer *p, uint32_t first, uint32_t end);

/* A body, and copies to the device of what the bodies write and lines behind `end` need. */
static hn_status place_body(placer *p, uint32_t first, uint32_t count, uint32_t end,
                            const bool *is_written, uint32_t *out_count) {
    const uint32_t at = p->out.count;
    HN_TRY(place_block(p, first, first + count));
    for (hn_wbuf b = 1; b < p->count; b++)
        if (is_written[b] && is_on_device(p, b) && p->last[b] >= end)
            HN_TRY(bring_to_device(p, b, 0));
    *out_count = p->out.count - at;
    return NULL;
}

/* What is known behind a conditional. A buffer that no body has written is where it was; one that a
 * body has written is on the device, or of no use any more. */
static void join(placer *p, const content *other) {
    for (hn_wbuf b = 1; b < p->count; b++) {
        content *c = &p->now[b];
        /* of no use any more, or on the device in both */
        if (c->host != other[b].host)
            *c = (content){.on_device = true, .is_written = c->is_written};
        else c->on_device &= other[b].on_device;
        c->is_written |= other[b].is_written;
        c->is_read |= other[b].is_read;
    }
}

static hn_status place_cond(placer *p, const hn_line *line, uint32_t i) {
    const uint32_t middle = i + 1 + line->then_count, end = middle + line->otherwise_count;
    uint32_t then_count, otherwise_count;
    bool *is_written;
    content *before, *other;
    HN_NEW(p->scratch, is_written, p->count);
    HN_NEW(p->scratch, before, p->count);
    HN_NEW(p->scratch, other, p->count);
    find_written(p, i + 1, end, is_written);
    HN_TRY(place_element(p, line));
    const uint32_t at = p->out.count - 1;
    memcpy(before, p->now, p->count * sizeof *before);
    HN_TRY(place_body(p, i + 1, line->then_count, end, is_written, &then_count));
    memcpy(other, p->now, p->count * sizeof *other);
    memcpy(p->now, before, p->count * sizeof *before);
    HN_TRY(place_body(p, middle, line->otherwise_count, end, is_written, &otherwise_count));
    p->out.items[at].then_count = then_count;
    p->out.items[at].otherwise_count = otherwise_count;
    join(p, other);
    return NULL;
}

/* Before the first round, what the loop writes is on the device, where each round leaves it. */
static hn_status enter_loop(placer *p, const bool *is_written) {
    for (hn_wbuf b = 1; b < p->count; b++) {
        if (!is_written[b] || !is_on_device(p, b)) continue;
        HN_TRY(bring_to_device(p, b, 0));
        p->now[b] = (content){.on_device = true, .is_written = p->now[b].is_written};
    }
    return NULL;
}

/* A round ends as the next one begins: nothing is read of memory of the host that the next one
 * writes. */
static hn_status end_round(placer *p, const bool *is_written) {
    bool waits = false;
    for (hn_wbuf b = 1; b < p->count; b++)
        if (is_written[b] && is_on_device(p, b)) HN_TRY(bring_to_device(p, b, 0));
    for (hn_wbuf b = 1; b < p->count; b++) waits |= p->now[b].is_read;
    return waits ? put_wait(p) : NULL;
}

/* Behind a loop things are as behind its test: in the body nothing changes that. */
static hn_status place_loop(placer *p, const hn_line *line, uint32_t i) {
    const uint32_t middle = i + 1 + line->then_count, end = middle + line->otherwise_count;
    bool *is_written;
    content *behind;
    HN_NEW(p->scratch, is_written, p->count);
    HN_NEW(p->scratch, behind, p->count);
    find_written(p, i + 1, end, is_written);
    HN_TRY(enter_loop(p, is_written));
    const uint32_t at = p->out.count;
    HN_TRY(put(p, *line));
    HN_TRY(place_block(p, i + 1, middle));
    p->out.items[at].then_count = p->out.count - at - 1;
    if (line->operand_count) HN_TRY(place_operand(p, line, &p->out.items[at].operands));
    memcpy(behind, p->now, p->count * sizeof *behind);
    const uint32_t body = p->out.count;
    HN_TRY(place_block(p, middle, end));
    HN_TRY(end_round(p, is_written));
    p->out.items[at].otherwise_count = p->out.count - body;
    for (hn_wbuf b = 1; b < p->count; b++) behind[b].is_written |= is_written[b];
    memcpy(p->now, behind, p->count * sizeof *behind);
    return NULL;
}

static hn_status place_line(placer *p, const hn_line *line, uint32_t i) {
    if (runs_on_device(line)) return place_device_line(p, line);
    switch (line->kind) {
    case HN_LINE_EXTERN: return place_host_line(p, line);
    case HN_LINE_ASSERT:
    case HN_LINE_DEFINE: return place_element(p, line);
    case HN_LINE_COND: return place_cond(p, line, i);
    case HN_LINE_LOOP: return place_loop(p, line, i);
    default: return put(p, *line);
    }
}

/* Recursion is as deep as conditionals of the graph nest. */
static hn_status place_block(placer *p, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        const hn_line line = p->w->lines.items[i];
        HN_TRY(place_line(p, &line, i));
        if (hn_line_has_bodies(line.kind)) i += line.then_count + line.otherwise_count;
    }
    return NULL;
}

/* ---- the pass ---- */

static hn_status place_outputs(placer *p) {
    for (uint32_t i = 0; i < p->w->outputs.count; i++) {
        const hn_wbuf b = hn_wrapper_root(p->w, p->w->outputs.items[i].buffer);
        if (is_on_device(p, b)) HN_TRY(bring_to_device(p, b, 0));
    }
    return NULL;
}

static hn_status run(placer *p) {
    HN_NEW(p->scratch, p->last, p->count);
    HN_NEW(p->scratch, p->is_of_kernels, p->count);
    HN_NEW(p->scratch, p->is_mutable, p->count);
    HN_NEW(p->scratch, p->now, p->count);
    HN_TRY(choose_places(p));
    HN_TRY(place_block(p, 0, p->w->lines.count));
    HN_TRY(place_outputs(p));
    p->w->lines.items = p->out.items;
    p->w->lines.count = p->out.count;
    p->w->lines.cap = p->out.cap;
    return NULL;
}

static hn_device_kind device_of_program(const hn_wrapper *w) {
    for (hn_wbuf b = 1; b < w->buffers.count; b++)
        if (w->buffers.items[b].device != HN_DEVICE_CPU) return w->buffers.items[b].device;
    return HN_DEVICE_CPU;
}

hn_status hn_wrapper_host_memory(hn_wrapper *w) {
    hn_arena scratch;
    placer p = {
        .w = w, .scratch = &scratch, .count = w->buffers.count, .device = device_of_program(w)};
    if (p.device == HN_DEVICE_CPU) return NULL;
    hn_arena_init(&scratch);
    hn_status status = run(&p);
    hn_arena_deinit(&scratch);
    return hn_status_annotate(status, "cannot place memory for the lines of the host");
}
