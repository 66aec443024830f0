/* ext_table.c: which implementation does each extern operation. What one of them calls unsupported goes to the
 * reference (ext_dispatch.c). */
#include "runtime/ext.h"
#include "runtime/ext_attention.h"
#include "runtime/ext_conv.h"
#include "runtime/ext_grouped.h"
#include "runtime/ext_matmul.h"
#include "runtime/ext_nms.h"
#include "runtime/ext_nonzero.h"
#include "runtime/ext_sort.h"

const hn_ext_impl *const hn_ext_impls[HN_EXTERN_KIND_COUNT] = {
    [HN_EXTERN_MATMUL] = &hn_ext_matmul,
    [HN_EXTERN_CONV] = &hn_ext_convolution,
    [HN_EXTERN_ATTENTION] = &hn_ext_attention,
    [HN_EXTERN_SORT] = &hn_ext_sort,
    [HN_EXTERN_TOPK] = &hn_ext_sort,
    [HN_EXTERN_NONZERO] = &hn_ext_nonzero,
    [HN_EXTERN_GROUPED_MATMUL] = &hn_ext_grouped_matmul,
    [HN_EXTERN_NMS] = &hn_ext_nms,
};
