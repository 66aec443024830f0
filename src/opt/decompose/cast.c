/* cast.c: casts, copies, and ops that change nothing but storage. A value of the graph has no
 * storage of its own before scheduling, so a copy is the value itself. */
#include "opt/decompose/math.h"
#include "opt/decompose/operands.h"

/* clone, contiguous, detach, alias...: the recorded strides of an output say what layout it
 * needs */
void hn_dec_identity(hn_dec *d) { hn_dec_result(d, 0, hn_dec_tensor(d, 0)); }

/* Every overload of `to`: the recorded result says the dtype; the device is the compilation's. */
void hn_dec_to(hn_dec *d) { m_result(d, 0, hn_dec_tensor(d, 0)); }

/* src in self's dtype and sizes */
void hn_dec_copy(hn_dec *d) {
    hn_value self = hn_dec_tensor(d, 0), src = hn_dec_tensor(d, 1);
    m_shape_t shape = m_shape(d, self);
    hn_dec_result(d, 0, m_expand(d, m_cast(d, src, m_dtype(d, self)), &shape));
}

/* value in self's dtype and sizes */
void hn_dec_fill(hn_dec *d) {
    hn_value self = hn_dec_tensor(d, 0);
    m_shape_t shape = m_shape(d, self);
    hn_dec_result(d, 0, m_expand(d, hn_dec_number(d, 1, m_dtype(d, self)), &shape));
}

/* Identity unless it trains; everything dropped is a product with 0, in which NaN and infinity stay
 * visible. */
void hn_dec_dropout(hn_dec *d) {
    double p = hn_dec_float(d, 1);
    if (!hn_dec_bool(d, 2) || p == 0) hn_dec_result(d, 0, hn_dec_tensor(d, 0));
    else if (p == 1) hn_dec_result(d, 0, m_mul_c(d, hn_dec_tensor(d, 0), 0));
    else if (d->node->op == HN_ATEN_dropout_default)
        hn_dec_native_dropout(d); /* arguments and first result agree */
    else hn_dec_unsupported(d, "it trains; export the model in evaluation mode");
}

/* Sizes known from the recorded metas, checks done at export, ranges that symbols carry: no
 * node. */
void hn_dec_nothing(hn_dec *d) { (void)d; }
