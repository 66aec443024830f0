/* test_plan_scatter.c: every layout of a scatter for groups of threads, run by the interpreter,
 * which finds threads that meet; and which of them there are. */
#include "base/compiler.h"
#include "kernel/plan_gpu.h"
#include "tests/support/form_run.h"
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"
#include "unit/harness.h"

#include <string.h>

/* Takes plan number `number` of the scatters, or the last one where there are fewer. */
typedef struct chooser {
    const hn_gpu_facts *facts;
    uint32_t number;
    bool any; /* a scatter has such a plan */
    uint32_t atomic, apart;
    bool is_first_atomic; /* of the best plans of all scatters, one is */
    int64_t threads;      /* of the last scatter, if its number of groups is known */
} chooser;

static void note_stores(const hn_form *f, chooser *c) {
    int64_t groups = 0;
    (void)hn_sym_is_int(f->sym, f->grid, &groups);
    c->threads = groups * f->threads;
    for (hn_fid s = 1; s < f->stmts.count; s++) {
        c->atomic += f->stmts.items[s].is_atomic;
        c->apart += f->stmts.items[s].is_apart;
    }
}

static bool has_atomic(const hn_form *f) {
    bool has = false;
    for (hn_fid s = 1; s < f->stmts.count; s++) has |= f->stmts.items[s].is_atomic;
    return has;
}

/* The text says the same form. */
static hn_status check_text(const hn_program *p, const hn_form *f, hn_arena *arena) {
    hn_strbuf text, again;
    hn_form *parsed = NULL;
    hn_strbuf_init(&text);
    hn_strbuf_init(&again);
    hn_form_print(f, &text);
    hn_status status = hn_form_parse(p, arena, hn_strbuf_str(&text), &parsed);
    if (!status) hn_form_print(parsed, &again);
    if (!status && !hn_str_eq(hn_strbuf_str(&text), hn_strbuf_str(&again)))
        status = HN_ERROR(HN_INTERNAL, "the text says another form");
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&again);
    return status;
}

static hn_status choose(void *context, const hn_program *p, const hn_kernel *k, hn_arena *arena,
                        hn_arena *scratch, hn_form **out) {
    chooser *c = context;
    hn_form *plans[HN_GPU_PLANS_MAX];
    uint32_t count = 0;
    HN_TRY(hn_form_plans_gpu(p, k, c->facts, HN_GPU_PLANS_MAX, arena, scratch, plans, &count));
    if (!count) return HN_ERROR(HN_INTERNAL, "the planner offers nothing");
    *out = plans[k->serial ? c->number < count ? c->number : count - 1 : 0];
    if (!k->serial) return NULL;
    c->any |= c->number < count;
    c->is_first_atomic |= has_atomic(plans[0]);
    note_stores(*out, c);
    return check_text(p, *out, arena);
}

static hn_status check_graph(hn_arena *arena, hn_graph *graph, chooser *c, bool deterministic) {
    const hn_forms_check how = {.plan = choose,
                                .context = c,
                                .facts = c->facts,
                                .schedule = {.threads = c->facts->multiprocessors,
                                             .limits = &c->facts->limits,
                                             .deterministic = deterministic}};
    double tolerance[HN_RANDOM_MAX_TENSORS];
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    hn_forms_count count;
    for (int k = 0; k < HN_RANDOM_MAX_TENSORS; k++) tolerance[k] = deterministic ? 0 : 1e-3;
    HN_TRY(hn_random_inputs(5, arena, graph, 0, inputs));
    return hn_check_forms(graph, inputs, tolerance, &how, &count);
}

static hn_status check(const char *text, chooser *c, bool deterministic) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_parse(&arena, sym, hn_str_of(text), &graph);
    if (!status) status = check_graph(&arena, graph, c, deterministic);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

static void check_plans(const char *text, bool deterministic, chooser *c) {
    if (!c->facts) c->facts = &hn_test_gpu;
    for (c->any = true; c->any; c->number++) {
        c->any = false;
        hn_status status = check(text, c, deterministic);
        if (status) HN_TEST_FAIL("plan %u: %s\n%s", c->number, hn_status_message(status), text);
        hn_status_free(status);
    }
}

/* A graph that scatters; "$" is the mode and "@" the dtype of the operands. Indices of inputs are
 * from -4 to 4. */
typedef struct scatter {
    const char *name, *text;
} scatter;

#define NUMBERS                                                                                    \
    "%seven = full(value=7, sizes=[], dtype=i64)\n%none = full(value=0, sizes=[], dtype=i64)\n"
#define INPUTS(x, i, s)                                                                            \
    "graph {\ninput user %x : @[" x "] \"x\"\ninput user %i : i64[" i                              \
    "] \"i\"\ninput user %s : @[" s "] \"s\"\n" NUMBERS
#define OUTPUT "\noutput user %y \"\"\n}\n"

static const scatter scatters[] = {
    {"rows, negative ones from the end",
     INPUTS("7, 5", "40", "40, 5") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"rows, all the same",
     INPUTS("7, 5", "40", "40, 5") "%k = mul(%i, %none)\n"
                                   "%y = index_put(%x, [%k], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"many columns",
     INPUTS("7, 70", "40", "40, 70") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"elements",
     INPUTS("9", "300", "300") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"two indices",
     INPUTS("5, 7, 3", "90",
            "90, 3") "%j = remainder(%i, %seven)\n"
                     "%y = index_put(%x, [%i, %j], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"an index of two dimensions",
     INPUTS("7, 3", "6, 5",
            "6, 5, 3") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"along the first dimension",
     INPUTS("7, 5", "33, 5", "33, 5") "%j = remainder(%i, %seven)\n"
                                      "%y = scatter(%x, %j, %s, dim=0, mode=\"$\")" OUTPUT},
    {"along the last dimension",
     INPUTS("5, 7", "5, 33", "5, 33") "%j = remainder(%i, %seven)\n"
                                      "%y = scatter(%x, %j, %s, dim=1, mode=\"$\")" OUTPUT},
    {"a value that is picked as well",
     INPUTS(
         "7, 5", "40",
         "7, 5") "%j = remainder(%i, %seven)\n"
                 "%p = index(%s, [%j], wrap=false)\n%y = index_put(%x, [%i], %p, mode=\"$\", wrap=true)" OUTPUT},
    {"nothing",
     INPUTS("7, 5", "0", "0, 5") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"to nothing",
     INPUTS("0, 5", "0", "0, 5") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"rows of nothing",
     INPUTS("7, 0", "4", "4, 0") "%y = index_put(%x, [%i], %s, mode=\"$\", wrap=true)" OUTPUT},
    {"one element",
     INPUTS("1", "1",
            "1") "%k = mul(%i, %none)\n%y = scatter(%x, %k, %s, dim=0, mode=\"$\")" OUTPUT},
};

static const char *const modes[] = {"set", "add", "mul", "min", "max"};

static void write_text(const scatter *s, const char *mode, const char *dtype, char *out) {
    for (const char *p = s->text; *p; p++) {
        const char *word = *p == '$' ? mode : *p == '@' ? dtype : NULL;
        if (word) out = stpcpy(out, word);
        else *out++ = *p;
    }
    *out = '\0';
}

TEST(every_layout_of_every_scatter) {
    for (size_t k = 0; k < HN_COUNT_OF(scatters); k++)
        for (size_t m = 0; m < HN_COUNT_OF(modes); m++) {
            char text[1024];
            chooser any = {0}, ordered = {0};
            write_text(&scatters[k], modes[m], "f32", text);
            check_plans(text, false, &any);
            check_plans(text, true, &ordered);
            EXPECT(any.atomic > 0);
            EXPECT_INT(ordered.atomic, 0);
            EXPECT((ordered.apart > 0) == (m > 0));
        }
}

/* Whole numbers may be combined in any order, unless one replaces another. */
TEST(dtypes) {
    static const char *const dtypes[] = {"f64", "f16", "bf16", "i64", "i32",
                                         "i16", "i8",  "u8",   "bool"};
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++)
        for (size_t m = 0; m < HN_COUNT_OF(modes); m++) {
            const bool is_float = strchr(dtypes[d], 'f') != NULL;
            char text[1024];
            chooser any = {0}, ordered = {0};
            if (strcmp(dtypes[d], "bool") == 0 && m != 0) continue;
            write_text(&scatters[1], modes[m], dtypes[d], text);
            check_plans(text, false, &any);
            EXPECT(any.atomic > 0);
            check_plans(text, true, &ordered);
            EXPECT((ordered.atomic > 0) == (!is_float && m > 0));
        }
}

/* A processor that combines no numbers of 64 bits, and one that combines none. */
TEST(processors_without_atomic_stores) {
    hn_gpu_facts words = hn_test_gpu, none = hn_test_gpu;
    words.atomic_bytes = 4, none.atomic_bytes = 0;
    char text[1024];
    chooser c = {.facts = &words};
    write_text(&scatters[0], "add", "f64", text);
    check_plans(text, false, &c);
    EXPECT(!c.atomic && c.apart);
    c = (chooser){.facts = &words};
    write_text(&scatters[0], "add", "f16", text);
    check_plans(text, false, &c);
    EXPECT(c.atomic && c.apart);
    c = (chooser){.facts = &none};
    write_text(&scatters[0], "add", "i32", text);
    check_plans(text, false, &c);
    EXPECT(!c.atomic && c.apart);
}

/* The gradient of an embedding: atomic unless the order counts, and then thousands of threads. */
TEST(the_best_layouts) {
    static const char embedding[] =
        "graph {\ninput user %x : f32[500, 64] \"x\"\ninput user %i : i64[600] \"i\"\n"
        "input user %s : f32[600, 64] \"s\"\n%y = index_put(%x, [%i], %s, mode=\"add\", wrap=true)" OUTPUT;
    chooser c = {.facts = &hn_test_gpu};
    EXPECT_OK(check(embedding, &c, false));
    EXPECT(c.is_first_atomic);
    c = (chooser){.facts = &hn_test_gpu};
    EXPECT_OK(check(embedding, &c, true));
    EXPECT(!c.is_first_atomic && c.threads >= 1024);
}

/* Sizes of the call: columns are known to be apart all the same. */
TEST(sizes_of_the_call) {
    static const char text[] =
        "graph {\nsymbol size s0 in [0, 4096] hint 40\nsymbol size s1 in [1, 4096] hint 24\n"
        "input user %x : f32[7, s1] \"x\"\ninput user %i : i64[s0] \"i\"\n"
        "input user %s : f32[s0, s1] \"s\"\n"
        "%y = index_put(%x, [%i], %s, mode=\"add\", wrap=true)" OUTPUT;
    chooser c = {0};
    check_plans(text, false, &c);
    c = (chooser){0};
    check_plans(text, true, &c);
    EXPECT(c.apart > 0);
}

TEST_MAIN
