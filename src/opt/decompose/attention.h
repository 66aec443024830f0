/* attention.h: what the decompositions of attention share. Shapes: q [B.., H, m, d],
 * k [B.., Hkv, n, d], v [B.., Hkv, n, dv]; scores [B.., H, m, n]. */
#ifndef HN_OPT_DECOMPOSE_ATTENTION_H
#define HN_OPT_DECOMPOSE_ATTENTION_H

#include "opt/decompose/math.h"

typedef struct hn_attention {
    hn_value q, k, v, mask;
    double scale, dropout;
    bool causal;
    bool is_flat; /* two dims were given: heads are added and removed */
} hn_attention;

/* Where an operator has its arguments. Key and value follow the query. */
typedef struct hn_attention_args {
    uint8_t query, mask /* 0: none */, dropout, causal, scale;
} hn_attention_args;

/* False: the use is reported as unsupported, or the graph has failed. */
bool hn_attention_read(hn_dec *d, const hn_attention_args *at, hn_attention *out);
/* [B.., H, m, dv] in the dtype of q. */
hn_value hn_attention_output(hn_dec *d, const hn_attention *a);
/* scale * q k^T with the mask, in opmath; -inf where a key is not seen. */
hn_value hn_attention_scores(hn_dec *d, const hn_attention *a);
/* [B.., H, m, c] as [B.., Hkv, H / Hkv * m, c]: heads that share the keys' are rows of one. */
hn_value hn_attention_rows(hn_dec *d, hn_value x, hn_value keys);
/* rows [B.., H, m, c] times y [B.., Hkv, c, e]: [B.., H, m, e] */
hn_value hn_attention_product(hn_dec *d, hn_value rows, hn_value y);

#endif
