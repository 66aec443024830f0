/* cast.c: chains of casts, and casts that change nothing.
 *
 * cast(cast(x, a), b) = cast(x, b) when a holds every value of x's dtype exactly, and for integers
 * also when both steps only drop high bits. An identity cast that an output reads is a copy in its
 * own memory: it stays. */
#include "opt/fold/fold.h"

/* Binary digits that a float dtype, or an integer one, holds exactly. */
static int digits(hn_dtype dtype) {
    switch (dtype) {
    case HN_DTYPE_F64: return 53;
    case HN_DTYPE_F32: return 24;
    case HN_DTYPE_F16: return 11;
    case HN_DTYPE_BF16: return 8;
    case HN_DTYPE_U8: return 8;
    case HN_DTYPE_BOOL: return 1;
    default: return hn_dtype_facts(dtype)->size_bytes * 8 - 1;
    }
}

/* Whether every value of `from` is one of `to`. f16 and bf16 differ in range, so only equal or
 * wider floats hold floats. */
static bool holds(hn_dtype to, hn_dtype from) {
    if (to == from) return true;
    bool to_float = hn_dtype_is_float(to), from_float = hn_dtype_is_float(from);
    if (from == HN_DTYPE_BOOL) return true;
    if (to == HN_DTYPE_BOOL || (from_float && !to_float)) return false;
    if (from_float) return hn_dtype_facts(to)->size_bytes > hn_dtype_facts(from)->size_bytes;
    if (!to_float && from != HN_DTYPE_U8 && to == HN_DTYPE_U8) return false;
    return digits(to) >= digits(from);
}

/* Whether going through `mid` changes nothing. An integer that came through a float converts to
 * another integer as that float does, which is the same only when the result holds it. */
static bool is_detour(hn_dtype from, hn_dtype mid, hn_dtype to) {
    bool all_ints = hn_dtype_is_int(from) && hn_dtype_is_int(mid) && hn_dtype_is_int(to);
    /* modulo 2^bits */
    if (all_ints && hn_dtype_facts(to)->size_bytes <= hn_dtype_facts(mid)->size_bytes) return true;
    if (!holds(mid, from)) return false;
    bool int_by_float = !hn_dtype_is_float(from) && hn_dtype_is_float(mid) && hn_dtype_is_int(to);
    return !int_by_float || holds(to, from);
}

hn_value hn_fold_cast(hn_fold *f, const hn_node_info *n) {
    hn_value x = n->args[0].as.value;
    hn_dtype to = hn_fold_result(f, n)->dtype, mid = hn_graph_value(f->g, x)->dtype;
    if (mid == to) return hn_rewrite_is_output(&f->rewrite, n->results[0]) ? 0 : x;
    const hn_node_info *inner = hn_made_by(f->g, x, HN_OP_CAST);
    if (!inner) return 0;
    hn_value y = inner->args[0].as.value;
    hn_dtype from = hn_graph_value(f->g, y)->dtype;
    if (!is_detour(from, mid, to)) return 0;
    if (from == to && hn_rewrite_is_output(&f->rewrite, n->results[0])) return 0;
    return hn_b_cast(f->g, y, to);
}
