/* op.h: the op tables. Facts are rows of ops.def (primitives) and aten.def (ATen overloads). */
#ifndef HN_IR_OP_H
#define HN_IR_OP_H

#include "base/compiler.h"
#include "base/str.h"

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

/* What an argument of a row may be. ATen Scalars are HN_PARAM_SCALAR, Tensor? is optional TENSOR, bool[] is INTS of
 * 0 and 1, and Layout, Device, MemoryFormat and Generator are STRING. */
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
    bool optional;    /* NONE is allowed */
    bool mutated;     /* ATen: written in place, "Tensor(a!)" */
    bool has_default; /* ATen */
    hn_str default_text; /* ATen: as in the schema: "1", "None", "True", "[0, 1]", "1e-05" */
    bool optional_elems; /* ATen "Tensor?[]": members of the list may be None */
    uint8_t list_size;   /* ATen "int[2]": a single number stands for a list of so many equal ones; 0: any length */
    char alias;          /* ATen: the set of "Tensor(a)" and "Tensor(a!)"; 0: none */
} hn_param;

typedef struct hn_op_info {
    const char *name; /* "add", or "aten.add.Tensor" */
    hn_op_class op_class;
    const char *params_text;  /* the row's column */
    const char *returns_text; /* ATen: as in the schema, "(Tensor values, Tensor indices)"; "" for primitives */
    const char *doc;          /* "" for ATen */
} hn_op_info;

HN_CONST_FN const hn_op_info *hn_op_facts(hn_op op);
/* The parsed parameters of a row: `*out_count` of them. Parsed once, thread-safe, lives for ever. */
const hn_param *hn_op_params(hn_op op, uint32_t *out_count);
hn_op hn_op_find(hn_str name); /* HN_OP_NONE when unknown. "aten.add.Tensor" or "add" */

static inline bool hn_op_is_aten(hn_op op) { return op >= HN_ATEN_FIRST; }
/* No effect and no state: may be removed, merged with an equal node. False for in-place, random and asserting ops
 * and for those that define a data-dependent symbol. */
bool hn_op_is_pure(hn_op op);
/* How many results a node of the row has; -1 when it depends on the arguments ("Tensor[]", cond). */
int hn_op_result_count(hn_op op);
static inline bool hn_op_is_elementwise(hn_op op) {
    hn_op_class c = hn_op_facts(op)->op_class;
    return c >= HN_OPC_UNARY && c <= HN_OPC_CAST;
}

#endif
