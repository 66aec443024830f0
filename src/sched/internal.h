/* internal.h: what the files of sched/ share. */
#ifndef HN_SCHED_INTERNAL_H
#define HN_SCHED_INTERNAL_H

#include "base/map.h"
#include "sched/sched.h"

/* Limits of one group. Source: reference/inductor-behaviour.md 11.1.5; the dims bound keeps index
 * expressions small. */
enum { MAX_MEMBERS = 64, MAX_DIMS = 8 };

/* For a size without a hint. */
enum { HINT_ELEMS = 1024 };

/* Of each buffer, so many groups are known that touched it last. */
enum { FUSE_TOUCHED_MAX = 6 };

/* A list of extents. */
typedef struct dims {
    uint32_t count;
    hn_expr items[HN_MAX_RANK];
} dims;

/* A loop rewritten over the variables of its group: the group's outer dims, then its own inner
 * ones. */
typedef struct member {
    hn_loop *loop;
    uint32_t origin;
    dims inner; /* POINTWISE in a flat group: empty; REDUCE: its reduction dims */
    uint32_t phase;
    /* A reduction down columns, of slabs: a POINTWISE loop over rows and columns, which combines by
     * its reduce_op what it stores; its store index is of the first slab. */
    bool is_column;
} member;

/* flat: pointwise loops of one space, no row decided; row: outer dims and inner ones; column: rows
 * are vector lanes. */
typedef enum group_form { GROUP_FLAT, GROUP_ROW, GROUP_COLUMN, GROUP_SINGLE } group_form;

typedef struct group {
    uint32_t id; /* from 1 on, in the order of their creation; 0: made by again.c */
    group_form form;
    dims outer;
    struct {
        member *items;
        uint32_t count, cap;
    } members;
    hn_item item; /* of an extern or assert: not fusable */
    bool is_loop;
    uint32_t slabs;     /* of rows, for members that are columns; 0: there are none */
    hn_expr slab_elems; /* columns */
    uint32_t combined;  /* 1 + the group that combines the slabs of the first such member; or 0 */
} group;

typedef struct sched {
    hn_program *p;
    hn_sym *sym;
    hn_arena *arena, *scratch;
    const hn_sched_options *options;
    /* in execution order: a group reads only from itself and earlier ones */
    struct {
        group *items;
        uint32_t count, cap;
    } groups;
    uint32_t *writer_group; /* per buffer: 1 + newest group that writes it */
    uint32_t *reader_group; /* per buffer: 1 + newest group that reads it */
    /* per buffer: 1 + the groups that touched it last, the newest one first; 0: no more */
    struct {
        uint32_t groups[FUSE_TOUCHED_MAX];
    } * touched;
    uint32_t *item_readers; /* per buffer: how many items read it, before fusion */
    uint32_t *seen;         /* per buffer: `seen_now` when it was met last */
    uint32_t seen_now;
    uint32_t *readers; /* per buffer: how many items read it */
    /* per buffer: how many loops write it (the pieces of a cat), and extern items */
    uint32_t *writers;
    /* loops may not join groups before this one: conditionals bracket them */
    uint32_t barrier;
    bool changed; /* remade.c or again.c has changed what groups read */
    hn_schedule *out;
} sched;

/* dims.c */
hn_expr dims_numel(sched *s, const dims *d);
dims dims_part(const dims *d, uint32_t first, uint32_t count);
/* a / b when b divides a for certain, else 0. */
hn_expr dims_quotient(sched *s, hn_expr a, hn_expr b);
/* The common refinement of two lists with equal products: every dim of a and of b is a product of
 * consecutive dims of `out`. False when there is none. */
bool dims_refine(sched *s, const dims *a, const dims *b, dims *out);
/* As dims_refine, but `a` may be longer: `out` refines b, `rest` is what is left of a. */
bool dims_refine_prefix(sched *s, const dims *a, const dims *b, dims *out, dims *rest);
/* Rewrites a loop over new dims (a refinement of its own, parallel then reduction); false when they
 * do not line up. */
bool loop_revar(sched *s, hn_loop *loop, const dims *to, uint32_t to_rank);
dims loop_dims(sched *s, const hn_loop *loop);
/* Drops dims of one iteration and merges neighbours that every index walks as one. */
void loop_normalize(sched *s, hn_loop *loop);
/* Whether every index of the loop walks the neighbours a (outer) and b (inner) as one dimension. */
bool loop_merges(sched *s, const hn_loop *loop, hn_expr a, hn_expr b);
/* Applies a substitution to every index expression of a loop. */
void loop_subst(sched *s, hn_loop *loop, const hn_expr *from, const hn_expr *to, uint32_t count);

/* Asked before a rewrite, with the nodes that it brings together. */
static inline bool sched_allows(const sched *s, hn_sched_rewrite rewrite, uint32_t origin,
                                uint32_t other) {
    return hn_limit_allows(s->options->limit, hn_sched_rewrite_kind_of(rewrite)->sentence, origin,
                           other);
}

/* Once a rewrite has been done. */
static inline void sched_done(sched *s, hn_sched_rewrite rewrite) { s->out->rewrites[rewrite]++; }

/* calls.c: before loops are grouped. */
hn_status sched_calls(sched *s) HN_MUST_USE;

/* fuse_refused.c */
/* Adds to the list of refused fusions. */
hn_status sched_refuse(sched *s, const hn_refusal *refusal) HN_MUST_USE;

/* split.c */
/* Splits a long reduction with few results: `loop` becomes the first stage, `*out_second` (NULL:
 * not split) the second. */
hn_status loop_split(sched *s, hn_loop *loop, uint32_t origin, hn_loop **out_second) HN_MUST_USE;

/* scan.c */
enum { SCAN_STAGES = 4 };
/* The loops that take the place of a scan of few long rows, in order; none: it stays. */
hn_status scan_split(sched *s, const hn_loop *loop, uint32_t origin, hn_loop *out[SCAN_STAGES],
                     uint32_t *out_count) HN_MUST_USE;

/* loops.c */
/* With a body of its own. */
hn_status loop_copy(sched *s, const hn_loop *from, hn_loop *to) HN_MUST_USE;
/* Whether its loads rather go by one element along the variable. */
bool loop_goes_along(sched *s, const hn_loop *loop, hn_expr var);
/* A reduction whose lanes should be rows: its loads are contiguous along the last parallel dim. */
bool is_column_reduction(sched *s, const hn_loop *loop);
/* The bytes of a buffer that the loop reaches by an index, each element once, at the hints of sizes:
 * at most all. */
int64_t loop_access_bytes(sched *s, const hn_loop *loop, hn_buf b, hn_expr index);

/* fuse.c */
hn_status sched_fuse(sched *s) HN_MUST_USE;

/* mixed.c: sums down columns in a row kernel. */
/* Whether a loop is such a reduction as may join one. */
bool mixed_may_join(sched *s, const hn_loop *loop);
/* Whether the group's rows are those of the loop; `*out_why` when not. */
bool mixed_fits(sched *s, const group *g, const hn_loop *loop, hn_refusal_reason *out_why);
/* Whether a group of elements could have such rows: their dims. */
bool mixed_may_have_rows(sched *s, const group *g, const hn_loop *loop, dims *out_rows);
/* What joins: a copy over rows and columns, without a buffer. */
hn_status mixed_first_stage(sched *s, const hn_loop *loop, hn_loop *out) HN_MUST_USE;
/* Some member reads, or makes, what the new loop reads along rows and columns. */
bool mixed_shares_reads(sched *s, const group *g, const hn_loop *loop);
/* The last member of the group is the first stage of `whole`: makes its buffer, and what combines
 * the slabs. */
hn_status mixed_second_stage(sched *s, group *g, const hn_loop *whole, hn_loop *out) HN_MUST_USE;

/* pick.c: reductions over rows that take single elements of them. */
/* Whether a row kernel makes what an index of the loop picks: the group. */
bool pick_group(sched *s, const hn_loop *loop, uint32_t *out_group);
/* What joins it: a copy that stores each value, without a buffer. */
hn_status pick_first_stage(sched *s, const hn_loop *loop, hn_loop *out) HN_MUST_USE;
/* When it has joined: makes its buffer, which is what `loop` then reduces. */
hn_status pick_second_stage(sched *s, hn_loop *first, hn_loop *loop) HN_MUST_USE;

/* foreach.c: after planning. Steps of the schedule that do the same to other memory become one. */
hn_status sched_foreach(sched *s) HN_MUST_USE;

/* small.c */
/* The strides of an access by the loop's variables, at the hints. False: it is no such sum. */
bool loop_strides(sched *s, const hn_loop *loop, hn_expr index, int64_t *out);
/* Whether an access reaches far fewer elements than the loop has. */
bool loop_load_is_small(sched *s, const hn_loop *loop, hn_expr index);
/* Per op of the body: whether it is made of small loads alone, the same for whole rows or columns. */
void loop_mark_small(sched *s, const hn_loop *loop, bool *out);
/* What an element costs, in adds, but for what is the same for whole rows or columns. */
int64_t loop_element_cost(sched *s, const hn_loop *loop);

/* inline.c */
/* The point of a POINTWISE `loop` that stores element `index`: one expression for each variable.
 * False when it cannot be told. */
bool loop_point_of(sched *s, const hn_loop *loop, hn_expr index, hn_expr *out_at);
/* Whether it can for all of its loads of what `producer` stores, and walks memory no worse then. */
bool loop_can_inline(sched *s, const hn_loop *loop, const hn_loop *producer);
/* `loop` computes what it loads of what `producer` stores, in place of loads whose point can be
 * told. */
hn_status loop_inline(sched *s, hn_loop *loop, const hn_loop *producer) HN_MUST_USE;

enum { LOOP_PIECES_MAX = 4 };

/* POINTWISE loops over the same variables that store to one buffer: the first at an index, each other one
 * `step` elements behind the one before. */
typedef struct loop_pieces {
    uint32_t count;
    int64_t step;
    const hn_loop *loops[LOOP_PIECES_MAX];
} loop_pieces;

/* Which of them stores element `index`, if one of them does. */
hn_expr loop_piece_of(sched *s, const loop_pieces *from, hn_expr index);
/* The point of a piece that is as far from its beginning as element `index` from that of its own one. False
 * when it cannot be told. */
bool loop_point_in_piece(sched *s, const loop_pieces *from, uint32_t piece, hn_expr index,
                         hn_expr *out_at);
/* `loop` computes what it loads of `b`. All of its loads must have such points in all pieces. */
hn_status loop_inline_pieces(sched *s, hn_loop *loop, hn_buf b,
                             const loop_pieces *from) HN_MUST_USE;

/* pieces.c: before that. */
hn_status sched_pieces(sched *s) HN_MUST_USE;

/* crossed.c: before fusion. */
hn_status sched_crossed(sched *s) HN_MUST_USE;

/* remade.c: after fusion. */
hn_status sched_remade(sched *s) HN_MUST_USE;

/* again.c: after that. */
hn_status sched_again(sched *s) HN_MUST_USE;

/* plan.c */
hn_status sched_plan(sched *s, group *g, hn_step *out) HN_MUST_USE;

#endif
