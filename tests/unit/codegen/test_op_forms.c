/* How languages write ops (ops.def of their folders) against the facts of ir/ops.def: a text for
 * each dtype that a row claims, and for no other. */
#include "ir/op.h"
#include "unit/harness.h"

typedef struct text_row {
    hn_op op;
    const char *f32, *f64, *ints, *mask;
} text_row;

static const text_row c_rows[] = {
#define C_OP(name, f32, f64, ints, mask) {HN_OP_##name, f32, f64, ints, mask},
#include "codegen/c/ops.def"
#undef C_OP
};

static const text_row opencl_rows[] = {
#define CL_OP(name, f32, f64, ints, mask) {HN_OP_##name, f32, f64, ints, mask},
#include "codegen/opencl/ops.def"
#undef CL_OP
};

static void expect_text(const text_row *row, const char *text, unsigned category,
                        const char *what) {
    bool claimed = hn_op_facts(row->op)->dtypes & category;
    if (claimed != (text != NULL))
        HN_TEST_FAIL("'%s' %s text for %s", hn_op_facts(row->op)->name,
                     claimed ? "has no" : "is not defined there, but has a", what);
}

static void expect_texts(const text_row *rows, size_t count) {
    int rows_of[HN_OP_COUNT] = {0};
    for (size_t k = 0; k < count; k++) {
        rows_of[rows[k].op]++;
        expect_text(&rows[k], rows[k].f32, HN_DTYPES_FLOAT, "f32");
        expect_text(&rows[k], rows[k].f64, HN_DTYPES_FLOAT, "f64");
        expect_text(&rows[k], rows[k].ints, HN_DTYPES_INT, "ints");
        expect_text(&rows[k], rows[k].mask, HN_DTYPES_BOOL, "bool");
    }
    for (hn_op op = HN_OP_NONE + 1; op < HN_OP_COUNT; op++) {
        /* Casts need two dtypes: printers have tables of their own for them. */
        bool wanted = hn_op_is_elementwise(op) && hn_op_facts(op)->op_class != HN_OPC_CAST;
        if (wanted ? rows_of[op] != 1 : rows_of[op] > 1)
            HN_TEST_FAIL("'%s' has %d rows", hn_op_facts(op)->name, rows_of[op]);
    }
}

TEST(c_has_each_dtype_of_a_row) { expect_texts(c_rows, sizeof c_rows / sizeof *c_rows); }
TEST(opencl_has_each_dtype_of_a_row) {
    expect_texts(opencl_rows, sizeof opencl_rows / sizeof *opencl_rows);
}

TEST_MAIN
