/* alignment.h: how the operands of a call are aligned, as far as that is known before it runs. */
#ifndef HN_OPS_CUDA_ALIGNMENT_H
#define HN_OPS_CUDA_ALIGNMENT_H

#include "ops/cpu/ext.h"

enum { HN_ALIGN_MAX = 16 }; /* bytes: the widest access of the libraries' kernels */

/* The power of two that `bytes` is a multiple of, up to HN_ALIGN_MAX. */
static inline uint32_t hn_align_of(int64_t bytes) {
    return bytes ? (uint32_t)(bytes & -bytes & (2 * HN_ALIGN_MAX - 1)) : HN_ALIGN_MAX;
}

/* Bytes that the address of an operand will be a multiple of, from its buffer's place in memory that
 * is aligned itself, and its own in the buffer; `elem_bytes` where a caller's memory may be anywhere. */
static inline uint32_t hn_align_of_operand(const hn_ext_call *call, uint32_t operand,
                                           uint32_t elem_bytes) {
    const bool is_there = call->operands[operand] != NULL;
    const int64_t at = is_there ? (int64_t)(uintptr_t)call->operands[operand]
                                : call->begins[operand] + call->rooms[operand].before;
    const uint32_t found = hn_align_of(at & (HN_ALIGN_MAX - 1));
    if (!call->knows_rooms && !is_there) return elem_bytes;
    return found > elem_bytes ? found : elem_bytes;
}

static inline bool hn_align_fits(uint32_t align, const void *address) {
    return (uintptr_t)address % align == 0;
}

#endif
