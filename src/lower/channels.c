/* channels.c: convolutions of few channels, such as those of an image, for targets that want a
 * number of channels which is a multiple (hn_operation.channel_bytes): more channels are added,
 * with zeros in them and in the weight. The input is copied to have its channels last in any case.
 *
 *   conv(out b3, b1 [8, 3, 224, 224], w [64, 3, 7, 7])
 *     ->   pointwise: b4 [8, 8, 224, 224] = b1, or 0 from channel 3 on
 *          conv(out b3, b4, w' [64, 8, 7, 7])
 *
 * Requires that the bytes of the weight are known: those with more channels are a constant of the
 * program. */
#include "lower/internal.h"

static const hn_value_info *info(const lower *l, hn_value v) { return hn_graph_value(l->g, v); }

/* From so many channels on, more of them are mostly work for nothing. */
enum { FEW = 8 };

/* The number of channels to have; 0: those that there are. */
static int64_t wanted_channels(const lower *l, const hn_node_info *n) {
    const hn_value_info *xi = info(l, n->args[0].as.value);
    const hn_operation *o = l->operations ? &l->operations->of[HN_EXTERN_CONV] : NULL;
    const bool last = l->channels_last && l->channels_last[n->results[0]];
    int64_t channels;
    if (!last || !(o->dtypes >> xi->dtype & 1) || !o->channel_bytes || n->args[6].as.b ||
        !hn_sym_is_value(l->sym, n->args[8].as.expr, 1) ||
        !hn_sym_is_int(l->sym, xi->sizes[1], &channels) || channels < 1 || channels >= FEW)
        return 0;
    const int64_t unit = o->channel_bytes / (int64_t)hn_dtype_facts(xi->dtype)->size_bytes;
    return channels % unit ? (channels + unit - 1) / unit * unit : 0;
}

hn_status lower_add_channels(lower *l, const hn_node_info *n, lower_place *out_x,
                             lower_place *out_w) {
    const int64_t channels = wanted_channels(l, n);
    const lower_longer how = {.dim = 1, .size = channels, .along = 1, .row = channels};
    *out_x = *out_w = (lower_place){0};
    if (!channels) return NULL;
    HN_TRY(lower_weight_longer(l, n->args[1].as.value, &how, out_w));
    return out_w->buffer ? lower_copy_longer(l, n->args[0].as.value, &how, out_x) : NULL;
}
