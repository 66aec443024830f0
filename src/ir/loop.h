/* loop.h: loop IR, what lowering makes of a graph. Normative text: docs/ir.md.
 *
 * A program is a list of buffers and a list of items in execution order. An item is a loop nest or
 * an extern call. A loop nest has parallel and reduction dimensions and a body of scalar SSA ops:
 * loads and stores address a buffer by a linear element offset over the loop variables, so views
 * never appear.
 *
 * Owns: everything lives in the program's arena. Ids are 1-based, 0 is invalid. */
#ifndef HN_IR_LOOP_H
#define HN_IR_LOOP_H

#include "base/arena.h"
#include "base/device.h"
#include "henry/abi/extern_abi.h"
#include "ir/graph.h"
#include "ir/op.h"
#include "sym/sym.h"

typedef uint32_t hn_buf;  /* index into hn_program.buffers */
typedef uint32_t hn_sid;  /* index into a body's ops */
typedef uint32_t hn_item; /* index into hn_program.items */

typedef enum hn_buffer_kind {
    HN_BUFFER_INPUT, /* graph input `input` (user inputs, parameters, buffers, constants) */
    HN_BUFFER_TEMP,
    HN_BUFFER_OUTPUT /* leaves the program: fresh memory for the caller */
} hn_buffer_kind;

/* Memory with one dtype. The logical tensor in it has `sizes` and `strides` (elements). */
typedef struct hn_buffer {
    hn_buffer_kind kind;
    hn_dtype dtype;
    hn_device_kind device; /* whose memory it is */
    uint32_t rank;
    const hn_expr *sizes, *strides;
    hn_expr extent; /* elements from the first to one past the last that the strides reach */
    uint32_t input; /* of INPUT: index into graph inputs */
    hn_value value; /* the graph value that it holds; 0: none */
    /* without a value: the node whose value it holds, hn_graph.origins; 0: unknown. For debuggers:
     * no part of the text form */
    uint32_t origin;
} hn_buffer;

typedef enum hn_sop_kind {
    HN_SOP_ELEM,  /* op = an element-wise row of ops.def; args */
    HN_SOP_CAST,  /* args[0] to dtype */
    HN_SOP_CONST, /* imm; dtype */
    HN_SOP_LOAD,  /* buffer[index] */
    HN_SOP_INDEX, /* the value of `index` as dtype I64 */
    /* binds the symbol `index` to the I64 args[0], wrapped when imm.i & 1, checked against its
     * extent */
    HN_SOP_INDIRECT,
    /* philox: args[0] the I64 seed; index: element number; imm.i: stream; op: kind, see
     * hn_random_kind */
    HN_SOP_RANDOM,
    HN_SOP_RESULT /* in kernel form only: the result of reduction number imm.i */
} hn_sop_kind;

typedef enum hn_random_kind { HN_RANDOM_UNIFORM, HN_RANDOM_NORMAL, HN_RANDOM_BITS } hn_random_kind;

typedef struct hn_sop {
    hn_sop_kind kind;
    hn_op op;
    hn_dtype dtype;
    hn_sid args[3];
    hn_buf buffer;
    hn_expr index;
    /* the node that it is of, hn_graph.origins; 0: none. For messages: no part of the text form, and
     * ops that differ only in it are equal */
    uint32_t origin;
    union {
        double f;
        int64_t i;
    } imm; /* CONST: f for float dtypes, i for the others */
} hn_sop;

typedef struct hn_body {
    hn_sop *items; /* [0] unused; an op's arguments come before it */
    uint32_t count, cap;
} hn_body;

typedef enum hn_loop_kind {
    HN_LOOP_POINTWISE,
    /* reduce_op over the reduction dims: SUM PROD AMIN AMAX ANY ALL ARGMIN ARGMAX */
    HN_LOOP_REDUCE,
    /* one reduction dim, every prefix stored: CUMSUM CUMPROD CUMMAX CUMMIN LOGCUMSUMEXP */
    HN_LOOP_SCAN,
    /* stores with a mode at a data-dependent index; in order, unless the target combines as threads
     * come (kernel/gpu_scatter.c) */
    HN_LOOP_SCATTER
} hn_loop_kind;

typedef enum hn_store_mode {
    HN_STORE_SET,
    HN_STORE_ADD,
    HN_STORE_MUL,
    HN_STORE_MIN,
    HN_STORE_MAX
} hn_store_mode;

/* Where a result goes. */
typedef struct hn_loop_store {
    hn_buf buffer;
    /* POINTWISE, SCAN, SCATTER: over all variables; REDUCE: over the parallel ones */
    hn_expr index;
    hn_sid value; /* of REDUCE and SCAN: what is combined */
    hn_store_mode mode;
} hn_loop_store;

typedef struct hn_loop {
    hn_loop_kind kind;
    uint32_t rank, red_rank;   /* parallel dims first, then reduction dims */
    hn_expr vars[HN_MAX_RANK]; /* index symbols (hn_sym_index), ordinals 0.. */
    hn_body body;
    hn_op reduce_op; /* of REDUCE and SCAN */
    hn_loop_store store;
    hn_loop_store indices; /* CUMMAX, CUMMIN: second result; buffer 0 otherwise */
} hn_loop;

enum { HN_EXTERN_OPERANDS_MAX = 9 };

/* Nodes of the graph, as indices of hn_graph.origins: ascending, each once, none of them 0. */
typedef struct hn_origins {
    uint32_t *items;
    uint32_t count, cap;
} hn_origins;
/* Adds one that may be there already; 0 adds nothing. */
hn_status hn_origins_add(hn_arena *arena, hn_origins *list, uint32_t origin) HN_MUST_USE;

/* A call of an operation: extern_abi.h. For targets without the operation there may be loops beside
 * it that compute the same: they read the operands and temporaries that nothing else touches, and
 * the last one stores operand 0. */
typedef struct hn_extern {
    hn_extern_kind kind;
    uint32_t operand_count;
    struct hn_extern_operand {
        hn_buf buffer; /* 0: absent */
        hn_expr offset_elems;
        bool written;
    } operands[HN_EXTERN_OPERANDS_MAX];
    uint32_t param_count;
    hn_expr params[48];
    hn_loop *loops;      /* in order */
    uint32_t loop_count; /* 0: the target must have the operation */
    hn_origins origins;  /* nodes that it does besides its own; no part of the text form */
} hn_extern;

/* What an operation may do besides, for the scheduler to give it; bits. */
enum {
    HN_DOES_RESIDUAL = 1, /* adds another value of the same elements */
    HN_DOES_CHANNELS = 2, /* of CONV: multiplies and adds a number for each output channel */
    HN_DOES_SCALE = 4,    /* of CONV: multiplies its input by a number for each channel */
    HN_DOES_STRIDES = 8,  /* stores its result in any strides, not only in rows */
    HN_NEEDS_BIAS = 16    /* of CONV: a residual and a function only together with a bias */
};

/* An operation of a target, and what it takes of the loops around a call. */
typedef struct hn_operation {
    /* bit k: of hn_dtype k, which is that of the first operand that is read; 0: there is none */
    uint32_t dtypes;
    uint32_t epilogues; /* bit k: ends with hn_epilogue k */
    /* bit k: does so with results of f16 and bf16, too, and about as precisely as loops, which
     * round between their ops: it rounds once, at the end */
    uint32_t narrow_epilogues;
    uint32_t does;
    uint32_t channels_last; /* of CONV: bit k: operands of hn_dtype k better lie so */
    uint32_t channel_bytes; /* and few channels better are a multiple of so many bytes; 0: any */
    /* of MATMUL: bit k: much faster where rows of operands of hn_dtype k are multiples of row_bytes,
     * long ones better yet of line_bytes; whether a product of so many additions and multiplications
     * gains more by it than so many launches take, which copy so many bytes */
    uint32_t aligned_rows, row_bytes, line_bytes;
    bool (*pays_to_align)(double flops, uint32_t launches, double copied_bytes);
    /* of MATMUL: bit k: several of hn_dtype k that read the same rows, and weights, take less time
     * as one, if each has at most so many additions and multiplications */
    uint32_t joined;
    double joined_max_flops;
    /* whether it does a call of such dtypes; NULL: any */
    bool (*takes)(const hn_sym *sym, const hn_extern *call);
} hn_operation;

typedef struct hn_operations {
    hn_operation of[HN_EXTERN_KIND_COUNT];
    /* Not an operation: loops read what two pieces make together from the pieces, each element from
     * both of them. A kernel that writes it costs more than a second load. */
    bool chooses_pieces;
    /* Nor is this: scatters that must be in order, of many indices, sort their places first, and then
     * combine (lower/scatter.c). The target has SORT and COMBINE_SORTED of every dtype. */
    bool sorts_scatters;
} hn_operations;

/* Those of src/ops: for every dtype, ATTENTION_BACKWARD for all but f64. */
extern const hn_operations hn_operations_all;

/* BRANCH_THEN ... BRANCH_ELSE ... BRANCH_END bracket the items of a conditional; REPEAT ...
 * [WHILE ...] AGAIN those of a loop, which runs `rounds` times or, with WHILE, until the bool there is
 * false. They nest. */
typedef enum hn_item_kind {
    HN_ITEM_LOOP,
    HN_ITEM_EXTERN,
    HN_ITEM_ASSERT,
    HN_ITEM_BRANCH_THEN,
    HN_ITEM_BRANCH_ELSE,
    HN_ITEM_BRANCH_END,
    HN_ITEM_DEFINE, /* `symbol` is the one element of `cond` from here on */
    HN_ITEM_REPEAT,
    HN_ITEM_WHILE,
    HN_ITEM_AGAIN,
    HN_ITEM_COPY /* the bytes of buffer `cond` into buffer `to`, of the same layout */
} hn_item_kind;

typedef struct hn_item_info {
    hn_item_kind kind;
    uint32_t origin; /* hn_graph.origins */
    hn_loop *loop;
    hn_extern *ext;
    /* what it reads: of ASSERT, BRANCH_THEN and WHILE a bool buffer of one element; of DEFINE a
     * whole number */
    hn_buf cond, to;
    hn_expr rounds; /* of REPEAT; 0: there is a WHILE */
    hn_expr symbol; /* of DEFINE: a DATA symbol */
    hn_str message;
} hn_item_info;

typedef struct hn_result {
    uint32_t output; /* index into graph outputs */
    hn_buf buffer;   /* where the tensor is */
    uint32_t rank;
    const hn_expr *sizes, *strides;
    hn_expr offset;
} hn_result;

/* The node whose index an INDIRECT symbol is. Loops are fused, and then it need not be the node
 * that the kernel is named after. */
typedef struct hn_index_origin {
    hn_expr symbol;
    uint32_t origin; /* hn_graph.origins */
} hn_index_origin;

typedef struct hn_program {
    hn_arena *arena;
    hn_sym *sym;
    const hn_graph *graph;
    hn_device_kind device; /* of buffers that are added and are not on another one already */
    struct {
        hn_buffer *items;
        uint32_t count, cap;
    } buffers; /* [0] unused */
    struct {
        hn_item_info *items;
        uint32_t count, cap;
    } items; /* [0] unused */
    struct {
        hn_result *items;
        uint32_t count, cap;
    } results;
    /* for messages only: no part of the text form */
    struct {
        hn_index_origin *items;
        uint32_t count, cap;
    } index_origins;
    uint32_t scatters_selected; /* that are selects, not loops: for the metrics */
    uint32_t cats_cut;          /* that are no memory, since their readers are cut: likewise */
    uint32_t layouts_padded;    /* of temporaries, which reach farther than their elements need */
} hn_program;

/* The operation that a target with these (NULL: none) has for a call; NULL: it has none. */
const hn_operation *hn_operation_of(const hn_operations *operations, const hn_program *program,
                                    const hn_extern *call);

hn_status hn_program_create(hn_graph *graph, hn_arena *arena, hn_program **out) HN_MUST_USE;
hn_status hn_program_add_buffer(hn_program *p, hn_buffer buffer, hn_buf *out) HN_MUST_USE;
/* How many elements behind the begin of its memory, which is aligned, a buffer begins: a parameter
 * may be a part of its storage. */
int64_t hn_program_begin_of(const hn_program *p, hn_buf b);
/* The program is for this device: all its buffers are there, those too that are added later. */
void hn_program_set_device(hn_program *p, hn_device_kind device);
hn_status hn_program_add_loop(hn_program *p, const hn_loop *loop, uint32_t origin,
                              hn_item *out) HN_MUST_USE;
hn_status hn_program_add_extern(hn_program *p, const hn_extern *ext, uint32_t origin,
                                hn_item *out) HN_MUST_USE;

/* All kinds but LOOP and EXTERN. */
hn_status hn_program_add_item(hn_program *p, hn_item_info item) HN_MUST_USE;

/* Appends `sop`, or returns an equal one that is there already. 0 without memory. */
hn_sid hn_body_add(hn_arena *arena, hn_body *body, const hn_sop *sop);

/* Checks ids, order, symbols in scope and dtypes of every body; that each TEMP and OUTPUT is
 * written before it is read. */
hn_status hn_program_verify(const hn_program *p) HN_MUST_USE;
/* The text form: docs/ir.md. Parsing what was printed gives the same text. */
void hn_program_print(const hn_program *p, hn_strbuf *out);
/* Whether a text is one of loop IR, by its first word. */
bool hn_program_is_text(hn_str text);
/* Verified as well. The program's graph is empty but for the origins; buffers hold no graph values.
 * Errors: invalid-argument, with line and column. Owns: everything lives in `arena`. */
hn_status hn_program_parse(hn_arena *arena, hn_sym *sym, hn_str text, hn_program **out) HN_MUST_USE;

#endif
