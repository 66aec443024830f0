/* op.h: the op tables. Facts are rows of ops.def (primitives) and aten.def (ATen overloads). The
 * order of the rows means nothing: the numbers of hn_op tell ops apart, and no code may ask which
 * is larger (tests/op_order.sh looks for it). */
#ifndef HN_IR_OP_H
#define HN_IR_OP_H

#include "base/compiler.h"
#include "base/str.h"
#include "ir/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* One number space: primitives first, then ATen overloads. */
typedef enum hn_op {
    HN_OP_NONE = 0,
#define HN_OP(name, ...) HN_OP_##name,
#include "ir/ops.def"
#undef HN_OP
    HN_OP_COUNT,
    HN_ATEN_FIRST = HN_OP_COUNT,
#define HN_ATEN(name, ...) HN_ATEN_##name,
#include "ir/aten.def"
#undef HN_ATEN
    HN_ALL_OP_COUNT
} hn_op;

typedef enum hn_op_class {
    HN_OPC_NONE,
    HN_OPC_UNARY,
    HN_OPC_BINARY,
    HN_OPC_COMPARE,
    HN_OPC_PREDICATE,
    HN_OPC_SELECT,
    HN_OPC_CAST,
    HN_OPC_CREATE,
    HN_OPC_VIEW,
    HN_OPC_DATA,
    HN_OPC_REDUCE,
    HN_OPC_SCAN,
    HN_OPC_SORT,
    HN_OPC_CONTRACT,
    HN_OPC_DYNAMIC,
    HN_OPC_CONTROL,
    HN_OPC_ATEN
} hn_op_class;

/* The words of the column "dtypes": sets of dtype categories. */
enum {
    HN_DTYPES_BOOL = 1 << HN_CATEGORY_BOOL,
    HN_DTYPES_INT = 1 << HN_CATEGORY_INT,
    HN_DTYPES_FLOAT = 1 << HN_CATEGORY_FLOAT,
    HN_DTYPES_NUMBER = HN_DTYPES_INT | HN_DTYPES_FLOAT,
    HN_DTYPES_BITS = HN_DTYPES_BOOL | HN_DTYPES_INT,
    HN_DTYPES_ANY = HN_DTYPES_BOOL | HN_DTYPES_INT | HN_DTYPES_FLOAT
};

typedef enum hn_op_purity {
    /* fails the call, runs subgraphs or defines a symbol: neither merged nor removed */
    HN_PURITY_EFFECT,
    /* may be merged and removed, but each run has a seed of its own: never computed at compile
     * time */
    HN_PURITY_SEEDED,
    HN_PURITY_PURE /* may be merged, removed and computed at compile time */
} hn_op_purity;

/* The words of the column "traits".
 *
 * KEEP, TABLE and RECOMPUTE speak of what an op costs, as the column "cost" does. Each answers a
 * question of one stage, and no threshold of the number gives the same answers: POW has RECOMPUTE,
 * and RECIPROCAL has no KEEP. A change of one changes kernels, so measure it. */
typedef enum hn_op_trait {
    /* Lowering: no work. It does not count toward the size of an expression. */
    HN_TRAIT_FREE = 1 << 0,
    /* Lowering: a result that several nodes read is kept in memory; each of them would take longer
     * to compute it again. */
    HN_TRAIT_KEEP = 1 << 1,
    /* Folding: a small constant result becomes a table; reading it takes less than computing it in
     * the kernel. */
    HN_TRAIT_TABLE = 1 << 2,
    /* Scheduling: a later phase of the same kernel computes a short expression again instead of
     * keeping its result. */
    HN_TRAIT_RECOMPUTE = 1 << 3,
    HN_TRAIT_COMMUTES = 1 << 4, /* x and y may change places */
    HN_TRAIT_ROUNDS = 1 << 5,   /* gives whole numbers, and leaves whole numbers as they are */
    HN_TRAIT_IDENTITY = 1 << 6, /* a reduction that has a value over no elements */
    HN_TRAIT_POSITION = 1 << 7  /* the result is a position, i64 */
} hn_op_trait;

/* What an argument of a row may be. ATen Scalars are HN_PARAM_SCALAR, Tensor? is optional TENSOR,
 * bool[] is INTS of 0 and 1, and Layout, Device, MemoryFormat and Generator are STRING.
 * State is an optional TENSOR that is not read. */
typedef enum hn_param_kind {
    HN_PARAM_TENSOR,
    HN_PARAM_TENSORS,
    HN_PARAM_INT,
    HN_PARAM_INTS,
    HN_PARAM_FLOAT,
    HN_PARAM_FLOATS,
    HN_PARAM_BOOL,
    HN_PARAM_STRING,
    HN_PARAM_DTYPE,
    HN_PARAM_SCALAR, /* INT, FLOAT or BOOL */
    HN_PARAM_GRAPH
} hn_param_kind;

typedef struct hn_param {
    hn_str name;
    hn_param_kind kind;
    bool optional;       /* NONE is allowed */
    bool mutated;        /* ATen: written in place, "Tensor(a!)" */
    bool is_unread;      /* ATen: "State": the importer leaves it out */
    bool has_default;    /* ATen */
    hn_str default_text; /* ATen: as in the schema: "1", "None", "True", "[0, 1]", "1e-05" */
    bool optional_elems; /* ATen "Tensor?[]": members of the list may be None */
    /* ATen "int[2]": a single number stands for a list of so many equal ones; 0: any length */
    uint8_t list_size;
    char alias; /* ATen: the set of "Tensor(a)" and "Tensor(a!)"; 0: none */
} hn_param;

typedef struct hn_op_info {
    const char *name; /* "add", or "aten.add.Tensor" */
    hn_op_class op_class;
    /* Of primitives; 0 for ATen. */
    uint8_t dtypes;      /* HN_DTYPES_* */
    int8_t result_count; /* -1: depends on the subgraphs. hn_op_result_count answers for ATen too */
    hn_op_purity purity; /* hn_op_is_pure answers for ATen too */
    uint16_t cost;       /* of one element, in multiples of an add */
    uint16_t traits;     /* hn_op_trait */
    const char *params_text; /* the row's column */
    /* ATen: as in the schema, "(Tensor values, Tensor indices)"; "" for primitives */
    const char *returns_text;
    const char *doc; /* "" for ATen */
} hn_op_info;

HN_CONST_FN const hn_op_info *hn_op_facts(hn_op op);
/* The parsed parameters of a row: `*out_count` of them. Parsed once, thread-safe, lives for
 * ever. */
const hn_param *hn_op_params(hn_op op, uint32_t *out_count);
hn_op hn_op_find(hn_str name); /* HN_OP_NONE when unknown. "aten.add.Tensor" or "add" */

static inline bool hn_op_is_aten(hn_op op) { return op >= HN_ATEN_FIRST; }
/* No effect and no state: may be removed, merged with an equal node. False for ATen ops that write
 * in place or draw numbers, for asserting ops, and for those that define a data-dependent
 * symbol. */
bool hn_op_is_pure(hn_op op);
/* How many results a node of the row has; -1 when it depends on the arguments ("Tensor[]",
 * cond). */
int hn_op_result_count(hn_op op);
static inline bool hn_op_has(hn_op op, hn_op_trait trait) {
    return hn_op_facts(op)->traits & trait;
}
/* Whether the primitive is defined on the dtype. */
static inline bool hn_op_takes(hn_op op, hn_dtype dtype) {
    return hn_op_facts(op)->dtypes >> hn_dtype_facts(dtype)->category & 1;
}
/* Whether a reduction or scan keeps a position: as its result, or beside it. */
static inline bool hn_op_keeps_position(hn_op op) {
    return hn_op_has(op, HN_TRAIT_POSITION) || hn_op_facts(op)->result_count == 2;
}
static inline bool hn_op_is_elementwise(hn_op op) {
    enum {
        CLASSES = 1 << HN_OPC_UNARY | 1 << HN_OPC_BINARY | 1 << HN_OPC_COMPARE |
                  1 << HN_OPC_PREDICATE | 1 << HN_OPC_SELECT | 1 << HN_OPC_CAST
    };
    return CLASSES >> hn_op_facts(op)->op_class & 1;
}

#endif
