/* carry.c: what a loop carries is computed where it lies.
 *
 * A round computes what is carried next in memory of its own, and ends with copies of it. Where
 * nothing reads the old content behind the line that begins the new one, that line may write it in
 * place:
 *
 *   loop rounds(9) {                                   loop rounds(9) {
 *     call k1(b5 f32, out b7 f32 over [0]) ...    ->     call k1(b5 f32, out b5 f32 over [0]) ...
 *     copy b5 from b7                                  }
 *   }
 *
 * For each of the copies at the end of a body, of temporary n into c, all of this must hold:
 *   1. all lines that mention n stand in the body itself, in no body inside it, and no line
 *      mentions n but for those of this loop;
 *   2. behind the first line that writes n no line of the loop mentions c, but for the copy;
 *   3. if that first line reads c, it is a kernel call, and each operand of it that is n is `over`
 *      each that is c (wrapper.h): the same promise that REUSE lines need (reuse.h);
 *   4. n and c have equal bytes, known without the data, on one device.
 * Lines in front of it read the old content, those behind it the new one, as before.
 *
 * Requires: no memory lines and no lines of host_memory.c yet. Establishes: fewer copies.
 * Preserves: what the program computes, bit for bit. */
#include "wrapper/carry.h"

#include "wrapper/lifetime.h"
#include "wrapper/slots.h"

typedef struct carrier {
    hn_wrapper *w;
    hn_wlives lives;
    bool *is_gone; /* per line */
    bool any;
} carrier;

static bool mentions(const hn_wrapper *w, const hn_line *line, hn_wbuf b) {
    if ((line->kind == HN_LINE_COPY || line->kind == HN_LINE_VIEW) &&
        (line->buffer == b || line->from == b))
        return true;
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (hn_wrapper_root(w, line->operands[k].buffer) == b) return true;
    return false;
}

static bool writes(const hn_line *line, hn_wbuf b) {
    if (line->kind == HN_LINE_COPY) return line->buffer == b;
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->operands[k].buffer == b && line->operands[k].written) return true;
    return false;
}

/* Whether the line may write `to` where `from` is, which it may read. */
static bool allows(const hn_wrapper *w, const hn_line *line, hn_wbuf to, hn_wbuf from) {
    for (uint32_t r = 0; r < line->operand_count; r++) {
        if (hn_wrapper_root(w, line->operands[r].buffer) != from) continue;
        if (line->operands[r].buffer != from) return false; /* a view begins elsewhere */
        if (line->kind != HN_LINE_KERNEL || line->operands[r].written) return false;
        for (uint32_t k = 0; k < line->operand_count; k++)
            if (line->operands[k].buffer == to &&
                !(line->operands[k].written && hn_woperand_is_over(&line->operands[k], r)))
                return false;
    }
    return line->kind != HN_LINE_COPY || hn_wrapper_root(w, line->from) != from;
}

static bool are_alike(const hn_wrapper *w, hn_wbuf a, hn_wbuf b) {
    const hn_wbuffer *x = &w->buffers.items[a], *y = &w->buffers.items[b];
    const bool has_memory = y->kind == HN_WBUF_TEMP || y->kind == HN_WBUF_OUTPUT;
    return a != b && x->kind == HN_WBUF_TEMP && has_memory && x->device == y->device &&
           x->bytes == y->bytes && !hn_wrapper_is_data(w->sym, x->bytes);
}

/* What stands above, for the copy at line `copy` in `block`, the body of the loop at line `loop`,
 * whose lines end before `end`. */
static bool is_right(const carrier *x, uint32_t loop, uint32_t copy, uint32_t end) {
    const hn_wrapper *w = x->w;
    const hn_wbuf c = w->lines.items[copy].buffer, n = w->lines.items[copy].from;
    const uint32_t block = x->lives.line_block[copy];
    const hn_wlife *life = &x->lives.buffers[n];
    uint32_t first = UINT32_MAX;
    if (!are_alike(w, n, c) || life->block != block) return false;
    for (uint32_t i = loop + 1; i < end; i++) {
        const hn_line *line = &w->lines.items[i];
        if (x->is_gone[i] || i == copy) continue;
        if (mentions(w, line, n)) {
            if (x->lives.line_block[i] != block || line->kind == HN_LINE_VIEW) return false;
            if (first == UINT32_MAX && (!writes(line, n) || !allows(w, line, n, c))) return false;
            if (first == UINT32_MAX) first = i;
            else if (mentions(w, line, c)) return false;
        } else if (first != UINT32_MAX && mentions(w, line, c)) {
            return false;
        }
    }
    return first != UINT32_MAX;
}

/* Operands are shared with nothing: a line has a list of its own. */
static hn_status rename_in(hn_wrapper *w, hn_line *line, hn_wbuf from, hn_wbuf to) {
    hn_woperand *operands;
    if (line->kind == HN_LINE_COPY) {
        if (line->buffer == from) line->buffer = to;
        if (line->from == from) line->from = to;
        return NULL;
    }
    if (!mentions(w, line, from)) return NULL;
    HN_NEW(w->arena, operands, line->operand_count);
    for (uint32_t k = 0; k < line->operand_count; k++) {
        operands[k] = line->operands[k];
        if (operands[k].buffer == from) operands[k].buffer = to;
    }
    line->operands = operands;
    return NULL;
}

static hn_status carry_in_place(carrier *x, uint32_t copy, uint32_t loop, uint32_t end) {
    hn_wrapper *w = x->w;
    const hn_wbuf c = w->lines.items[copy].buffer, n = w->lines.items[copy].from;
    x->is_gone[copy] = x->any = true;
    for (uint32_t i = loop + 1; i < end; i++)
        if (!x->is_gone[i]) HN_TRY(rename_in(w, &w->lines.items[i], n, c));
    return NULL;
}

/* The copies at the end of the body. */
static hn_status visit_loop(carrier *x, uint32_t loop) {
    const hn_line *line = &x->w->lines.items[loop];
    const uint32_t body = loop + 1 + line->then_count, end = body + line->otherwise_count;
    uint32_t first = end;
    if (body == end) return NULL;
    const uint32_t block = x->lives.line_block[end - 1];
    while (first > body && x->w->lines.items[first - 1].kind == HN_LINE_COPY &&
           x->lives.line_block[first - 1] == block)
        first--;
    if (x->lives.blocks.items[block].line != loop) return NULL; /* the end of a body inside */
    for (uint32_t i = first; i < end; i++)
        if (is_right(x, loop, i, end) &&
            hn_limit_allows(x->w->limit, "what a loop carries is computed in place (carry.c)",
                            line->origin, 0))
            HN_TRY(carry_in_place(x, i, loop, end));
    return NULL;
}

/* Bodies become shorter by the lines that are gone. */
static hn_status drop_lines(carrier *x) {
    hn_wrapper *w = x->w;
    uint32_t *gone, left = 0; /* gone[i]: in front of line i */
    HN_NEW(w->arena, gone, (size_t)w->lines.count + 1);
    for (uint32_t i = 0; i < w->lines.count; i++) gone[i + 1] = gone[i] + x->is_gone[i];
    for (uint32_t i = 0; i < w->lines.count; i++) {
        hn_line line = w->lines.items[i];
        if (hn_line_has_bodies(line.kind)) {
            const uint32_t middle = i + 1 + line.then_count, end = middle + line.otherwise_count;
            line.then_count -= gone[middle] - gone[i + 1];
            line.otherwise_count -= gone[end] - gone[middle];
        }
        if (!x->is_gone[i]) w->lines.items[left++] = line;
    }
    w->lines.count = left;
    return NULL;
}

static hn_status run(carrier *x, hn_arena *scratch) {
    HN_TRY(hn_wrapper_lives(x->w, scratch, &x->lives));
    HN_NEW(scratch, x->is_gone, x->w->lines.count);
    for (uint32_t i = 0; i < x->w->lines.count; i++)
        if (x->w->lines.items[i].kind == HN_LINE_LOOP) HN_TRY(visit_loop(x, i));
    return x->any ? drop_lines(x) : NULL;
}

hn_status hn_wrapper_carry(hn_wrapper *w) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    carrier x = {.w = w};
    hn_status status = run(&x, &scratch);
    hn_arena_deinit(&scratch);
    return hn_status_annotate(status, "cannot carry values in place");
}
