/* form_program.h: the text of a program without items, for forms written by hand to refer to. */
#ifndef HN_TESTS_FORM_PROGRAM_H
#define HN_TESTS_FORM_PROGRAM_H

/* b1: rows of floats; b2, b3: a float and a position for each row; b4: a row number for each row;
 * b5: as b1; b6: of another dtype. */
#define HN_FORM_PROGRAM                                                                            \
    "program {\n"                                                                                  \
    "  symbol size s0 in [1, 4096] hint 64\n"                                                      \
    "  symbol size s1 in [1, 65536] hint 1024\n"                                                   \
    "  b1 : input 0 f32[s0, s1]\n"                                                                 \
    "  b2 : output f32[s0] extent s0\n"                                                            \
    "  b3 : output i64[s0] extent s0\n"                                                            \
    "  b4 : input 1 i64[s0]\n"                                                                     \
    "  b5 : temp f32[s0, s1] extent s0*s1\n"                                                       \
    "  b6 : temp f64[s0] extent s0\n"                                                              \
    "}\n"

#endif
