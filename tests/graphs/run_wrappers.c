/* run_wrappers.c: random graphs as planned programs, run by the interpreter of wrapper IR.
 *
 *     run_wrappers FROM COUNT [--contractions | --loops | --shared | --pieces] [--no-fusion] [--target TARGET] [--modules N] [--dump]
 *
 * Of each graph: the program is verified before and behind the memory plan, and the plan itself; the
 * interpreter gives, with the plan and with memory of its own for each buffer, the same bits, which
 * are those of the interpreter of graphs, up to the tolerance of the graph. Nothing is compiled, so
 * a program may be for any target; but of every N graphs one is compiled for this machine, and runs.
 *
 * Prints how to run a failing seed again; --dump prints the program instead. Exit 0 when all
 * agree. */
#include "tests/support/random_graph.h"

#include "driver/driver.h"
#include "interp/interpret.h"
#include "tests/support/program_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
    uint64_t from, count, modules;
    bool dumps;
    hn_random_family family;
    hn_compile_options how;
    char again[64];
} command;

/* A graph on its way, and what it gives. */
typedef struct subject {
    const command *c;
    uint64_t seed;
    hn_arena arena;
    hn_graph *graph;
    hn_driver d;
    hn_wrapper *w;
    uint32_t input_count;
    double tolerance[HN_RANDOM_MAX_TENSORS];
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS], expected[HN_RANDOM_MAX_TENSORS],
        apart[HN_RANDOM_MAX_TENSORS], planned[HN_RANDOM_MAX_TENSORS];
} subject;

/* ---- steps whose sizes the data gives ---- */

/* Elements that are not 0, as a list: of a length that nobody knows, in a slot where `hi` is large.
 * What is made of them lives side by side, and ends at different lines. */
static void add_picked(hn_graph *g, hn_value x, hn_expr numel, hn_expr count) {
    const hn_value flat = hn_b_reshape(g, x, &numel, 1),
                   zero = hn_b_scalar(g, 0, hn_graph_value(g, x)->dtype),
                   where = hn_b_nonzero(g, hn_b_binary(g, HN_OP_NE, flat, zero), count),
                   index = hn_b_reshape(g, where, &count, 1),
                   picked = hn_b_cast(g, hn_b_index(g, flat, &index, 1, false), HN_DTYPE_F32),
                   twice = hn_b_binary(g, HN_OP_ADD, picked, picked),
                   running = hn_b_scan(g, HN_OP_CUMSUM, twice, 0, NULL);
    const uint32_t dim = 0;
    const hn_value sum = hn_b_reduce(g, HN_OP_SUM, running, &dim, 1, false),
                   back = hn_b_binary(g, HN_OP_SUB, running, hn_b_flip(g, twice, 0));
    hn_b_assert(g, hn_b_binary(g, HN_OP_EQ, sum, sum), HN_STR("a sum that is a number"));
    hn_status status = hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = back});
    if (!status) status = hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = sum});
    if (status) hn_graph_fail(g, status);
}

/* Of every third seed, for each input of whole numbers of one dimension or more. */
static void add_data_steps(subject *s, hn_graph *g) {
    const uint32_t inputs = g->inputs.count;
    for (uint32_t k = 0; k < g->outputs.count; k++)
        if (g->outputs.items[k].kind != HN_OUTPUT_USER) return; /* those come last */
    for (uint32_t k = 0; k < inputs && s->seed % 3 == 0; k++) {
        const hn_value x = g->inputs.items[k].value;
        const hn_value_info *vi = hn_graph_value(g, x);
        if (hn_dtype_is_float(vi->dtype) || vi->dtype == HN_DTYPE_BOOL || !vi->rank) continue;
        int64_t least, most; /* elements, for every size of the input */
        hn_sym_range(g->sym, hn_sym_product(g->sym, vi->sizes, vi->rank), &least, &most);
        const hn_expr numel = hn_sym_product(g->sym, vi->sizes, vi->rank),
                      count = hn_sym_symbol(g->sym, hn_str_of(hn_arena_printf(&s->arena, "u%u", k)),
                                            HN_SYMBOL_DATA, 0, s->seed % 2 ? most : INT32_MAX);
        s->tolerance[g->outputs.count] = s->tolerance[g->outputs.count + 1] = 1e-3;
        add_picked(g, x, numel, count);
    }
}

static hn_status fill_graph(subject *s, hn_graph *g) {
    HN_TRY(hn_random_family_add(s->c->family, s->seed, g, s->tolerance));
    add_data_steps(s, g);
    return hn_graph_status(g);
}

/* ---- a graph, and its program ---- */

static hn_status make_graph(subject *s) {
    HN_TRY(hn_sym_create(&s->arena, &s->d.sym));
    HN_TRY(hn_graph_create(&s->arena, s->d.sym, &s->graph));
    HN_TRY(fill_graph(s, s->graph));
    HN_TRY(hn_random_inputs(s->seed, &s->arena, s->graph, 0, s->inputs));
    s->input_count = s->graph->inputs.count; /* folding adds constants to them */
    return NULL;
}

static hn_status make_program(subject *s) {
    hn_sym *sym = s->d.sym;
    hn_driver_init(&s->d, &s->c->how, NULL);
    s->d.graph = s->graph;
    s->d.sym = sym;
    HN_TRY(hn_driver_targets(&s->d));
    HN_TRY(hn_driver_passes(&s->d));
    HN_TRY(hn_driver_kernels(&s->d));
    return hn_driver_wrapper(&s->d, &s->w);
}

static hn_status interpret(subject *s, const hn_memory_plan *plan, hn_ref_tensor *out) {
    return hn_wrapper_interpret(&s->arena, s->w, &(hn_interpret_how){.plan = plan}, s->inputs,
                                s->input_count, out);
}

static bool same_bits(const hn_ref_tensor *a, const hn_ref_tensor *b) {
    if (a->dtype != b->dtype || a->numel != b->numel) return false;
    if (a->dtype == HN_DTYPE_NONE || !a->numel) return true;
    return memcmp(a->data.i, b->data.i, (size_t)a->numel * sizeof(hn_ref_elem)) == 0;
}

static hn_status check_plan(subject *s) {
    hn_memory_plan plan;
    HN_TRY(hn_driver_plan(&s->d, s->w, &plan));
    HN_TRY(hn_status_annotate(hn_wrapper_plan_verify(s->w, &plan), "plan"));
    HN_TRY(hn_status_annotate(interpret(s, &plan, s->planned), "planned"));
    for (uint32_t k = 0; k < s->w->outputs.count; k++)
        if (!same_bits(&s->planned[k], &s->apart[k]))
            return HN_ERROR(HN_INTERNAL, "output %u has other bits under the plan", k);
    return hn_status_annotate(interpret(s, NULL, s->planned), "without its plan");
}

static hn_status check_program(subject *s) {
    HN_TRY(hn_status_annotate(
        hn_interpret(&s->arena, s->graph, s->inputs, s->input_count, s->expected),
        "interpreter of graphs"));
    HN_TRY(make_program(s));
    HN_TRY(hn_wrapper_verify(s->w));
    HN_TRY(hn_status_annotate(interpret(s, NULL, s->apart), "unplanned"));
    HN_TRY(hn_outputs_compare(s->apart, s->expected, s->tolerance, s->w->outputs.count));
    return check_plan(s);
}

static hn_status dump(subject *s) {
    hn_memory_plan plan;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_graph_print(s->graph, &text);
    HN_TRY(make_program(s));
    HN_TRY(hn_driver_plan(&s->d, s->w, &plan));
    hn_wrapper_print(s->w, &text);
    puts(text.ptr ? text.ptr : "");
    hn_strbuf_deinit(&text);
    return NULL;
}

static hn_status check_module(subject *s, hn_service *service) {
    hn_graph *again = NULL;
    hn_sym *sym;
    HN_TRY(hn_sym_create(&s->arena, &sym));
    HN_TRY(hn_graph_create(&s->arena, sym, &again));
    hn_status status = fill_graph(s, again);
    if (!status)
        status =
            hn_check_against_interpreter(again, service, s->inputs, s->tolerance,
                                         &(hn_compile_options){.no_fusion = s->c->how.no_fusion});
    hn_graph_deinit(again);
    return hn_status_annotate(status, "module");
}

static hn_status check_seed(const command *c, uint64_t seed, hn_service *service) {
    subject *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a test");
    s->c = c;
    s->seed = seed;
    hn_arena_init(&s->arena);
    hn_status status = make_graph(s);
    if (!status) status = c->dumps ? dump(s) : check_program(s);
    if (!status && service && seed % c->modules == 0) status = check_module(s, service);
    hn_driver_deinit(&s->d);
    if (s->graph) hn_graph_deinit(s->graph);
    hn_arena_deinit(&s->arena);
    free(s);
    return status;
}

static bool parse(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return *text && !*end;
}

static bool parse_command(int argc, char **argv, command *out) {
    *out = (command){.how = {.threads = 2}};
    if (argc < 3 || !parse(argv[1], &out->from) || !parse(argv[2], &out->count)) return false;
    for (int k = 3; k < argc; k++) {
        const bool has_value = k + 1 < argc;
        if (hn_random_family_named(argv[k], &out->family)) continue;
        if (strcmp(argv[k], "--no-fusion") == 0) out->how.no_fusion = true;
        else if (strcmp(argv[k], "--dump") == 0) out->dumps = true;
        else if (strcmp(argv[k], "--target") == 0 && has_value) out->how.target = argv[++k];
        else if (strcmp(argv[k], "--modules") != 0 || !has_value ||
                 !parse(argv[++k], &out->modules))
            return false;
    }
    snprintf(out->again, sizeof out->again, "%s%s%s%.20s", hn_random_family_option(out->family),
             out->how.no_fusion ? " --no-fusion" : "", out->how.target ? " --target " : "",
             out->how.target ? out->how.target : "");
    return true;
}

int main(int argc, char **argv) {
    command c;
    hn_service *service = NULL;
    uint64_t passed = 0, failed = 0;
    if (!parse_command(argc, argv, &c)) {
        fprintf(
            stderr,
            "usage: %s FROM COUNT [--contractions | --loops | --shared | --pieces] [--no-fusion] [--target TARGET] [--modules N] "
            "[--dump]\n",
            argv[0]);
        return 2;
    }
    hn_status status =
        c.modules
            ? hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &service)
            : NULL;
    for (uint64_t seed = c.from; seed < c.from + c.count && !status; seed++) {
        hn_status outcome = check_seed(&c, seed, service);
        *(outcome ? &failed : &passed) += 1;
        if (outcome)
            fprintf(stderr, "seed %llu: %s\n  again: %s %llu 1%s\n", (unsigned long long)seed,
                    hn_status_message(outcome), argv[0], (unsigned long long)seed, c.again);
        hn_status_free(outcome);
    }
    if (status) fprintf(stderr, "run_wrappers: %s\n", hn_status_message(status)), failed++;
    hn_status_free(status);
    hn_service_destroy(service);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed != 0;
}
