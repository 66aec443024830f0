/* backward.h: HN_EXTERN_ATTENTION_BACKWARD, the gradients of attention. */
#ifndef HN_OPS_CPU_ATTENTION_BACKWARD_H
#define HN_OPS_CPU_ATTENTION_BACKWARD_H

#include "ops/cpu/ext.h"

#ifdef HN_EXT_WITHOUT_ATTENTION_BACKWARD
#define hn_ext_attention_backward hn_ext_reference
#else
/* Blocked, for f32, f16 and bf16. */
extern const hn_ext_impl hn_ext_attention_backward;

/* Places of the operands. */
enum {
    HN_EXT_BACKWARD_D_Q,
    HN_EXT_BACKWARD_D_K,
    HN_EXT_BACKWARD_D_V,
    HN_EXT_BACKWARD_GRAD,
    HN_EXT_BACKWARD_Q,
    HN_EXT_BACKWARD_K,
    HN_EXT_BACKWARD_V,
    HN_EXT_BACKWARD_OUT,
    HN_EXT_BACKWARD_MASK,
    HN_EXT_BACKWARD_OPERANDS
};

/* The four strides of each of them. */
static inline const int64_t *hn_ext_backward_strides(const hn_ext_call *call, int operand) {
    static const uint8_t at[HN_EXT_BACKWARD_OPERANDS] = {
        HN_ATTENTION_BACKWARD_D_Q,  HN_ATTENTION_BACKWARD_D_K, HN_ATTENTION_BACKWARD_D_V,
        HN_ATTENTION_BACKWARD_GRAD, HN_ATTENTION_BACKWARD_Q,   HN_ATTENTION_BACKWARD_K,
        HN_ATTENTION_BACKWARD_V,    HN_ATTENTION_BACKWARD_OUT, HN_ATTENTION_BACKWARD_MASK};
    return call->params + at[operand];
}

/* The scratch memory of a key head by plain loops, in doubles. False: more than 62 bits of
 * bytes. */
bool hn_ext_backward_plain_doubles(const hn_ext_call *call, int64_t *out);
/* The gradients of one key head and of the heads that share it, by plain loops in double: of every
 * dtype of floats, and where operands hold infinities or NaN. A weight of 0 takes nothing of
 * them. */
void hn_ext_backward_plain(const hn_ext_call *call, int64_t batch, int64_t kv_head,
                           double *scratch);
#endif

#endif
