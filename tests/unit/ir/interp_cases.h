/* interp_cases.h: graphs of a few nodes with numbers beside them, for the tests of the interpreter.
 *
 * A test adds inputs with their values, builds nodes, asks for outputs and compares. Values are
 * written as doubles for every dtype. ROW_TEST names the row of ops.def that a test is for; each
 * test program walks the rows of its classes (test_program_of) and fails for a row without one. */
#ifndef HN_TESTS_INTERP_CASES_H
#define HN_TESTS_INTERP_CASES_H

#include "ir/build.h"
#include "ir/interp.h"
#include "unit/harness.h"

#include <stdlib.h>

typedef struct shape {
    uint32_t rank;
    int64_t sizes[8];
} shape;

/* S(2, 3), SCALAR; V(1, 2, 3) is a list of doubles and its length */
#define S(...)    ((shape){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})
#define SCALAR    ((shape){0, {0}})
#define V(...)    (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double)
#define NO_VALUES (const double[]){0}, 0

enum { MAX_CASE_VALUES = 16 };

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *g;
    hn_ref_tensor inputs[MAX_CASE_VALUES], outputs[MAX_CASE_VALUES];
    uint32_t input_count, output_count;
} fixture;

static inline void begin(fixture *f) {
    memset(f, 0, sizeof *f);
    hn_arena_init(&f->arena);
    EXPECT_OK(hn_sym_create(&f->arena, &f->sym));
    EXPECT_OK(hn_graph_create(&f->arena, f->sym, &f->g));
}

static inline void end(fixture *f) {
    hn_graph_deinit(f->g);
    hn_arena_deinit(&f->arena);
}

static inline hn_expr num(fixture *f, int64_t value) { return hn_sym_int(f->sym, value); }

/* Expressions of a shape, in the arena. */
static inline const hn_expr *exprs(fixture *f, shape s) {
    hn_expr *list = hn_arena_alloc(&f->arena, sizeof *list * 8);
    for (uint32_t d = 0; d < s.rank; d++) list[d] = num(f, s.sizes[d]);
    return list;
}

static inline hn_ref_tensor tensor_of(fixture *f, hn_dtype dtype, shape s, const double *values,
                                      size_t count) {
    hn_ref_tensor t;
    EXPECT_OK(hn_ref_tensor_init(&f->arena, dtype, s.rank, s.sizes, &t));
    EXPECT_INT(t.numel, (int64_t)count);
    for (int64_t n = 0; n < t.numel && n < (int64_t)count; n++) {
        if (hn_dtype_is_float(dtype)) t.data.f[n] = values[n];
        else t.data.i[n] = (int64_t)values[n];
    }
    return t;
}

/* A USER input whose recorded sizes are `sizes` (NULL: those of `s` as constants), and its
 * value. */
static inline hn_value input_sym(fixture *f, const char *name, hn_dtype dtype, shape s,
                                 const hn_expr *sizes, const double *values, size_t count) {
    hn_value v = hn_graph_add_tensor(f->g, dtype, s.rank, sizes ? sizes : exprs(f, s), NULL,
                                     hn_str_of(name));
    EXPECT_OK(hn_graph_add_input(
        f->g, (hn_input){.kind = HN_INPUT_USER, .value = v, .name = hn_str_of(name)}));
    f->inputs[f->input_count++] = tensor_of(f, dtype, s, values, count);
    return v;
}

static inline hn_value input(fixture *f, hn_dtype dtype, shape s, const double *values,
                             size_t count) {
    return input_sym(f, "x", dtype, s, NULL, values, count);
}

static inline void output(fixture *f, hn_value v) {
    EXPECT(v != 0);
    EXPECT_OK(hn_graph_add_output(f->g, (hn_output){.kind = HN_OUTPUT_USER, .value = v}));
    f->output_count++;
}

/* The graph must be well-formed too: what the builders made is what the verifier accepts. */
static inline hn_status run(fixture *f) {
    HN_TRY(hn_graph_status(f->g));
    HN_TRY(hn_graph_verify(f->g, HN_LEGAL_PRIMITIVE));
    return hn_interpret(&f->arena, f->g, f->inputs, f->input_count, f->outputs);
}

static inline void expect_near(fixture *f, uint32_t k, hn_dtype dtype, shape s,
                               const double *values, size_t count, double atol) {
    hn_ref_tensor want = tensor_of(f, dtype, s, values, count);
    hn_strbuf why;
    hn_strbuf_init(&why);
    if (!hn_ref_compare(&f->outputs[k], &want, 0, atol, &why))
        HN_TEST_FAIL("output %u: %s", k, why.ptr ? why.ptr : "?");
    hn_strbuf_deinit(&why);
}

static inline void expect(fixture *f, uint32_t k, hn_dtype dtype, shape s, const double *values,
                          size_t count) {
    expect_near(f, k, dtype, s, values, count, 0);
}

/* Runs, then one output, exactly. */
static inline void run_expect(fixture *f, hn_value v, hn_dtype dtype, shape s, const double *values,
                              size_t count) {
    int before = hn_test_failures;
    output(f, v);
    EXPECT_OK(run(f));
    if (hn_test_failures == before) expect(f, f->output_count - 1, dtype, s, values, count);
}

/* --- which rows have tests --- */

static bool row_tested[HN_OP_COUNT];

#define ROW_TEST(row, name)                                                                        \
    __attribute__((constructor)) static void name##_covers(void) { row_tested[row] = true; }       \
    TEST(name)

typedef enum test_program {
    PROGRAM_NONE,
    PROGRAM_ELEMENTWISE,
    PROGRAM_DATA,
    PROGRAM_REDUCE,
    PROGRAM_CONTROL
} test_program;

static inline test_program test_program_of(hn_op_class op_class) {
    switch (op_class) {
    case HN_OPC_UNARY:
    case HN_OPC_BINARY:
    case HN_OPC_COMPARE:
    case HN_OPC_PREDICATE:
    case HN_OPC_SELECT:
    case HN_OPC_CAST: return PROGRAM_ELEMENTWISE;
    case HN_OPC_CREATE:
    case HN_OPC_VIEW:
    case HN_OPC_DATA: return PROGRAM_DATA;
    case HN_OPC_REDUCE:
    case HN_OPC_SCAN:
    case HN_OPC_SORT:
    case HN_OPC_CONTRACT: return PROGRAM_REDUCE;
    case HN_OPC_DYNAMIC:
    case HN_OPC_CONTROL: return PROGRAM_CONTROL;
    default: return PROGRAM_NONE;
    }
}

static inline void expect_every_row_tested(test_program program) {
    for (hn_op op = 1; op < HN_OP_COUNT; op++) {
        test_program owner = test_program_of(hn_op_facts(op)->op_class);
        if (owner == PROGRAM_NONE)
            HN_TEST_FAIL("no test program has the class of row '%s'", hn_op_facts(op)->name);
        if (owner == program && !row_tested[op])
            HN_TEST_FAIL("row '%s' has no test", hn_op_facts(op)->name);
    }
}

#endif
