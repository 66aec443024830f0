/* graph.h: graph IR, tensor-level SSA in dense arrays. Normative text: docs/ir.md.
 *
 * Two op sets live in one graph: ATen overloads (rows of aten.def, what importers produce) and
 * primitives (rows of ops.def, what lowering accepts). A node has arguments in the order of its
 * row, each a tagged hn_arg; ATen arguments left at their default are filled in by the importer
 * from the row's schema, so that passes never look for a missing one.
 *
 * Owns: everything lives in the graph's arena and dies with it; ids are 1-based, 0 is invalid.
 * Threads: a graph belongs to one thread at a time.
 * Builders latch: after the first failure they return 0 and do nothing; hn_graph_status tells
 * why. */
#ifndef HN_IR_GRAPH_H
#define HN_IR_GRAPH_H

#include "base/arena.h"
#include "base/box.h"
#include "base/str.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "sym/sym.h"

#define HN_MAX_RANK 16

typedef uint32_t hn_value; /* index into hn_graph.values; 0: none */
typedef uint32_t hn_node;  /* index into hn_graph.nodes; 0: none */
typedef struct hn_graph hn_graph;

typedef enum hn_arg_kind {
    HN_ARG_NONE,
    HN_ARG_VALUE,  /* a tensor (or symbolic scalar) value */
    HN_ARG_VALUES, /* a list; an element may be 0 = None (aten.index) */
    HN_ARG_INT,    /* hn_expr */
    HN_ARG_INTS,   /* list of hn_expr */
    HN_ARG_FLOAT,
    HN_ARG_FLOATS,
    HN_ARG_BOOL,
    HN_ARG_STRING,
    HN_ARG_DTYPE, /* also how layout, device and memory_format arguments pass: as STRING or NONE */
    HN_ARG_GRAPH
} hn_arg_kind;

typedef struct hn_arg {
    hn_arg_kind kind;
    uint32_t count; /* of VALUES, INTS, FLOATS */
    union {
        hn_value value;
        const hn_value *values;
        hn_expr expr;
        const hn_expr *exprs;
        double f;
        const double *floats;
        bool b;
        hn_str s;
        hn_dtype dtype;
        hn_graph *graph;
    } as;
} hn_arg;

typedef enum hn_value_kind {
    HN_VALUE_TENSOR,
    HN_VALUE_SYM_INT,   /* a scalar known as the expression `expr` */
    HN_VALUE_SYM_FLOAT, /* a Python float result: `expr` 0 */
    HN_VALUE_SYM_BOOL
} hn_value_kind;

/* A value: what one output of a node, or an input of the graph, is.
 * Shapes: sizes[rank], strides[rank] in elements. `strides` NULL: row-major contiguous. Strides are
 * what PyTorch's eager run has; only inputs, constants and graph outputs must have them in
 * memory. */
typedef struct hn_value_info {
    hn_value_kind kind;
    hn_dtype dtype;
    uint32_t rank;
    const hn_expr *sizes;
    const hn_expr *strides;
    hn_expr expr;        /* of SYM_INT */
    hn_node producer;    /* 0: graph input */
    uint32_t result_idx; /* which output of the producer */
    hn_str name;         /* the importer's name, or "" */
} hn_value_info;

/* Where a node came from, for messages, traces and reports. */
typedef struct hn_origin {
    hn_str node;   /* name in the input file */
    hn_str source; /* "model.py:12" or "" */
} hn_origin;

typedef struct hn_node_info {
    hn_op op; /* HN_OP_* or HN_ATEN_* */
    uint32_t arg_count, result_count;
    hn_arg *args;            /* arg_count */
    const hn_value *results; /* result_count; 0 for an absent result */
    uint32_t origin;         /* index into hn_graph.origins; 0: none */
    bool dead;               /* removed by a pass; skipped by iteration */
} hn_node_info;

/* A part of a storage that is made of others: bytes of another storage, in another place. */
typedef struct hn_storage_piece {
    uint32_t storage; /* where they come from, which is not made itself */
    hn_box box;
} hn_storage_piece;

/* Bytes that constants live in. Several constants may share one storage (tied, transposed or sliced
 * weights): it is loaded once. */
typedef struct hn_storage {
    const uint8_t *data; /* NULL: bytes not available (metadata-only graph), or made */
    size_t size_bytes;
    hn_str file_record;   /* name inside the .pt2, "" for bytes made by a pass */
    uint64_t file_offset; /* of `data` in the file; 0 for bytes made by a pass */
    /* set by hn_storage_bytes, for all copies; NULL: nobody wants to know. Borrowed, or in the
     * graph's arena. */
    bool *was_read;
    /* The bytes are copies of others, made when the program is loaded; what no piece writes is 0.
     * Pieces do not overlap. Count 0: they are not. */
    const hn_storage_piece *pieces;
    uint32_t piece_count;
    /* 1 + the output of the graph's weights_program whose elements, row-major, these are; 0: it is
     * none */
    uint32_t computed;
    /* of a weights_program: the storage of the graph around it that this one is; 0: its own */
    uint32_t outer;
} hn_storage;

/* The bytes, for a pass that computes with them: the program then depends on their values, which
 * the cache of graphs must know. What only hands a storage on uses `data`. */
static inline const uint8_t *hn_storage_bytes(const hn_storage *storage) {
    if (storage->was_read) *storage->was_read = true;
    return storage->data;
}

/* Values that somebody has recorded for a user input: a run can begin with them. Compiling does not
 * look at them. */
typedef struct hn_example {
    uint32_t rank;
    const int64_t *sizes;
    const uint8_t *bytes; /* row-major, of the dtype of the input's value */
    size_t size_bytes;
} hn_example;

typedef enum hn_input_kind {
    HN_INPUT_USER,
    HN_INPUT_PARAMETER,
    HN_INPUT_BUFFER,
    HN_INPUT_CONSTANT, /* lifted tensor constants, and constants made by passes */
    HN_INPUT_SCALAR    /* a Python constant in the signature: checked at call time, not used */
} hn_input_kind;

typedef struct hn_input {
    hn_input_kind kind;
    hn_value value;   /* 0 for SCALAR */
    hn_str name;      /* user inputs: argument name; others: fully qualified name */
    uint32_t storage; /* index into hn_graph.storages (1-based) for PARAMETER, BUFFER, CONSTANT */
    int64_t storage_offset_elems;
    hn_arg scalar;             /* of SCALAR */
    const hn_example *example; /* of USER; NULL: none. Outlives the graph */
} hn_input;

typedef enum hn_output_kind {
    HN_OUTPUT_USER,
    /* the new content of input `target` (a user input, a buffer or a parameter) */
    HN_OUTPUT_MUTATION,
    HN_OUTPUT_SCALAR /* a constant or symbolic scalar in `scalar`, or None */
} hn_output_kind;

typedef struct hn_output {
    hn_output_kind kind;
    hn_value value;
    uint32_t target; /* of MUTATION: index into inputs */
    hn_arg scalar;   /* of SCALAR */
    hn_str name;
} hn_output;

/* A parameter, buffer or constant as the model has it, whatever passes do with the input later. */
typedef struct hn_graph_weight {
    hn_input_kind kind;
    hn_str name;
    uint32_t storage;
    int64_t storage_offset_elems;
    hn_dtype dtype;
    uint32_t rank;
    const hn_expr *sizes, *strides; /* strides NULL: row-major contiguous */
} hn_graph_weight;

struct hn_graph {
    hn_arena *arena;
    hn_sym *sym;
    hn_str name;
    struct {
        hn_value_info *items;
        uint32_t count, cap;
    } values; /* [0] unused */
    /* [0] unused; order is topological */
    struct {
        hn_node_info *items;
        uint32_t count, cap;
    } nodes;
    struct {
        hn_origin *items;
        uint32_t count, cap;
    } origins; /* [0] is the empty origin */
    struct {
        hn_storage *items;
        uint32_t count, cap;
    } storages; /* [0] unused */
    struct {
        hn_input *items;
        uint32_t count, cap;
    } inputs;
    struct {
        hn_output *items;
        uint32_t count, cap;
    } outputs;
    struct {
        hn_graph_weight *items;
        uint32_t count, cap;
    } weights; /* see hn_graph_note_weights */
    /* What depends on weights alone: a graph without user inputs, whose outputs are storages of
     * this one. It runs once for a set of weights (opt/weights.c). NULL: there is none */
    hn_graph *weights_program;
    uint8_t **computed; /* of a weights_program, per output: computed by the interpreter, or NULL */
    uint32_t current_origin; /* given to nodes that builders make */
    hn_status failed;        /* latched; owned by the graph, freed by hn_graph_deinit */
};

/* Owns: in the arena */
hn_status hn_graph_create(hn_arena *arena, hn_sym *sym, hn_graph **out) HN_MUST_USE;
/* frees `failed` only */
void hn_graph_deinit(hn_graph *graph);
/* takes the latched error, NULL when fine */
hn_status hn_graph_status(hn_graph *graph) HN_MUST_USE;
/* Latches `status` unless an error is latched already (then frees it). */
void hn_graph_fail(hn_graph *graph, hn_status status);

/* Lifetime: the pointer may be read as long as the graph's arena lives. But adding a value may move
 * all values, and adding a node all nodes: an older pointer then shows the value or node as it was
 * before. Later changes do not show, and what is written through it is lost. After hn_graph_compact
 * and hn_graph_sort, a pointer to a node may show another node. */
static inline const hn_value_info *hn_graph_value(const hn_graph *graph, hn_value v) {
    return &graph->values.items[v];
}
static inline hn_node_info *hn_graph_node(const hn_graph *graph, hn_node n) {
    return &graph->nodes.items[n];
}

/* Row-major strides of `sizes`, in elements. */
void hn_contiguous_strides(hn_sym *sym, const hn_expr *sizes, uint32_t rank, hn_expr *out_strides);
/* Elements from the first to one past the last that the strides reach; 0 when a size is 0. */
hn_expr hn_strided_extent(hn_sym *sym, const hn_expr *sizes, const hn_expr *strides, uint32_t rank);
/* The strides of a tensor, also where it leaves row-major ones out. */
void hn_value_strides(hn_sym *sym, const hn_value_info *info, hn_expr *out_strides);

/* New value without a producer. `sizes` and `strides` (may be NULL) are copied. */
hn_value hn_graph_add_tensor(hn_graph *graph, hn_dtype dtype, uint32_t rank, const hn_expr *sizes,
                             const hn_expr *strides, hn_str name);
hn_value hn_graph_add_scalar(hn_graph *graph, hn_value_kind kind, hn_expr expr, hn_str name);

/* Appends a node. `args` are copied (lists too); `results` get this producer. Used by importers and
 * by build.c; passes use the typed builders of build.h. */
hn_node hn_graph_add_node(hn_graph *graph, hn_op op, const hn_arg *args, uint32_t arg_count,
                          const hn_value *results, uint32_t result_count);

hn_status hn_graph_add_input(hn_graph *graph, hn_input input) HN_MUST_USE;
/* Lists the named parameters, buffers and constants among the inputs, for programs that exchange
 * them later, and sees to it that reads of their bytes are noted. Call it before the first pass:
 * passes take inputs away. */
hn_status hn_graph_note_weights(hn_graph *graph) HN_MUST_USE;
hn_status hn_graph_add_output(hn_graph *graph, hn_output output) HN_MUST_USE;
uint32_t hn_graph_add_storage(hn_graph *graph, hn_storage storage); /* 0 on failure */
/* The bytes of a storage; those of one that is made of others are made now, in `arena`, and those
 * that the weights_program has as an output are computed when one of them is asked for first, by
 * the interpreter. NULL: the graph does not have them. For who runs the graph or prints it whole: a
 * pass that computes with bytes uses hn_storage_bytes. Errors: also those of hn_interpret. */
hn_status hn_graph_storage_data(const hn_graph *graph, uint32_t storage, hn_arena *arena,
                                const uint8_t **out) HN_MUST_USE;
uint32_t hn_graph_add_origin(hn_graph *graph, hn_origin origin);

/* A constant made by a pass: contiguous, bytes copied. Appears as an input of kind CONSTANT. */
hn_value hn_graph_add_constant(hn_graph *graph, hn_dtype dtype, uint32_t rank, const hn_expr *sizes,
                               const void *bytes, size_t len);

/* Argument makers. Lists are borrowed until add_node copies them. */
static inline hn_arg hn_arg_none(void) { return (hn_arg){.kind = HN_ARG_NONE}; }
static inline hn_arg hn_arg_value(hn_value v) {
    return (hn_arg){.kind = v ? HN_ARG_VALUE : HN_ARG_NONE, .as.value = v};
}
static inline hn_arg hn_arg_values(const hn_value *v, uint32_t n) {
    return (hn_arg){.kind = HN_ARG_VALUES, .count = n, .as.values = v};
}
static inline hn_arg hn_arg_expr(hn_expr e) { return (hn_arg){.kind = HN_ARG_INT, .as.expr = e}; }
static inline hn_arg hn_arg_exprs(const hn_expr *e, uint32_t n) {
    return (hn_arg){.kind = HN_ARG_INTS, .count = n, .as.exprs = e};
}
static inline hn_arg hn_arg_floats(const double *f, uint32_t n) {
    return (hn_arg){.kind = HN_ARG_FLOATS, .count = n, .as.floats = f};
}
static inline hn_arg hn_arg_float(double f) { return (hn_arg){.kind = HN_ARG_FLOAT, .as.f = f}; }
static inline hn_arg hn_arg_bool(bool b) { return (hn_arg){.kind = HN_ARG_BOOL, .as.b = b}; }
static inline hn_arg hn_arg_string(hn_str s) { return (hn_arg){.kind = HN_ARG_STRING, .as.s = s}; }
static inline hn_arg hn_arg_dtype(hn_dtype d) {
    return (hn_arg){.kind = HN_ARG_DTYPE, .as.dtype = d};
}

/* Redirects uses (node arguments, outputs, not nested graphs) after a pass has recorded
 * replacements: `map` has values.count elements; `map[v]` is the new value of v, or 0 to keep;
 * chains are followed. One sweep for a whole pass. */
void hn_graph_replace_uses(hn_graph *graph, const hn_value *map);

/* Calls for every value operand of a node, list members included, subgraph operands included. */
typedef void (*hn_value_visitor)(void *user, hn_value value);
void hn_node_each_value(const hn_node_info *node, hn_value_visitor visit, void *user);

/* Removes dead nodes and keeps the order of the others. Values keep their ids; nodes move up. */
void hn_graph_compact(hn_graph *graph);
/* Like compact, and moves nodes behind the producers of their operands, otherwise keeping the
 * order: for passes that append replacements at the end. Errors: internal for a cycle. */
hn_status hn_graph_sort(hn_graph *graph) HN_MUST_USE;
/* The nodes from `first` on in an order that depends on what they compute and not on when they were
 * made: nodes with effects as they stand, then `roots` (0: none), each behind what it needs. Pure
 * nodes that neither needs are dropped. */
hn_status hn_graph_sort_tail(hn_graph *graph, hn_node first, const hn_value *roots,
                             uint32_t root_count, hn_arena *scratch) HN_MUST_USE;

/* The argument that a parameter's default stands for (lists get their full length). NONE for
 * "None".
 * Errors: internal when the row's text is none of the forms that schemas have. */
hn_status hn_graph_default_arg(hn_graph *graph, const hn_param *param, hn_arg *out) HN_MUST_USE;

/* Which op sets a graph may hold at a stage. */
typedef enum hn_legal { HN_LEGAL_ANY, HN_LEGAL_PRIMITIVE } hn_legal;
/* Checks ids, definition before use, arity and argument kinds against the rows, dtype and shape of
 * every primitive result against hn_infer (build.h). Errors: internal, naming the node. */
hn_status hn_graph_verify(hn_graph *graph, hn_legal legal) HN_MUST_USE;

/* Text form; parses back: print(parse(print(g))) == print(g). Bytes are written for storages of at
 * most 64 bytes, which are referred to by size otherwise, and for examples of at most 64 bytes.
 * _whole: all bytes that the graph has, for a text that is a model by itself. */
void hn_graph_print(const hn_graph *graph, hn_strbuf *out);
void hn_graph_print_whole(const hn_graph *graph, hn_strbuf *out);
/* Errors: invalid-argument with line and column. */
hn_status hn_graph_parse(hn_arena *arena, hn_sym *sym, hn_str text, hn_graph **out) HN_MUST_USE;

#endif
