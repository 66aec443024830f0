/* operands.h: reading the operands of point-wise ops: tensors and Python numbers brought to
 * one dtype by PyTorch's promotion. Private to src/opt/decompose/. */
#ifndef HN_OPT_DECOMPOSE_OPERANDS_H
#define HN_OPT_DECOMPOSE_OPERANDS_H

#include "opt/decompose/decompose.h"

typedef enum hn_operand_flags {
    HN_OPERANDS_PLAIN = 0,
    HN_OPERANDS_TO_FLOAT = 1, /* ints and bools become the default float (sin, div) */
    /* several primitives follow: 16-bit floats are computed in f32, rounded once */
    HN_OPERANDS_COMPOSITE = 2,
    /* One primitive follows, and a number that a 16-bit float cannot hold stays in f32: bf16 x *
     * 1.1 is multiplied by 1.1f, not bf16(1.1). Eager PyTorch does so on CUDA, and on CPU except in
     * sums. */
    HN_OPERANDS_WIDE_NUMBERS = 4
} hn_operand_flags;

#define HN_MAX_OPERANDS 4
typedef struct hn_operands {
    hn_dtype common;             /* what promotion gives: the result's dtype for arithmetic */
    hn_dtype compute;            /* the dtype of v[]: common, or f32 for it */
    hn_value v[HN_MAX_OPERANDS]; /* 0 for None */
} hn_operands;

/* The arguments at positions args[0..count). */
hn_operands hn_dec_operands(hn_dec *d, const uint32_t *args, uint32_t count, unsigned flags);
/* The common form: arguments 0 .. count-1. */
hn_operands hn_dec_first_operands(hn_dec *d, uint32_t count, unsigned flags);
/* Result k = v in the common dtype. */
void hn_dec_finish(hn_dec *d, uint32_t k, hn_value v, const hn_operands *operands);

/* Whether `arg` is a Python number (constant or symbolic), not a tensor. */
bool hn_dec_is_number(const hn_dec *d, uint32_t arg);
/* The number as a constant; false when it is symbolic or a tensor. */
bool hn_dec_known_number(const hn_dec *d, uint32_t arg, double *out);

#endif
