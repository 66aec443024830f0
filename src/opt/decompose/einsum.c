/* einsum.c: aten.einsum -> PERMUTE, RESHAPE, MUL, SUM and MATMUL.
 *
 * Operands are contracted from left to right. Two operands meet as [batch, left, sum] x [batch,
 * sum, right], where a label is `batch` when both have it and it is needed later, `sum` when both
 * have it and it is not. Labels that only one has and nobody needs are summed before.
 *
 * The labels of an operand that an ellipsis covers get numbers of their own, counted from the
 * right, so that ellipses of different lengths broadcast. */
#include "opt/decompose/math.h"

/* 0..25: A-Z, 26..51: a-z, 52 + k: the ellipsis dim that is k from the right */
enum { LABEL_ELLIPSIS = 52, LABEL_COUNT = LABEL_ELLIPSIS + HN_MAX_RANK };
#define NO_LABELS ((label_set){0, 0})

typedef struct label_set {
    uint64_t lo, hi;
} label_set;

typedef struct term {
    hn_value x;
    uint32_t rank;
    uint8_t labels[HN_MAX_RANK];
} term;

typedef struct spec {
    uint32_t count;
    uint8_t labels[HN_MAX_RANK * 2];
    uint32_t ellipsis_at; /* position in labels; UINT32_MAX: none */
} spec;

static bool set_has(label_set s, uint32_t label) {
    return ((label < 64 ? s.lo >> label : s.hi >> (label - 64)) & 1) != 0;
}
static void set_add(label_set *s, uint32_t label) {
    if (label < 64) s->lo |= 1ull << label;
    else s->hi |= 1ull << (label - 64);
}
static label_set labels_of(const term *t) {
    label_set s = NO_LABELS;
    for (uint32_t k = 0; k < t->rank; k++) set_add(&s, t->labels[k]);
    return s;
}

static int label_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return 26 + c - 'a';
    return -1;
}

/* Reads one side of the equation up to ',' or the end of `text`; advances it. */
static bool parse_spec(hn_str *text, spec *out) {
    *out = (spec){.ellipsis_at = UINT32_MAX};
    while (text->len && text->ptr[0] != ',') {
        char c = text->ptr[0];
        size_t used = 1;
        if (c == '.') {
            if (text->len < 3 || text->ptr[1] != '.' || text->ptr[2] != '.' ||
                out->ellipsis_at != UINT32_MAX)
                return false;
            out->ellipsis_at = out->count;
            used = 3;
        } else if (c != ' ') {
            int label = label_of(c);
            if (label < 0 || out->count == HN_MAX_RANK) return false;
            out->labels[out->count++] = (uint8_t)label;
        }
        text->ptr += used;
        text->len -= used;
    }
    return true;
}

/* Labels of an operand of `rank` dims. */
static bool bind_spec(const spec *s, uint32_t rank, term *out) {
    uint32_t hidden = rank - s->count;
    if (rank < s->count || (hidden && s->ellipsis_at == UINT32_MAX)) return false;
    out->rank = 0;
    for (uint32_t k = 0; k <= s->count; k++) {
        if (k == s->ellipsis_at)
            for (uint32_t j = hidden; j > 0; j--)
                out->labels[out->rank++] = (uint8_t)(LABEL_ELLIPSIS + j - 1);
        if (k < s->count) out->labels[out->rank++] = s->labels[k];
    }
    return true;
}

/* A label that an operand has twice reads the diagonal. */
static void take_diagonals(hn_dec *d, term *t) {
    for (uint32_t i = 0; i < t->rank; i++) {
        for (uint32_t j = i + 1; j < t->rank; j++) {
            if (t->labels[i] != t->labels[j]) continue;
            m_shape_t s = m_shape(d, t->x);
            hn_expr strides[HN_MAX_RANK];
            hn_contiguous_strides(d->g->sym, s.sizes, s.rank, strides);
            strides[i] = e_add(d, strides[i], strides[j]);
            for (uint32_t k = j; k + 1 < s.rank; k++) {
                s.sizes[k] = s.sizes[k + 1];
                strides[k] = strides[k + 1];
                t->labels[k] = t->labels[k + 1];
            }
            t->rank = s.rank - 1;
            t->x = hn_b_as_strided(d->g, t->x, s.sizes, strides, t->rank, e_int(d, 0));
            j--;
        }
    }
}

static void drop_dim(term *t, uint32_t dim) {
    for (uint32_t k = dim; k + 1 < t->rank; k++) t->labels[k] = t->labels[k + 1];
    t->rank--;
}

/* Sums the dims of `t` whose labels are not in `keep`. */
static void sum_others(hn_dec *d, term *t, label_set keep) {
    uint32_t dims[HN_MAX_RANK], count = 0;
    for (uint32_t k = 0; k < t->rank; k++)
        if (!set_has(keep, t->labels[k])) dims[count++] = k;
    if (count == 0) return;
    t->x =
        m_cast(d, m_reduce(d, HN_OP_SUM, m_opmath(d, t->x), dims, count, false), m_dtype(d, t->x));
    for (uint32_t k = count; k > 0; k--) drop_dim(t, dims[k - 1]);
}

/* A dim of 1 that meets another size broadcasts: without it the label belongs to the other side
 * alone. */
static void drop_broadcast_ones(hn_dec *d, term *t, const term *other) {
    for (uint32_t k = t->rank; k > 0; k--) {
        if (!e_is(d, m_size(d, t->x, k - 1), 1) || !set_has(labels_of(other), t->labels[k - 1]))
            continue;
        t->x = hn_b_squeeze(d->g, t->x, k - 1);
        drop_dim(t, k - 1);
    }
}

/* Dims of `t` in the order of `order`; `count` must be all of them. */
static hn_value arrange(hn_dec *d, const term *t, const uint8_t *order, uint32_t count) {
    uint32_t dims[HN_MAX_RANK];
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t j = 0; j < t->rank; j++)
            if (t->labels[j] == order[k]) dims[k] = j;
    return count == t->rank ? hn_b_permute(d->g, t->x, dims) : 0;
}

typedef struct label_list {
    uint32_t count;
    uint8_t items[3 * HN_MAX_RANK];
} label_list;
static void list_append(label_list *list, const label_list *more) {
    for (uint32_t k = 0; k < more->count; k++) list->items[list->count++] = more->items[k];
}

typedef struct pairing {
    label_list batch, left, right, sum;
} pairing;

static pairing pair_labels(const term *a, const term *b, label_set needed) {
    pairing p = {0};
    label_set in_a = labels_of(a), in_b = labels_of(b);
    for (uint32_t k = 0; k < a->rank; k++) {
        uint8_t label = a->labels[k];
        label_list *to = !set_has(in_b, label)    ? &p.left
                         : set_has(needed, label) ? &p.batch
                                                  : &p.sum;
        to->items[to->count++] = label;
    }
    for (uint32_t k = 0; k < b->rank; k++)
        if (!set_has(in_a, b->labels[k])) p.right.items[p.right.count++] = b->labels[k];
    return p;
}

/* Without a contracted label the product is element-wise with broadcasting. */
static hn_value multiply(hn_dec *d, const term *a, const term *b, const pairing *p) {
    label_list order_a = p->batch, order_b = p->batch;
    list_append(&order_a, &p->left);
    list_append(&order_b, &p->right);
    hn_value x = arrange(d, a, order_a.items, order_a.count),
             y = arrange(d, b, order_b.items, order_b.count);
    for (uint32_t k = 0; k < p->right.count; k++) x = hn_b_unsqueeze(d->g, x, order_a.count + k);
    for (uint32_t k = 0; k < p->left.count; k++) y = hn_b_unsqueeze(d->g, y, p->batch.count);
    return m_mul(d, x, y);
}

static hn_expr merged_size(hn_dec *d, const m_shape_t *s, uint32_t first, uint32_t count) {
    return e_product(d, s->sizes + first, count);
}

/* [batch, left, sum] x [batch, sum, right] with each group merged; out: [batch.., left..,
 * right..] */
static hn_value contract(hn_dec *d, const term *a, const term *b, const pairing *p) {
    label_list order_a = p->batch, order_b = p->batch;
    list_append(&order_a, &p->left);
    list_append(&order_a, &p->sum);
    list_append(&order_b, &p->sum);
    list_append(&order_b, &p->right);
    hn_value x = arrange(d, a, order_a.items, order_a.count),
             y = arrange(d, b, order_b.items, order_b.count);
    if (!x || !y) return 0;
    m_shape_t sx = m_shape(d, x), sy = m_shape(d, y),
              out = {.rank = p->batch.count + p->left.count};
    for (uint32_t k = 0; k < out.rank; k++) out.sizes[k] = sx.sizes[k];
    for (uint32_t k = 0; k < p->right.count; k++)
        out.sizes[out.rank++] = sy.sizes[p->batch.count + p->sum.count + k];
    uint32_t nb = p->batch.count, skip = nb == 0 ? 1 : 0;
    hn_expr batch = merged_size(d, &sx, 0, nb),
            inner = merged_size(d, &sx, nb + p->left.count, p->sum.count);
    hn_expr rows = merged_size(d, &sx, nb, p->left.count),
            cols = merged_size(d, &sy, nb + p->sum.count, p->right.count);
    x = m_reshape(d, x, (hn_expr[]){batch, rows, inner} + skip, 3 - skip);
    y = m_reshape(d, y, (hn_expr[]){batch, inner, cols} + skip, 3 - skip);
    return m_reshape(d, hn_b_matmul(d->g, x, y, 0), out.sizes, out.rank);
}

static label_set set_union(label_set a, label_set b) {
    return (label_set){a.lo | b.lo, a.hi | b.hi};
}

/* The product of two operands, summed over what `needed` (later operands and the output) does not
 * name. */
static bool combine(hn_dec *d, term *a, term *b, label_set needed) {
    drop_broadcast_ones(d, b, a);
    drop_broadcast_ones(d, a, b);
    sum_others(d, a, set_union(needed, labels_of(b)));
    sum_others(d, b, set_union(needed, labels_of(a)));
    pairing p = pair_labels(a, b, needed);
    uint32_t rank = p.batch.count + p.left.count + p.right.count;
    if (!m_require(d, rank <= HN_MAX_RANK,
                   "an einsum needs an intermediate result of more than 16 dimensions"))
        return false;
    hn_value x = p.sum.count ? contract(d, a, b, &p) : multiply(d, a, b, &p);
    label_list order = p.batch;
    list_append(&order, &p.left);
    list_append(&order, &p.right);
    *a = (term){.x = x, .rank = rank};
    for (uint32_t k = 0; k < rank; k++) a->labels[k] = order.items[k];
    return true;
}

/* The output of an equation without "->": ellipsis dims, then labels that appear once,
 * alphabetically. */
static void implicit_output(const uint32_t appearances[LABEL_COUNT], term *out) {
    out->rank = 0;
    for (uint32_t k = LABEL_COUNT; k > LABEL_ELLIPSIS && out->rank < HN_MAX_RANK; k--)
        if (appearances[k - 1]) out->labels[out->rank++] = (uint8_t)(k - 1);
    for (uint32_t k = 0; k < LABEL_ELLIPSIS && out->rank < HN_MAX_RANK; k++)
        if (appearances[k] == 1) out->labels[out->rank++] = (uint8_t)k;
}

static bool explicit_output(hn_str text, const uint32_t appearances[LABEL_COUNT], term *out) {
    spec s;
    uint32_t hidden = 0;
    while (hidden < HN_MAX_RANK && appearances[LABEL_ELLIPSIS + hidden]) hidden++;
    if (!parse_spec(&text, &s) || text.len) return false;
    if (s.ellipsis_at == UINT32_MAX) hidden = 0; /* those dims are summed */
    if (s.count + hidden > HN_MAX_RANK || !bind_spec(&s, s.count + hidden, out)) return false;
    label_set seen = NO_LABELS;
    for (uint32_t k = 0; k < out->rank; k++) {
        if (set_has(seen, out->labels[k]) || !appearances[out->labels[k]]) return false;
        set_add(&seen, out->labels[k]);
    }
    return true;
}

/* Splits "inputs->output"; false when there is no arrow. */
static bool split_arrow(hn_str *inputs, hn_str *output) {
    for (size_t k = 0; k + 1 < inputs->len; k++) {
        if (inputs->ptr[k] != '-' || inputs->ptr[k + 1] != '>') continue;
        *output = (hn_str){inputs->ptr + k + 2, inputs->len - k - 2};
        inputs->len = k;
        return true;
    }
    return false;
}

enum { MAX_OPERANDS = 64 };

/* Reads the equation into one term per operand and the labels of the result. */
static bool parse_equation(hn_dec *d, term *terms, uint32_t count, const hn_value *operands,
                           term *output) {
    hn_str inputs = hn_dec_string(d, 0), result = {0};
    bool is_explicit = split_arrow(&inputs, &result);
    uint32_t appearances[LABEL_COUNT] = {0};
    for (uint32_t k = 0; k < count; k++) {
        spec s;
        if (!parse_spec(&inputs, &s) || !bind_spec(&s, m_rank(d, operands[k]), &terms[k]))
            return false;
        terms[k].x = operands[k];
        for (uint32_t j = 0; j < terms[k].rank; j++) appearances[terms[k].labels[j]]++;
        if ((k + 1 < count) != (inputs.len > 0)) return false;
        if (inputs.len) inputs = (hn_str){inputs.ptr + 1, inputs.len - 1};
    }
    if (is_explicit) return explicit_output(result, appearances, output);
    implicit_output(appearances, output);
    return true;
}

/* aten.einsum(equation, tensors, *, path): the path only tells an order, so it may be ignored */
void hn_dec_einsum(hn_dec *d) {
    const hn_value *operands = NULL;
    uint32_t count = hn_dec_tensors(d, 1, &operands);
    term terms[MAX_OPERANDS], output = {0};
    if (!m_require(d, count > 0 && count <= MAX_OPERANDS, "einsum wants 1 to 64 operands")) return;
    if (!m_require(d, parse_equation(d, terms, count, operands, &output),
                   "the einsum equation does not fit its operands"))
        return;
    for (uint32_t k = 0; k < count; k++) take_diagonals(d, &terms[k]);
    for (uint32_t k = 1; k < count; k++) {
        label_set needed = labels_of(&output);
        for (uint32_t j = k + 1; j < count; j++) needed = set_union(needed, labels_of(&terms[j]));
        if (!combine(d, &terms[0], &terms[k], needed)) return;
    }
    sum_others(d, &terms[0], labels_of(&output));
    m_result(d, 0, arrange(d, &terms[0], output.labels, output.rank));
}
