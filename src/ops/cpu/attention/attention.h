/* attention.h: HN_EXTERN_ATTENTION of floats. */
#ifndef HN_OPS_CPU_ATTENTION_ATTENTION_H
#define HN_OPS_CPU_ATTENTION_ATTENTION_H

#include "ops/cpu/ext.h"

/* The row of the table: takes every dtype that has a fast way (fast.c). */
extern const hn_ext_impl hn_ext_attention;
#ifdef HN_EXT_WITHOUT_ATTENTION
#define hn_ext_attention_f32    hn_ext_reference
#define hn_ext_attention_decode hn_ext_reference
#else
extern const hn_ext_impl hn_ext_attention_f32;
/* Few queries over k and v that are read where they lie, f32 and 16-bit. */
extern const hn_ext_impl hn_ext_attention_decode;
#endif

#endif
