/* test_form_verify.c: what the verifier refuses of forms that no text can say: ids, trees and
 * scopes broken by hand. What a text can say is in test_form_text.c. */
#include "unit/kernel/form_fixture.h"

enum { THREADS = 256 };

static hn_fid load(hn_form *f, hn_fmem memory, hn_expr index) {
    hn_sop op = {.kind = HN_SOP_LOAD, .dtype = HN_DTYPE_F32, .buffer = memory, .index = index};
    return hn_form_value(f, op);
}

static hn_fid add(hn_form *f, hn_fid a, hn_fid b) {
    hn_sop op = {.kind = HN_SOP_ELEM, .op = HN_OP_ADD, .dtype = HN_DTYPE_F32, .args = {a, b}};
    return hn_form_value(f, op);
}

/* Each thread adds its part of a row. The numbers are those of the statements. */
static void add_parts(hn_form *f, hn_fmem in, hn_fmem parts, hn_expr columns) {
    hn_freg sum = hn_form_add_register(f, HN_OP_SUM, HN_DTYPE_F32);
    hn_expr column = hn_form_symbol(f, columns);
    hn_form_init(f, sum);                                /* 1 */
    hn_form_for(f, column, f->thread, columns, THREADS); /* 2 */
    hn_expr at = hn_sym_add(f->sym, hn_sym_mul(f->sym, f->group, columns), column);
    hn_form_step(f, sum, load(f, in, at), 0); /* 3, 4 */
    hn_form_close(f);
    hn_form_store(f, parts, f->thread, hn_form_result(f, sum, false), HN_STORE_SET); /* 5, 6 */
    hn_form_barrier(f);                                                              /* 7 */
}

/* The threads below `half` add the parts of those above. */
static void add_halves(hn_form *f, hn_fmem parts, hn_expr half) {
    hn_form_if(f, f->thread, half);                                 /* 8 */
    hn_fid a = load(f, parts, f->thread);                           /* 9 */
    hn_fid b = load(f, parts, hn_sym_add(f->sym, f->thread, half)); /* 10 */
    hn_form_store(f, parts, f->thread, add(f, a, b), HN_STORE_SET); /* 11, 12 */
    hn_form_close(f);
    hn_form_barrier(f); /* 13 */
}

/* The sum of each row, by a group of threads for each row. */
static hn_status build_row_sum(fixture *x, hn_form **out) {
    hn_form *f;
    hn_sym *sym = x->sym;
    HN_TRY(hn_form_create(x->program, &x->arena, THREADS, x->rows, &f));
    hn_fmem in = hn_form_argument(f, 1, 0, false), result = hn_form_argument(f, 2, 0, true);
    hn_form_memory shared = {.space = HN_SPACE_SHARED,
                             .dtype = HN_DTYPE_F32,
                             .is_read = true,
                             .is_written = true,
                             .elems = hn_sym_int(sym, THREADS)};
    hn_fmem parts = hn_form_add_memory(f, shared);
    add_parts(f, in, parts, x->columns);
    for (int64_t half = THREADS / 2; half; half /= 2) add_halves(f, parts, hn_sym_int(sym, half));
    hn_form_if(f, f->thread, hn_sym_int(sym, 1));
    hn_form_store(f, result, f->group, load(f, parts, hn_sym_int(sym, 0)), HN_STORE_SET);
    hn_form_close(f);
    *out = f;
    return hn_form_end(f);
}

TEST(a_row_sum_verifies) {
    fixture x;
    hn_form *f = NULL;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(build_row_sum(&x, &f));
    fixture_deinit(&x);
}

TEST(a_store_that_combines_reads_its_memory) {
    fixture x;
    hn_form *f = NULL;
    EXPECT_OK(fixture_init(&x));
    hn_expr one = hn_sym_int(x.sym, 1);
    EXPECT_OK(hn_form_create(x.program, &x.arena, 1, one, &f));
    hn_fmem result = hn_form_argument(f, 2, 0, true);
    hn_form_store(f, result, f->group, load(f, hn_form_argument(f, 1, 0, false), f->group),
                  HN_STORE_ADD);
    EXPECT_OK(hn_form_end(f));
    EXPECT(f->memories.items[result].is_read);
    f->memories.items[result].is_read = false;
    EXPECT_ERROR(hn_form_verify(f), HN_INTERNAL, "memory m1: it is read, but not marked as read");
    fixture_deinit(&x);
}

/* --- broken by hand --- */

typedef struct breakage {
    const char *message;
    void (*apply)(hn_form *f);
} breakage;

static hn_form_stmt *stmt(hn_form *f, hn_fid s) { return &f->stmts.items[s]; }

static void no_threads(hn_form *f) { f->threads = 0; }
static void no_grid(hn_form *f) { f->grid = 0; }
static void grid_of_threads(hn_form *f) { f->grid = f->thread; }
static void other_grid(hn_form *f) { f->grid = hn_sym_int(f->sym, 7); }
static void other_threads(hn_form *f) { f->threads = 128; }
static void one_symbol_twice(hn_form *f) {
    f->grid = hn_sym_int(f->sym, THREADS);
    f->group = f->thread;
}
static void no_space(hn_form *f) { f->memories.items[1].space = HN_SPACE_COUNT; }
static void no_memory_dtype(hn_form *f) { f->memories.items[3].dtype = HN_DTYPE_NONE; }
static void no_buffer(hn_form *f) { f->memories.items[1].buffer = 0; }
static void unknown_buffer(hn_form *f) { f->memories.items[1].buffer = 99; }
static void buffer_dtype(hn_form *f) { f->memories.items[1].buffer = 6; }
static void writes_input(hn_form *f) { f->memories.items[1].is_written = true; }
static void base_of_threads(hn_form *f) { f->memories.items[1].base = f->thread; }
static void no_elems(hn_form *f) { f->memories.items[3].elems = 0; }
static void elems_of_group(hn_form *f) { f->memories.items[3].elems = f->group; }
static void not_marked_read(hn_form *f) { f->memories.items[1].is_read = false; }
static void not_marked_written(hn_form *f) { f->memories.items[3].is_written = false; }
static void marked_read(hn_form *f) { f->memories.items[2].is_read = true; }
static void never_written(hn_form *f) { stmt(f, stmt(f, f->stmts.count - 2)->next)->memory = 3; }
static void no_register_op(hn_form *f) { f->registers.items[1].op = HN_OP_ADD; }
static void no_register_dtype(hn_form *f) { f->registers.items[1].dtype = HN_DTYPE_COUNT; }
static void unknown_next(hn_form *f) { stmt(f, 4)->next = 1000; }
static void unknown_behind_block(hn_form *f) { stmt(f, 2)->next = 1000; }
static void unknown_body(hn_form *f) { stmt(f, 2)->body = 1000; }
static void cycle(hn_form *f) { stmt(f, 7)->next = 1; }
static void own_body(hn_form *f) { stmt(f, 2)->body = 2; }
static void shared_body(hn_form *f) { stmt(f, 8)->otherwise = stmt(f, 8)->body; }
static void left_out(hn_form *f) { stmt(f, 6)->next = 8; }
static void body_of_store(hn_form *f) { stmt(f, 6)->body = stmt(f, 2)->body; }
static void else_of_for(hn_form *f) {
    stmt(f, 2)->otherwise = stmt(f, 2)->body;
    stmt(f, 2)->body = 0;
}
static void no_kind(hn_form *f) { stmt(f, 7)->kind = HN_FORM_KIND_COUNT; }
static void no_step(hn_form *f) { stmt(f, 2)->step = 0; }
static void no_var(hn_form *f) { stmt(f, 2)->var = 0; }
static void var_of_size(hn_form *f) { stmt(f, 2)->var = stmt(f, 2)->end; }
static void var_of_group(hn_form *f) { stmt(f, 2)->var = f->group; }
static void var_number(hn_form *f) { f->ordinals = 66; }
static void no_end(hn_form *f) { stmt(f, 2)->end = 0; }
static void value_outside_of_its_block(hn_form *f) { stmt(f, 6)->value = 3; }
static void no_value(hn_form *f) { stmt(f, 4)->value = 2; }
static void step_without_value(hn_form *f) { stmt(f, 4)->value = 0; }
static void symbol_outside_of_its_block(hn_form *f) { stmt(f, 6)->index = stmt(f, 2)->var; }
static void store_without_index(hn_form *f) { stmt(f, 6)->index = 0; }
static void load_without_index(hn_form *f) { stmt(f, 3)->op.index = 0; }
static void no_op_kind(hn_form *f) { stmt(f, 11)->op.kind = HN_SOP_RESULT + 1; }
static void no_elem(hn_form *f) { stmt(f, 11)->op.op = HN_OP_SUM; }
static void no_dtype(hn_form *f) { stmt(f, 11)->op.dtype = HN_DTYPE_NONE; }
static void one_argument(hn_form *f) { stmt(f, 11)->op.args[1] = 0; }
static void later_argument(hn_form *f) { stmt(f, 11)->op.args[1] = 11; }
static void unknown_memory(hn_form *f) { stmt(f, 9)->op.buffer = 4; }
static void store_to_nothing(hn_form *f) { stmt(f, 6)->memory = 0; }
static void no_mode(hn_form *f) { stmt(f, 6)->mode = HN_STORE_MAX + 1; }
static void combines(hn_form *f) { stmt(f, 6)->mode = HN_STORE_ADD; }
static void unknown_register(hn_form *f) { stmt(f, 4)->reg = 2; }
static void init_of_nothing(hn_form *f) { stmt(f, 1)->reg = 0; }
static void result_of_nothing(hn_form *f) { stmt(f, 5)->op.imm.i = -1; }
static void result_of_what(hn_form *f) { stmt(f, 5)->op.op = HN_OP_ARGMIN; }
static void result_position(hn_form *f) { stmt(f, 5)->op.op = HN_OP_ARGMAX; }
static void result_dtype(hn_form *f) { stmt(f, 5)->op.dtype = HN_DTYPE_F64; }
static void not_initialised(hn_form *f) {
    f->body = 2;
    stmt(f, 7)->next = 1;
    stmt(f, 1)->next = 8;
}
static void position_of_sum(hn_form *f) { stmt(f, 4)->position = 3; }
static void no_position(hn_form *f) { f->registers.items[1].op = HN_OP_ARGMAX; }
static void position_dtype(hn_form *f) {
    f->registers.items[1].op = HN_OP_ARGMAX;
    stmt(f, 4)->position = 3;
}
static void barrier_in_loop(hn_form *f) {
    stmt(f, 6)->next = stmt(f, 7)->next;
    stmt(f, 4)->next = 7;
    stmt(f, 7)->next = 0;
}
static void barrier_in_else(hn_form *f) {
    stmt(f, 8)->otherwise = stmt(f, 8)->next;
    stmt(f, 8)->next = 0;
}

static const breakage breakages[] = {
    {"kernel form: a group has no threads", no_threads},
    {"kernel form: the number of groups is missing", no_grid},
    {"kernel form: the number of groups uses i65, but may use sizes only", grid_of_threads},
    {"kernel form: group or thread is no index symbol below the number of them", other_grid},
    {"kernel form: group or thread is no index symbol below the number of them", other_threads},
    {"kernel form: i65 is defined already", one_symbol_twice},
    {"kernel form, memory m1: it is in no memory space", no_space},
    {"kernel form, memory m3: it has no dtype", no_memory_dtype},
    {"kernel form, memory m1: its buffer is not one of the program", no_buffer},
    {"kernel form, memory m1: its buffer is not one of the program", unknown_buffer},
    {"kernel form, memory m1: its buffer b6 has another dtype", buffer_dtype},
    {"kernel form, memory m1: it writes b1, an input of the program", writes_input},
    {"kernel form, memory m1: its base uses i65, but may use sizes only", base_of_threads},
    {"kernel form, memory m3: the number of its elements is missing", no_elems},
    {"kernel form, memory m3: the number of its elements uses i64, but may use sizes only",
     elems_of_group},
    {"kernel form, memory m1: it is read, but not marked as read", not_marked_read},
    {"kernel form, memory m3: it is written, but not marked as written", not_marked_written},
    {"kernel form, memory m2: it is marked as read, but nothing reads it", marked_read},
    {"kernel form, memory m2: it is marked as written, but nothing writes it", never_written},
    {"kernel form, register r1: its op does not combine values", no_register_op},
    {"kernel form, register r1: it has no dtype", no_register_dtype},
    {"kernel form, statement 4: behind it or in it is statement 1000, which does not exist",
     unknown_next},
    {"kernel form, statement 2: behind it or in it is statement 1000, which does not exist",
     unknown_behind_block},
    {"kernel form, statement 2: behind it or in it is statement 1000, which does not exist",
     unknown_body},
    {"kernel form, statement 1: it stands in two places", cycle},
    {"kernel form, statement 2: it stands in two places", own_body},
    {"kernel form, statement 9: it stands in two places", shared_body},
    {"kernel form, statement 7: it is in no block", left_out},
    {"kernel form, statement 6: a body where there is none", body_of_store},
    {"kernel form, statement 2: an else where there is none", else_of_for},
    {"kernel form, statement 7: no kind of statement", no_kind},
    {"kernel form, statement 2: the step is not above 0", no_step},
    {"kernel form, statement 2: what it defines is no index symbol", no_var},
    {"kernel form, statement 2: what it defines is no index symbol", var_of_size},
    {"kernel form, statement 2: i64 is defined already", var_of_group},
    {"kernel form, statement 2: the number of i66 is not below that of the form's index symbols",
     var_number},
    {"kernel form, statement 2: the end is missing", no_end},
    {"kernel form, statement 6: its value %3 is not defined here", value_outside_of_its_block},
    {"kernel form, statement 4: its value: statement 2 computes no value", no_value},
    {"kernel form, statement 4: its value is missing", step_without_value},
    {"kernel form, statement 6: the index uses i66, which is not defined here",
     symbol_outside_of_its_block},
    {"kernel form, statement 6: the index is missing", store_without_index},
    {"kernel form, statement 3: no index", load_without_index},
    {"kernel form, statement 11: no scalar op", no_op_kind},
    {"kernel form, statement 11: not an element-wise op", no_elem},
    {"kernel form, statement 11: no dtype", no_dtype},
    {"kernel form, statement 11: wrong number of arguments", one_argument},
    {"kernel form, statement 11: its argument %11 is not defined here", later_argument},
    {"kernel form, statement 9: there is no memory m4", unknown_memory},
    {"kernel form, statement 6: there is no memory m0", store_to_nothing},
    {"kernel form, statement 6: it has no store mode", no_mode},
    {"kernel form, statement 6: a store that combines in a form of more than one thread", combines},
    {"kernel form, statement 4: there is no register r2", unknown_register},
    {"kernel form, statement 1: there is no register r0", init_of_nothing},
    {"kernel form, statement 5: there is no register r-1", result_of_nothing},
    {"kernel form, statement 5: it is neither the value nor the position of a register",
     result_of_what},
    {"kernel form, statement 5: r1 keeps no position", result_position},
    {"kernel form, statement 5: r1 has another dtype", result_dtype},
    {"kernel form, statement 4: r1 is not initialised here", not_initialised},
    {"kernel form, statement 4: a position, but r1 keeps none", position_of_sum},
    {"kernel form, statement 4: no position, but r1 keeps one", no_position},
    {"kernel form, statement 4: a position that is no i64", position_dtype},
    {"kernel form, statement 7: a barrier within statement 2, whose limits differ between threads",
     barrier_in_loop},
    {"kernel form, statement 13: a barrier within statement 8, whose limits differ between threads",
     barrier_in_else},
};

TEST(what_is_broken_is_named) {
    for (size_t k = 0; k < sizeof breakages / sizeof *breakages; k++) {
        fixture x;
        hn_form *f = NULL;
        EXPECT_OK(fixture_init(&x));
        EXPECT_OK(build_row_sum(&x, &f));
        breakages[k].apply(f);
        hn_status status = hn_form_verify(f);
        EXPECT_INT(hn_status_code(status), HN_INTERNAL);
        EXPECT_STR(hn_status_message(status), breakages[k].message);
        hn_status_free(status);
        fixture_deinit(&x);
    }
}

TEST_MAIN
