/* reuse.c: writes the REUSE lines, and says which of them are right.
 *
 * A kernel that is the last to read temporary b2 and the first to write temporary b3 may write b3
 * where b2 is, when the kernel's form allows it (hn_woperand.over, proved in
 * kernel/cpu_in_place.c):
 *
 *   call k1(b1 f32, out b2 f32) ...                    call k1(b1 f32, out b2 f32) ...
 *   call k2(out b3 f32 over [1], b2 f32) ...    ->     reuse b3 from b2
 *                                                      call k2(out b3 f32 over [1], b2 f32) ...
 *
 * Without it both would be alive in that line. One pass over the lines in order, each memory is
 * taken at most once.
 *
 * So may a result, also one for the caller, take the memory of an input that the caller gives up.
 *
 * Requires: no memory lines yet. Establishes: what is_right checks, for every line written. The
 * planner gives the buffers of such a chain one place and one life. */
#include "wrapper/reuse.h"

#include "wrapper/donate.h"
#include "wrapper/slots.h"

typedef struct pair {
    uint32_t line; /* in front of which the REUSE line stands */
    hn_wbuf to, from;
} pair;

typedef struct reuser {
    hn_wrapper *w;
    hn_arena *scratch;
    hn_wlives lives;
    bool *taken; /* per buffer */
    struct {
        pair *items;
        uint32_t count, cap;
    } pairs; /* in the order of lines */
} reuser;

static bool is_temp(const hn_wrapper *w, hn_wbuf b) {
    return w->buffers.items[b].kind == HN_WBUF_TEMP;
}

/* Whether such buffers may take each other's memory at all. */
static bool are_kinds_right(const hn_wrapper *w, hn_wbuf to, hn_wbuf from) {
    const bool is_output = w->buffers.items[to].kind == HN_WBUF_OUTPUT;
    if (hn_wrapper_is_donated(w, from)) return is_temp(w, to) || is_output;
    return is_temp(w, to) && is_temp(w, from);
}

/* Whether the kernel call writes `to`, reads `from`, and says of each such operand that the one may
 * be over the other. */
static bool allows(const hn_wrapper *w, const hn_line *line, hn_wbuf to, hn_wbuf from) {
    bool any = false;
    if (line->kind != HN_LINE_KERNEL) return false;
    for (uint32_t r = 0; r < line->operand_count; r++) {
        if (hn_wrapper_root(w, line->operands[r].buffer) != from) continue;
        if (line->operands[r].written) return false;
        bool found = false;
        for (uint32_t k = 0; k < line->operand_count; k++) {
            const hn_woperand *o = &line->operands[k];
            if (hn_wrapper_root(w, o->buffer) != to) continue;
            if (!o->written || !hn_woperand_is_over(o, r)) return false;
            found = true;
        }
        if (!found) return false;
        any = true;
    }
    return any;
}

static hn_expr bytes_of(const hn_wrapper *w, hn_wbuf b) {
    return w->buffers.items[b].kind == HN_WBUF_INPUT ? hn_wrapper_input_bytes(w, b)
                                                     : w->buffers.items[b].bytes;
}

/* What speaks against `to` taking the memory of `from` at line `at`; NULL: nothing. `user`: the
 * line that writes `to` and may read `from`; `at` itself while there is no REUSE line yet. */
static const char *objection(const hn_wrapper *w, const hn_wlives *lives, uint32_t at,
                             uint32_t user, hn_wbuf to, hn_wbuf from) {
    const hn_wlife *a = &lives->buffers[from], *b = &lives->buffers[to];
    const bool is_input = w->buffers.items[from].kind == HN_WBUF_INPUT;
    hn_expr have = bytes_of(w, from), need = w->buffers.items[to].bytes;
    if (to == from || !are_kinds_right(w, to, from))
        return "only temporaries take each other's memory, or that of a donated input";
    if (!a->used || !b->used || a->block != lives->line_block[at] || b->block != a->block ||
        (is_input && a->block))
        return "both must live among the lines where the memory is handed over";
    if (is_input && !have) return "the input is not contiguous";
    if ((a->first >= at && !is_input) || b->first < at)
        return "the one must be there before, the other only from here on";
    if (w->buffers.items[to].device != w->buffers.items[from].device)
        return "they are on different devices";
    if (a->last > user) return "the memory is still needed";
    if (hn_wrapper_is_data(w->sym, have) || hn_wrapper_is_data(w->sym, need))
        return "a size depends on data";
    if (have != need && !hn_sym_prove_le(w->sym, need, have)) return "the memory may be too small";
    if (a->last == user && a->last != at && !allows(w, &w->lines.items[user], to, from))
        return "the next line reads the memory, and does not say that it may be written over";
    return NULL;
}

/* ---- the pass ---- */

static bool fits(const reuser *r, uint32_t at, hn_wbuf to, hn_wbuf from) {
    const hn_wrapper *w = r->w;
    if (!from || from >= w->buffers.count || r->taken[from] || r->lives.buffers[from].last != at)
        return false;
    /* A smaller one would hold on to the larger one's memory. */
    if (bytes_of(w, from) != w->buffers.items[to].bytes) return false;
    return !objection(w, &r->lives, at, at, to, from) && allows(w, &w->lines.items[at], to, from);
}

static hn_status find_in_line(reuser *r, uint32_t at) {
    const hn_line *line = &r->w->lines.items[at];
    for (uint32_t k = 0; k < line->operand_count; k++) {
        const hn_woperand *o = &line->operands[k];
        const uint32_t end = o->over_first + 64;
        for (uint32_t from = o->over_first; o->over && from < line->operand_count && from < end;
             from++) {
            if (!hn_woperand_is_over(o, from) ||
                !fits(r, at, o->buffer, line->operands[from].buffer) ||
                !hn_limit_allows(r->w->limit, "a result takes the memory of an operand (reuse.c)",
                                 line->origin, 0))
                continue;
            r->taken[line->operands[from].buffer] = true;
            HN_PUSH(r->scratch, &r->pairs, ((pair){at, o->buffer, line->operands[from].buffer}));
            break;
        }
    }
    return NULL;
}

/* Puts the lines in; the bodies of conditionals and loops grow by what is put into them. */
static hn_status write_lines(reuser *r) {
    hn_wrapper *w = r->w;
    hn_line *lines;
    /* before[i]: how many come in front of line i */
    uint32_t *before, at = 0, count = w->lines.count;
    HN_NEW(r->scratch, before, (size_t)count + 1);
    HN_NEW(w->arena, lines, (size_t)count + r->pairs.count);
    for (uint32_t i = 0, p = 0; i <= count; i++) {
        before[i] = p; /* those in front of line i itself are in the body that line i is in */
        while (i < count && p < r->pairs.count && r->pairs.items[p].line == i) p++;
    }
    for (uint32_t i = 0, p = 0; i < count; i++) {
        hn_line line = w->lines.items[i];
        if (hn_line_has_bodies(line.kind)) {
            uint32_t middle = i + 1 + line.then_count, end = middle + line.otherwise_count;
            line.then_count += before[middle] - before[i + 1];
            line.otherwise_count += before[end] - before[middle];
        }
        for (; p < r->pairs.count && r->pairs.items[p].line == i; p++)
            lines[at++] = (hn_line){.kind = HN_LINE_REUSE,
                                    .buffer = r->pairs.items[p].to,
                                    .from = r->pairs.items[p].from};
        lines[at++] = line;
    }
    w->lines.items = lines;
    w->lines.count = w->lines.cap = at;
    return NULL;
}

static hn_status run(reuser *r) {
    HN_TRY(hn_wrapper_lives(r->w, r->scratch, &r->lives));
    HN_NEW(r->scratch, r->taken, r->w->buffers.count);
    for (uint32_t i = 0; i < r->w->lines.count; i++)
        if (r->w->lines.items[i].kind == HN_LINE_KERNEL) HN_TRY(find_in_line(r, i));
    return r->pairs.count ? write_lines(r) : NULL;
}

hn_status hn_wrapper_reuse(hn_wrapper *w) {
    hn_arena scratch;
    hn_arena_init(&scratch);
    reuser r = {.w = w, .scratch = &scratch};
    hn_status status = run(&r);
    hn_arena_deinit(&scratch);
    return hn_status_annotate(status, "cannot reuse memory");
}

/* ---- the check ---- */

static bool is_memory_line(hn_line_kind kind) {
    return kind == HN_LINE_COMMENT || kind == HN_LINE_ALLOCATE || kind == HN_LINE_FREE ||
           kind == HN_LINE_REUSE || kind == HN_LINE_ZERO; /* of another buffer */
}

/* The line that a REUSE line speaks of: the next one of its block that does something; `at` when
 * there is none. */
static uint32_t user_of(const hn_wrapper *w, const hn_wlives *lives, uint32_t at) {
    uint32_t i = at + 1;
    while (i < w->lines.count && is_memory_line(w->lines.items[i].kind)) i++;
    return i < w->lines.count && lives->line_block[i] == lives->line_block[at] ? i : at;
}

hn_status hn_wrapper_reuse_verify(const hn_wrapper *w, hn_arena *arena) {
    hn_wlives lives = {0};
    bool *taken = NULL;
    for (uint32_t i = 0; i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        if (line->kind != HN_LINE_REUSE) continue;
        if (!taken) {
            HN_TRY(hn_wrapper_lives(w, arena, &lives));
            HN_NEW(arena, taken, w->buffers.count);
        }
        const char *why = objection(w, &lives, i, user_of(w, &lives, i), line->buffer, line->from);
        if (!why && taken[line->from]) why = "another one has taken it";
        if (why)
            return HN_ERROR(HN_INTERNAL,
                            "wrapper: line %u: buffer %u cannot have the memory of buffer %u: %s",
                            i, line->buffer, line->from, why);
        taken[line->from] = true;
    }
    return NULL;
}
