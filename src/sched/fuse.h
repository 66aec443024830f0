/* fuse.h: what the files of fusion share: groups that loops may join, what that saves, and what was
 * refused. */
#ifndef HN_SCHED_FUSE_H
#define HN_SCHED_FUSE_H

#include "sched/internal.h"

/* fuse_rows.c */
/* Whether every read of the group's results by `loop`, which is over the group's outer dims, stays in
 * the row; in a flat group it must be the same element. */
bool fuse_reads_are_local(sched *s, const group *g, const hn_loop *loop);

/* fuse_join.c */
/* `loop` becomes a member of the group, rewritten over its dims, if `*out_why` is NONE; else both
 * stay as they were. `shares_reads`: only if both read something in common (mixed.c).
 * Owns: the member is `loop` itself. */
hn_status fuse_join(sched *s, group *g, hn_loop *loop, uint32_t origin, bool shares_reads,
                    hn_refusal_reason *out_why) HN_MUST_USE;
/* A flat group becomes one of rows: `rows` are its first dims. False: they are not; then the loops of the
 * group may be changed, so it is to be a copy. */
bool fuse_make_rows(sched *s, group *g, const dims *rows);

/* fuse_align.c */
/* As fuse_join, after it has refused with `*out_why`: with the dims of the loop, or those of the group,
 * in another order. */
hn_status fuse_join_reordered(sched *s, group *g, hn_loop *loop, uint32_t origin,
                              hn_refusal_reason *out_why) HN_MUST_USE;
/* A group with copies of the loops, to try something on; and what was tried becomes the group: its
 * loops stay where they are. */
hn_status fuse_group_copy(sched *s, const group *from, group *to) HN_MUST_USE;
void fuse_group_commit(group *g, const group *trial);

/* fuse_merge.c */
/* After the walk: groups that may be one become one. What is left of the others has no members.
 * `keeps_peak`: only if hardly more memory is needed at a time then. */
hn_status fuse_merge_groups(sched *s, bool keeps_peak) HN_MUST_USE;

/* fuse_saved.c: of each buffer, the groups that touched it last. */
enum { FUSE_CANDIDATES_MAX = 8 };

typedef struct fuse_candidate {
    uint32_t group; /* index */
    int64_t bytes;  /* that a loop would not move if it joined, at the hints */
    uint32_t shared_count;
    hn_buf shared[HN_REFUSAL_SHARED_MAX]; /* what both touch: the first ones */
} fuse_candidate;

typedef struct fuse_candidates {
    uint32_t count;
    fuse_candidate items[FUSE_CANDIDATES_MAX]; /* most bytes first, then the newest */
} fuse_candidates;

hn_status fuse_saved_begin(sched *s) HN_MUST_USE;
/* The loop is in group `index` now. */
void fuse_note_access(sched *s, const hn_loop *loop, uint32_t index);
/* An extern, or another item, is. */
void fuse_note_read(sched *s, hn_buf b, uint32_t index);
void fuse_note_write(sched *s, hn_buf b, uint32_t index);
/* 1 + the group that the loop may not be in front of: what it reads, and who wrote or reads the buffer
 * that it writes; 0: none. */
uint32_t fuse_newest_needed(const sched *s, const hn_loop *loop);
/* The groups that the loop may join, by their order, and has something in common with. */
void fuse_find_candidates(sched *s, const hn_loop *loop, fuse_candidates *out);
/* What the loop has in common with group `index`. */
fuse_candidate fuse_common_with(sched *s, const hn_loop *loop, uint32_t index);
/* Whether so many bytes more, alive for groups between, are too many for what is saved. */
bool fuse_costs_memory(const sched *s, int64_t longer_alive, int64_t saved);
/* The same of a loop that joins a group which is not the last: what it makes is there earlier, and what
 * it alone reads may be gone earlier. */
bool fuse_is_too_early(sched *s, const hn_loop *loop, const fuse_candidate *c);

/* mismatch.c */
/* How the first of the shared buffers is walked that the loop and the group walk in unlike ways. */
hn_mismatch fuse_mismatch(sched *s, const fuse_candidate *c, const hn_loop *loop,
                          hn_refusal_reason why);

/* fuse_refused.c */
/* Group `c->group` did not take a loop of the node; NULL: several loops. Its own group is `index`,
 * once it is known (fuse_refused_place). */
hn_status fuse_refuse(sched *s, const fuse_candidate *c, const hn_loop *loop, uint32_t origin,
                      hn_refusal_reason why) HN_MUST_USE;
/* The loop of the refusals since `from` is in group `index`. */
void fuse_refused_place(sched *s, uint32_t from, uint32_t index);
/* Behind planning: drops what came to share a kernel after all, and prints the others. */
hn_status fuse_refused_end(sched *s) HN_MUST_USE;

#endif
