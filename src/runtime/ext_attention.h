/* ext_attention.h: HN_EXTERN_ATTENTION of floats. */
#ifndef HN_RUNTIME_EXT_ATTENTION_H
#define HN_RUNTIME_EXT_ATTENTION_H

#include "runtime/ext.h"

/* The row of the table: takes every dtype that has a fast way (ext_fast.c). */
extern const hn_ext_impl hn_ext_attention;
#ifdef HN_EXT_WITHOUT_ATTENTION
#define hn_ext_attention_f32 hn_ext_reference
#define hn_ext_attention_few hn_ext_reference
#else
extern const hn_ext_impl hn_ext_attention_f32;
/* Few queries over k and v that are read where they lie, f32 and 16-bit. */
extern const hn_ext_impl hn_ext_attention_few;
#endif

#endif
