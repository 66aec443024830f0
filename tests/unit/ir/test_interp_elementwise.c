/* Scalar functions of the element-wise rows: a table of operands and results. Every case runs as a
 * graph of one node. Values with more digits than one can compute by hand are those of eager
 * PyTorch 2.11 on x86-64 (float64), which is also where the roundings of floordiv come from. */
#include "unit/ir/interp_cases.h"

#define F64  HN_DTYPE_F64
#define F32  HN_DTYPE_F32
#define F16  HN_DTYPE_F16
#define BF16 HN_DTYPE_BF16
#define I64  HN_DTYPE_I64
#define I32  HN_DTYPE_I32
#define I16  HN_DTYPE_I16
#define I8   HN_DTYPE_I8
#define U8   HN_DTYPE_U8
#define BOOL HN_DTYPE_BOOL
#define INF  INFINITY

/* `rtol` 0: exact, signs of zero included. Functions of libm get 4e-16, two units in the last
 * place. */
typedef struct scalar_case {
    hn_op op;
    hn_dtype operand, result;
    double x, y, want, rtol;
} scalar_case;

#define ULP2 4e-16
#define UNARY(op, dtype, x, want)                                                                  \
    { HN_OP_##op, dtype, dtype, x, 0, want, 0 }
#define LIBM(op, x, want)                                                                          \
    { HN_OP_##op, F64, F64, x, 0, want, ULP2 }
#define BINARY(op, dtype, x, y, want)                                                              \
    { HN_OP_##op, dtype, dtype, x, y, want, 0 }
#define TEST_OF(op, dtype, x, y, want)                                                             \
    { HN_OP_##op, dtype, BOOL, x, y, want, 0 }
#define BITS(from, to, x, want)                                                                    \
    { HN_OP_BITCAST, from, to, x, 0, want, 0 }
#define CAST(from, to, x, want)                                                                    \
    { HN_OP_CAST, from, to, x, 0, want, 0 }

static const scalar_case cases[] = {
    UNARY(NEG, F32, 1.5, -1.5),
    UNARY(NEG, F64, 0, -0.0),
    UNARY(NEG, I8, -128, -128),
    UNARY(NEG, U8, 1, 255),
    UNARY(NEG, I32, 7, -7),
    UNARY(NEG, F32, NAN, NAN),
    UNARY(ABS, F32, -0.0, 0.0),
    UNARY(ABS, I8, -128, -128),
    UNARY(ABS, I8, -127, 127),
    UNARY(ABS, U8, 200, 200),
    UNARY(ABS, F64, -INF, INF),
    UNARY(SIGN, F32, -3, -1),
    UNARY(SIGN, F32, 0, 0),
    UNARY(SIGN, F32, NAN, 0),
    UNARY(SIGN, F32, -0.0, 0),
    UNARY(SIGN, I16, -5, -1),
    UNARY(SIGN, U8, 200, 1),
    UNARY(SIGN, F64, INF, 1),
    UNARY(FLOOR, F32, -1.5, -2),
    UNARY(FLOOR, I32, -7, -7),
    UNARY(FLOOR, F64, -0.0, -0.0),
    UNARY(CEIL, F32, -1.5, -1),
    UNARY(CEIL, F32, 1.25, 2),
    UNARY(CEIL, F32, -0.5, -0.0),
    UNARY(CEIL, I8, 7, 7),
    UNARY(TRUNC, F32, -1.75, -1),
    UNARY(TRUNC, F32, 1.75, 1),
    UNARY(TRUNC, I8, -7, -7),
    UNARY(ROUND, F32, 0.5, 0),
    UNARY(ROUND, F32, 1.5, 2),
    UNARY(ROUND, F32, 2.5, 2),
    UNARY(ROUND, F32, -2.5, -2),
    UNARY(ROUND, F64, 4503599627370497.5, 4503599627370498),
    UNARY(ROUND, I64, 3, 3),
    UNARY(SQRT, F32, 9, 3),
    UNARY(SQRT, F32, -1, NAN),
    UNARY(SQRT, F32, -0.0, -0.0),
    LIBM(SQRT, 0.75, 0.8660254037844386),
    UNARY(SQRT, F32, 2, 1.41421353816986083984375),
    UNARY(SQRT, F16, 2, 1.4140625),
    UNARY(SQRT, BF16, 2, 1.4140625),
    UNARY(RSQRT, F32, 4, 0.5),
    UNARY(RSQRT, F32, 0, INF),
    UNARY(RSQRT, F32, INF, 0),
    UNARY(RSQRT, F32, -1, NAN),
    LIBM(RSQRT, 0.75, 1.1547005383792517),
    UNARY(RECIPROCAL, F32, -4, -0.25),
    UNARY(RECIPROCAL, F32, -0.0, -INF),
    LIBM(RECIPROCAL, 0.75, 1.3333333333333333),
    UNARY(EXP, F32, 0, 1),
    UNARY(EXP, F32, 100, INF),
    UNARY(EXP, F32, -INF, 0),
    LIBM(EXP, 0.75, 2.117000016612675),
    UNARY(EXP, F16, 11.5, INF),
    UNARY(EXP2, F32, -3, 0.125),
    LIBM(EXP2, 0.75, 1.681792830507429),
    UNARY(EXPM1, F64, 1e-20, 1e-20),
    LIBM(EXPM1, 0.75, 1.1170000166126746),
    UNARY(LOG, F32, 0, -INF),
    UNARY(LOG, F32, -1, NAN),
    LIBM(LOG, 0.75, -0.2876820724517809),
    UNARY(LOG2, F32, 8, 3),
    LIBM(LOG2, 0.75, -0.4150374992788438),
    UNARY(LOG10, F32, 1000, 3),
    LIBM(LOG10, 0.75, -0.12493873660829995),
    UNARY(LOG1P, F64, 1e-20, 1e-20),
    UNARY(LOG1P, F32, -1, -INF),
    LIBM(LOG1P, 0.75, 0.5596157879354227),
    UNARY(SIN, F32, 0, 0),
    UNARY(SIN, F32, INF, NAN),
    LIBM(SIN, 0.75, 0.6816387600233341),
    UNARY(COS, F32, 0, 1),
    LIBM(COS, 0.75, 0.7316888688738209),
    UNARY(TAN, F32, 0, 0),
    LIBM(TAN, 0.75, 0.9315964599440725),
    UNARY(ASIN, F32, 2, NAN),
    LIBM(ASIN, 0.25, 0.25268025514207865),
    UNARY(ACOS, F32, 1, 0),
    LIBM(ACOS, 0.25, 1.318116071652818),
    UNARY(ATAN, F32, 0, 0),
    LIBM(ATAN, 0.75, 0.6435011087932844),
    LIBM(ATAN, INF, 1.5707963267948966),
    LIBM(SINH, 0.75, 0.82231673193583),
    UNARY(SINH, F32, 100, INF),
    LIBM(COSH, 0.75, 1.2946832846768448),
    UNARY(COSH, F32, 0, 1),
    LIBM(TANH, 0.75, 0.6351489523872873),
    UNARY(TANH, F32, -INF, -1),
    LIBM(ASINH, 0.75, 0.6931471805599453),
    UNARY(ASINH, F32, 0, 0),
    LIBM(ACOSH, 1.75, 1.158810360429947),
    UNARY(ACOSH, F32, 0.5, NAN),
    LIBM(ATANH, 0.25, 0.25541281188299536),
    UNARY(ATANH, F32, -1, -INF),
    LIBM(ERF, 0.75, 0.7111556336535151),
    UNARY(ERF, F32, INF, 1),
    LIBM(ERFC, 0.75, 0.28884436634648486),
    UNARY(ERFC, F32, -INF, 2),
    LIBM(ERFINV, 0.5, 0.4769362762044699),
    LIBM(ERFINV, -0.3, -0.2724627147267543),
    LIBM(ERFINV, 1e-10, 8.862269254527581e-11),
    /* 1 - 1e-9 rounds in its last digit, and the slope there multiplies that by 10^8. */
    LIBM(ERFINV, 0.9999, 2.75106390571208),
    {HN_OP_ERFINV, F64, F64, 0.999999999, 0, 4.320005388105362, 1e-8},
    UNARY(ERFINV, F64, 1, INF),
    UNARY(ERFINV, F64, -1, -INF),
    UNARY(ERFINV, F64, 1.5, NAN),
    UNARY(ERFINV, F64, 0, 0),
    UNARY(LGAMMA, F64, 1, 0),
    UNARY(LGAMMA, F64, -3, INF),
    UNARY(LGAMMA, F64, 0, INF),
    LIBM(LGAMMA, -2.5, -0.05624371649767405),
    LIBM(LGAMMA, 20, 39.339884187199495),
    LIBM(LGAMMA, -10.1, -13.0209732710115),
    /* A series of 7 terms and up to 10 steps of recurrence: 1e-14, where the value is not near
     * 0. */
    {HN_OP_DIGAMMA, F64, F64, 1, 0, -0.5772156649015329, 1e-14},
    {HN_OP_DIGAMMA, F64, F64, 0.3, 0, -3.502524222200133, 1e-14},
    {HN_OP_DIGAMMA, F64, F64, 20, 0, 2.970523992242149, 1e-14},
    {HN_OP_DIGAMMA, F64, F64, -2.5, 0, 1.1031566406452433, 1e-14},
    /* the last decimal of 0.1 counts here */
    {HN_OP_DIGAMMA, F64, F64, -10.1, 0, 12.03005224854831, 1e-13},
    {HN_OP_DIGAMMA, F64, F64, 1e-8, 0, -100000000.57721564, 1e-14},
    UNARY(DIGAMMA, F64, 0, -INF),
    UNARY(DIGAMMA, F64, -0.0, INF),
    UNARY(DIGAMMA, F64, -1, NAN),
    UNARY(DIGAMMA, F64, INF, INF),
    UNARY(DIGAMMA, F64, -INF, NAN),
    UNARY(DIGAMMA, F64, NAN, NAN),
    LIBM(SIGMOID, 0.75, 0.679178699175393),
    UNARY(SIGMOID, F32, -INF, 0),
    UNARY(SIGMOID, F32, -1000, 0),
    UNARY(SIGMOID, F32, 1000, 1),
    UNARY(SIGMOID, F32, 0, 0.5),
    UNARY(RELU, F32, -2, 0),
    UNARY(RELU, F32, 2, 2),
    UNARY(RELU, F32, NAN, NAN),
    UNARY(RELU, I8, -5, 0),
    UNARY(RELU, I8, 5, 5),
    UNARY(NOT, BOOL, 1, 0),
    UNARY(NOT, BOOL, 0, 1),
    UNARY(NOT, I8, 5, -6),
    UNARY(NOT, U8, 5, 250),
    UNARY(NOT, I64, -1, 0),
    TEST_OF(ISNAN, F32, NAN, 0, 1),
    TEST_OF(ISNAN, F32, INF, 0, 0),
    TEST_OF(ISNAN, I32, 3, 0, 0),
    TEST_OF(ISINF, F32, -INF, 0, 1),
    TEST_OF(ISINF, F32, NAN, 0, 0),
    TEST_OF(ISINF, I32, 3, 0, 0),
    TEST_OF(ISINF, F16, 65504, 0, 0),

    BINARY(ADD, F32, 16777216, 1, 16777216),
    BINARY(ADD, F64, 16777216, 1, 16777217),
    BINARY(ADD, I8, 127, 1, -128),
    BINARY(ADD, U8, 255, 2, 1),
    BINARY(ADD, I32, 2147483647, 1, -2147483648.0),
    BINARY(ADD, I16, 32767, 1, -32768),
    BINARY(ADD, BOOL, 1, 1, 1),
    BINARY(ADD, BOOL, 0, 1, 1),
    BINARY(ADD, BOOL, 0, 0, 0),
    BINARY(ADD, F32, INF, -INF, NAN),
    BINARY(ADD, F16, 65504, 16, INF),
    BINARY(ADD, F16, 65504, 15, 65504),
    BINARY(ADD, F16, 2048, 1, 2048),
    BINARY(ADD, F16, 2048, 3, 2052),
    BINARY(ADD, BF16, 256, 1, 256),
    BINARY(ADD, BF16, 256, 3, 260),
    BINARY(SUB, F32, 1, 3, -2),
    BINARY(SUB, U8, 0, 1, 255),
    BINARY(SUB, I8, -128, 1, 127),
    BINARY(MUL, F32, 3, -0.5, -1.5),
    BINARY(MUL, I8, 64, 2, -128),
    BINARY(MUL, U8, 16, 16, 0),
    BINARY(MUL, BOOL, 1, 0, 0),
    BINARY(MUL, BOOL, 1, 1, 1),
    BINARY(MUL, F32, 0, INF, NAN),
    BINARY(MUL, F32, 1e30, 1e30, INF),
    BINARY(DIV, F32, 1, 3, 0.3333333432674407958984375),
    BINARY(DIV, F32, -1, 0, -INF),
    BINARY(DIV, F32, 0, 0, NAN),
    BINARY(DIV, I8, -7, 2, -3),
    BINARY(DIV, I8, 7, -2, -3),
    BINARY(DIV, I8, -128, -1, -128),
    BINARY(DIV, I32, 5, 0, 0),
    BINARY(DIV, I64, -9223372036854775808.0, -1, -9223372036854775808.0),
    BINARY(FLOORDIV, F32, 7, 2, 3),
    BINARY(FLOORDIV, F32, -7, 2, -4),
    BINARY(FLOORDIV, F32, 7, -2, -4),
    BINARY(FLOORDIV, F32, 1, 0.1, 9),
    BINARY(FLOORDIV, F64, 1, 0.1, 9),
    BINARY(FLOORDIV, F16, 1, 0.1, 10),
    BINARY(FLOORDIV, BF16, 1, 0.1, 9),
    BINARY(FLOORDIV, F32, -1, 0.1, -10),
    BINARY(FLOORDIV, F32, 1e10, 3, 3333333248.0),
    BINARY(FLOORDIV, BF16, 1e10, 3, 3338665984.0),
    BINARY(FLOORDIV, F32, INF, 2, NAN),
    BINARY(FLOORDIV, F32, -1, INF, -1),
    BINARY(FLOORDIV, F32, 1, INF, 0),
    BINARY(FLOORDIV, F32, 5, 0, INF),
    BINARY(FLOORDIV, F32, -1, 0, -INF),
    BINARY(FLOORDIV, F32, -0.0, 5, -0.0),
    BINARY(FLOORDIV, F64, 0.3, 0.1, 2),
    BINARY(FLOORDIV, F32, 0.3, 0.1, 3),
    /* The quotient rounds to just below the integer that it is: 4127914.75 and
     * 684859607825.99988. */
    BINARY(FLOORDIV, F32, 5826630.5, 1.41151869, 4127915),
    BINARY(FLOORDIV, F64, 2237562937500, 3.267184853553772, 684859607826),
    BINARY(FLOORDIV, I8, -7, 2, -4),
    BINARY(FLOORDIV, I8, 7, -2, -4),
    BINARY(FLOORDIV, I8, -7, -2, 3),
    BINARY(FLOORDIV, I8, -128, -1, -128),
    BINARY(FLOORDIV, I8, 3, 0, 0),
    BINARY(FLOORDIV, U8, 200, 7, 28),
    BINARY(REMAINDER, F32, -7, 2, 1),
    BINARY(REMAINDER, F32, 7, -2, -1),
    BINARY(REMAINDER, F32, -1, INF, INF),
    BINARY(REMAINDER, F32, 5, 0, NAN),
    BINARY(REMAINDER, F64, -1, 0.1, 5.551115123125783e-17),
    BINARY(REMAINDER, I8, -7, 2, 1),
    BINARY(REMAINDER, I8, 7, -2, -1),
    BINARY(REMAINDER, I8, -128, -1, 0),
    BINARY(REMAINDER, I8, 3, 0, 0),
    BINARY(REMAINDER, F32, -0.0, 5, -0.0),
    BINARY(FMOD, F32, -7, 2, -1),
    BINARY(FMOD, F32, 7, -2, 1),
    BINARY(FMOD, F32, 1, INF, 1),
    BINARY(FMOD, F32, 1, 0, NAN),
    BINARY(FMOD, I8, -7, 2, -1),
    BINARY(FMOD, I8, 7, -2, 1),
    BINARY(FMOD, I8, -128, -1, 0),
    BINARY(FMOD, I8, 3, 0, 0),
    BINARY(POW, F32, 2, 0.5, 1.41421353816986083984375),
    BINARY(POW, F32, -8, 2, 64),
    BINARY(POW, F32, -8, 0.5, NAN),
    BINARY(POW, F32, 0, 0, 1),
    BINARY(POW, F32, NAN, 0, 1),
    BINARY(POW, I32, -2, 3, -8),
    BINARY(POW, I8, 2, 7, -128),
    BINARY(POW, I32, 3, 0, 1),
    BINARY(POW, I32, 2, -1, 0),
    BINARY(POW, I32, -1, -3, -1),
    BINARY(POW, I32, -1, -2, 1),
    BINARY(POW, I32, 1, -5, 1),
    BINARY(MIN, F32, 1, NAN, NAN),
    BINARY(MIN, F32, NAN, 1, NAN),
    BINARY(MIN, F32, 1, 2, 1),
    BINARY(MIN, I8, -1, 3, -1),
    BINARY(MIN, BOOL, 1, 0, 0),
    BINARY(MIN, U8, 200, 3, 3),
    BINARY(MAX, F32, 1, NAN, NAN),
    BINARY(MAX, F32, NAN, 1, NAN),
    BINARY(MAX, F32, 1, 2, 2),
    BINARY(MAX, I8, -1, 3, 3),
    BINARY(MAX, BOOL, 1, 0, 1),
    BINARY(MAX, U8, 200, 3, 200),
    BINARY(FMIN, F32, 1, NAN, 1),
    BINARY(FMIN, F32, NAN, NAN, NAN),
    BINARY(FMIN, F32, 1, 2, 1),
    BINARY(FMIN, I8, -1, 3, -1),
    BINARY(FMAX, F32, NAN, 1, 1),
    BINARY(FMAX, F32, 1, 2, 2),
    BINARY(FMAX, I8, -1, 3, 3),
    {HN_OP_ATAN2, F64, F64, 1, -1, 2.356194490192345, ULP2},
    {HN_OP_ATAN2, F64, F64, -0.0, -1, -3.141592653589793, ULP2},
    BINARY(HYPOT, F32, 3, 4, 5),
    BINARY(HYPOT, F64, 3e300, 4e300, 5e300),
    BINARY(HYPOT, F32, INF, NAN, INF),
    BINARY(COPYSIGN, F32, 3, -0.0, -3),
    BINARY(COPYSIGN, F32, -3, 1, 3),
    BINARY(COPYSIGN, F64, 0, -1, -0.0),
    BINARY(AND, I8, 12, 10, 8),
    BINARY(AND, BOOL, 1, 0, 0),
    BINARY(AND, BOOL, 1, 1, 1),
    BINARY(AND, U8, 255, 128, 128),
    BINARY(OR, I8, 12, 10, 14),
    BINARY(OR, BOOL, 0, 1, 1),
    BINARY(OR, I8, -128, 1, -127),
    BINARY(XOR, I8, 12, 10, 6),
    BINARY(XOR, BOOL, 1, 1, 0),
    BINARY(XOR, BOOL, 1, 0, 1),
    BINARY(SHL, I8, 1, 7, -128),
    BINARY(SHL, I8, 1, 8, 0),
    BINARY(SHL, I8, 1, -1, 0),
    BINARY(SHL, I8, -1, 1, -2),
    BINARY(SHL, U8, 255, 1, 254),
    BINARY(SHL, I64, 1, 62, 4611686018427387904.0),
    BINARY(SHL, I64, 1, 64, 0),
    BINARY(SHR, I8, -128, 7, -1),
    BINARY(SHR, I8, -128, 8, -1),
    BINARY(SHR, I8, 64, 9, 0),
    BINARY(SHR, U8, 200, 3, 25),
    BINARY(SHR, U8, 200, 9, 0),
    BINARY(SHR, I8, -7, 1, -4),

    BINARY(GCD, I32, 12, 18, 6),
    BINARY(GCD, I8, 0, 7, 7),
    BINARY(GCD, I8, -128, 127, -1),
    BINARY(GCD, I64, 0, 0, 0),
    BINARY(GCD, I8, -128, 0, -128),
    BINARY(GCD, U8, 200, 75, 25),
    {HN_OP_ZETA, F64, F64, 2, 1, 1.6449340668482264, 1e-15},
    {HN_OP_ZETA, F64, F64, 3, 0.25, 64.66386996876846, 1e-15},
    {HN_OP_ZETA, F64, F64, 2, -2.5, 9.5392466449891238, 1e-15},
    BINARY(ZETA, F64, 1, 3, INF),
    BINARY(ZETA, F64, 2, -3, INF),
    BINARY(ZETA, F64, 2.5, -3.5, NAN),
    BINARY(ZETA, F64, 0.5, 1, NAN),
    BINARY(ZETA, F64, NAN, 1, NAN),

    TEST_OF(EQ, F32, 1, 1, 1),
    TEST_OF(EQ, F32, NAN, NAN, 0),
    TEST_OF(EQ, F32, 0, -0.0, 1),
    TEST_OF(EQ, BOOL, 1, 0, 0),
    TEST_OF(NE, F32, NAN, NAN, 1),
    TEST_OF(NE, I8, 3, 3, 0),
    TEST_OF(LT, F32, 1, 2, 1),
    TEST_OF(LT, F32, NAN, 2, 0),
    TEST_OF(LT, U8, 200, 100, 0),
    TEST_OF(LT, I8, -1, 1, 1),
    TEST_OF(LE, F32, 2, 2, 1),
    TEST_OF(LE, F32, 2, NAN, 0),
    TEST_OF(LE, I64, 3, 2, 0),
    TEST_OF(GT, F32, 2, 1, 1),
    TEST_OF(GT, BOOL, 1, 0, 1),
    TEST_OF(GT, F32, INF, NAN, 0),
    TEST_OF(GE, F32, 2, 2, 1),
    TEST_OF(GE, I8, -1, 1, 0),
    TEST_OF(GE, F32, NAN, NAN, 0),

    BITS(F32, I32, -2, -1073741824.0),
    BITS(I32, F32, 1, 0x1p-149),
    BITS(F64, I64, 1, 4607182418800017408.0),
    BITS(I64, F64, 1, 0x1p-1074),
    BITS(F16, I16, -1, -17408),
    BITS(I16, F16, 1, 0x1p-24),
    BITS(BF16, I16, -1, -16512),
    BITS(I16, BF16, 0x3f80, 1),

    CAST(F32, I32, 2.9, 2),
    CAST(F32, I32, -2.9, -2),
    CAST(F32, I32, 3e9, -2147483648.0),
    CAST(F32, I32, NAN, -2147483648.0),
    CAST(F64, I32, 2147483647.9, 2147483647),
    CAST(F64, I32, -2147483648.9, -2147483648.0),
    CAST(F64, I32, 2147483648.0, -2147483648.0),
    CAST(F32, I64, 3e9, 3e9),
    CAST(F32, I64, NAN, -9223372036854775808.0),
    CAST(F32, I64, 1e20, -9223372036854775808.0),
    CAST(F32, I64, -INF, -9223372036854775808.0),
    CAST(F32, U8, 300, 44),
    CAST(F32, U8, -1, 255),
    CAST(F32, U8, 1e10, 0),
    CAST(F32, U8, NAN, 0),
    CAST(F32, I8, 300, 44),
    CAST(F32, I16, 4e4, -25536),
    CAST(F32, I16, 1e10, 0),
    CAST(BF16, I8, -3.5, -3),
    CAST(F32, BOOL, 0.5, 1),
    CAST(F32, BOOL, -0.0, 0),
    CAST(F32, BOOL, NAN, 1),
    CAST(I64, BOOL, 256, 1),
    CAST(BOOL, F32, 1, 1),
    CAST(BOOL, I8, 1, 1),
    CAST(I64, I8, 200, -56),
    CAST(I64, U8, -1, 255),
    CAST(I8, U8, -1, 255),
    CAST(U8, I8, 200, -56),
    CAST(I8, I64, -5, -5),
    CAST(I32, F32, 16777217, 16777216),
    CAST(I32, F32, 16777219, 16777220),
    CAST(F64, F32, 0.1, 0.100000001490116119384765625),
    CAST(F64, F32, 1e300, INF),
    CAST(F32, F16, 65520, INF),
    CAST(F32, F16, 65519, 65504),
    CAST(F32, F16, 2049, 2048),
    CAST(F32, F16, 2051, 2052),
    CAST(F32, F16, 0x1p-24, 0x1p-24),
    CAST(F32, F16, 0x1p-25, 0),
    CAST(F32, F16, 0x1.8p-25, 0x1p-24),
    CAST(F32, BF16, 257, 256),
    CAST(F32, BF16, 259, 260),
    CAST(F32, BF16, NAN, NAN),
    CAST(F16, F32, 0.1, 0.0999755859375),
    CAST(BF16, F32, 0.1, 0.10009765625),
    CAST(I64, BF16, 257, 256),
    CAST(I64, F16, 100000, INF),
    /* Once, not by way of f32: 1 + 2^-11 + 2^-40 lies above the tie between two f16. */
    CAST(F64, F16, 1.00048828125 + 0x1p-40, 1.0009765625),
    CAST(F64, BF16, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7),
};

static void case_fail(size_t k, double got) {
    const scalar_case *c = &cases[k];
    HN_TEST_FAIL("case %zu: %s(%.17g, %.17g) of %s to %s is %.17g, expected %.17g", k,
                 hn_op_facts(c->op)->name, c->x, c->y, hn_dtype_facts(c->operand)->name,
                 hn_dtype_facts(c->result)->name, got, c->want);
}

static void case_run(size_t k) {
    const scalar_case *c = &cases[k];
    fixture f;
    begin(&f);
    hn_op_class op_class = hn_op_facts(c->op)->op_class;
    hn_value x = input(&f, c->operand, SCALAR, &c->x, 1), y = 0;
    if (op_class == HN_OPC_BINARY || op_class == HN_OPC_COMPARE)
        y = input(&f, c->operand, S(1), &c->y, 1);
    output(&f, c->op == HN_OP_BITCAST ? hn_b_bitcast(f.g, x, c->result)
               : c->op == HN_OP_CAST  ? hn_b_cast(f.g, x, c->result)
               : y                    ? hn_b_binary(f.g, c->op, x, y)
                                      : hn_b_unary(f.g, c->op, x));
    int before = hn_test_failures;
    EXPECT_OK(run(&f));
    if (hn_test_failures != before) case_fail(k, NAN);
    const hn_ref_tensor *out = &f.outputs[0];
    EXPECT_INT(out->dtype, c->result);
    double got = !out->data.f                    ? NAN
                 : hn_dtype_is_float(out->dtype) ? out->data.f[0]
                                                 : (double)out->data.i[0];
    bool equal = isnan(c->want) ? isnan(got) : got == c->want && !signbit(got) == !signbit(c->want);
    bool near = c->rtol > 0 && fabs(got - c->want) <= c->rtol * fabs(c->want);
    if (!equal && !near) case_fail(k, got);
    end(&f);
}

TEST(scalar_cases) {
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) case_run(k);
}

/* Values that a double cannot hold. */
TEST(wide_integers) {
    hn_ref_elem out, args[2] = {{.i = INT64_MAX}, {.i = 1}};
    EXPECT(hn_ref_apply(HN_OP_ADD, I64, I64, args, &out) && out.i == INT64_MIN);
    EXPECT(hn_ref_apply(HN_OP_MUL, I64, I64, (hn_ref_elem[]){{.i = INT64_MAX}, {.i = 3}}, &out) &&
           out.i == INT64_MAX - 2);
    EXPECT(hn_ref_apply(HN_OP_SUB, I64, I64, (hn_ref_elem[]){{.i = INT64_MIN}, {.i = 1}}, &out) &&
           out.i == INT64_MAX);
    EXPECT(hn_ref_apply(HN_OP_EQ, I64, BOOL,
                        (hn_ref_elem[]){{.i = INT64_MAX}, {.i = INT64_MAX - 1}}, &out) &&
           out.i == 0);
    EXPECT(hn_ref_apply(HN_OP_FLOORDIV, I64, I64, (hn_ref_elem[]){{.i = INT64_MIN}, {.i = -1}},
                        &out) &&
           out.i == INT64_MIN);
    EXPECT(hn_ref_apply(HN_OP_REMAINDER, I64, I64, (hn_ref_elem[]){{.i = INT64_MIN}, {.i = -1}},
                        &out) &&
           out.i == 0);
    EXPECT(hn_ref_apply(HN_OP_POW, I64, I64, (hn_ref_elem[]){{.i = 3}, {.i = 40}}, &out) &&
           out.i == (int64_t)12157665459056928801u);
    /* 2^60 + 2^36 + 1 lies above the tie between two f32: rounding by way of double would lose the
     * 1. */
    int64_t above = ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1;
    EXPECT(hn_ref_apply(HN_OP_CAST, I64, F32, (hn_ref_elem[]){{.i = above}}, &out) &&
           out.f == 0x1p60 + 0x1p37);
    EXPECT(hn_ref_apply(HN_OP_CAST, I64, F32, (hn_ref_elem[]){{.i = above - 1}}, &out) &&
           out.f == 0x1p60);
    EXPECT(hn_ref_apply(HN_OP_CAST, I64, F32, (hn_ref_elem[]){{.i = -above}}, &out) &&
           out.f == -0x1p60 - 0x1p37);
    EXPECT(hn_ref_apply(HN_OP_CAST, I64, F64, (hn_ref_elem[]){{.i = (1ll << 53) + 1}}, &out) &&
           out.f == 0x1p53);
    EXPECT(hn_ref_apply(HN_OP_CAST, I64, F64, (hn_ref_elem[]){{.i = INT64_MIN}}, &out) &&
           out.f == -0x1p63);
    EXPECT(hn_ref_apply(HN_OP_CAST, F64, I64, (hn_ref_elem[]){{.f = -0x1p63}}, &out) &&
           out.i == INT64_MIN);
    EXPECT(hn_ref_apply(HN_OP_CAST, F64, I64, (hn_ref_elem[]){{.f = 0x1p63 - 1024}}, &out) &&
           out.i == INT64_MAX - 1023);
}

TEST(rows_without_a_meaning) {
    hn_ref_elem out, args[2] = {{.i = 1}, {.i = 1}};
    EXPECT(!hn_ref_apply(HN_OP_EXP, I32, I32, args, &out));
    EXPECT(!hn_ref_apply(HN_OP_AND, F32, F32, args, &out));
    EXPECT(!hn_ref_apply(HN_OP_SUM, F32, F32, args, &out));
}

ROW_TEST(HN_OP_WHERE, where_broadcasts) {
    fixture f;
    begin(&f);
    hn_value cond = input(&f, BOOL, S(2, 1), V(1, 0));
    hn_value x = input(&f, F32, S(3), V(1, NAN, 3)), y = input(&f, F32, SCALAR, V(-1));
    run_expect(&f, hn_b_where(f.g, cond, x, y), F32, S(2, 3), V(1, NAN, 3, -1, -1, -1));
    end(&f);
}

TEST(where_of_integers) {
    fixture f;
    begin(&f);
    hn_value cond = input(&f, BOOL, SCALAR, V(0));
    hn_value x = input(&f, U8, S(2), V(1, 2)), y = input(&f, U8, S(2, 2), V(255, 254, 253, 252));
    run_expect(&f, hn_b_where(f.g, cond, x, y), U8, S(2, 2), V(255, 254, 253, 252));
    end(&f);
}

TEST(broadcasting) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, I32, S(2, 1, 3), V(1, 2, 3, 4, 5, 6)),
             y = input(&f, I32, S(2, 1), V(10, 20));
    run_expect(&f, hn_b_binary(f.g, HN_OP_ADD, x, y), I32, S(2, 2, 3),
               V(11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26));
    end(&f);
}

TEST(empty_operands) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F32, S(0, 3), NO_VALUES), y = input(&f, F32, S(1), V(1));
    run_expect(&f, hn_b_binary(f.g, HN_OP_MUL, x, y), F32, S(0, 3), NO_VALUES);
    end(&f);
}

/* Inputs are rounded to their dtype, and so is what each node gives: 0.1 + 0.2 in f16. */
TEST(roundings_after_each_node) {
    fixture f;
    begin(&f);
    hn_value x = input(&f, F16, S(1), V(0.1)), y = input(&f, F16, S(1), V(0.2));
    /* 0.2999267578125 is a tie between two f16: to even */
    hn_value sum = hn_b_binary(f.g, HN_OP_ADD, x, y);
    output(&f, x);
    output(&f, sum);
    EXPECT_OK(run(&f));
    expect(&f, 0, F16, S(1), V(0.0999755859375));
    expect(&f, 1, F16, S(1), V(0.2998046875));
    end(&f);
}

TEST(every_row_has_a_test) {
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) row_tested[cases[k].op] = true;
    expect_every_row_tested(PROGRAM_ELEMENTWISE);
}

TEST_MAIN
