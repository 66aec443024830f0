/* decompose.h: what a decomposition function sees. One function per ATen op (overloads share it),
 * named in the third column of ir/aten.def, in a file named for its family.
 *
 * A function reads the node's arguments by schema position through the hn_dec_* readers, builds
 * primitives with build.h and returns its results with hn_dec_result. Readers latch an error in the
 * graph when an argument has the wrong kind, so a function checks nothing.
 *
 * A pointer to hn_value_info stays readable while the function builds more values (hn_graph_value
 * in ir/graph.h). */
#ifndef HN_OPT_DECOMPOSE_DECOMPOSE_H
#define HN_OPT_DECOMPOSE_DECOMPOSE_H

#include "ir/build.h"
#include "ir/loop.h"

typedef struct hn_dec {
    hn_graph *g;
    /* the ATen node; args with operands already rewritten to primitives' values */
    const hn_node_info *node;
    const hn_node_info *aten; /* the same node as imported: its operands have PyTorch's strides */
    hn_value *results;        /* node->result_count of them, filled by hn_dec_result */
    const char *unsupported;  /* set instead of a result: why this use cannot be rewritten */
    /* the pass's own state, for hn_dec_mapped and hn_dec_maker */
    const struct hn_dec_rewrite *rewrite;
    uint32_t *streams; /* random streams given out so far, in the whole program */
    hn_arena *scratch;
} hn_dec;

typedef void (*hn_dec_fn)(hn_dec *d);
/* The third column of aten.def; NULL for hn_dec_none. */
hn_dec_fn hn_dec_find(hn_op op);

/* --- readers; `arg` is the position in the schema --- */
bool hn_dec_has(const hn_dec *d, uint32_t arg); /* present and not None */
/* 0 for None. A number where the schema says Tensor becomes a rank-0 constant (i64, f32 or
 * bool). */
hn_value hn_dec_tensor(hn_dec *d, uint32_t arg);
uint32_t hn_dec_tensors(hn_dec *d, uint32_t arg, const hn_value **out);
/* a constant int, or a bool; unsupported when symbolic */
int64_t hn_dec_int(hn_dec *d, uint32_t arg);
hn_expr hn_dec_expr(hn_dec *d, uint32_t arg);
/* int lists, also of SYM_INT values */
uint32_t hn_dec_exprs(hn_dec *d, uint32_t arg, hn_expr out[HN_MAX_RANK]);
double hn_dec_float(hn_dec *d, uint32_t arg); /* of any number */
/* of a float list; 0 for None */
uint32_t hn_dec_floats(hn_dec *d, uint32_t arg, const double **out);
bool hn_dec_bool(hn_dec *d, uint32_t arg);
hn_str hn_dec_string(hn_dec *d, uint32_t arg); /* "" for None */
hn_dtype hn_dec_dtype(hn_dec *d, uint32_t arg, hn_dtype when_none);
hn_scalar hn_dec_scalar(hn_dec *d, uint32_t arg);
/* A dimension, negative counted from the end, checked: 0 <= result < max(rank, 1). */
uint32_t hn_dec_dim(hn_dec *d, uint32_t arg, uint32_t rank);
/* A list of dims; None or [] means all when `all_when_empty`. Returns how many, sorted ascending,
 * no duplicates. */
uint32_t hn_dec_dims(hn_dec *d, uint32_t arg, uint32_t rank, bool all_when_empty,
                     uint32_t out[HN_MAX_RANK]);
/* The recorded meta of result k of the ATen node (dtype, sizes): what PyTorch says it must be. */
const hn_value_info *hn_dec_meta(const hn_dec *d, uint32_t k);
/* The recorded meta of the tensor operand `arg` before rewriting: with PyTorch's strides. NULL when
 * not a tensor. */
const hn_value_info *hn_dec_arg_meta(const hn_dec *d, uint32_t arg);
/* For ops about storage: what an imported value became (0: lost), and the imported node that made
 * it (NULL: an input). */
hn_value hn_dec_mapped(const hn_dec *d, hn_value imported);
const hn_node_info *hn_dec_maker(const hn_dec *d, hn_value imported);

/* What the target has; NULL: nothing. */
const hn_operations *hn_dec_operations(const hn_dec *d);

void hn_dec_result(hn_dec *d, uint32_t k, hn_value v);
/* Keeps the first reason; `why` is a literal or lives in the scratch arena. What the function
 * builds afterwards is void. */
void hn_dec_unsupported(hn_dec *d, const char *why);

/* --- helpers shared by families --- */
const hn_value_info *hn_dec_info(const hn_dec *d, hn_value v);
/* Type promotion (reference B4) of tensors `v` (0 entries skipped) and Python scalars
 * (`scalar_is_bool` may be NULL). */
hn_dtype hn_dec_promote(hn_dec *d, const hn_value *tensors, uint32_t count,
                        const hn_scalar *scalars, uint32_t scalar_count,
                        const bool *scalar_is_bool);
/* torch.promote_types of two dtypes; NONE is neutral. */
hn_dtype hn_dec_promote_types(hn_dtype a, hn_dtype b);
/* rank-0 constant of dtype `dtype` */
hn_value hn_dec_const(hn_dec *d, double value, hn_dtype dtype);
hn_value hn_dec_scalar_value(hn_dec *d, hn_scalar s, hn_dtype dtype);
/* The number in `arg` as a rank-0 tensor of `dtype`: constants, symbolic ints, floats read from
 * tensors (item). */
hn_value hn_dec_number(hn_dec *d, uint32_t arg, hn_dtype dtype);
/* "opmath": float for 16-bit floats, the dtype itself otherwise */
hn_dtype hn_dec_opmath(hn_dtype dtype);
static inline hn_expr hn_dec_i(hn_dec *d, int64_t value) { return hn_sym_int(d->g->sym, value); }

/* Every function named in aten.def; rows without one name hn_dec_none, which does nothing. */
#define HN_ATEN(name, text, fn, ...) void fn(hn_dec *d);
#include "ir/aten.def"
#undef HN_ATEN

#endif
