/* cpu.h: how a kernel of the schedule runs on a CPU: every decision.
 *
 * A plan has a form, the numbers that belong to it, and for each phase what its ops, stores and
 * reductions become. plan_cpu.c makes a form of ranges (form.h) of it. */
#ifndef HN_KERNEL_CPU_H
#define HN_KERNEL_CPU_H

#include "kernel/facts.h"
#include "kernel/form.h"
#include "sched/sched.h"

typedef struct hn_cpu_plan hn_cpu_plan;

/* Vectors side by side, and prefetches of a phase. */
enum { HN_CPU_UNROLL_MAX = 8, HN_CPU_PREFETCHES_MAX = 8 };

/* Tiles are squares; the array of a wide one has padded rows, so that columns do not share the sets
 * of a cache. Printers may have functions that are made for these sizes. */
enum { HN_CPU_TILE = 64, HN_CPU_WIDE_TILE = 128, HN_CPU_WIDE_TILE_PITCH = 144 };

/* A long sum of floats is taken in blocks of so many elements, so that its error grows with the
 * square root of blocks and block length instead of with the length: what eager PyTorch's cascade
 * does. */
enum { HN_CPU_SUM_BLOCK = 32 };

/* ---- ops ---- */

/* How values of a dtype are held in the lanes of a vector. Narrower ints are ints of 32 bits,
 * 16-bit floats are F32; a mask is 0 or all ones in 32 bits. */
typedef enum hn_lane_kind {
    HN_LANE_F32,
    HN_LANE_F64,
    HN_LANE_I32,
    HN_LANE_I64,
    HN_LANE_MASK
} hn_lane_kind;
hn_lane_kind hn_lane_of(hn_dtype dtype);

/* What the form of a kernel allows to compute more cheaply than op by op. */
typedef enum hn_rewrite {
    HN_REWRITE_NONE,
    HN_REWRITE_EXP_NOT_POSITIVE, /* EXP: the operand is not above 0, or NaN: one limit can go */
    HN_REWRITE_GATE,             /* MUL: x * sigmoid(x) as one op; `gate` is x */
    /* DIV: multiplies by the reciprocal of the divisor, which is taken outside of the loop */
    HN_REWRITE_RECIPROCAL,
    /* comparison, CAST: of indices that fit lanes of 32 bits. The operands are not computed
     * apart */
    HN_REWRITE_NARROW_INDICES
} hn_rewrite;

/* An op of a phase's body. */
typedef struct hn_cpu_op {
    bool live;    /* needed for a store or a reduction */
    bool varying; /* differs from lane to lane */
    /* a product that something is added to: rounded before that, as everywhere else */
    bool rounded;
    bool is_divisor; /* of a division that became HN_REWRITE_RECIPROCAL */
    bool narrow;     /* INDIRECT that varies: bound and checked in lanes of 32 bits */
    bool transposed; /* LOAD of a tiled kernel: goes through the tile's array */
    bool rows_ahead; /* LOAD of a wide tile: its rows are prefetched */
    hn_rewrite rewrite;
    hn_sid gate;      /* HN_REWRITE_GATE */
    uint32_t level;   /* innermost loop that it depends on: 0 none, d + 1 for inner variable d */
    hn_access access; /* of its index; INDIRECT, RANDOM: meaningless */
    hn_expr step;     /* STRIDED: elements from lane to lane */
} hn_cpu_op;

typedef struct hn_cpu_store {
    hn_access access;
    bool nontemporal; /* whole vectors bypass the caches, and there are some */
} hn_cpu_store;

typedef struct hn_cpu_reduce {
    bool in_blocks; /* see HN_CPU_SUM_BLOCK */
    bool loses_nan; /* AMAX may lose a NaN on the way: it reaches every result all the same */
} hn_cpu_reduce;

/* ---- phases ---- */

/* How the elements of a row that fill no vector are computed. */
typedef enum hn_cpu_rest {
    HN_CPU_REST_NONE,
    HN_CPU_REST_MASKED, /* one vector, of which the first lanes count */
    /* a whole vector that ends where the row does, and does some elements again */
    HN_CPU_REST_OVERLAPPING
} hn_cpu_rest;

/* The loop over lanes: `unroll` vectors at a time, then single vectors, then the rest. */
typedef struct hn_cpu_lane_loop {
    uint32_t unroll;
    bool has_unrolled, has_single; /* which of the loops may run at all */
    hn_cpu_rest rest;
} hn_cpu_lane_loop;

/* Elements that are prefetched: those at `index`, for the load or store at `access`. */
typedef struct hn_cpu_prefetch {
    hn_buf buffer;
    hn_expr index, access;
    hn_form_fetch fetch;
    uint32_t lines; /* of memory, for a vector, `line_elems` apart; */
    uint32_t line_elems;
    /* vectors of an unrolled loop share a line: the first of so many prefetches it */
    uint32_t every;
} hn_cpu_prefetch;

/* An INDIRECT that prefetches need for a later row: it will be bound to buffer[index], for the load
 * at `access`. */
typedef struct hn_cpu_index_ahead {
    hn_sid op;
    hn_buf buffer;
    hn_expr index, access;
} hn_cpu_index_ahead;

typedef struct hn_cpu_phase {
    const hn_cpu_plan *plan;
    const hn_kernel_phase *phase;
    hn_expr lane;           /* the variable that runs over lanes; 0: none */
    uint32_t cost;          /* of an element */
    hn_cpu_op *ops;         /* per op of the body */
    hn_cpu_store *stores;   /* per store */
    hn_cpu_reduce *reduces; /* per reduction */
    hn_cpu_lane_loop loop;  /* FLAT, ROWS...: of a phase with a lane */
    /* bit d: the loop of variable d may have no iteration. What is hoisted out of loops may load,
     * and must not run then */
    uint32_t maybe_empty;
    /* COLUMNS_...: the innermost loop runs in blocks of HN_CPU_SUM_BLOCK */
    bool sums_in_blocks;
    hn_cpu_prefetch prefetches[HN_CPU_PREFETCHES_MAX];
    uint32_t prefetch_count, ahead; /* rows; FLAT: elements */
    struct {
        hn_cpu_index_ahead *items;
        uint32_t count, cap;
    } indices_ahead;
} hn_cpu_phase;

/* ---- the kernel ---- */

typedef enum hn_cpu_form {
    HN_CPU_FLAT, /* lanes along the only dimension, which threads share in blocks */
    HN_CPU_ROWS, /* lanes along rows, row after row */
    /* ... the last phase of a row among the vectors of the next row's phase before it */
    HN_CPU_ROWS_PIPELINED,
    /* ... and several rows, far apart, at once: as many streams from memory */
    HN_CPU_ROWS_SPLIT,
    /* ... of slabs of rows, whose columns are combined in memory as the rows go by */
    HN_CPU_ROWS_SLABS,
    /* lanes are rows: a few vectors of them go through all phases together */
    HN_CPU_COLUMNS_NARROW,
    /* lanes are rows: sums of a strip of them, while memory is read in long runs */
    HN_CPU_COLUMNS_WIDE,
    /* squares: what is read along another dimension than it is written is transposed in an array */
    HN_CPU_TILES,
    HN_CPU_TILES_WIDE /* ... with the next square while the one before is written */
} hn_cpu_form;

/* A form that is right for a kernel, and how many times as fast as the plain one of the kernel's
 * mode (FLAT, ROWS, COLUMNS_NARROW) it is expected to be. */
typedef struct hn_cpu_candidate {
    hn_cpu_form form;
    double speed;
} hn_cpu_candidate;
enum { HN_CPU_CANDIDATES_MAX = 3 };

typedef enum hn_cpu_stores {
    HN_CPU_STORES_ANY,
    HN_CPU_STORES_CACHED,
    HN_CPU_STORES_STREAMING
} hn_cpu_stores;

/* What a caller chooses about a form; of what is 0 the planner does what the sizes that it expects
 * suggest. Text: cpu_choice.h. */
typedef struct hn_cpu_choice {
    hn_cpu_form form;
    hn_cpu_stores stores; /* STREAMING: as a kernel that writes more than the caches keep */
    uint32_t ahead;       /* rows that prefetches are ahead; HN_CPU_AHEAD_NONE: there are none */
    uint32_t vectors;     /* side by side: of loops over lanes, and of columns */
    uint32_t width;       /* columns of a strip; FLAT: elements of an iteration */
    int64_t grain;        /* INT64_MAX: one thread */
} hn_cpu_choice;
enum { HN_CPU_AHEAD_NONE = UINT16_MAX };

/* Where an argument begins: `offset` elements into the buffer (0: none). Accesses go by it that add
 * `sizes` and a number from `first` to `last`. */
typedef struct hn_cpu_base {
    hn_buf buffer;
    hn_expr sizes;
    int64_t first, last;
    hn_expr offset;
} hn_cpu_base;

struct hn_cpu_plan {
    const hn_program *program;
    const hn_kernel *kernel;
    const hn_cpu_facts *facts;
    hn_sym *sym;
    hn_arena *arena;
    uint32_t lanes; /* 32-bit lanes of a vector; values of 64 bits take two vectors */
    hn_cpu_candidate candidates[HN_CPU_CANDIDATES_MAX]; /* the fastest first */
    uint32_t candidate_count;
    hn_cpu_form form;
    hn_cpu_choice choice; /* the caller's; its `form` is that of the plan */
    bool lanes_are_rows;  /* COLUMNS_...: each lane has results of its own */
    double written_bytes; /* as far as sizes are known */
    bool nontemporal;     /* it writes more than the caches keep, or is to do as if it did */
    hn_cpu_phase *phases; /* per phase of the kernel */
    /* per local buffer of the kernel, which lives for a row: elements, with padding */
    int64_t *local_elems;
    struct {
        hn_cpu_base *items;
        uint32_t count, cap;
    } bases;

    /* TILES, TILES_WIDE */
    struct hn_cpu_tiles {
        hn_expr var;     /* the outer variable that goes with the lanes */
        uint32_t block;  /* elements of a side, */
        uint32_t pitch;  /* and from row to row of the array */
        bool prefetches; /* TILES: the lines of the next square */
    } tiles;
    /* COLUMNS_NARROW, COLUMNS_WIDE */
    struct hn_cpu_columns {
        uint32_t copies;      /* vectors side by side */
        uint32_t width;       /* rows of a parallel iteration */
        bool is_usual;        /* what the rules say for the sizes that are expected */
        bool is_whole;        /* no rest */
        bool even_steps;      /* WIDE: each of the facts' strip_step streams has as many rows */
        uint32_t block_steps; /* WIDE: steps of a block of sums */
    } columns;
    /* ROWS_SPLIT */
    struct hn_cpu_split {
        /* accumulators: vectors of a stream's step, each with a sum of its own */
        uint32_t streams, accumulators;
        bool is_whole;
    } split;

    uint32_t flat_block_elems; /* FLAT: of a parallel iteration */
    hn_expr extent;            /* parallel iterations */
    int64_t grain;             /* fewest of them worth a thread */
};

/* A plan that has candidates, but no form yet. Owns: the plan lives in `arena`. Errors:
 * out-of-memory. */
hn_status hn_cpu_plan_begin(const hn_program *program, const hn_kernel *kernel,
                            uint32_t vector_bytes, const hn_cpu_facts *facts, hn_arena *arena,
                            hn_cpu_plan **out) HN_MUST_USE;
/* The rest, for one of its candidates; once. Errors: out-of-memory. */
hn_status hn_cpu_plan_complete(hn_cpu_plan *plan, hn_cpu_form form) HN_MUST_USE;
/* The rest, as a caller chooses; once. `choice->form` is one of the candidates. */
hn_status hn_cpu_plan_complete_as(hn_cpu_plan *plan, const hn_cpu_choice *choice) HN_MUST_USE;
/* Both, for the first candidate. */
hn_status hn_cpu_plan_create(const hn_program *program, const hn_kernel *kernel,
                             uint32_t vector_bytes, const hn_cpu_facts *facts, hn_arena *arena,
                             hn_cpu_plan **out) HN_MUST_USE;

/* ---- questions ---- */

/* The number that an expression is, or -1. */
int64_t hn_cpu_known(const hn_cpu_plan *plan, hn_expr e);
bool hn_cpu_is_local(const hn_cpu_plan *plan, hn_buf b);
/* Whether the kernel stores to the buffer. */
bool hn_cpu_writes(const hn_cpu_plan *plan, hn_buf b);
/* How many elements into buffer `b` the argument begins that an access at this index goes by; 0:
 * none. */
hn_expr hn_cpu_base_of(const hn_cpu_plan *plan, hn_buf b, hn_expr access);
/* Which arguments may lie in the same memory: bit k of out_may_alias[b] says that argument b, which
 * is written, may lie where argument k does. `out_may_alias` is zeroed by the caller. */
void hn_cpu_in_place(const hn_cpu_plan *plan, const hn_buf *buffers, uint32_t count,
                     uint64_t *out_may_alias);

/* Whether an index goes through the lane variable, or through an indirect index that varies. */
bool hn_cpu_uses_lane(const hn_cpu_phase *ph, hn_expr e);
/* How it moves over lanes; *out_step is set for CONTIGUOUS and STRIDED. */
hn_access hn_cpu_access_of(const hn_cpu_phase *ph, hn_expr e, hn_expr *out_step);

#endif
