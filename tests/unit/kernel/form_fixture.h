/* form_fixture.h: a program with some buffers, for forms written by hand. */
#ifndef HN_TESTS_FORM_FIXTURE_H
#define HN_TESTS_FORM_FIXTURE_H

#include "kernel/form.h"
#include "unit/harness.h"

/* b1: rows of floats; b2, b3: a float and a position for each row; b4: a row number for each row;
 * b5: as b1; b6: of another dtype. */
#define FIXTURE_PROGRAM                          \
    "program {\n"                                \
    "  symbol size s0 in [1, 4096] hint 64\n"    \
    "  symbol size s1 in [1, 65536] hint 1024\n" \
    "  b1 : input 0 f32[s0, s1]\n"               \
    "  b2 : output f32[s0] extent s0\n"          \
    "  b3 : output i64[s0] extent s0\n"          \
    "  b4 : input 1 i64[s0]\n"                   \
    "  b5 : temp f32[s0, s1] extent s0*s1\n"     \
    "  b6 : temp f64[s0] extent s0\n"            \
    "}\n"

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_program *program;
    hn_expr rows, columns; /* s0, s1 */
} fixture;

static inline hn_status fixture_init(fixture *x) {
    *x = (fixture){0};
    hn_arena_init(&x->arena);
    HN_TRY(hn_sym_create(&x->arena, &x->sym));
    HN_TRY(hn_program_parse(&x->arena, x->sym, HN_STR(FIXTURE_PROGRAM), &x->program));
    x->rows = x->program->buffers.items[1].sizes[0];
    x->columns = x->program->buffers.items[1].sizes[1];
    return NULL;
}

static inline void fixture_deinit(fixture *x) { hn_arena_deinit(&x->arena); }

#endif
