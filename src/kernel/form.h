/* form.h: a kernel with every decision made: all that a printer needs, and no text of any language.
 * Normative text: docs/kernel-forms.md.
 *
 * A form stands between the schedule (sched/sched.h) and source text. The planner makes it from a
 * kernel of the schedule and the facts of a target (facts.h), a printer walks it (codegen/), and
 * the interpreter runs it without compiler or device (interp.c).
 *
 * There are two kinds of forms, for two kinds of processors.
 *
 * A form of groups (`lanes` is 0): `grid` groups, in any order or at once. The threads of a group
 * run the same body, each with values, registers and index symbols of its own; `group` and `thread`
 * are their numbers. Threads may run in any order up to a BARRIER, where each waits for all: no
 * thread may reach one that another does not. Between two barriers no thread may read what another
 * writes.
 *
 * A form of ranges (`lanes` above 0, `threads` 1): `grid` iterations, cut into ranges in any way;
 * ranges run in any order or at once. One thread runs the body for a range: the iterations from
 * `first` up to `until`, which the body counts itself. Its values are vectors. Outside of LANES all
 * lanes of a value are the same; in a VECTOR each lane has its own.
 *
 * The body is a tree of statements in one array. Index expressions (sym/sym.h) are over the size
 * symbols of the program and the index symbols that GROUP, THREAD, FOR, LET and checked indices
 * define; a symbol, a value and a register may be used where the statement that defines it comes
 * before, in the same block or in one around it.
 *
 * Owns: everything lives in the arena given to hn_form_create. */
#ifndef HN_KERNEL_FORM_H
#define HN_KERNEL_FORM_H

#include "ir/loop.h"

typedef uint32_t hn_fid;  /* a statement; 0: none. That of a VALUE is also the name of its value */
typedef uint32_t hn_fmem; /* index into memories; 0: none */
typedef uint32_t hn_freg; /* index into registers; 0: none */

typedef enum hn_space {
    HN_SPACE_ARGUMENT, /* memory of the program */
    HN_SPACE_SHARED,   /* fast memory of a group, not initialised */
    HN_SPACE_SCRATCH,  /* slow memory of a group, not initialised */
    HN_SPACE_PRIVATE,  /* registers of a thread, not initialised: indices are numbers when loops are
                          unrolled */
    HN_SPACE_STAGED,   /* SHARED, much of it: only MOVEs of 16 bytes reach it, from arguments and to
                          PRIVATE memory. What is moved there is there behind an AWAIT */
    HN_SPACE_COUNT
} hn_space;

/* Memory that a form reads or writes, in elements of one dtype. */
typedef struct hn_form_memory {
    hn_space space;
    hn_dtype dtype;
    hn_buf buffer; /* ARGUMENT: of the program, */
    hn_expr base;  /* from this element on, which has index 0; those before it have indices below 0.
                      0: from its beginning */
    hn_expr elems; /* but for ARGUMENT: how many; PRIVATE: a number */
    bool is_read, is_written; /* by the form; a store that combines does both */
    bool stale;  /* SCRATCH: elements may be read before they are written: they are any numbers then
                  */
    bool padded; /* SHARED, SCRATCH: where the first lanes of a vector count, printers may read and
                    write all of it, in a row: there is room, and nobody needs what the others
                    overwrite */
    uint64_t may_alias; /* ARGUMENT that is written: bit k: it may lie where argument k (from 0, in
                           order) does, see kernel/cpu_in_place.c */
} hn_form_memory;

/* Combines values by the row `op` (REDUCE or SCAN) of ir/ops.def, in `dtype`. ARGMIN, ARGMAX,
 * CUMMIN and CUMMAX keep the position of the value that won as well. */
typedef struct hn_form_register {
    hn_op op;
    hn_dtype dtype;
    bool across;    /* an ACROSS combines its threads, or its lanes: those that do not count take no
                       step */
    bool loses_nan; /* AMAX of f32: a NaN may be lost on the way; it reaches every result of the
                       kernel all the same */
} hn_form_register;

typedef enum hn_form_kind {
    HN_FORM_FOR,     /* `var` from `begin` while below `end` by `step`: `body` */
    HN_FORM_IF,      /* `begin` < `end`: `body`, else `otherwise` */
    HN_FORM_LET,     /* `var` is `begin` */
    HN_FORM_VALUE,   /* `op`: its args are VALUEs; LOAD: op.buffer is a memory; RESULT: the value of
                        register op.imm.i, or with op.op ARGMAX its position; INDIRECT binds
                        op.index, checked: an index outside sets the kernel's error, and is 0 */
    HN_FORM_STORE,   /* memory[index] = value, or combined with it by `mode` */
    HN_FORM_INIT,    /* register = what changes nothing */
    HN_FORM_STEP,    /* register = register combined with `value`, at `position` */
    HN_FORM_BARRIER, /* all threads of the group; makes their writes visible to each other */
    HN_FORM_SET,     /* register = `value`, at `position` */
    HN_FORM_BLOCK,   /* `body`, a block of its own */
    HN_FORM_ACROSS,  /* register = those of the `width` threads of a row combined, see
                        hn_form_exchanged; all threads of the group come here. In forms of ranges:
                        outside of LANES, register = all lanes of all its vectors combined; of one
                        that keeps a position, that alone */
    /* in forms of groups */
    HN_FORM_BEFORE, /* prefixes over the threads of a row: register = `all` combined with those of the
                       threads before; `all` = it combined with all of them. In the order of the
                       threads of the row; all threads of the group come here */
    HN_FORM_MOVE, /* memory[index + k] = from[from_index + k] for all k < count, in accesses of up to
                     HN_FORM_ACCESS_BYTES; one of the two is PRIVATE, or STAGED. Both begin at
                     multiples of the bytes of such an access, and arguments do so as well */
    HN_FORM_AWAIT, /* ends a batch of the thread's MOVEs to STAGED memory; those of all its batches but
                      the last `count` are there */
    /* in forms of ranges */
    HN_FORM_LANES,  /* `var` from `begin` while below `end`, in steps of vectors: see hn_form_lanes.
                       `var` is known in its VECTORs */
    HN_FORM_VECTOR, /* in LANES: `body` for each vector of the step, one after the other. VALUE,
                       STORE, STEP, SET, PREFETCH */
    HN_FORM_PREFETCH,   /* prefetches memory[index]; not in a vector of which some
                           lanes do not count */
    HN_FORM_TRANSPOSE,  /* memory[index + pitch * u + v] = from[from_index + stride * v + u] for all
                           u < rows, v < columns */
    HN_FORM_IF_ALIGNED, /* `memory`, an argument, begins at a multiple of the bytes of a vector:
                           `body`, else `otherwise` */
    HN_FORM_KIND_COUNT
} hn_form_kind;

/* What LANES does with the elements that fill no vector. */
typedef enum hn_form_rest {
    HN_FORM_REST_NONE,        /* there are none */
    HN_FORM_REST_MASKED,      /* vectors, of the last of which the first lanes count */
    HN_FORM_REST_OVERLAPPING, /* whole vectors, the last of which ends where the loop does: some
                                 elements are done again */
    HN_FORM_REST_MASKED_STEP /* LANES is one step, however far `end` is: the lanes of elements below
                              * `end` count. `whole`: there is a text of its own for a step all of
                              * whose lanes do; not `single` */
} hn_form_rest;

/* The steps of LANES, in order:
 *   `whole`:  steps of `unroll` vectors, while that many are left
 *   `single`: steps of one vector, while a whole one is left
 *   `rest`:   what is left
 * LANES is not inside of LANES. A register has a number for each lane of each of the `unroll`
 * vectors; a VECTOR works on those of its own lanes. Beside VECTORs, LANES may contain INIT, FOR,
 * IF, LET and BLOCK; what they compute is the same for all lanes. Outside of LANES, INIT, STEP and
 * SET give all lanes the same number, and RESULT reads a register all of whose lanes are the same.
 */
typedef struct hn_form_lanes {
    bool whole, single;
    hn_form_rest rest;
} hn_form_lanes;

/* What a PREFETCH asks for. */
typedef enum hn_form_fetch {
    HN_FETCH_READ,
    HN_FETCH_WRITE,
    HN_FETCH_FAR, /* to be read, from the second cache: the first one has no room for many rows a
                     power of two apart */
    HN_FETCH_COUNT
} hn_form_fetch;

/* The access pattern of an index: how it moves from lane to lane. */
typedef enum hn_access {
    HN_ACCESS_UNIFORM,    /* it does not */
    HN_ACCESS_CONTIGUOUS, /* by 1 */
    HN_ACCESS_STRIDED,    /* by the same step, which is not 1 */
    HN_ACCESS_GATHER      /* in any other way */
} hn_access;

/* The index of a window is clamped to its image: max(0, f), min(n, f). Where a clamp changes
 * neither the first lane nor the last one, as f is linear, it changes none: a gather is a whole
 * vector there. */
typedef struct hn_form_clamp {
    hn_expr clamp, inside; /* max(0, f), and f */
    hn_expr plain, stride; /* the index without the clamp, which goes along the lanes by `stride` */
    hn_access access;      /* CONTIGUOUS or STRIDED */
} hn_form_clamp;

/* Of a VALUE or STORE in a VECTOR: follows from indices and arguments. Set when its LANES is
 * closed. */
typedef struct hn_form_lane_facts {
    bool varies;      /* VALUE: differs from lane to lane */
    hn_access access; /* of the index of LOAD, INDEX and STORE */
    hn_expr stride;   /* CONTIGUOUS, STRIDED: elements from lane to lane */
    const hn_form_clamp
        *clamp; /* LOAD of GATHER, f32 or f64; NULL: it has none, or more than one */
} hn_form_lane_facts;

typedef struct hn_form_transpose {
    hn_fmem from;
    hn_expr from_index, stride, rows, columns;
    int64_t pitch;
} hn_form_transpose;

typedef struct hn_form_stmt {
    hn_form_kind kind;
    hn_fid next;            /* in its block; 0: the last */
    hn_fid body, otherwise; /* first statements of blocks */
    hn_expr var;            /* FOR, LET: an index symbol of its own */
    hn_expr begin, end;
    int64_t step;       /* FOR: above 0 */
    uint32_t unroll;    /* FOR: copies of the body side by side; 0 and 1: none */
    hn_sop op;          /* VALUE */
    hn_fmem memory;     /* STORE */
    hn_expr index;      /* STORE: elements */
    hn_store_mode mode; /* STORE: other than SET in forms of one thread only, unless it says how */
    hn_freg reg;        /* INIT, STEP, ACROSS, BEFORE */
    hn_freg all;        /* BEFORE: the same in all threads of a row */
    uint32_t width, pitch; /* ACROSS of threads, BEFORE; 0 of lanes */
    hn_fmem from;          /* MOVE; */
    hn_expr from_index;
    uint32_t count; /* MOVE: a power of two; AWAIT */
    hn_fid value,
        position; /* STORE, STEP, SET: VALUEs; position: I64, for registers that keep one; else 0 */
    hn_form_lanes lanes; /* LANES */
    const hn_form_transpose *transpose;
    hn_form_lane_facts in_lanes;
    bool rounded;      /* VALUE, a product: rounded before something is added to it */
    bool not_positive; /* VALUE, EXP: its argument is not above 0, or NaN */
    bool quiet;        /* VALUE, INDIRECT: an index outside is 0, and no error */
    bool streams;      /* STORE: whole vectors bypass the caches; */
    bool is_aligned;   /* STORE: they begin at multiples of their bytes if the memory does */
    bool in_order; /* STORE: lane by lane; of equal indices the last one wins. One whose mode is not
                      SET is, too */
    bool is_apart; /* STORE that combines, forms of groups: no two threads come to one element */
    bool
        is_atomic; /* STORE to an argument, forms of groups: threads that meet at an element combine
                       with it one after the other, in any order; of SET any one is the last */
    hn_form_fetch fetch; /* PREFETCH */
    uint32_t every; /* PREFETCH: of the vectors of a step, the first of so many asks; at least 1 */
} hn_form_stmt;

/* At the hints of the sizes. */
typedef struct hn_form_cost {
    double bytes;      /* read from and written to arguments, each element once for each access */
    double operations; /* in additions, see hn_op_facts */
    double ns;         /* a launch is expected to take */
} hn_form_cost;

/* A row of threads: those whose number differs in `thread / pitch % width` alone. Both are powers of
 * two. How many numbers a group exchanges through memory when all its rows combine one register,
 * where `warp` neighbours exchange them without. */
uint32_t hn_form_exchanged(uint32_t threads, uint32_t warp, uint32_t width, uint32_t pitch);

/* Of a MOVE: its most elements; its widest access, and where arguments of forms of groups begin: at multiples. Who
 * launches a kernel copies what begins elsewhere. */
enum { HN_FORM_ACCESS_BYTES = 16, HN_FORM_MOVE_MOST = 16 };

/* An AWAIT leaves at most so many batches under way. */
enum { HN_FORM_BATCHES_MOST = 2 };

/* A group is at most so many blocks. */
enum { HN_FORM_BLOCKS_MOST = 8 };

/* Index symbols of a form begin here: those of the schedule lie below. */
enum { HN_FORM_FIRST_ORDINAL = 64 };

/* Parameters of the kernel: the symbols of sizes that statements and memories of its own use, each
 * once, in order of first use. */
typedef struct hn_form_sizes {
    hn_expr *items;
    uint32_t count, cap;
} hn_form_sizes;

/* One of several runs of the same body, on other memory. */
typedef struct hn_form_segment {
    const hn_buf *buffers; /* of the arguments, in order */
    hn_expr length;        /* what hn_form.segment_length is in it; 0: there is none */
} hn_form_segment;

typedef struct hn_form {
    hn_arena *arena;
    hn_sym *sym;
    const hn_program *program;
    hn_expr grid;     /* groups, or iterations */
    uint32_t threads; /* of a group; 1 in forms of ranges */
    uint32_t
        blocks; /* of a group, a power of two: equal parts of its threads, in order. Above 1 they
                        lie on several multiprocessors, and only registers hold what is the group's */
    hn_expr group, thread; /* index symbols; 0 in forms of ranges */
    uint32_t resident; /* forms of groups: so many are to run on a multiprocessor at once; 0: any */
    bool is_narrow;    /* forms of groups: indices fit into 32 bits, on the way to them as well */
    uint32_t
        lanes; /* of a vector of 32-bit numbers; those of 64 bits take two. 0 in forms of groups */
    hn_expr first, until; /* index symbols, both at most `grid`; 0 in forms of groups */
    int64_t grain;        /* forms of ranges: fewest iterations worth a thread */
    struct {
        hn_form_memory *items;
        uint32_t count, cap;
    } memories; /* [0] unused */
    struct {
        hn_form_register *items;
        uint32_t count, cap;
    } registers; /* [0] unused */
    struct {
        hn_form_stmt *items;
        uint32_t count, cap;
    } stmts;     /* [0] unused */
    hn_fid body; /* first statement */
    /* None: the form is run as it is. Else memories, grid and body are what all segments have in
     * common: each runs them with buffers and a length of its own, in any order or at once. No
     * segment touches a buffer that another one writes. Arguments have the buffers of the first */
    struct {
        hn_form_segment *items;
        uint32_t count, cap;
    } segments;
    hn_expr segment_length; /* a symbol of a size; 0: there is none */
    hn_form_cost cost;
    const char
        *shape; /* the planner's name of it, static: "rows"; NULL: none. No part of the text */
    const char
        *parameters;   /* what the planner decided besides: "stores=cached grain=64"; NULL: none */
    uint32_t ordinals; /* index symbols of the form have ordinals below this */
    hn_form_sizes sizes; /* set by hn_form_end and hn_form_parse */
    /* under construction: the block at hand, and its last statement */
    struct {
        struct hn_form_block {
            hn_fid owner, last;
            bool is_otherwise;
        } * items;
        uint32_t count, cap;
    } open;
    hn_status failed; /* the first error; see hn_form_end */
} hn_form;

/* ---- building: after the first failure builders do nothing, and hn_form_end tells ---- */

/* `threads` above 0. The body is open. */
hn_status hn_form_create(const hn_program *program, hn_arena *arena, uint32_t threads, hn_expr grid,
                         hn_form **out) HN_MUST_USE;
/* A form of ranges. `lanes` above 0. The body is open. */
hn_status hn_form_create_range(const hn_program *program, hn_arena *arena, uint32_t lanes,
                               hn_expr grid, hn_form **out) HN_MUST_USE;
/* An index symbol that no other statement of the form defines: 0 <= symbol < extent. */
hn_expr hn_form_symbol(hn_form *f, hn_expr extent);
hn_fmem hn_form_add_memory(hn_form *f, hn_form_memory memory);
/* The argument for a buffer from element `base` on, 0: from its beginning; one that is there
 * already is taken. */
hn_fmem hn_form_argument(hn_form *f, hn_buf buffer, hn_expr base, bool is_written);
hn_freg hn_form_add_register(hn_form *f, hn_op op, hn_dtype dtype);
/* Appends to the block at hand. FOR, IF, IF_ALIGNED, BLOCK, LANES and VECTOR open their body, which
 * hn_form_close ends. */
hn_fid hn_form_add(hn_form *f, hn_form_stmt stmt);
/* FOR of `var` in [begin, end) by `step`. */
void hn_form_for(hn_form *f, hn_expr var, hn_expr begin, hn_expr end, int64_t step);
/* IF a < b. */
void hn_form_if(hn_form *f, hn_expr a, hn_expr b);
void hn_form_else(hn_form *f);
void hn_form_close(hn_form *f);
void hn_form_let(hn_form *f, hn_expr var, hn_expr e);
hn_fid hn_form_value(hn_form *f, hn_sop op);
void hn_form_store(hn_form *f, hn_fmem memory, hn_expr index, hn_fid value, hn_store_mode mode);
/* By threads of a form of groups that come to elements of their own, or is_atomic: that may meet. */
void hn_form_scatter(hn_form *f, hn_fmem memory, hn_expr index, hn_fid value, hn_store_mode mode,
                     bool is_atomic);
void hn_form_init(hn_form *f, hn_freg reg);
void hn_form_step(hn_form *f, hn_freg reg, hn_fid value, hn_fid position);
/* The value of a register, or its position. */
hn_fid hn_form_result(hn_form *f, hn_freg reg, bool position);
void hn_form_barrier(hn_form *f);
void hn_form_before(hn_form *f, hn_freg reg, hn_freg all, uint32_t width, uint32_t pitch);
/* FOR of `var` in [0, count), whose copies stand side by side. */
void hn_form_unrolled(hn_form *f, hn_expr var, uint32_t count);
void hn_form_move(hn_form *f, hn_fmem to, hn_expr index, hn_fmem from, hn_expr from_index,
                  uint32_t count);
void hn_form_await(hn_form *f, uint32_t but);
/* In a form of ranges; marks the register as one whose lanes are combined. */
void hn_form_across(hn_form *f, hn_freg reg);
/* In a form of groups, likewise. */
void hn_form_across_threads(hn_form *f, hn_freg reg, uint32_t width, uint32_t pitch);
void hn_form_set(hn_form *f, hn_freg reg, hn_fid value, hn_fid position);
void hn_form_block(hn_form *f);
/* `unroll` at least 1. */
void hn_form_lanes_in(hn_form *f, hn_expr var, hn_expr begin, hn_expr end, uint32_t unroll,
                      hn_form_lanes lanes);
void hn_form_vector(hn_form *f);
void hn_form_prefetch(hn_form *f, hn_fmem memory, hn_expr index, hn_form_fetch fetch,
                      uint32_t every);
void hn_form_transpose_into(hn_form *f, hn_fmem memory, hn_expr index, hn_form_transpose transpose);
void hn_form_if_aligned(hn_form *f, hn_fmem memory);
/* Behind all arguments: `buffers` has one for each. */
void hn_form_segment_add(hn_form *f, const hn_buf *buffers, hn_expr length);
/* Every block but the outermost must be closed. Errors: the first of building; those of
 * hn_form_verify. */
hn_status hn_form_end(hn_form *f) HN_MUST_USE;

/* Memories of the program that one segment, or a form without segments, has. */
uint32_t hn_form_argument_count(const hn_form *f);
/* An expression of the form as it is in segment `k`. */
hn_expr hn_form_in_segment(const hn_form *f, uint32_t k, hn_expr e);
/* Groups or iterations of all segments together. */
hn_expr hn_form_grid(const hn_form *f);

/* Whether is_narrow may be said of a form that is built. */
bool hn_form_fits_words(const hn_form *f);

/* Checks ids, that every statement stands in one place, scopes (a name has one meaning at a time),
 * dtypes, that memories are read and written as they say, and that barriers stand where all threads
 * of a group arrive: no IF around them, and no FOR, whose limits depend on `thread` or on data.
 * Errors: internal, naming the statement. */
hn_status hn_form_verify(const hn_form *f) HN_MUST_USE;

/* The text form: docs/kernel-forms.md. Parsing what was printed gives the same text. */
void hn_form_print(const hn_form *f, hn_strbuf *out);
/* Verified as well. `program` gives buffers and dtypes of arguments. Errors: invalid-argument, with
 * line and column. Owns: everything lives in `arena`. */
hn_status hn_form_parse(const hn_program *program, hn_arena *arena, hn_str text,
                        hn_form **out) HN_MUST_USE;

#endif
