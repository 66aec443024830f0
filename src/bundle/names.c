/* names.c: names of the numbers in a bundle. */
#include "bundle/view.h"

#include "henry/abi/extern_abi.h"
#include "henry/tensor.h"

static const struct { const char *name; uint32_t bytes; } dtypes[HN_SCALAR_TYPE_COUNT] = {
    [HN_NO_TYPE] = {"none", 0}, [HN_F64] = {"f64", 8}, [HN_F32] = {"f32", 4}, [HN_F16] = {"f16", 2},
    [HN_BF16] = {"bf16", 2},    [HN_I64] = {"i64", 8}, [HN_I32] = {"i32", 4}, [HN_I16] = {"i16", 2},
    [HN_I8] = {"i8", 1},        [HN_U8] = {"u8", 1},   [HN_BOOL] = {"bool", 1},
};

static const char *const externs[HN_EXTERN_KIND_COUNT] = {
    [HN_EXTERN_NONE] = "none",           [HN_EXTERN_MATMUL] = "matmul", [HN_EXTERN_CONV] = "conv",
    [HN_EXTERN_ATTENTION] = "attention", [HN_EXTERN_SORT] = "sort",     [HN_EXTERN_TOPK] = "topk",
    [HN_EXTERN_NONZERO] = "nonzero",
};

const char *hn_bundle_dtype_name(uint32_t dtype) { return dtypes[dtype < HN_SCALAR_TYPE_COUNT ? dtype : 0].name; }
uint32_t hn_bundle_dtype_bytes(uint32_t dtype) { return dtypes[dtype < HN_SCALAR_TYPE_COUNT ? dtype : 0].bytes; }
const char *hn_bundle_extern_name(uint32_t kind) { return externs[kind < HN_EXTERN_KIND_COUNT ? kind : 0]; }
