/* swap.c: what a loop carries changes places with what a round makes of it, in place of being copied.
 *
 *   loop rounds(s0) {                            loop rounds(s0 // 2) {
 *     call k1(b5 f32, out b7 f32) ...              call k1(b5 f32, out b7 f32) ...
 *     copy b5 from b7                     ->       call k1(b7 f32, out b5 f32) ...
 *   }                                            }
 *                                                loop rounds(Mod(Max(0, s0), 2)) {
 *                                                  call k1(b5 f32, out b8 f32) ...
 *                                                  copy b5 from b8
 *                                                }
 *
 * Two rounds are one: the second reads what the first has made, and makes it where that has read.
 * Other temporaries of the body are others in the second round, so that they live as short as
 * before. One round may be left over.
 *
 * The loop stands in no other one and has a number of rounds; its body is short and has no lines but
 * calls, copies, assertions and comments. Of the copies at its end, of n into c, those go of which
 * all of this holds: n is a temporary that only the body mentions, as large as c and on its device;
 * no other one of these copies mentions n or c.
 *
 * Requires, preserves: as carry.c, behind which it runs. */
#include "wrapper/carry.h"

#include "wrapper/lifetime.h"
#include "wrapper/slots.h"

enum { BODY_LINES = 32 }; /* at most: a program has them three times */

typedef struct swapper {
    hn_wrapper *w;
    hn_arena *scratch;
    hn_wlives lives;
    hn_wbuf *names; /* per buffer that there was: what it is called in the round at hand */
    uint32_t buffer_count;
    bool *is_gone; /* per line: a copy that is not made */
    bool any;
    struct {
        hn_line *items;
        uint32_t count, cap;
    } out;
} swapper;

typedef struct body {
    uint32_t loop, first, copies, end; /* lines; from `copies` on only copies */
} body;

/* ---- which copies go ---- */

static bool is_simple(const swapper *x, const body *b) {
    for (uint32_t i = b->first; i < b->end; i++) {
        const hn_line_kind kind = x->w->lines.items[i].kind;
        if (kind != HN_LINE_KERNEL && kind != HN_LINE_EXTERN && kind != HN_LINE_COPY &&
            kind != HN_LINE_ASSERT && kind != HN_LINE_COMMENT)
            return false;
    }
    return b->end - b->first <= BODY_LINES;
}

/* Whether only this body mentions a temporary. */
static bool is_inner(const swapper *x, const body *b, hn_wbuf n) {
    return hn_wbuf_is_inner(x->w->buffers.items[n].kind) && x->lives.buffers[n].used &&
           x->lives.buffers[n].block == x->lives.line_block[b->first];
}

static bool are_alike(const hn_wrapper *w, hn_wbuf n, hn_wbuf c) {
    const hn_wbuffer *x = &w->buffers.items[n], *y = &w->buffers.items[c];
    const bool has_memory = y->kind == HN_WBUF_TEMP || y->kind == HN_WBUF_OUTPUT;
    return n != c && x->kind == HN_WBUF_TEMP && has_memory && x->device == y->device &&
           x->bytes == y->bytes && !hn_wrapper_is_data(w->sym, x->bytes);
}

static bool is_right(const swapper *x, const body *b, uint32_t copy) {
    const hn_wrapper *w = x->w;
    const hn_wbuf c = w->lines.items[copy].buffer, n = w->lines.items[copy].from;
    if (!are_alike(w, n, c) || !is_inner(x, b, n)) return false;
    for (uint32_t i = b->copies; i < b->end; i++) {
        const hn_line *line = &w->lines.items[i];
        if (i != copy &&
            (line->buffer == c || line->from == c || line->buffer == n || line->from == n))
            return false;
    }
    return true;
}

/* A view of either would stay where it is. */
static bool has_views(const swapper *x, hn_wbuf b) {
    for (hn_wbuf v = 1; v < x->w->buffers.count; v++)
        if (x->w->buffers.items[v].kind == HN_WBUF_VIEW && x->w->buffers.items[v].root == b)
            return true;
    return false;
}

static bool choose_copies(swapper *x, const body *b) {
    bool any = false;
    for (uint32_t i = b->copies; i < b->end; i++) {
        const hn_line *line = &x->w->lines.items[i];
        x->is_gone[i] =
            is_right(x, b, i) && !has_views(x, line->buffer) && !has_views(x, line->from);
        any |= x->is_gone[i];
    }
    return any;
}

/* ---- rounds ---- */

static hn_status add_line(swapper *x, const hn_line *line) {
    HN_PUSH(x->w->arena, &x->out, *line);
    return NULL;
}

static hn_status add_renamed(swapper *x, const hn_line *line) {
    hn_line copy = *line;
    hn_woperand *operands;
    HN_NEW(x->w->arena, operands, line->operand_count);
    for (uint32_t k = 0; k < line->operand_count; k++) {
        operands[k] = line->operands[k];
        operands[k].buffer = x->names[operands[k].buffer];
    }
    copy.operands = line->operand_count ? operands : NULL;
    copy.buffer = x->names[line->buffer];
    copy.from = x->names[line->from];
    copy.workspace = x->names[line->workspace];
    return add_line(x, &copy);
}

static void name_all(swapper *x) {
    for (hn_wbuf n = 0; n < x->buffer_count; n++) x->names[n] = n;
}

/* Temporaries of the body that do not change places get other names: each round has its own. */
static hn_status name_inner(swapper *x, const body *b) {
    for (hn_wbuf n = 1; n < x->buffer_count; n++) {
        if (x->names[n] != n || !is_inner(x, b, n)) continue;
        const hn_wbuffer copy = x->w->buffers.items[n];
        HN_TRY(hn_wrapper_add_buffer(x->w, copy, &x->names[n]));
    }
    return NULL;
}

static void swap_names(swapper *x, const body *b) {
    for (uint32_t i = b->copies; i < b->end; i++) {
        const hn_line *line = &x->w->lines.items[i];
        if (x->is_gone[i]) x->names[line->buffer] = line->from, x->names[line->from] = line->buffer;
    }
}

static hn_status add_round(swapper *x, const body *b, bool with_all) {
    for (uint32_t i = b->first; i < b->end; i++)
        if (with_all || !x->is_gone[i]) HN_TRY(add_renamed(x, &x->w->lines.items[i]));
    return NULL;
}

static hn_status add_loop(swapper *x, const body *b, hn_expr rounds, uint32_t *out_at) {
    hn_line line = x->w->lines.items[b->loop];
    line.rounds = rounds;
    *out_at = x->out.count;
    return add_line(x, &line);
}

static void end_loop(swapper *x, uint32_t at) {
    x->out.items[at].otherwise_count = x->out.count - at - 1;
}

static hn_status write_pairs(swapper *x, const body *b, hn_expr rounds) {
    uint32_t at;
    HN_TRY(add_loop(x, b, rounds, &at));
    name_all(x);
    HN_TRY(add_round(x, b, false));
    swap_names(x, b);
    HN_TRY(name_inner(x, b));
    HN_TRY(add_round(x, b, false));
    end_loop(x, at);
    return NULL;
}

static hn_status write_rest(swapper *x, const body *b, hn_expr rounds) {
    uint32_t at;
    if (hn_sym_is_value(x->w->sym, rounds, 0)) return NULL;
    HN_TRY(add_loop(x, b, rounds, &at));
    name_all(x);
    HN_TRY(name_inner(x, b));
    HN_TRY(add_round(x, b, true));
    end_loop(x, at);
    return NULL;
}

static hn_status write_swapped(swapper *x, const body *b) {
    hn_sym *sym = x->w->sym;
    const hn_expr two = hn_sym_int(sym, 2),
                  rounds = hn_sym_max(sym, x->w->lines.items[b->loop].rounds, hn_sym_int(sym, 0));
    x->any = true;
    HN_TRY(write_pairs(x, b, hn_sym_floordiv(sym, rounds, two)));
    HN_TRY(write_rest(x, b, hn_sym_mod(sym, rounds, two)));
    return hn_sym_status(sym);
}

/* ---- the pass ---- */

static bool find_body(const swapper *x, uint32_t loop, body *out) {
    const hn_line *line = &x->w->lines.items[loop];
    int64_t rounds;
    if (line->kind != HN_LINE_LOOP || !line->rounds || line->then_count || !line->otherwise_count)
        return false;
    if (hn_sym_is_int(x->w->sym, line->rounds, &rounds) && rounds < 2) return false;
    *out = (body){.loop = loop, .first = loop + 1, .end = loop + 1 + line->otherwise_count};
    out->copies = out->end;
    while (out->copies > out->first && x->w->lines.items[out->copies - 1].kind == HN_LINE_COPY)
        out->copies--;
    return is_simple(x, out);
}

static hn_status run(swapper *x) {
    hn_wrapper *w = x->w;
    body b;
    HN_TRY(hn_wrapper_lives(w, x->scratch, &x->lives));
    HN_NEW(x->scratch, x->is_gone, w->lines.count);
    HN_NEW(x->scratch, x->names, w->buffers.count);
    x->buffer_count = w->buffers.count;
    for (uint32_t i = 0; i < w->lines.count; i = x->lives.line_end[i] + 1) {
        if (find_body(x, i, &b) && choose_copies(x, &b) &&
            hn_limit_allows(w->limit, "what a loop carries changes places (swap.c)",
                            w->lines.items[i].origin, 0)) {
            HN_TRY(write_swapped(x, &b));
            continue;
        }
        for (uint32_t k = i; k <= x->lives.line_end[i]; k++)
            HN_TRY(add_line(x, &w->lines.items[k]));
    }
    if (!x->any) return NULL;
    w->lines.items = x->out.items;
    w->lines.count = x->out.count;
    w->lines.cap = x->out.cap;
    return NULL;
}

hn_status hn_wrapper_swap(hn_wrapper *w) {
    hn_arena scratch;
    bool has_loops = false;
    for (uint32_t i = 0; i < w->lines.count; i++)
        has_loops |= w->lines.items[i].kind == HN_LINE_LOOP;
    if (!has_loops) return NULL;
    hn_arena_init(&scratch);
    swapper x = {.w = w, .scratch = &scratch};
    hn_status status = run(&x);
    hn_arena_deinit(&scratch);
    return hn_status_annotate(status, "cannot swap what loops carry");
}
