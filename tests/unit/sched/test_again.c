/* test_again.c: values that are computed again behind the peak of memory. */
#include "kernel/facts.h"
#include "unit/harness.h"

typedef struct run {
    hn_arena arena, scratch;
    hn_program *program;
    hn_schedule schedule;
} run;

static void start(run *r, const char *statements, hn_limit *limit) {
    hn_sym *sym;
    hn_strbuf text;
    *r = (run){.program = NULL};
    hn_arena_init(&r->arena);
    hn_arena_init(&r->scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "program {\n%s}\n", statements);
    hn_status status = hn_sym_create(&r->arena, &sym);
    if (!status) status = hn_program_parse(&r->arena, sym, hn_strbuf_str(&text), &r->program);
    const hn_sched_options options = {
        .threads = 2, .limits = &hn_cpu_facts_common.limits, .limit = limit};
    if (!status)
        status = hn_schedule_program(r->program, &options, &r->arena, &r->scratch, &r->schedule);
    EXPECT_OK(status);
    hn_strbuf_deinit(&text);
}

static void stop(run *r) {
    hn_arena_deinit(&r->scratch);
    hn_arena_deinit(&r->arena);
}

static bool reads(const hn_kernel_phase *phase, hn_buf b) {
    for (hn_sid k = 1; k < phase->body.count; k++)
        if (phase->body.items[k].kind == HN_SOP_LOAD && phase->body.items[k].buffer == b)
            return true;
    return false;
}

static bool writes(const hn_kernel_phase *phase, hn_buf b) {
    for (uint32_t k = 0; k < phase->stores.count; k++)
        if (phase->stores.items[k].buffer == b) return true;
    return false;
}

/* The steps in their order: a call is "call", a kernel what it reads and writes of `buffers`, as in
 * "-2 +3". */
static const char *steps_of(const run *r, const hn_buf *buffers, char out[128]) {
    size_t at = 0;
    out[0] = 0;
    for (uint32_t k = 0; k < r->schedule.steps.count; k++) {
        const hn_step *step = &r->schedule.steps.items[k];
        at +=
            (size_t)snprintf(out + at, 128 - at, "%s%s", k ? ", " : "", step->kernel ? "" : "call");
        for (const hn_buf *b = buffers; *b && step->kernel; b++) {
            bool is_read = false, is_written = false;
            for (uint32_t f = 0; f < step->kernel->phases.count; f++) {
                is_read |= reads(&step->kernel->phases.items[f], *b);
                is_written |= writes(&step->kernel->phases.items[f], *b);
            }
            at += (size_t)snprintf(out + at, 128 - at, is_read ? "-%u" : "", *b);
            at += (size_t)snprintf(out + at, 128 - at, is_written ? "+%u" : "", *b);
        }
    }
    return out;
}

#define EXPECT_STEPS(statements, limit, expected, ...)                                             \
    do {                                                                                           \
        run r;                                                                                     \
        char steps[128];                                                                           \
        start(&r, statements, limit);                                                              \
        EXPECT_STR(steps_of(&r, (const hn_buf[]){__VA_ARGS__, 0}, steps), expected);               \
        stop(&r);                                                                                  \
    } while (0)

/* b2 = b1 @ b1 is alive to the end, as a forward pass leaves it; b3 is made of it in the kernel of
 * b4, which a product reads. Then there is the peak, the product b5; and b7 reads b2 and b3. */
#define MATMUL(out, a, b)                                                                            \
    "matmul(out " out "[0], " a "[0], " b "[0], none, none) params "                                 \
    "[1, 1, 1, 1, 1024, 1024, 1024, 0, 0, 0, 0, 1024, 1, 0, 0, 0, 0, 1024, 1, 0, 0, 0, 0, 1024, 1, " \
    "0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]\n"
#define BUFFER(name, kind) name " : " kind " f32[1024, 1024]"
#define TEMP(name)         BUFFER(name, "temp") " extent 1048576\n"
#define BUFFERS                                                                                    \
    BUFFER("b1", "input 0")                                                                        \
    "\n" TEMP("b2") TEMP("b3") TEMP("b4") TEMP("b5") TEMP("b6")                                    \
        BUFFER("b7", "output") " extent 1048576\n" BUFFER("b8", "output") " extent 1048576\n"
#define POINTS      "pointwise (i0 < 1024, i1 < 1024; ) {\n"
#define LOAD(v, b)  "  %" v " = " b "[1024*i0 + i1] : f32\n"
#define STORE(b, v) "  " b "[1024*i0 + i1] = %" v "\n}\n"
#define LOAD0       "  %1 = b1[i0] : f32\n"
#define RESULT      "result 0 = b7[0] [1024, 1024]\n"
#define RESULT_OF_8 "result 1 = b8[0] [1024, 1024]\n"

#define TANH  POINTS LOAD("1", "b2") "  %2 = tanh(%1) : f32\n" STORE("b3", "2")
#define TWICE POINTS LOAD("1", "b2") "  %2 = add(%1, %1) : f32\n" STORE("b3", "2")
/* The forward pass behind b3, and the peak. */
#define FORWARD                                                                                    \
    POINTS LOAD("1", "b3") LOAD("2", "b2") "  %3 = mul(%1, %2) : f32\n" STORE("b4", "3")           \
        MATMUL("b5", "b4", "b1") MATMUL("b6", "b5", "b1")
#define BACKWARD                                                                                   \
    POINTS LOAD("1", "b6") LOAD("2", "b2")                                                         \
        LOAD("3", "b3") "  %4 = mul(%2, %3) : f32\n  %5 = add(%1, %4) : f32\n" STORE("b7", "5")
#define SEES 2, 3, 4, 6, 7

TEST(what_is_read_behind_the_peak_is_computed_there) {
    EXPECT_STEPS(BUFFERS MATMUL("b2", "b1", "b1") TANH FORWARD BACKWARD RESULT, NULL,
                 "call, -2+4, call, call, -2-6+7", SEES);
}

TEST(the_limit_of_rewrites_counts_it) {
    hn_limit limit = {.most = 1}; /* b4 joins the kernel of b3 */
    EXPECT_STEPS(BUFFERS MATMUL("b2", "b1", "b1") TANH FORWARD BACKWARD RESULT, &limit,
                 "call, -2+3+4, call, call, -2-3-6+7", SEES);
}

/* b2 would be kept in place of b3. */
TEST(what_would_keep_as_much_alive_stays) {
    EXPECT_STEPS(BUFFERS MATMUL("b2", "b1", "b1") TANH FORWARD POINTS LOAD("1", "b6")
                     LOAD("2", "b3") "  %3 = mul(%1, %2) : f32\n" STORE("b7", "3") RESULT,
                 NULL, "call, -2+3+4, call, call, -3-6+7", SEES);
}

/* b2 is another value then. */
TEST(what_was_made_of_values_that_change_stays) {
    EXPECT_STEPS(BUFFERS MATMUL("b2", "b1", "b1") TANH FORWARD
                 "scatter (i0 < 1024; ) {\n" LOAD0 "  b2[i0] += %1\n}\n" BACKWARD RESULT,
                 NULL, "call, -2+3+4, call, call, +2, -2-3-6+7", SEES);
}

/* A call reads memory: what costs hardly more than a copy is made once more in front of it. */
TEST(a_cheap_value_is_made_once_more_for_a_call) {
    EXPECT_STEPS(BUFFERS MATMUL("b2", "b1", "b1") TWICE MATMUL("b4", "b3", "b1")
                     MATMUL("b5", "b4", "b1") MATMUL("b6", "b5", "b1") MATMUL("b7", "b6", "b3")
                         MATMUL("b8", "b1", "b2") RESULT RESULT_OF_8,
                 NULL, "call, -2+3, call, call, call, -2+9, call, call", 2, 3, 9);
}

/* It joins a kernel that reads the same, and not that of the first one: then it would be alive at the
 * peak again. */
TEST(what_is_made_once_more_joins_a_kernel_behind_the_peak) {
    EXPECT_STEPS(
        BUFFERS MATMUL("b2", "b1", "b1") TWICE MATMUL("b4", "b3", "b1") MATMUL("b5", "b4", "b1")
            MATMUL("b6", "b5", "b1") MATMUL("b7", "b6", "b3") POINTS LOAD("1", "b2")
                LOAD("2", "b6") "  %3 = mul(%1, %2) : f32\n" STORE("b8", "3") RESULT RESULT_OF_8,
        NULL, "call, -2+3, call, call, call, -2+8+9, call", 2, 3, 8, 9);
}

/* What is the same for a whole row is computed once for it, so it does not make an element costly. */
#define TIMES_TANH_OF_ROW                                                                          \
    POINTS LOAD("1", "b2") "  %2 = b1[i0] : f32\n  %3 = tanh(%2) : f32\n"                          \
                           "  %4 = mul(%1, %3) : f32\n" STORE("b3", "4")

TEST(what_is_the_same_for_rows_does_not_make_a_value_costly) {
    EXPECT_STEPS(BUFFERS MATMUL("b2", "b1", "b1") TIMES_TANH_OF_ROW MATMUL("b4", "b3", "b1")
                     MATMUL("b5", "b4", "b1") MATMUL("b6", "b5", "b1") MATMUL("b7", "b6", "b3")
                         MATMUL("b8", "b1", "b2") RESULT RESULT_OF_8,
                 NULL, "call, -2+3, call, call, call, -2+9, call, call", 2, 3, 9);
}

TEST(a_costly_value_is_not_made_once_more_for_a_call) {
    EXPECT_STEPS(BUFFERS MATMUL("b2", "b1", "b1") TANH MATMUL("b4", "b3", "b1")
                     MATMUL("b5", "b4", "b1") MATMUL("b6", "b5", "b1") MATMUL("b7", "b6", "b3")
                         MATMUL("b8", "b1", "b2") RESULT RESULT_OF_8,
                 NULL, "call, -2+3, call, call, call, call, call", 2, 3, 9);
}

/* An assertion reads one number, and is no call that could read another buffer. */
TEST(what_an_assertion_reads_stays) {
    EXPECT_STEPS(BUFFERS "b9 : temp bool[] extent 1\n"
                         "pointwise (; ) {\n  %1 = b1[0] : f32\n  %2 = isnan(%1) : bool\n"
                         "  b9[0] = %2\n}\n" MATMUL("b2", "b1", "b1") TANH FORWARD
                 "assert b9 \"is not a number\"\n" BACKWARD RESULT,
                 NULL, "+9, call, -2+4, call, call, call, -2-6+7", SEES, 9);
}

TEST_MAIN
