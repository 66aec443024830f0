/* stats_text.h: the text of the kernels that make statistics of tensors on a device
 * (tensor_stats.cu), and what their launches have to know of it. */
#ifndef HN_RUNTIME_STATS_TEXT_H
#define HN_RUNTIME_STATS_TEXT_H

#include "base/str.h"
#include "henry/tensor.h"

#define HN_STATS_LOOK_NAME "hn_tensor_stats"
#define HN_STATS_JOIN_NAME "hn_tensor_stats_join"

/* Of a group; that a thread takes at a time; dimensions that the walk may have. */
enum { HN_STATS_THREADS = 128, HN_STATS_BATCH_ELEMS = 8, HN_STATS_RANK = 8 };

/* Appends the text, without the words of a language. C projects do not have this function and the
 * next one. Errors latch in `out`. */
void hn_stats_text(hn_strbuf *out);
/* With the words for devices of this kind, which has a compiler of texts. */
void hn_stats_text_of(hn_device_kind kind, hn_strbuf *out);

#endif
