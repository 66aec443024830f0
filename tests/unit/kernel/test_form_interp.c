/* test_form_interp.c: the interpreter of kernel forms on forms written by hand: right ones, and one
 * for each fault that it finds. */
#include "base/compiler.h"
#include "form_fixture.h"

enum { THREADS = 8, ROWS = 3, COLUMNS = 21 };

/* Memory of the fixture's program for rows of columns: b1 is 0, 1, 2 ..., b4 the row numbers. */
typedef struct setting {
    fixture x;
    hn_form *f;
    hn_ref_buffer buffers[7];
    bool index_fault;
} setting;

static void begin(setting *t, uint32_t threads) {
    static const int64_t elems[] = {0, ROWS * COLUMNS, ROWS, ROWS, ROWS, ROWS * COLUMNS, ROWS};
    *t = (setting){0};
    EXPECT_OK(fixture_init(&t->x));
    for (hn_buf b = 1; b < HN_COUNT_OF(elems); b++)
        EXPECT_OK(hn_ref_buffer_init(&t->x.arena, t->x.program->buffers.items[b].dtype, elems[b],
                                     &t->buffers[b]));
    fixture_fill(&t->buffers[1], true);
    fixture_fill(&t->buffers[4], false);
    EXPECT_OK(hn_form_create(t->x.program, &t->x.arena, threads, t->x.rows, &t->f));
}

static hn_status run(setting *t) {
    const hn_expr symbols[] = {t->x.rows, t->x.columns};
    const int64_t values[] = {ROWS, COLUMNS};
    return hn_form_run(t->f, &(hn_ref_sizes){symbols, values, 2}, t->buffers, &t->index_fault);
}

static void end(setting *t) { fixture_deinit(&t->x); }

/* A form that verifies as well. */
static void expect_run(setting *t) {
    EXPECT_OK(hn_form_end(t->f));
    EXPECT_OK(run(t));
    EXPECT(!t->index_fault);
    end(t);
}

/* The run fails; whether the form verifies is not asked. */
static void expect_fault(setting *t, const char *text) {
    EXPECT_ERROR(run(t), HN_INTERNAL, text);
    end(t);
}

/* --- parts of forms --- */

static hn_expr num(const setting *t, int64_t n) { return hn_sym_int(t->x.sym, n); }

static hn_fmem shared(setting *t, hn_dtype dtype) {
    return hn_form_add_memory(t->f, (hn_form_memory){.space = HN_SPACE_SHARED,
                                                     .dtype = dtype,
                                                     .elems = num(t, THREADS),
                                                     .is_read = true,
                                                     .is_written = true});
}

static hn_fid load(setting *t, hn_fmem m, hn_expr index) {
    return hn_form_value(t->f, (hn_sop){.kind = HN_SOP_LOAD,
                                        .dtype = t->f->memories.items[m].dtype,
                                        .buffer = m,
                                        .index = index});
}

static hn_fid index_value(setting *t, hn_expr e) {
    return hn_form_value(t->f, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = e});
}

static hn_fid constant(setting *t, double value) {
    return hn_form_value(t->f,
                         (hn_sop){.kind = HN_SOP_CONST, .dtype = HN_DTYPE_F32, .imm.f = value});
}

static void set(setting *t, hn_fmem m, hn_expr index, hn_fid value) {
    hn_form_store(t->f, m, index, value, HN_STORE_SET);
}

static hn_expr plus(const setting *t, hn_expr a, int64_t b) {
    return hn_sym_add(t->x.sym, a, num(t, b));
}

/* Element `at` of this group's row of b1 or b5. */
static hn_expr in_row(const setting *t, hn_expr at) {
    return hn_sym_add(t->x.sym, hn_sym_mul(t->x.sym, t->f->group, t->x.columns), at);
}

/* --- reductions of a row by the threads of a group --- */

/* A register and where its threads meet. */
typedef struct tree {
    hn_freg reg;
    hn_fmem values, positions; /* positions: 0: none */
    int left_out;              /* this one of the tree's barriers, from 0; below 0: none */
} tree;

static void emit_put(setting *t, const tree *r) {
    hn_expr thread = t->f->thread;
    set(t, r->values, thread, hn_form_result(t->f, r->reg, false));
    if (r->positions) set(t, r->positions, thread, hn_form_result(t->f, r->reg, true));
}

static void emit_level(setting *t, const tree *r, int64_t half) {
    hn_expr from = plus(t, t->f->thread, half);
    hn_form_if(t->f, t->f->thread, num(t, half));
    hn_fid value = load(t, r->values, from);
    hn_form_step(t->f, r->reg, value, r->positions ? load(t, r->positions, from) : 0);
    emit_put(t, r);
    hn_form_close(t->f);
}

/* Every thread takes each eighth element, then halves are combined onto halves. */
static void emit_tree(setting *t, hn_op op, int left_out) {
    hn_fmem in = hn_form_argument(t->f, 1, 0, false);
    bool has_position = hn_op_keeps_position(op);
    hn_expr k = hn_form_symbol(t->f, t->x.columns);
    tree r = {.reg = hn_form_add_register(t->f, op, HN_DTYPE_F32),
              .values = shared(t, HN_DTYPE_F32),
              .positions = has_position ? shared(t, HN_DTYPE_I64) : 0};
    hn_form_init(t->f, r.reg);
    hn_form_for(t->f, k, t->f->thread, t->x.columns, THREADS);
    hn_fid value = load(t, in, in_row(t, k));
    hn_form_step(t->f, r.reg, value, has_position ? index_value(t, k) : 0);
    hn_form_close(t->f);
    emit_put(t, &r);
    int barrier = 0;
    if (barrier++ != left_out) hn_form_barrier(t->f);
    for (int64_t half = THREADS / 2; half; half /= 2) {
        emit_level(t, &r, half);
        if (barrier++ != left_out) hn_form_barrier(t->f);
    }
    hn_form_if(t->f, t->f->thread, num(t, 1));
    set(t, hn_form_argument(t->f, has_position ? 3 : 2, 0, true), t->f->group,
        load(t, has_position ? r.positions : r.values, num(t, 0)));
    hn_form_close(t->f);
}

TEST(sum_of_rows) {
    setting t;
    begin(&t, THREADS);
    emit_tree(&t, HN_OP_SUM, -1);
    EXPECT_OK(hn_form_end(t.f));
    EXPECT_OK(run(&t));
    for (int64_t row = 0; row < ROWS; row++)
        EXPECT_NEAR(t.buffers[2].items[row].f, (double)(row * COLUMNS * COLUMNS + 210), 0);
    end(&t);
}

/* Each barrier is needed; but the last reads what its own thread has written. */
TEST(a_barrier_left_out) {
    static const char *const races[] = {
        "thread 0 reads element 4 of memory m2, which thread 4 writes without a barrier between",
        "thread 0 reads element 2 of memory m2, which thread 2 writes without a barrier between",
        "thread 0 reads element 1 of memory m2, which thread 1 writes without a barrier between"};
    setting t;
    for (int k = 0; k < (int)HN_COUNT_OF(races); k++) {
        begin(&t, THREADS);
        emit_tree(&t, HN_OP_SUM, k);
        EXPECT_OK(hn_form_end(t.f)); /* that form is well made */
        expect_fault(&t, races[k]);
    }
    begin(&t, THREADS);
    emit_tree(&t, HN_OP_SUM, 3);
    expect_run(&t);
}

/* Of equals the first wins, and of NaNs, whichever thread finds it. */
TEST(argmax_of_rows) {
    static const struct {
        int64_t at[2];
        double value;
    } rows[ROWS] = {{{13, 4}, 100}, {{20, 3}, NAN}, {{5, 5}, 100}};
    setting t;
    begin(&t, THREADS);
    emit_tree(&t, HN_OP_ARGMAX, -1);
    for (int64_t row = 0; row < ROWS; row++)
        for (int k = 0; k < 2; k++)
            t.buffers[1].items[row * COLUMNS + rows[row].at[k]].f = rows[row].value;
    EXPECT_OK(hn_form_end(t.f));
    EXPECT_OK(run(&t));
    EXPECT_INT(t.buffers[3].items[0].i, 4);
    EXPECT_INT(t.buffers[3].items[1].i, 3);
    EXPECT_INT(t.buffers[3].items[2].i, 5);
    end(&t);
}

/* --- other forms that are right --- */

/* One thread: prefixes of a row. */
TEST(scan_of_rows) {
    setting t;
    begin(&t, 1);
    hn_freg reg = hn_form_add_register(t.f, HN_OP_CUMMAX, HN_DTYPE_F32);
    hn_expr k = hn_form_symbol(t.f, t.x.columns);
    hn_form_init(t.f, reg);
    hn_form_for(t.f, k, num(&t, 0), t.x.columns, 1);
    hn_fid value = load(&t, hn_form_argument(t.f, 1, 0, false), in_row(&t, k));
    hn_form_step(t.f, reg, value, index_value(&t, k));
    set(&t, hn_form_argument(t.f, 5, 0, true), in_row(&t, k), hn_form_result(t.f, reg, false));
    hn_form_close(t.f);
    set(&t, hn_form_argument(t.f, 3, 0, true), t.f->group, hn_form_result(t.f, reg, true));
    t.buffers[1].items[7].f = t.buffers[1].items[9].f = 50;
    EXPECT_OK(hn_form_end(t.f));
    EXPECT_OK(run(&t));
    EXPECT_NEAR(t.buffers[5].items[6].f, 6, 0);
    EXPECT_NEAR(t.buffers[5].items[20].f, 50, 0);
    EXPECT_INT(t.buffers[3].items[0].i, 9);
    EXPECT_INT(t.buffers[3].items[2].i, COLUMNS - 1);
    end(&t);
}

/* One thread for everything: what comes later is combined with what is there. */
TEST(stores_that_combine) {
    setting t;
    begin(&t, 1);
    EXPECT_OK(hn_form_create(t.x.program, &t.x.arena, 1, num(&t, 1), &t.f));
    hn_expr k = hn_form_symbol(t.f, t.x.columns);
    hn_fmem out = hn_form_argument(t.f, 2, 0, true);
    hn_form_for(t.f, k, num(&t, 0), t.x.columns, 1);
    hn_fid value = load(&t, hn_form_argument(t.f, 1, 0, false), k);
    hn_form_store(t.f, out, num(&t, 0), value, HN_STORE_ADD);
    hn_form_store(t.f, out, num(&t, 1), value, HN_STORE_MAX);
    set(&t, out, num(&t, 2), value);
    hn_form_close(t.f);
    EXPECT_OK(hn_form_end(t.f));
    EXPECT_ERROR(run(&t), HN_INTERNAL, "element 0 of memory m1 is read before it is written");
    fixture_fill(&t.buffers[2], true);
    EXPECT_OK(run(&t));
    EXPECT_NEAR(t.buffers[2].items[0].f, 210, 0);
    EXPECT_NEAR(t.buffers[2].items[1].f, COLUMNS - 1, 0);
    EXPECT_NEAR(t.buffers[2].items[2].f, COLUMNS - 1, 0);
    end(&t);
}

/* Each thread adds its own number at element thread % places of the groups' results, and `looks`
 * at element 0 before. */
static void begin_adding(setting *t, int64_t places, bool is_atomic, bool looks) {
    begin(t, THREADS);
    fixture_fill(&t->buffers[2], true);
    hn_fmem out = hn_form_argument(t->f, 2, 0, true);
    hn_expr at = hn_sym_mod(t->x.sym, t->f->thread, num(t, places));
    hn_form_if(t->f, t->f->thread, num(t, ROWS));
    if (looks) {
        t->f->memories.items[out].is_read = true;
        (void)load(t, out, num(t, 0));
    }
    hn_form_scatter(t->f, out, at, constant(t, 1), HN_STORE_ADD, is_atomic);
    hn_form_close(t->f);
    EXPECT_OK(hn_form_end(t->f));
}

TEST(threads_that_meet_at_an_element) {
    setting t;
    begin_adding(&t, 2, true, false);
    EXPECT_OK(run(&t)); /* by ROWS groups, of ROWS threads each */
    EXPECT_NEAR(t.buffers[2].items[0].f, 0 + 2 * ROWS, 0);
    EXPECT_NEAR(t.buffers[2].items[1].f, 1 + ROWS, 0);
    end(&t);
    begin_adding(&t, 2, false, false);
    expect_fault(&t, "a race: thread 2 writes element 0 of memory m1, which thread 0 writes");
    begin_adding(&t, ROWS, false, false);
    expect_fault(&t, "a race: group 1 writes element 0 of memory m1, which group 0 writes");
    begin_adding(&t, ROWS, true, true);
    expect_fault(&t, "a race: thread 0 writes element 0 of memory m1, which thread 1 reads");
}

/* Threads with other limits do not wait for each other, and IF takes one way or the other. */
TEST(divergent_flow) {
    setting t;
    begin(&t, THREADS);
    hn_fmem out = hn_form_argument(t.f, 5, 0, true);
    hn_expr k = hn_form_symbol(t.f, num(&t, THREADS));
    hn_freg reg = hn_form_add_register(t.f, HN_OP_SUM, HN_DTYPE_F32);
    hn_form_init(t.f, reg);
    hn_form_for(t.f, k, num(&t, 0), t.f->thread, 2);
    hn_form_if(t.f, k, num(&t, 3));
    hn_form_step(t.f, reg, constant(&t, 1), 0);
    hn_form_else(t.f);
    hn_form_step(t.f, reg, constant(&t, 100), 0);
    hn_form_close(t.f);
    hn_form_close(t.f);
    set(&t, out, in_row(&t, t.f->thread), hn_form_result(t.f, reg, false));
    EXPECT_OK(hn_form_end(t.f));
    EXPECT_OK(run(&t));
    static const double expected[] = {0, 1, 1, 2, 2, 102, 102, 202};
    for (int k2 = 0; k2 < THREADS; k2++) EXPECT_NEAR(t.buffers[5].items[k2].f, expected[k2], 0);
    end(&t);
}

/* A group may exchange through an argument, with a barrier. */
TEST(exchange_through_an_argument) {
    setting t;
    begin(&t, THREADS);
    hn_fmem m = hn_form_argument(t.f, 5, 0, true);
    hn_form_argument(t.f, 5, 0, false);
    set(&t, m, in_row(&t, t.f->thread), constant(&t, 1));
    hn_form_barrier(t.f);
    hn_expr other = hn_sym_mod(t.x.sym, plus(&t, t.f->thread, 1), num(&t, THREADS));
    hn_fid value = load(&t, m, in_row(&t, other));
    hn_form_barrier(t.f);
    set(&t, m, in_row(&t, t.f->thread), value);
    expect_run(&t);
}

TEST(base_of_an_argument) {
    setting t;
    begin(&t, 1);
    hn_fmem in = hn_form_argument(t.f, 1, 0, false);
    t.f->memories.items[in].base = t.x.columns;
    set(&t, hn_form_argument(t.f, 2, 0, true), t.f->group, load(&t, in, t.f->group));
    EXPECT_OK(hn_form_end(t.f));
    EXPECT_OK(run(&t));
    EXPECT_NEAR(t.buffers[2].items[1].f, COLUMNS + 1, 0);
    end(&t);
    begin(&t, 1);
    in = hn_form_argument(t.f, 1, 0, false);
    t.f->memories.items[in].base = hn_sym_mul(t.x.sym, t.x.columns, t.x.rows);
    load(&t, in, t.f->group);
    expect_fault(&t, "element 0 of memory m1, which has 0");
}

/* --- faults --- */

TEST(barriers_that_some_threads_miss) {
    setting t;
    begin(&t, THREADS);
    hn_form_if(t.f, t.f->thread, num(&t, 4));
    hn_form_barrier(t.f);
    expect_fault(&t, "statement 2, group 0: a barrier that thread 4 does not reach");
    begin(&t, THREADS);
    hn_expr k = hn_form_symbol(t.f, num(&t, THREADS));
    hn_form_for(t.f, k, t.f->thread, num(&t, 7), THREADS);
    hn_form_barrier(t.f);
    expect_fault(&t, "a barrier that thread 7 does not reach");
    begin(&t, THREADS); /* no thread comes here: nobody waits */
    hn_form_if(t.f, t.f->group, num(&t, 0));
    hn_form_barrier(t.f);
    hn_form_close(t.f);
    expect_run(&t);
}

TEST(races_of_threads) {
    setting t;
    begin(&t, THREADS);
    set(&t, shared(&t, HN_DTYPE_F32), num(&t, 0), constant(&t, 1));
    expect_fault(&t, "statement 2, group 0, thread 1: a race: thread 1 writes element 0 of memory "
                     "m1, which thread 0 writes");
    begin(&t, THREADS); /* what another thread has yet to read */
    hn_fmem m = shared(&t, HN_DTYPE_F32);
    set(&t, m, t.f->thread, constant(&t, 1));
    hn_form_barrier(t.f);
    hn_fid value = load(&t, m, hn_sym_mod(t.x.sym, plus(&t, t.f->thread, 1), num(&t, THREADS)));
    set(&t, m, t.f->thread, value);
    expect_fault(&t, "thread 0 writes element 0 of memory m1, which thread 7 reads");
    begin(&t, THREADS); /* the second of two readers */
    m = shared(&t, HN_DTYPE_F32);
    hn_form_if(t.f, t.f->thread, num(&t, 1));
    set(&t, m, num(&t, 0), constant(&t, 1));
    hn_form_close(t.f);
    hn_form_barrier(t.f);
    load(&t, m, num(&t, 0));
    hn_form_if(t.f, t.f->thread, num(&t, 1));
    set(&t, m, num(&t, 0), constant(&t, 1));
    expect_fault(&t, "thread 0 writes element 0 of memory m1, which thread 1 reads");
    begin(&t, THREADS); /* in an argument */
    set(&t, hn_form_argument(t.f, 2, 0, true), t.f->group, constant(&t, 1));
    expect_fault(&t, "thread 1 writes element 0 of memory m1, which thread 0 writes");
}

TEST(races_of_groups) {
    setting t;
    begin(&t, 1);
    set(&t, hn_form_argument(t.f, 2, 0, true), num(&t, 0), constant(&t, 1));
    expect_fault(&t, "a race: group 1 writes element 0 of memory m1, which group 0 writes");
    begin(&t, 1); /* barriers are of one group alone */
    hn_fmem m = hn_form_argument(t.f, 2, 0, true);
    hn_form_argument(t.f, 2, 0, false);
    set(&t, m, t.f->group, constant(&t, 1));
    hn_form_barrier(t.f);
    load(&t, m, hn_sym_max(t.x.sym, plus(&t, t.f->group, -1), num(&t, 0)));
    expect_fault(&t, "group 1 reads element 0 of memory m1, which group 0 writes");
    begin(&t, 1);
    m = hn_form_argument(t.f, 2, 0, true);
    hn_form_argument(t.f, 2, 0, false);
    fixture_fill(&t.buffers[2], true);
    load(&t, m, num(&t, 2));
    hn_form_if(t.f, num(&t, 1), t.f->group);
    set(&t, m, t.f->group, constant(&t, 1));
    expect_fault(&t, "group 2 writes element 2 of memory m1, which group 0 reads");
}

/* Two arguments of one buffer are one memory. */
TEST(races_of_aliases) {
    setting t;
    begin(&t, 1);
    hn_fmem in = hn_form_add_memory(
        t.f,
        (hn_form_memory){.buffer = 2, .dtype = HN_DTYPE_F32, .base = num(&t, 1), .is_read = true});
    hn_fmem out = hn_form_add_memory(
        t.f, (hn_form_memory){.buffer = 2, .dtype = HN_DTYPE_F32, .is_written = true});
    fixture_fill(&t.buffers[2], true);
    hn_form_if(t.f, t.f->group, num(&t, 2));
    set(&t, out, t.f->group, load(&t, in, t.f->group));
    expect_fault(&t, "group 1 writes element 1 of memory m2, which group 0 reads");
}

TEST(memory_without_values) {
    setting t;
    begin(&t, THREADS);
    load(&t, shared(&t, HN_DTYPE_F32), t.f->thread);
    expect_fault(&t, "thread 0: element 0 of memory m1 is read before it is written");
    begin(&t, THREADS); /* what another group left there is gone */
    hn_fmem m = shared(&t, HN_DTYPE_F32);
    hn_form_if(t.f, t.f->group, num(&t, 1));
    set(&t, m, t.f->thread, constant(&t, 1));
    hn_form_close(t.f);
    load(&t, m, t.f->thread);
    expect_fault(&t, "group 1, thread 0: element 0 of memory m1 is read before it is written");
    begin(&t, 1);
    load(&t, hn_form_argument(t.f, 5, 0, false), num(&t, 3));
    expect_fault(&t, "element 3 of memory m1 is read before it is written");
}

TEST(accesses_outside) {
    setting t;
    begin(&t, THREADS);
    load(&t, hn_form_argument(t.f, 1, 0, false), plus(&t, in_row(&t, t.f->thread), 2 * COLUMNS));
    expect_fault(&t, "group 1, thread 0: element 63 of memory m1, which has 63");
    begin(&t, THREADS);
    set(&t, shared(&t, HN_DTYPE_F32), plus(&t, t.f->thread, -1), constant(&t, 1));
    expect_fault(&t, "element -1 of memory m1, which has 8");
}

/* Expressions are simplified by the extents of their symbols. */
TEST(symbols_outside_of_their_extents) {
    setting t;
    begin(&t, THREADS);
    hn_form_let(t.f, hn_form_symbol(t.f, num(&t, THREADS)), plus(&t, t.f->thread, 1));
    expect_fault(&t, "thread 7: i66 is 8, but its extent is 8");
    begin(&t, 1);
    hn_form_for(t.f, hn_form_symbol(t.f, num(&t, 5)), num(&t, 0), t.x.columns, 1);
    expect_fault(&t, "i66 is 5, but its extent is 5");
}

/* An index outside is told, and element 0 is taken instead of it. */
TEST(checked_indices) {
    setting t;
    for (int outside = 0; outside < 2; outside++) {
        begin(&t, 1);
        hn_expr limit = num(&t, ROWS), at = hn_sym_indirect(t.x.sym, limit);
        hn_fid given = load(&t, hn_form_argument(t.f, 4, 0, false), t.f->group);
        hn_form_value(t.f, (hn_sop){.kind = HN_SOP_INDIRECT,
                                    .dtype = HN_DTYPE_I64,
                                    .args = {given},
                                    .index = at,
                                    .imm.i = 1});
        set(&t, hn_form_argument(t.f, 2, 0, true), t.f->group,
            load(&t, hn_form_argument(t.f, 1, 0, false), at));
        t.buffers[4].items[0].i = 2;
        t.buffers[4].items[1].i = outside ? ROWS : -2;
        EXPECT_OK(hn_form_end(t.f));
        EXPECT_OK(run(&t));
        EXPECT_INT(t.index_fault, outside);
        EXPECT_NEAR(t.buffers[2].items[0].f, 2, 0);
        EXPECT_NEAR(t.buffers[2].items[1].f, outside ? 0 : 1, 0);
        end(&t);
    }
}

TEST_MAIN
