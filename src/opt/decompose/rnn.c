/* rnn.c: recurrent layers (lstm, gru, rnn_tanh, rnn_relu) and their cells -> MATMUL and
 * arithmetic.
 *
 * The steps are unrolled, so the sequence length must be known. What does not depend on the state,
 * the product of all inputs with the input weights, is one MATMUL per layer and direction:
 *
 *   parts = x[T, B, I] @ w_ih^T + b_ih;   step t:  gates = parts[t] + (h @ w_hh^T + b_hh)
 *
 * Gates stand side by side in the weights: i f g o of an LSTM, r z n of a GRU. 16-bit gates are f32
 * between the products, the states are rounded. */
#include "opt/decompose/math.h"

typedef enum cell_kind { CELL_LSTM, CELL_GRU, CELL_TANH, CELL_RELU } cell_kind;

typedef struct cell {
    cell_kind kind;
    hn_dtype dtype;            /* of the states */
    int64_t width;             /* of one gate */
    hn_value input_t, state_t; /* weights transposed: [I, gates * width], [H, gates * width] */
    hn_value input_bias, bias; /* 0: none */
    hn_value projection_t;     /* [width, P] or 0 */
} cell;

typedef struct state {
    hn_value h, c; /* [B, H]; c only of an LSTM */
} state;

/* Unrolled steps of all layers together: beyond this, compiling would take minutes. */
enum { MAX_STEPS = 1 << 14 };

/* --- one step --- */

static int64_t gate_count(cell_kind kind) {
    return kind == CELL_LSTM ? 4 : kind == CELL_GRU ? 3 : 1;
}

static hn_value transposed(hn_dec *d, hn_value w) {
    if (!m_require(d, m_rank(d, w) == 2, "a weight of a recurrent layer is not a matrix")) return 0;
    return hn_b_transpose(d->g, w, 0, 1);
}

/* `biases` and `projection` may be 0 */
static bool make_cell(hn_dec *d, cell_kind kind, hn_value w_ih, hn_value w_hh,
                      const hn_value *biases, hn_value projection, cell *out) {
    *out = (cell){.kind = kind, .dtype = m_dtype(d, w_hh)};
    out->input_t = transposed(d, w_ih);
    out->state_t = transposed(d, w_hh);
    if (biases) out->input_bias = biases[0], out->bias = biases[1];
    if (projection) out->projection_t = transposed(d, projection);
    int64_t rows = 0;
    bool known = e_const(d, m_size(d, w_hh, 0), &rows) && rows % gate_count(kind) == 0;
    out->width = rows / gate_count(kind);
    return m_require(d, known, "the hidden size of a recurrent layer must be a constant");
}

static hn_value gate(hn_dec *d, const cell *c, hn_value gates, int64_t k) {
    return m_slice(d, gates, 1, e_int(d, k * c->width), e_int(d, c->width));
}

static state lstm_step(hn_dec *d, const cell *c, hn_value gates, state s) {
    hn_value in = m_sigmoid(d, gate(d, c, gates, 0)), forget = m_sigmoid(d, gate(d, c, gates, 1));
    hn_value fresh = m_un(d, HN_OP_TANH, gate(d, c, gates, 2)),
             out = m_sigmoid(d, gate(d, c, gates, 3));
    hn_value memory = m_add(d, m_mul(d, forget, m_opmath(d, s.c)), m_mul(d, in, fresh));
    hn_value h = m_cast(d, m_mul(d, out, m_un(d, HN_OP_TANH, memory)), c->dtype);
    if (c->projection_t) h = hn_b_matmul(d->g, h, c->projection_t, 0);
    return (state){.h = h, .c = m_cast(d, memory, c->dtype)};
}

/* The new gate weighs the state's part by the reset gate, bias included. */
static state gru_step(hn_dec *d, const cell *c, hn_value part, hn_value from_state, state s) {
    hn_value reset = m_sigmoid(d, m_add(d, gate(d, c, part, 0), gate(d, c, from_state, 0)));
    hn_value update = m_sigmoid(d, m_add(d, gate(d, c, part, 1), gate(d, c, from_state, 1)));
    hn_value fresh = m_add(d, gate(d, c, part, 2), m_mul(d, reset, gate(d, c, from_state, 2)));
    fresh = m_un(d, HN_OP_TANH, fresh);
    hn_value h = m_add(d, m_mul(d, m_sub(d, m_opmath(d, s.h), fresh), update), fresh);
    return (state){.h = m_cast(d, h, c->dtype)};
}

/* `part`: the inputs' share of the gates, [B, gates * width] in opmath */
static state step(hn_dec *d, const cell *c, hn_value part, state s) {
    hn_value from_state = m_opmath(d, hn_b_matmul(d->g, s.h, c->state_t, c->bias));
    if (c->kind == CELL_GRU) return gru_step(d, c, part, from_state, s);
    hn_value gates = m_add(d, part, from_state);
    if (c->kind == CELL_LSTM) return lstm_step(d, c, gates, s);
    hn_value h = m_un(d, c->kind == CELL_TANH ? HN_OP_TANH : HN_OP_RELU, gates);
    return (state){.h = m_cast(d, h, c->dtype)};
}

/* --- layers --- */

typedef struct layers {
    cell_kind kind;
    const hn_value *params;
    uint32_t per_cell; /* params of one layer and direction */
    bool has_biases;
    int64_t count, directions, length;
    state first; /* [count * directions, B, H] */
} layers;

/* Schema positions: LSTM's hx is a list of h and c, else a tensor; the rest is the same. */
static bool read_layers(hn_dec *d, cell_kind kind, layers *out) {
    const hn_value *hx = NULL;
    *out = (layers){.kind = kind};
    uint32_t states = hn_dec_tensors(d, 1, &hx), params = hn_dec_tensors(d, 2, &out->params);
    if (!m_require(d, states == (kind == CELL_LSTM ? 2 : 1),
                   "a recurrent layer wants other initial states"))
        return false;
    out->first = (state){.h = hx[0], .c = kind == CELL_LSTM ? hx[1] : 0};
    out->has_biases = hn_dec_bool(d, 3);
    out->count = hn_dec_int(d, 4);
    out->directions = hn_dec_bool(d, 7) ? 2 : 1;
    bool dropout = hn_dec_bool(d, 6) && hn_dec_float(d, 5) != 0 && out->count > 1;
    if (!m_require(d, !dropout, "dropout between recurrent layers in training")) return false;
    bool sane =
        out->count > 0 && out->count <= MAX_STEPS && params % (out->count * out->directions) == 0;
    out->per_cell = sane ? params / (uint32_t)(out->count * out->directions) : 0;
    uint32_t least = out->has_biases ? 4 : 2;
    sane = sane && (out->per_cell == least || (kind == CELL_LSTM && out->per_cell == least + 1));
    return m_require(d, sane,
                     "a recurrent layer has another number of weights than its layers want");
}

static hn_value *value_list(hn_dec *d, int64_t count) {
    hn_value *list = hn_arena_alloc(d->scratch, ((size_t)count + 1) * sizeof *list);
    m_require(d, list != NULL, "out of memory");
    return list;
}

static hn_value joined(hn_dec *d, const hn_value *list, int64_t count, uint32_t dim) {
    return count == 1 ? list[0] : hn_b_cat(d->g, list, (uint32_t)count, dim);
}

/* x[T, B, I] through cell number k: the states of all steps [T, B, H], and the last one in
 * *out_last. */
static hn_value run_direction(hn_dec *d, const layers *l, hn_value x, int64_t k, bool backward,
                              state *out_last) {
    const hn_value *p = l->params + (uint32_t)k * l->per_cell;
    bool projects = l->per_cell == (l->has_biases ? 5u : 3u);
    cell c;
    if (!make_cell(d, l->kind, p[0], p[1], l->has_biases ? p + 2 : NULL,
                   projects ? p[l->per_cell - 1] : 0, &c))
        return 0;
    m_shape_t shape = m_shape(d, x);
    hn_value parts = m_opmath(d, hn_b_matmul(d->g, m_merge(d, x, 0, 2), c.input_t, c.input_bias));
    parts = m_split(d, parts, 0, shape.sizes, 2);
    state s = {.h = hn_b_select(d->g, l->first.h, 0, e_int(d, k))};
    if (l->first.c) s.c = hn_b_select(d->g, l->first.c, 0, e_int(d, k));
    hn_value *steps = value_list(d, l->length);
    if (!steps) return 0;
    for (int64_t n = 0; n < l->length; n++) {
        int64_t t = backward ? l->length - 1 - n : n;
        s = step(d, &c, hn_b_select(d->g, parts, 0, e_int(d, t)), s);
        steps[t] = hn_b_unsqueeze(d->g, s.h, 0);
    }
    *out_last = s;
    return joined(d, steps, l->length, 0);
}

static bool read_length(hn_dec *d, hn_value x, layers *l) {
    if (!m_require(d, m_rank(d, x) == 3, "a recurrent layer wants an input of three dimensions"))
        return false;
    if (!m_require(d, e_const(d, m_size(d, x, 0), &l->length),
                   "the sequence length must be a constant: the steps are unrolled"))
        return false;
    bool fits = l->length > 0 && l->length <= MAX_STEPS / (l->count * l->directions);
    return m_require(d, fits, "a sequence of no steps, or of more than 16384 in all layers");
}

static void recurrent(hn_dec *d, cell_kind kind) {
    layers l;
    if (!read_layers(d, kind, &l)) return;
    bool batch_first = hn_dec_bool(d, 8);
    hn_value x = hn_dec_tensor(d, 0);
    if (batch_first && m_rank(d, x) == 3) x = hn_b_transpose(d->g, x, 0, 1);
    if (!read_length(d, x, &l)) return;
    hn_value *last_h = value_list(d, l.count * l.directions),
             *last_c = value_list(d, l.count * l.directions);
    if (!last_h || !last_c) return;
    for (int64_t layer = 0; layer < l.count; layer++) {
        hn_value both[2] = {0, 0};
        for (int64_t way = 0; way < l.directions; way++) {
            int64_t k = layer * l.directions + way;
            state last = {0, 0};
            both[way] = run_direction(d, &l, x, k, way == 1, &last);
            if (!both[way]) return;
            last_h[k] = hn_b_unsqueeze(d->g, last.h, 0);
            last_c[k] = last.c ? hn_b_unsqueeze(d->g, last.c, 0) : 0;
        }
        x = joined(d, both, l.directions, 2);
    }
    m_result(d, 0, batch_first ? hn_b_transpose(d->g, x, 0, 1) : x);
    if (m_wants(d, 1)) m_result(d, 1, joined(d, last_h, l.count * l.directions, 0));
    if (m_wants(d, 2)) m_result(d, 2, joined(d, last_c, l.count * l.directions, 0));
}

/* aten.lstm.input, gru.input, rnn_tanh.input, rnn_relu.input
 * (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) -> states
 * of the last layer, last state h (and c) of all layers */
void hn_dec_lstm(hn_dec *d) { recurrent(d, CELL_LSTM); }
void hn_dec_gru(hn_dec *d) { recurrent(d, CELL_GRU); }
void hn_dec_rnn_tanh(hn_dec *d) { recurrent(d, CELL_TANH); }
void hn_dec_rnn_relu(hn_dec *d) { recurrent(d, CELL_RELU); }

/* --- cells --- */

static void single_cell(hn_dec *d, cell_kind kind) {
    const hn_value *hx = NULL;
    uint32_t states = hn_dec_tensors(d, 1, &hx);
    hn_value x = hn_dec_tensor(d, 0), biases[2] = {hn_dec_tensor(d, 4), hn_dec_tensor(d, 5)};
    bool fits = states == (kind == CELL_LSTM ? 2 : 1) && m_rank(d, x) == 2 && m_rank(d, hx[0]) == 2;
    if (!m_require(d, fits, "a recurrent cell wants an input and states of two dimensions")) return;
    cell c;
    if (!make_cell(d, kind, hn_dec_tensor(d, 2), hn_dec_tensor(d, 3), biases, 0, &c)) return;
    hn_value part = m_opmath(d, hn_b_matmul(d->g, x, c.input_t, c.input_bias));
    state s = step(d, &c, part, (state){.h = hx[0], .c = states == 2 ? hx[1] : 0});
    m_result(d, 0, s.h);
    if (m_wants(d, 1)) m_result(d, 1, s.c);
}

/* aten.lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell (input, hx, w_ih, w_hh, b_ih, b_hh) */
void hn_dec_lstm_cell(hn_dec *d) { single_cell(d, CELL_LSTM); }
void hn_dec_gru_cell(hn_dec *d) { single_cell(d, CELL_GRU); }
void hn_dec_rnn_tanh_cell(hn_dec *d) { single_cell(d, CELL_TANH); }
void hn_dec_rnn_relu_cell(hn_dec *d) { single_cell(d, CELL_RELU); }
