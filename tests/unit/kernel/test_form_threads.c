/* test_form_threads.c: what the threads of a group do together, in forms written as text: rows that
 * combine registers, and registers that hold several elements. */
#include "base/compiler.h"
#include "unit/kernel/form_fixture.h"

/* --- refused --- */

static hn_status parse(fixture *x, const char *text, hn_form **out) {
    return hn_form_parse(x->program, &x->arena, hn_str_of(text), out);
}

static void expect_refused(const char *text, const char *message) {
    fixture x;
    hn_form *f;
    EXPECT_OK(fixture_init(&x));
    EXPECT_ERROR(parse(&x, text, &f), HN_INVALID_ARGUMENT, message);
    fixture_deinit(&x);
}

#define ROWS(text)                                                                                 \
    "form (group i64 < s0; thread i65 < 64) {\n"                                                   \
    " r1 : sum f32 across\n r2 : cumsum f32 across\n init r1 init r2\n" text " }"

TEST(rows_that_are_refused) {
    static const struct {
        const char *text, *message;
    } list[] = {
        {ROWS("across r1 across r2"), "a row whose width or pitch is no power of two"},
        {ROWS("across r1 width 0"), "a row whose width or pitch is no power of two"},
        {ROWS("across r1 width 24"), "a row whose width or pitch is no power of two"},
        {ROWS("across r1 width 4 pitch 3"), "a row whose width or pitch is no power of two"},
        {ROWS("across r1 width 128"), "a group that is not made of rows of 128 threads"},
        {ROWS("across r1 width 32 pitch 4"), "a group that is not made of rows of 32 threads"},
        {ROWS("across r2 width 32"), "r2 is no reduction: the order of its steps counts"},
        {ROWS("across r3 width 32"), "there is no register r3"},
        {ROWS("if i65 < 3 { across r1 width 32 }"),
         "an across within statement 3, whose limits differ between threads"},
        {"form (group i64 < 1; thread i65 < 64) { r1 : sum f32 across\n across r1 width 64 }",
         "r1 is not initialised here"},
        {"form (group i64 < 1; thread i65 < 64) { r1 : sum f32\n init r1 across r1 width 64 }",
         "its lanes are combined, but it is not marked as across"},
        {"form (range i64 to i65 of s0; lanes 8; grain 5) { r1 : sum f32 across\n init r1\n"
         " across r1 width 8 }",
         "threads of a row in a form of ranges"},
        {ROWS("before r2 all r2 width 64"), "r2 is both registers"},
        {ROWS("before r2 all r1 width 64"), "r2 and r1 combine in different ways"},
        {ROWS("before r2 all r4 width 64"), "there is no register r4"},
        {ROWS("before r1 all r2 width 48"), "a row whose width or pitch is no power of two"},
        {ROWS("before r1 all r2 width 4 pitch 3"), "a row whose width or pitch is no power of two"},
        {ROWS("before r1 all r2 width 32 pitch 4"),
         "a group that is not made of rows of 32 threads"},
        {ROWS("before r2 width 48"), "expected 'all'"},
        {"form (group i64 < 1; thread i65 < 64) { r1 : sum f32\n r2 : sum f32\n init r1 init r2\n"
         " if i65 < 3 { before r1 all r2 width 64 } }",
         "a before within statement 3, whose limits differ between threads"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(list); k++) expect_refused(list[k].text, list[k].message);
}

#define STORES(text)                                                                               \
    "form (group i64 < s0; thread i65 < 64) {\n m1 : argument b2 f32 read write\n"                 \
    " m2 : shared f32[64] read write\n %1 = const 1.0 : f32\n" text " }"

TEST(stores_of_several_threads) {
    static const struct {
        const char *text, *message;
    } list[] = {
        {STORES("m1[i65] += %1"), "a store that combines in a form of more than one thread"},
        {STORES("m1[i65] = %1 apart"), "a store that is apart, but is atomic or does not combine"},
        {STORES("m1[i65] += %1 apart atomic"),
         "a store that is apart, but is atomic or does not combine"},
        {STORES("m2[i65] += %1 atomic"), "a store that is atomic to a memory that is no argument"},
        {STORES("m1[i65] max= %1 atomic apart"), "expected a statement"},
        {"form (range i64 to i65 of s0; lanes 8; grain 5) {\n m1 : argument b2 f32 read write\n"
         " %1 = const 1.0 : f32\n m1[i64] += %1 atomic }",
         "a store that is apart or atomic in a form of ranges"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(list); k++) expect_refused(list[k].text, list[k].message);
    fixture x;
    hn_form *f;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(parse(&x, STORES("m2[i65] += %1 apart m1[i65] min= %1 atomic"), &f));
    EXPECT(f->stmts.items[2].is_apart && !f->stmts.items[2].is_atomic);
    EXPECT(!f->stmts.items[3].is_apart && f->stmts.items[3].is_atomic);
    f->stmts.items[1].is_atomic = true;
    EXPECT_ERROR(hn_form_verify(f), HN_INTERNAL, "it is apart or atomic, but is no store");
    fixture_deinit(&x);
}

#define BLOCKS(blocks, text)                                                                       \
    "form (group i64 < s0; thread i65 < 64; blocks " blocks ") {\n" text " }"

TEST(groups_of_several_blocks_that_are_refused) {
    static const struct {
        const char *text, *message;
    } list[] = {
        {BLOCKS("0", ""), "a group is 0 blocks, which is no power of two up to 8"},
        {BLOCKS("3", ""), "a group is 3 blocks, which is no power of two up to 8"},
        {BLOCKS("16", ""), "a group is 16 blocks, which is no power of two up to 8"},
        {"form (group i64 < s0; thread i65 < 33; blocks 2) { }",
         "33 threads do not make 2 equal blocks"},
        {BLOCKS("2", " m1 : shared f32[64]\n"),
         "m1 is shared memory, which a group of several blocks does not have"},
        {BLOCKS("2", " m1 : scratch f32[64]\n"),
         "m1 is scratch memory, which a group of several blocks does not have"},
        {BLOCKS("2", " r1 : sum f32 across\n init r1 across r1 width 32"),
         "a row of 32 threads, but a group of several blocks is one row"},
        {BLOCKS("2", " r1 : sum f32\n r2 : sum f32\n init r1 init r2 before r1 all r2 width 64"),
         "a before, but the group is several blocks"},
        {BLOCKS("2; wide", ""), "expected 'narrow'"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(list); k++) expect_refused(list[k].text, list[k].message);
}

TEST(blocks_are_printed_and_read) {
    static const char *const heads[] = {"; blocks 4", "; blocks 2; narrow", "; narrow", ""};
    for (size_t k = 0; k < HN_COUNT_OF(heads); k++) {
        fixture x;
        hn_form *f;
        hn_strbuf out;
        char text[256];
        EXPECT_OK(fixture_init(&x));
        hn_strbuf_init(&out);
        snprintf(text, sizeof text,
                 "form (group i64 < s0; thread i65 < 64%s) {\n  r1 : sum f32 across\n"
                 "  init r1\n  across r1 width 64\n}\n",
                 heads[k]);
        EXPECT_OK(parse(&x, text, &f));
        hn_form_print(f, &out);
        EXPECT_STR(out.ptr, text);
        hn_strbuf_deinit(&out);
        fixture_deinit(&x);
    }
}

/* --- run --- */

enum { THREADS = 64, GROUPS = 2, ELEMS = THREADS * GROUPS };

/* b1 is 0, 1, 2...; s0 groups of s1 elements. */
typedef struct setting {
    fixture x;
    hn_ref_buffer buffers[7];
} setting;

static void begin(setting *t) {
    static const int64_t elems[] = {0, ELEMS, ELEMS, ELEMS, GROUPS, ELEMS, GROUPS};
    *t = (setting){0};
    EXPECT_OK(fixture_init(&t->x));
    for (hn_buf b = 1; b < HN_COUNT_OF(elems); b++)
        EXPECT_OK(hn_ref_buffer_init(&t->x.arena, t->x.program->buffers.items[b].dtype, elems[b],
                                     &t->buffers[b]));
    fixture_fill(&t->buffers[1], true);
}

static hn_status run(setting *t, const char *text) {
    const hn_expr symbols[] = {t->x.rows, t->x.columns};
    const int64_t values[] = {GROUPS, THREADS};
    bool index_fault;
    hn_form *f;
    HN_TRY(parse(&t->x, text, &f));
    return hn_form_run(f, &(hn_ref_sizes){symbols, values, 2}, t->buffers, &index_fault);
}

/* Every thread has the sum and the place of the largest of its row, whatever row that is. */
TEST(every_thread_has_the_result) {
    for (uint32_t width = 1; width <= THREADS; width *= 2)
        for (uint32_t pitch = 1; pitch * width <= THREADS; pitch *= 2) {
            setting t;
            char text[1024];
            begin(&t);
            snprintf(text, sizeof text,
                     "form (group i64 < s0; thread i65 < 64) {\n m1 : argument b1 f32 read\n"
                     " m2 : argument b2 f32 write\n m3 : argument b3 i64 write\n"
                     " r1 : sum f32 across\n r2 : argmax f32 across\n init r1 init r2\n"
                     " %%3 = m1[64*i64 + i65] : f32\n %%4 = index(i65) : i64\n step r1 %%3\n"
                     " step r2 %%3 at %%4\n across r1 width %u pitch %u\n"
                     " across r2 width %u pitch %u\n %%9 = result r1 : f32\n"
                     " %%10 = position r2 : i64\n m2[64*i64 + i65] = %%9\n"
                     " m3[64*i64 + i65] = %%10\n}",
                     width, pitch, width, pitch);
            EXPECT_OK(run(&t, text));
            for (int64_t at = 0; at < ELEMS; at++) {
                double sum = 0;
                int64_t first = at - at / pitch % width * pitch, last = first + (width - 1) * pitch;
                for (int64_t k = first; k <= last; k += pitch) sum += (double)k;
                EXPECT_NEAR(t.buffers[2].items[at].f, sum, 0);
                EXPECT_INT(t.buffers[3].items[at].i, last % THREADS);
            }
            fixture_deinit(&t.x);
        }
}

/* What the threads of its row before it have, behind what all had before; twice. */
TEST(every_thread_has_its_prefix) {
    for (uint32_t width = 1; width <= THREADS; width *= 4)
        for (uint32_t pitch = 1; pitch * width <= THREADS; pitch *= 2) {
            setting t;
            char text[1024];
            begin(&t);
            snprintf(text, sizeof text,
                     "form (group i64 < s0; thread i65 < 64) {\n m1 : argument b1 f32 read\n"
                     " m2 : argument b2 f32 write\n m3 : argument b5 f32 write\n r1 : cumsum f32\n"
                     " r2 : cumsum f32\n init r1 init r2\n %%3 = m1[64*i64 + i65] : f32\n"
                     " for i66 in [0, 2) { init r1 step r1 %%3\n"
                     " before r1 all r2 width %u pitch %u }\n"
                     " %%8 = result r1 : f32\n %%9 = result r2 : f32\n m2[64*i64 + i65] = %%8\n"
                     " m3[64*i64 + i65] = %%9\n}",
                     width, pitch);
            EXPECT_OK(run(&t, text));
            for (int64_t at = 0; at < ELEMS; at++) {
                double before = 0, all = 0;
                const int64_t row = width * pitch, first = at - at % row + at % pitch;
                for (int64_t k = first; k < first + row; k += pitch) all += (double)k;
                for (int64_t k = first; k < at; k += pitch) before += (double)k;
                EXPECT_NEAR(t.buffers[2].items[at].f, all + before, 0);
                EXPECT_NEAR(t.buffers[5].items[at].f, 2 * all, 0);
            }
            fixture_deinit(&t.x);
        }
}

/* An across lets threads see registers, and nothing else. */
TEST(an_across_is_no_barrier) {
    setting t;
    begin(&t);
    EXPECT_ERROR(run(&t,
                     "form (group i64 < s0; thread i65 < 64) {\n m1 : shared i64[64] read write\n"
                     " r1 : sum i64 across\n init r1\n %2 = index(i65) : i64\n m1[i65] = %2\n"
                     " across r1 width 64\n %5 = m1[63 - i65] : i64\n}"),
                 HN_INTERNAL, "a race: thread 0 reads element 63 of memory m1");
    fixture_deinit(&t.x);
}

/* The verifier asks what it can prove; where limits come from data nobody else would notice. */
TEST(an_across_that_some_threads_miss) {
    setting t;
    hn_form *f;
    bool index_fault;
    begin(&t);
    EXPECT_OK(parse(&t.x,
                    "form (group i64 < 1; thread i65 < 64) {\n r1 : sum f32 across\n"
                    " init r1\n if i64 < 1 { across r1 width 64 }\n}",
                    &f));
    f->stmts.items[2].begin = f->thread;
    EXPECT_ERROR(hn_form_run(f, &(hn_ref_sizes){0}, t.buffers, &index_fault), HN_INTERNAL,
                 "an across that thread 1 does not reach");
    fixture_deinit(&t.x);
}

/* What goes through shared memory, by the warp: nothing, one of each row of a warp, all. */
TEST(what_is_exchanged) {
    EXPECT_INT(hn_form_exchanged(256, 32, 32, 1), 0);
    EXPECT_INT(hn_form_exchanged(256, 32, 8, 4), 0);
    EXPECT_INT(hn_form_exchanged(256, 32, 64, 1), 8);
    EXPECT_INT(hn_form_exchanged(256, 32, 64, 4), 32);
    EXPECT_INT(hn_form_exchanged(256, 32, 8, 32), 256);
    EXPECT_INT(hn_form_exchanged(256, 1, 2, 1), 256);
    EXPECT_INT(hn_form_exchanged(256, 1, 1, 1), 0);
}

/* --- indices of 32 bits --- */

TEST(narrow_forms) {
    static const struct {
        const char *text, *message;
    } list[] = {
        {"form (group i64 < s0; thread i65 < 4; narrow) {\n m1 : argument b1 f32 read\n"
         " for i66 in [i65, s1) step 4 { %2 = m1[s1*i64 + i66] : f32 } }",
         NULL},
        {"form (group i64 < s0; thread i65 < 4; narrow) {\n m1 : argument b1 f32 read\n"
         " %1 = m1[Mod(50000*s1*i64, 100003)] : f32 }",
         "it is narrow, but an index may need more than 32 bits"},
        {"form (group i64 < s0; thread i65 < 4; narrow) {\n"
         " for i66 in [0, s1) step 2147450000 { } }",
         "it is narrow, but an index may need more than 32 bits"},
        {"form (group i64 < s0; thread i65 < 4; narrow) {\n m1 : scratch f32[4] }",
         "it is narrow, but an index may need more than 32 bits"},
        {"form (group i64 < 4294967296; thread i65 < 4; narrow) { }",
         "it is narrow, but an index may need more than 32 bits"},
        {"form (group i64 < s0; thread i65 < 4; long) { }", "expected 'narrow'"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(list); k++) {
        fixture x;
        hn_form *f;
        EXPECT_OK(fixture_init(&x));
        if (list[k].message)
            EXPECT_ERROR(parse(&x, list[k].text, &f), HN_INVALID_ARGUMENT, list[k].message);
        else EXPECT_OK(parse(&x, list[k].text, &f));
        fixture_deinit(&x);
    }
}

/* --- groups at once --- */

TEST(groups_that_run_at_once) {
    static const char *const texts[] = {
        "form (group i64 < s0; thread i65 < 4; resident 3) {\n}\n",
        "form (group i64 < s0; thread i65 < 4; resident 3; narrow) {\n}\n"};
    for (size_t k = 0; k < HN_COUNT_OF(texts); k++) {
        fixture x;
        hn_form *f = NULL;
        hn_strbuf again;
        hn_strbuf_init(&again);
        EXPECT_OK(fixture_init(&x));
        EXPECT_OK(parse(&x, texts[k], &f));
        if (f) EXPECT_INT(f->resident, 3);
        if (f) hn_form_print(f, &again);
        EXPECT_STR(again.ptr, texts[k]);
        hn_strbuf_deinit(&again);
        fixture_deinit(&x);
    }
}

/* --- registers of a thread --- */

#define MOVES(text)                                                                                \
    "form (group i64 < s0; thread i65 < 64) {\n"                                                   \
    " m1 : argument b1 f32 read\n m2 : argument b2 f32 write\n m3 : private f32[4] read write\n"   \
    " m4 : private f64[4]\n m5 : shared f32[64]\n" text " }"

TEST(moves_that_are_refused) {
    static const struct {
        const char *text, *message;
    } list[] = {
        {MOVES("move m3[0] = m1[0] count 3"), "the count is no power of two up to 16"},
        {MOVES("move m3[0] = m1[0] count 32"), "the count is no power of two up to 16"},
        {MOVES("move m3[0] = m1[0]"), "expected 'count'"},
        {MOVES("move m4[0] = m1[0] count 4"), "m4 has another dtype than m1"},
        {MOVES("move m3[0] = m3[0] count 4"), "one of the two memories is private"},
        {MOVES("move m5[0] = m1[0] count 4"), "one of the two memories is private"},
        {MOVES("move m3[i65] = m1[0] count 4"),
         "the index of m3 uses i65, which is not of an unrolled loop"},
        {MOVES("%1 = m3[i64] : f32"), "the index of m3 uses i64, which is not of an unrolled loop"},
        {MOVES("for i66 in [0, 4) { %2 = m3[i66] : f32 }"),
         "the index of m3 uses i66, which is not of an unrolled loop"},
        {MOVES("for i66 in [0, 4) unroll 2 { %2 = m3[i66] : f32 }"),
         "the index of m3 uses i66, which is not of an unrolled loop"},
        {MOVES("for i66 in [0, s0) unroll 4 { %2 = m3[i66] : f32 }"),
         "the index of m3 uses i66, which is not of an unrolled loop"},
        {"form (group i64 < 1; thread i65 < 1) { m1 : private f32[s0] }",
         "it is private, but the number of its elements is no number above 0"},
        {"form (group i64 < 1; thread i65 < 1) { m1 : private f32[0] }",
         "it is private, but the number of its elements is no number above 0"},
        {"form (group i64 < 1; thread i65 < 1) { m1 : private f32[4] padded }",
         "it is padded, but private"},
        {"form (range i64 to i65 of s0; lanes 8; grain 5) { m1 : private f32[4] }",
         "it is private, but in a form of ranges"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(list); k++) expect_refused(list[k].text, list[k].message);
}

#define STAGES(text)                                                                               \
    "form (group i64 < s0; thread i65 < 16) {\n m1 : argument b1 f32 read\n"                       \
    " m2 : argument b2 f32 write\n m3 : staged f32[128] read write\n"                              \
    " m4 : private f32[4] read write\n" text "\n}"
#define STAGE(at) "move m3[4*i65 + " at "] = m1[64*i64 + 4*i65] count 4\n"

TEST(stages_that_are_refused) {
    static const struct {
        const char *text, *message;
    } list[] = {
        {STAGES("move m3[0] = m1[0] count 2"), "it is no move of 16 bytes, but of staged memory"},
        {STAGES("move m3[0] = m4[0] count 4"), "staged memory gets what is in arguments"},
        {STAGES("move m2[0] = m3[0] count 4"), "private memory gets it from there"},
        {STAGES("%1 = m3[0] : f32"), "only moves reach staged memory"},
        {STAGES("await 3"), "it leaves 3 batches under way"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(list); k++) expect_refused(list[k].text, list[k].message);
}

/* What is on its way is there behind an await, or behind the next one. */
TEST(stages_arrive_behind_an_await) {
    static const struct {
        const char *text;
        bool arrives;
    } list[] = {
        {STAGES(STAGE("0") "await 0\nmove m4[0] = m3[4*i65] count 4"), true},
        {STAGES(STAGE("0") "move m4[0] = m3[4*i65] count 4"), false},
        {STAGES(STAGE("0") "await 1\nmove m4[0] = m3[4*i65] count 4"), false},
        {STAGES(STAGE("0") "await 1\n" STAGE("64") "await 1\nmove m4[0] = m3[4*i65] count 4"),
         true},
        {STAGES("await 0\n" STAGE("0") "move m4[0] = m3[4*i65] count 4"), false},
        {STAGES(STAGE("0") "await 0\nmove m4[0] = m3[60 - 4*i65] count 4"), false}, /* a race */
    };
    for (size_t k = 0; k < HN_COUNT_OF(list); k++) {
        setting t;
        begin(&t);
        char text[1024];
        snprintf(text, sizeof text, "%.*s move m2[64*i64 + 4*i65] = m4[0] count 4\n}",
                 (int)strlen(list[k].text) - 1, list[k].text);
        hn_status status = run(&t, text);
        if (list[k].arrives) EXPECT_OK(status);
        else EXPECT_ERROR(status, HN_INTERNAL, k < 5 ? "which is on its way" : "a race");
        for (int64_t at = 0; at < ELEMS && list[k].arrives; at++)
            EXPECT_NEAR(t.buffers[2].items[at].f, (double)at, 0);
        fixture_deinit(&t.x);
    }
}

/* Every thread turns its four elements around. */
TEST(registers_are_of_one_thread) {
    setting t;
    begin(&t);
    EXPECT_OK(run(&t, "form (group i64 < s0; thread i65 < 16) {\n m1 : argument b1 f32 read\n"
                      " m2 : argument b2 f32 write\n m3 : private f32[4] read write\n"
                      " m4 : private f32[4] read write\n"
                      " move m3[0] = m1[64*i64 + 4*i65] count 4\n"
                      " for i66 in [0, 4) unroll 4 { %3 = m3[i66] : f32\n m4[3 - i66] = %3 }\n"
                      " for i66 in [0, 4) step 2 unroll 2 {"
                      "  move m2[64*i64 + 4*i65 + i66] = m4[i66] count 2 }\n}"));
    for (int64_t at = 0; at < ELEMS; at++)
        EXPECT_NEAR(t.buffers[2].items[at].f, (double)(at - at % 4 + 3 - at % 4), 0);
    fixture_deinit(&t.x);
}

TEST(moves_that_fail) {
#define MOVE_OF(text)                                                                              \
    "form (group i64 < s0; thread i65 < 16) {\n m1 : argument b1 f32 read\n"                       \
    " m2 : private f32[4] read write\n" text "\n}"
    static const struct {
        const char *text, *message;
    } list[] = {
        {MOVE_OF("move m2[0] = m1[i65] count 4 %2 = m2[0] : f32"),
         "thread 1: a move at element 1 of memory m1 is not aligned"},
        {MOVE_OF("move m2[1] = m1[4*i65] count 2 %2 = m2[1] : f32"),
         "a move at element 1 of memory m2 is not aligned"},
        {MOVE_OF("move m2[0] = m1[124 + 4*i65] count 4 %2 = m2[0] : f32"),
         "thread 1: element 131 of memory m1, which has 128"},
        {MOVE_OF("move m2[0] = m1[4*i65] count 2 %2 = m2[3] : f32"),
         "element 3 of memory m2 is read before it is written"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(list); k++) {
        setting t;
        begin(&t);
        EXPECT_ERROR(run(&t, list[k].text), HN_INTERNAL, list[k].message);
        fixture_deinit(&t.x);
    }
}

TEST_MAIN
