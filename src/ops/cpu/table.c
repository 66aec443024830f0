/* table.c: which implementation does each extern operation. What one of them calls unsupported goes
 * to the reference (dispatch.c). */
#include "ops/cpu/ext.h"
#include "ops/cpu/attention/attention.h"
#include "ops/cpu/attention/backward.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/gemm/grouped.h"
#include "ops/cpu/gemm/matmul.h"
#include "ops/cpu/sort/combine.h"
#include "ops/cpu/sort/nms.h"
#include "ops/cpu/sort/nonzero.h"
#include "ops/cpu/sort/sort.h"

const hn_ext_impl *const hn_ext_impls[HN_EXTERN_KIND_COUNT] = {
    [HN_EXTERN_MATMUL] = &hn_ext_matmul,
    [HN_EXTERN_CONV] = &hn_ext_convolution,
    [HN_EXTERN_ATTENTION] = &hn_ext_attention,
    [HN_EXTERN_SORT] = &hn_ext_sort,
    [HN_EXTERN_TOPK] = &hn_ext_sort,
    [HN_EXTERN_NONZERO] = &hn_ext_nonzero,
    [HN_EXTERN_GROUPED_MATMUL] = &hn_ext_grouped_matmul,
    [HN_EXTERN_NMS] = &hn_ext_nms,
    [HN_EXTERN_ATTENTION_BACKWARD] = &hn_ext_attention_backward,
    [HN_EXTERN_COMBINE_SORTED] = &hn_ext_combine,
};
