/* form_fixture.h: a program with some buffers, for forms written by hand. */
#ifndef HN_TESTS_FORM_FIXTURE_H
#define HN_TESTS_FORM_FIXTURE_H

#include "kernel/form.h"
#include "kernel/interp.h"
#include "support/form_program.h"
#include "unit/harness.h"

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
    HN_TRY(hn_program_parse(&x->arena, x->sym, HN_STR(HN_FORM_PROGRAM), &x->program));
    x->rows = x->program->buffers.items[1].sizes[0];
    x->columns = x->program->buffers.items[1].sizes[1];
    return NULL;
}

static inline void fixture_deinit(fixture *x) { hn_arena_deinit(&x->arena); }

static inline void fixture_fill(hn_ref_buffer *b, bool is_float) {
    for (int64_t n = 0; n < b->elems; n++) {
        if (is_float) b->items[n].f = (double)n;
        else b->items[n].i = n;
        b->is_set[n] = true;
    }
}

#endif
