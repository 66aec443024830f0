/* prelude_rows.h: rows of the tables of functions (prelude.h) that OpenCL C and CUDA C++ have in the
 * same words. Who includes it has defined FN, what stands before a function, and LONG, the name of an
 * integer of 64 bits. */
#ifndef HN_CODEGEN_PRELUDE_ROWS_H
#define HN_CODEGEN_PRELUDE_ROWS_H

/* By the letter of a class and its type: of integers, */
#define INTS(c, T, U, BITS)                                                                        \
    {"neg_" c, FN T " neg_" c "(" T " x) { return (" T ")(0 - (" U ")x); }\n"},                    \
        {"add_" c,                                                                                 \
         FN T " add_" c "(" T " a, " T " b) { return (" T ")((" U ")a + (" U ")b); }\n"},          \
        {"sub_" c,                                                                                 \
         FN T " sub_" c "(" T " a, " T " b) { return (" T ")((" U ")a - (" U ")b); }\n"},          \
        {"mul_" c,                                                                                 \
         FN T " mul_" c "(" T " a, " T " b) { return (" T ")((" U ")a * (" U ")b); }\n"},          \
        {"abs_" c, FN T " abs_" c "(" T " x) { return x < 0 ? neg_" c "(x) : x; }\n"},             \
        {"sign_" c, FN T " sign_" c "(" T " x) { return (x > 0) - (x < 0); }\n"},                  \
        {"relu_" c, FN T " relu_" c "(" T " x) { return x < 0 ? 0 : x; }\n"},                      \
        {"min_" c, FN T " min_" c "(" T " a, " T " b) { return a < b ? a : b; }\n"},               \
        {"max_" c, FN T " max_" c "(" T " a, " T " b) { return a > b ? a : b; }\n"},               \
        {"div_" c, FN T " div_" c "(" T " a, " T " b) { return b == 0 ? 0 : b == -1 ? neg_" c      \
                        "(a) : a / b; }\n"},                                                       \
        {"fmod_" c,                                                                                \
         FN T " fmod_" c "(" T " a, " T " b) { return b == 0 || b == -1 ? 0 : a % b; }\n"},        \
        {"floordiv_" c, FN T " floordiv_" c "(" T " a, " T " b) {\n"                               \
                             "  " T " q = div_" c "(a, b), m = fmod_" c "(a, b);\n"                \
                             "  return m != 0 && (m < 0) != (b < 0) ? q - 1 : q;\n}\n"},           \
        {"remainder_" c, FN T " remainder_" c "(" T " a, " T " b) {\n"                             \
                              "  " T " m = fmod_" c "(a, b);\n"                                    \
                              "  return m != 0 && (m < 0) != (b < 0) ? m + b : m;\n}\n"},          \
        {"pow_" c, FN T " pow_" c "(" T " a, " T " e) {\n"                                         \
                        "  " U " x = (" U ")a, y = 1;\n"                                           \
                        "  if (e < 0) return a == 1 ? 1 : a == -1 ? ((e & 1) ? -1 : 1) : 0;\n"     \
                        "  for (; e; e >>= 1, x *= x) if (e & 1) y *= x;\n"                        \
                        "  return (" T ")y;\n}\n"},                                                \
        {"gcd_" c, FN T " gcd_" c "(" T " x, " T " y) {\n"                                         \
                        "  while (x) { " T " t = fmod_" c "(y, x); y = x; x = t; }\n"              \
                        "  return y;\n}\n"},                                                       \
        {"shl_" c, FN T " shl_" c "(" T " a, " T " b) { return b < 0 || b >= " BITS " ? 0 : (" T   \
                        ")((" U ")a << b); }\n"},                                                  \
    {                                                                                              \
        "shr_" c, FN T " shr_" c "(" T " a, " T " b) { return a >> (b < 0 || b >= " BITS           \
                       " ? " BITS " - 1 : b); }\n"                                                 \
    }

/* Registers that keep a position. NaN is largest and smallest; of equals the first one wins, in a
 * running maximum or minimum the last. */
#define FLOAT_POSITION(name, c, T, BETTER, EARLIER)                                                \
    {                                                                                              \
        name "_" c, FN "void " name "_" c "(" T " *a, " LONG " *x, " T " v, " LONG " p) {\n"       \
                       "  const int nan = v != v, was_nan = *a != *a;\n"                           \
                       "  if (nan != was_nan ? nan : nan || v == *a ? p " EARLIER                  \
                       " *x : v " BETTER " *a) { *a = v; *x = p; }\n}\n"                           \
    }
#define INT_POSITION(name, c, T, BETTER, EARLIER)                                                  \
    {                                                                                              \
        name "_" c,                                                                                \
            FN "void " name "_" c "(" T " *a, " LONG " *x, " T " v, " LONG " p) {\n"               \
               "  if (v == *a ? p " EARLIER " *x : v " BETTER " *a) { *a = v; *x = p; }\n}\n"      \
    }
#define POSITIONS(ROW, c, T)                                                                       \
    ROW("argmax", c, T, ">", "<"), ROW("argmin", c, T, "<", "<"), ROW("cummax", c, T, ">", ">"),   \
        ROW("cummin", c, T, "<", ">")

#endif
