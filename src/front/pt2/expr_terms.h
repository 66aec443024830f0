/* expr_terms.h: the values that an expression of a .pt2 file is computed with. Internal to
 * front/pt2.
 *
 * Functions return false after noting a failure in the calculation; the first one stays. */
#ifndef HN_FRONT_PT2_EXPR_TERMS_H
#define HN_FRONT_PT2_EXPR_TERMS_H

#include "front/pt2/expr.h"

enum { HN_PT2_MAX_ARGS = 64 };

/* A number num/den in lowest terms, or a condition: the conjunction of `count` relations. */
typedef struct hn_pt2_term {
    bool is_condition;
    /* a float next to num/den, or the product of one and an integer: floored, they are equal */
    bool is_near;
    hn_expr num, den;
    const hn_pt2_relation *relations;
    uint32_t count;
} hn_pt2_term;

typedef struct hn_pt2_calc {
    const hn_pt2_expr_env *env;
    hn_sym *sym;
    hn_code code; /* HN_OK while fine */
    const char *problem;
    hn_str subject; /* what the problem is about, may be empty */
} hn_pt2_calc;

/* Notes the failure unless there is one. Always false. */
bool hn_pt2_calc_fail(hn_pt2_calc *p, hn_code code, const char *problem, hn_str subject);

hn_pt2_term hn_pt2_term_of(hn_pt2_calc *p, hn_expr value);
hn_pt2_term hn_pt2_term_int(hn_pt2_calc *p, int64_t value);
/* The float that a text such as "0.69999999999999996" stands for. */
bool hn_pt2_term_float(hn_pt2_calc *p, hn_str text, hn_pt2_term *out);
hn_pt2_term hn_pt2_term_add(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b);
hn_pt2_term hn_pt2_term_negate(hn_pt2_calc *p, const hn_pt2_term *a);
hn_pt2_term hn_pt2_term_multiply(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b);
bool hn_pt2_term_divide(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b,
                        hn_pt2_term *out);
bool hn_pt2_term_floordiv(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b,
                          hn_pt2_term *out);
bool hn_pt2_term_mod(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b, hn_pt2_term *out);
bool hn_pt2_term_power(hn_pt2_calc *p, const hn_pt2_term *base, const hn_pt2_term *exponent,
                       hn_pt2_term *out);
bool hn_pt2_term_relate(hn_pt2_calc *p, hn_relation relation, const hn_pt2_term *a,
                        const hn_pt2_term *b, hn_pt2_term *out);
bool hn_pt2_term_bool(hn_pt2_calc *p, bool value, hn_pt2_term *out);
bool hn_pt2_term_and(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b, hn_pt2_term *out);
/* Only where one side is constant: relations have no "or". */
bool hn_pt2_term_or(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b, hn_pt2_term *out);
bool hn_pt2_term_not(hn_pt2_calc *p, const hn_pt2_term *a, hn_pt2_term *out);

typedef bool (*hn_pt2_apply)(hn_pt2_calc *p, const hn_pt2_term *args, uint32_t count,
                             hn_pt2_term *out);

/* A function that may be called by name: "Add", "FloorDiv", "Equality"... */
typedef struct hn_pt2_function {
    const char *name;
    uint8_t min_args, max_args;
    bool of_conditions; /* the arguments are conditions */
    hn_pt2_apply apply;
    bool takes_near;
} hn_pt2_function;

const hn_pt2_function *hn_pt2_function_find(hn_str name);

#endif
