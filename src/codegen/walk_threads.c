/* walk_threads.c: ACROSS of threads, and MOVE. Of an ACROSS, the threads of a row combine a register
 * in up to two stages: those of a warp read each other's registers; then one number of each warp, or
 * where rows are not neighbours of each thread, goes through shared memory. Every thread has the
 * result. Of a group of several blocks each warp reads the numbers of all of them. Registers that are
 * combined one behind the other go through each stage together: a barrier takes as long for one. */
#include "codegen/walk_internal.h"

/* Threads read one after the other what so many have written; more meet in a tree. */
enum { SERIAL_MOST = 32 };

/* An ACROSS, and what it goes through. */
typedef struct across {
    const hn_form_stmt *s;
    const hn_form_register *reg;
    name r, p;           /* the register and its position; */
    name values, places; /* shared memory for them */
    bool has_place;
    uint32_t warp, exchanged;
} across;

/* ACROSSes one behind the other, of the same rows of threads: they wait at the same barriers. */
enum { RUN_MOST = 8 };
typedef struct run {
    across items[RUN_MOST];
    uint32_t count;
} run;

static bool exchanges(const hn_form_stmt *s) {
    return s->kind == HN_FORM_ACROSS || s->kind == HN_FORM_BEFORE;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* BEFORE: the threads of a row that read each other's registers; and the numbers that go through
 * memory. */
static uint32_t block_of(const hn_form_stmt *s, uint32_t warp) {
    return s->pitch > 1 ? 1 : least(s->width, warp);
}

static uint32_t exchanged_before(const hn_form *f, const hn_form_stmt *s, uint32_t warp) {
    return s->width > 1 ? f->threads / block_of(s, warp) : 0;
}

/* Each has memory of its own, so that the next one need not wait. */
static across across_of(const walk *w, hn_fid at) {
    const hn_form_stmt *s = &w->f->stmts.items[at];
    const hn_form_register *reg = &w->f->registers.items[s->reg];
    uint32_t number = 0;
    for (hn_fid before = 1; before < at; before++) number += exchanges(&w->f->stmts.items[before]);
    return (across){.s = s,
                    .reg = reg,
                    .r = walk_register(w, s->reg, 0),
                    .p = walk_position(w, s->reg, 0),
                    .values = walk_name('x', number),
                    .places = walk_name('y', number),
                    .has_place = hn_op_keeps_position(reg->op),
                    .warp = w->l->shuffle_threads,
                    .exchanged = s->kind == HN_FORM_BEFORE
                                     ? exchanged_before(w->f, s, w->l->shuffle_threads)
                                     : hn_form_exchanged(w->f->threads, w->l->shuffle_threads,
                                                         s->width, s->pitch)};
}

static const char *type_of(const walk *w, hn_dtype dtype) {
    return w->l->types.of[walk_class(dtype)];
}

/* Each block has the numbers of its own threads. */
static void put_exchange(walk *w, hn_dtype dtype, name n, uint32_t count) {
    walk_put_line(w, w->l->shared, HN_DTYPE_NONE,
                  OPERANDS(TEXT(type_of(w, dtype)), TEXT(n.text), TEXT(walk_number(count).text)));
}

void walk_put_exchanges(walk *w) {
    for (hn_fid at = 1; at < w->f->stmts.count; at++) {
        if (!exchanges(&w->f->stmts.items[at])) continue;
        const across a = across_of(w, at);
        if (!a.exchanged) continue;
        const uint32_t count = a.exchanged / w->f->blocks;
        put_exchange(w, a.reg->dtype, a.values, count);
        if (a.has_place) put_exchange(w, HN_DTYPE_I64, a.places, count);
    }
}

/* Which threads of its warp there are, as bits: of a group that fills no warp not all. */
static void put_mask(const walk *w, char out[64]) {
    const uint32_t warp = w->l->shuffle_threads, threads = w->f->threads / w->f->blocks,
                   rest = threads % warp, bits = rest ? (1u << rest) - 1 : 0;
    if (!rest) snprintf(out, 64, "0xffffffffu");
    else if (threads < warp) snprintf(out, 64, "0x%xu", bits);
    else
        snprintf(out, 64, "(thread %% %u < %u ? 0xffffffffu : 0x%xu)", threads, threads - rest,
                 bits);
}

/* const float v = ...; where `text` gives it from `from` and `at`. */
static void put_other(walk *w, hn_dtype dtype, const char *n, const char *text, name from,
                      const char *at) {
    char mask[64];
    put_mask(w, mask);
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "const %s %s = ", type_of(w, dtype), n);
    walk_put(w, text, dtype, OPERANDS(TEXT(from.text), TEXT(at), TEXT(mask)));
    hn_strbuf_puts(&w->out, ";\n");
}

/* The register combined with that of another thread; `text` of it and `at` is how to get there. */
static void put_combined(walk *w, const across *a, const char *text, bool from_memory,
                         const char *at) {
    put_other(w, a->reg->dtype, "v", text, from_memory ? a->values : a->r, at);
    if (a->has_place) put_other(w, HN_DTYPE_I64, "q", text, from_memory ? a->places : a->p, at);
    walk_put_combine(w, a->reg, a->r.text, a->p.text, "v", "q");
}

/* for (int k = ...) { */
static void open_loop(walk *w, const char *head) {
    walk_put_line(w, head, HN_DTYPE_NONE, NULL);
    w->depth++;
}

static void close_loop(walk *w) {
    w->depth--;
    walk_put_line(w, "}", HN_DTYPE_NONE, NULL);
}

/* Each in a block of its own, if there are several. */
static void put_combined_each(walk *w, const run *all, const char *text, const char *at) {
    for (uint32_t k = 0; k < all->count; k++) {
        if (all->count > 1) open_loop(w, "{");
        put_combined(w, &all->items[k], text, false, at);
        if (all->count > 1) close_loop(w);
    }
}

static void put_shuffles(walk *w, const run *all, uint32_t from, uint32_t end) {
    char head[96];
    if (from >= end) return;
    snprintf(head, sizeof head, "for (int k = %u; k < %u; k *= 2) {", from, end);
    open_loop(w, head);
    put_combined_each(w, all, w->l->shuffle, "k");
    close_loop(w);
}

/* x0[at] = r0; */
static void put_written(walk *w, const across *a, const char *at) {
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "%s[%s] = %s;", a->values.text, at, a->r.text);
    if (a->has_place) hn_strbuf_printf(&w->out, " %s[%s] = %s;", a->places.text, at, a->p.text);
    hn_strbuf_putc(&w->out, '\n');
}

static void put_read(walk *w, const across *a, const char *at) {
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "%s = %s[%s];", a->r.text, a->values.text, at);
    if (a->has_place) hn_strbuf_printf(&w->out, " %s = %s[%s];", a->p.text, a->places.text, at);
    hn_strbuf_putc(&w->out, '\n');
}

void walk_put_barrier(walk *w) {
    walk_put_line(w, walk_is_cluster(w) ? w->l->clusters->barrier : w->l->barrier, HN_DTYPE_NONE,
                  NULL);
}

/* Halves onto halves. */
static void put_tree(walk *w, const across *a) {
    char text[96];
    snprintf(text, sizeof text, "for (int k = %u; k > 0; k /= 2) {", a->s->width / 2);
    open_loop(w, text);
    snprintf(text, sizeof text, "if (thread / %u %% %u < k) {", a->s->pitch, a->s->width);
    open_loop(w, text);
    snprintf(text, sizeof text, "thread + k * %u", a->s->pitch);
    put_combined(w, a, "$0[$1]", true, text);
    put_written(w, a, "thread");
    close_loop(w);
    walk_put_barrier(w);
    close_loop(w);
}

/* `count` numbers of a row, one after the other: all threads get the same bits. */
static void put_in_turn(walk *w, const across *a, uint32_t count, const char *first) {
    char text[160];
    snprintf(text, sizeof text, "for (int k = 1; k < %u; k++) {", count);
    open_loop(w, text);
    if (a->s->pitch > 1) snprintf(text, sizeof text, "%s + k * %u", first, a->s->pitch);
    else snprintf(text, sizeof text, "%s + k", first);
    put_combined(w, a, "$0[$1]", true, text);
    close_loop(w);
}

/* The same, where the lanes of a warp have several rows: those of one row share its numbers, and then
 * read each other's registers. */
static void put_in_lanes(walk *w, const across *a, uint32_t count, const char *first) {
    const uint32_t pitch = a->s->pitch, lanes = a->warp / pitch;
    char text[192], at[160];
    snprintf(at, sizeof at, "%s + thread %% %u / %u * %u", first, a->warp, pitch, pitch);
    put_read(w, a, at);
    if (count > lanes) {
        snprintf(text, sizeof text, "for (int k = %u; k < %u; k += %u) {", lanes, count, lanes);
        open_loop(w, text);
        snprintf(text, sizeof text, "%s + k * %u", at, pitch);
        put_combined(w, a, "$0[$1]", true, text);
        close_loop(w);
    }
}

/* Of threads that come in blocks, in memory where a block has `room`, and is `inner` long. */
static void put_place(char out[96], uint32_t block, uint32_t room, uint32_t inner) {
    int length = room == 1 ? snprintf(out, 96, "thread / %u", block)
                           : snprintf(out, 96, "thread / %u * %u", block, room);
    if (inner > 1) snprintf(out + length, (size_t)(96 - length), " + thread %% %u", inner);
}

/* Numbers that meet in memory, and how many of them are a row's. */
static bool is_one_a_warp(const walk *w, const across *a) { return a->exchanged < w->f->threads; }

static uint32_t count_of_row(const walk *w, const across *a) {
    return is_one_a_warp(w, a) ? a->s->width * a->s->pitch / a->warp : a->s->width;
}

static bool is_in_lanes(const walk *w, const across *a) {
    return is_one_a_warp(w, a) && a->s->pitch > 1 && count_of_row(w, a) * a->s->pitch >= a->warp;
}

static bool is_tree(const walk *w, const across *a) {
    return a->exchanged && !is_in_lanes(w, a) && count_of_row(w, a) > SERIAL_MOST;
}

/* The numbers of the warps, or of the threads, are there. */
static void put_of_memory(walk *w, const across *a) {
    const uint32_t pitch = a->s->pitch, count = count_of_row(w, a);
    char first[96];
    put_place(first, a->s->width * pitch, count * pitch, pitch);
    if (is_in_lanes(w, a)) {
        put_in_lanes(w, a, count, first);
        return;
    }
    if (count > SERIAL_MOST) put_tree(w, a);
    put_read(w, a, first);
    if (count <= SERIAL_MOST) put_in_turn(w, a, count, first);
}

static void put_written_each(walk *w, const run *all, const char *at) {
    for (uint32_t k = 0; k < all->count; k++) put_written(w, &all->items[k], at);
}

static void put_through_memory(walk *w, const run *all) {
    const across *a = &all->items[0];
    const uint32_t pitch = a->s->pitch;
    const bool one_a_warp = is_one_a_warp(w, a);
    char at[96];
    put_place(at, a->warp, pitch, pitch > 1 ? a->warp : 1);
    if (one_a_warp) {
        walk_begin_line(w);
        hn_strbuf_printf(&w->out, "if (thread %% %u < %u) {\n", a->warp, pitch);
        w->depth++;
    }
    put_written_each(w, all, one_a_warp ? at : "thread");
    if (one_a_warp) close_loop(w);
    walk_put_barrier(w);
    for (uint32_t k = 0; k < all->count; k++) put_of_memory(w, &all->items[k]);
    if (is_in_lanes(w, a)) put_shuffles(w, all, pitch, a->warp);
    if (w->loops) walk_put_barrier(w); /* it comes here again */
}

/* ---- groups of several blocks, which are one row ---- */

/* r0 or v = x0[at] of the block of that number. */
static void put_far(walk *w, const char *to, name from, const char *at, const char *block) {
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "%s = ", to);
    walk_put(w, w->l->clusters->far, HN_DTYPE_NONE,
             OPERANDS(TEXT(from.text), TEXT(at), TEXT(block)));
    hn_strbuf_puts(&w->out, ";\n");
}

/* Of the numbers of all warps, in the order of the threads, each lane reads every `lanes`th. */
static void put_far_in_turn(walk *w, const across *a, uint32_t count, uint32_t lanes,
                            uint32_t of_block) {
    char at[96], block[96], to[64];
    snprintf(at, sizeof at, "thread %% %u %% %u", lanes, of_block);
    snprintf(block, sizeof block, "thread %% %u / %u", lanes, of_block);
    put_far(w, a->r.text, a->values, at, block);
    if (a->has_place) put_far(w, a->p.text, a->places, at, block);
    if (count == lanes) return;
    snprintf(at, sizeof at, "for (int k = %u; k < %u; k += %u) {", lanes, count, lanes);
    open_loop(w, at);
    snprintf(at, sizeof at, "(thread %% %u + k) %% %u", lanes, of_block);
    snprintf(block, sizeof block, "(thread %% %u + k) / %u", lanes, of_block);
    snprintf(to, sizeof to, "const %s v", type_of(w, a->reg->dtype));
    put_far(w, to, a->values, at, block);
    snprintf(to, sizeof to, "const %s q", type_of(w, HN_DTYPE_I64));
    if (a->has_place) put_far(w, to, a->places, at, block);
    walk_put_combine(w, a->reg, a->r.text, a->p.text, "v", "q");
    close_loop(w);
}

/* One number of each warp lies in its block's memory: every warp reads them all. */
static void put_through_blocks(walk *w, const run *all) {
    const across *a = &all->items[0];
    const uint32_t threads = w->f->threads / w->f->blocks, of_block = threads / a->warp,
                   count = a->exchanged, lanes = least(count, a->warp);
    char text[96];
    if (threads % a->warp)
        walk_fail(w,
                  HN_ERROR(HN_UNSUPPORTED, "%s has no blocks of %u threads in a group of several",
                           w->l->name, threads));
    snprintf(text, sizeof text, "if (thread %% %u < 1) {", a->warp);
    open_loop(w, text);
    snprintf(text, sizeof text, "thread %% %u / %u", threads, a->warp);
    put_written_each(w, all, text);
    close_loop(w);
    walk_put_barrier(w);
    for (uint32_t k = 0; k < all->count; k++)
        put_far_in_turn(w, &all->items[k], count, lanes, of_block);
    put_shuffles(w, all, 1, lanes);
    if (w->loops) walk_put_barrier(w); /* it comes here again */
}

/* From statement `at` on. In a tree threads wait several times. */
static run run_of(const walk *w, hn_fid at) {
    run all = {.count = 0};
    for (; at && all.count < RUN_MOST; at = w->f->stmts.items[at].next) {
        const hn_form_stmt *s = &w->f->stmts.items[at];
        if (s->kind != HN_FORM_ACROSS) break;
        const across a = across_of(w, at);
        const hn_form_stmt *first = all.count ? all.items[0].s : s;
        if (s->width != first->width || s->pitch != first->pitch) break;
        if (all.count && is_tree(w, &a)) break;
        all.items[all.count++] = a;
    }
    return all;
}

hn_fid walk_put_across(walk *w, hn_fid at) {
    if (w->f->lanes) {
        walk_put_across_lanes(w, w->f->stmts.items[at].reg);
        return at;
    }
    const run all = run_of(w, at);
    const across *a = &all.items[0];
    const uint32_t row = a->s->width * a->s->pitch;
    put_shuffles(w, &all, a->s->pitch, least(row, a->warp));
    if (walk_is_cluster(w)) put_through_blocks(w, &all);
    else if (a->exchanged) put_through_memory(w, &all);
    for (uint32_t k = 1; k < all.count; k++) at = w->f->stmts.items[at].next;
    return at;
}

/* ---- BEFORE ---- */

/* Doubled reach by doubled reach: each has what its block has combined up to itself. */
static void put_block_prefixes(walk *w, const across *a, uint32_t block) {
    char text[96];
    snprintf(text, sizeof text, "for (int k = 1; k < %u; k *= 2) {", block);
    open_loop(w, text);
    put_other(w, a->reg->dtype, "v", w->l->shuffle_up, a->r, "k");
    if (a->has_place) put_other(w, HN_DTYPE_I64, "q", w->l->shuffle_up, a->p, "k");
    snprintf(text, sizeof text, "if (thread %% %u >= k) {", block);
    open_loop(w, text);
    walk_put_combine(w, a->reg, a->r.text, a->p.text, "v", "q");
    close_loop(w);
    close_loop(w);
}

/* The last thread of a block has all of it; what the threads before have, their neighbours take. */
static void put_blocks(walk *w, const across *a, uint32_t block) {
    char text[96];
    if (block == 1) {
        put_written(w, a, "thread");
        return;
    }
    snprintf(text, sizeof text, "if (thread %% %u == %u) {", block, block - 1);
    open_loop(w, text);
    snprintf(text, sizeof text, "thread / %u", block);
    put_written(w, a, text);
    close_loop(w);
    put_other(w, a->reg->dtype, "before", w->l->shuffle_up, a->r, "1");
    if (a->has_place) put_other(w, HN_DTYPE_I64, "place", w->l->shuffle_up, a->p, "1");
}

/* What all had, and then block after block of the row, in order; of the thread's own block what was
 * there before it. */
static void put_blocks_before(walk *w, const across *a, const across *all, uint32_t block) {
    const uint32_t width = a->s->width, pitch = a->s->pitch, count = width / block;
    char text[160], first[96];
    put_place(first, width * pitch, count * pitch, pitch);
    snprintf(text, sizeof text, "for (int k = 0; k < %u; k++) {", count);
    open_loop(w, text);
    walk_begin_line(w);
    if (pitch > 1) snprintf(text, sizeof text, "thread / %u %% %u", pitch, width);
    else snprintf(text, sizeof text, "thread %% %u / %u", width, block);
    if (count > 1) hn_strbuf_printf(&w->out, "if (%s == k) { ", text);
    hn_strbuf_printf(&w->out, "%s = %s;", a->r.text, all->r.text);
    if (a->has_place) hn_strbuf_printf(&w->out, " %s = %s;", a->p.text, all->p.text);
    hn_strbuf_puts(&w->out, count > 1 ? " }\n" : "\n");
    if (pitch > 1) snprintf(text, sizeof text, "%s + k * %u", first, pitch);
    else snprintf(text, sizeof text, "thread / %u * %u + k", width, count);
    put_other(w, a->reg->dtype, "v", "$0[$1]", a->values, text);
    if (a->has_place) put_other(w, HN_DTYPE_I64, "q", "$0[$1]", a->places, text);
    walk_put_combine(w, a->reg, all->r.text, all->p.text, "v", "q");
    close_loop(w);
}

/* ... and the threads before it in its block. */
static void put_prefix(walk *w, const across *a, const across *all, uint32_t block) {
    char text[96];
    put_blocks_before(w, a, all, block);
    if (block == 1) return;
    snprintf(text, sizeof text, "if (thread %% %u > 0) {", block);
    open_loop(w, text);
    walk_put_combine(w, a->reg, a->r.text, a->p.text, "before", "place");
    close_loop(w);
}

/* A row of one thread: it has what all had, and then all have its own. */
static void put_alone(walk *w, const across *a, const across *all) {
    put_other(w, a->reg->dtype, "v", "$0", a->r, "");
    if (a->has_place) put_other(w, HN_DTYPE_I64, "q", "$0", a->p, "");
    walk_begin_line(w);
    hn_strbuf_printf(&w->out, "%s = %s;", a->r.text, all->r.text);
    if (a->has_place) hn_strbuf_printf(&w->out, " %s = %s;", a->p.text, all->p.text);
    hn_strbuf_putc(&w->out, '\n');
    walk_put_combine(w, a->reg, all->r.text, all->p.text, "v", "q");
}

static void put_befores(walk *w, const across *a, const across *all) {
    const uint32_t block = block_of(a->s, a->warp);
    if (block > 1) put_block_prefixes(w, a, block);
    put_blocks(w, a, block);
    walk_put_barrier(w);
    put_prefix(w, a, all, block);
    if (w->loops) walk_put_barrier(w); /* it comes here again */
}

void walk_put_before(walk *w, hn_fid at) {
    const across a = across_of(w, at);
    across all = a;
    all.r = walk_register(w, a.s->all, 0);
    all.p = walk_position(w, a.s->all, 0);
    walk_put_line(w, "{", HN_DTYPE_NONE, NULL);
    w->depth++;
    if (a.exchanged) put_befores(w, &a, &all);
    else put_alone(w, &a, &all);
    w->depth--;
    walk_put_line(w, "}", HN_DTYPE_NONE, NULL);
}

/* ---- MOVE ---- */

static void put_one_move(walk *w, const hn_form_stmt *s) {
    walk_put_line(w, "$0[$1] = $2[$3];", HN_DTYPE_NONE,
                  OPERANDS(TEXT(walk_memory(s->memory).text), INDEX(s->index),
                           TEXT(walk_memory(s->from).text), INDEX(s->from_index)));
}

void walk_put_move(walk *w, const hn_form_stmt *s) {
    if (s->count == 1) {
        put_one_move(w, s);
        return;
    }
    const hn_form_memory *to = &w->f->memories.items[s->memory];
    const char *type = w->l->elements[to->dtype];
    const bool is_staged = to->space == HN_SPACE_STAGED && w->l->stages;
    walk_put_line(w, is_staged ? w->l->stages->move : w->l->move, HN_DTYPE_NONE,
                  OPERANDS(TEXT(walk_memory(s->memory).text), INDEX(s->index),
                           TEXT(walk_memory(s->from).text), INDEX(s->from_index),
                           TEXT(walk_number(s->count).text), TEXT(type)));
}

/* What registers have been read from memory outside of loops. A processor counts reads that are under
 * way in few counters: a loop that uses these registers would wait for its own reads with them. */
static void put_settled(walk *w) {
    for (hn_fmem m = 1; m < w->f->memories.count; m++) {
        const hn_form_memory *memory = &w->f->memories.items[m];
        int64_t elems = 0;
        if (memory->space != HN_SPACE_PRIVATE || !hn_sym_is_int(w->f->sym, memory->elems, &elems))
            continue;
        const int64_t bytes = elems * hn_dtype_facts(memory->dtype)->size_bytes;
        if (bytes % 4 == 0)
            walk_put_line(
                w, w->l->stages->settle, HN_DTYPE_NONE,
                OPERANDS(TEXT(walk_memory(m).text), TEXT(walk_number((uint32_t)(bytes / 4)).text)));
    }
}

void walk_put_await(walk *w, const hn_form_stmt *s) {
    if (!w->l->stages) return; /* there is nothing to wait for */
    if (w->staged_bytes) walk_put_line(w, w->l->stages->await[s->count], HN_DTYPE_NONE, NULL);
    if (!w->loops && !s->count) put_settled(w);
}
