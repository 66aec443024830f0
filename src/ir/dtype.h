/* dtype.h: element types. Facts are rows of dtypes.def. */
#ifndef HN_IR_DTYPE_H
#define HN_IR_DTYPE_H

#include "base/compiler.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* The numbers are those of include/henry/tensor.h and part of stored formats: append only. */
typedef enum hn_dtype {
    HN_DTYPE_NONE = 0,
#define HN_DTYPE(name, ...) HN_DTYPE_##name,
#include "ir/dtypes.def"
#undef HN_DTYPE
    HN_DTYPE_COUNT
} hn_dtype;

typedef enum hn_dtype_category {
    HN_CATEGORY_NONE,
    HN_CATEGORY_BOOL,
    HN_CATEGORY_INT,
    HN_CATEGORY_FLOAT
} hn_dtype_category;

typedef struct hn_dtype_info {
    const char *name, *c_type, *npy_descr;
    uint8_t size_bytes;
    hn_dtype_category category;
    int pt2_code;
    double rtol, atol;
} hn_dtype_info;

HN_CONST_FN const hn_dtype_info *hn_dtype_facts(hn_dtype dtype); /* never NULL; NONE has size 0 */
hn_dtype hn_dtype_parse(hn_str name);                            /* NONE when unknown */
hn_dtype hn_dtype_from_pt2(int64_t code);                        /* NONE when unknown */
static inline bool hn_dtype_is_float(hn_dtype d) {
    return hn_dtype_facts(d)->category == HN_CATEGORY_FLOAT;
}
static inline bool hn_dtype_is_int(hn_dtype d) {
    return hn_dtype_facts(d)->category == HN_CATEGORY_INT;
}

/* Exact and IEEE-rounded (nearest even) conversions of the 16-bit floats. */
float hn_f16_to_f32(uint16_t bits);
uint16_t hn_f32_to_f16(float value);
float hn_bf16_to_f32(uint16_t bits);
uint16_t hn_f32_to_bf16(float value);
uint16_t hn_f64_to_f16(double value);  /* rounds once */
uint16_t hn_f64_to_bf16(double value); /* rounds once */

#endif
