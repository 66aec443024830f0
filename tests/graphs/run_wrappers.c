/* run_wrappers.c: random graphs as planned programs, run by the interpreter of wrapper IR.
 *
 *     run_wrappers FROM COUNT [--contractions | --loops | --shared | --pieces]
 *                  [--no-fusion] [--target TARGET] [--pool MODE] [--donate] [--modules N]
 *                  [--plant | --dump]
 *
 * Of each graph: the program is verified before and behind the memory plan, and the plan itself;
 * the interpreter gives, with the plan and with memory of its own for each buffer, the same bits,
 * which are those of the interpreter of graphs, up to the tolerance of the graph. Nothing is
 * compiled, so a program may be for any target. --pool is the mode of the plan; with --donate it
 * may use the memory of every input that can be given up.
 *
 * --modules: of every N groups of 16 seeds one is compiled for this machine as one program, with
 * the same options, and runs. Together they cost a tenth of what they do alone.
 *
 * --plant shows that the checks can fail: two buffers that are alive together get one place. The
 * check of the plan has to find each, the interpreter three of four: nobody notices bytes that a
 * branch, a mask or a factor of 0 keeps out of the results, or that nobody reads. Programs without
 * two such buffers count as neither passed nor failed.
 *
 * Prints how to run a failing seed again; --dump prints the program instead. Exit 0 when all
 * agree. */
#include "tests/support/random_graph.h"

#include "driver/driver.h"
#include "interp/interpret.h"
#include "tests/support/program_run.h"
#include "wrapper/donate.h"
#include "wrapper/lifetime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
    uint64_t from, count, modules;
    bool dumps, donates, plants;
    hn_random_family family;
    hn_compile_options how;
    char again[112];
} command;

typedef struct tally {
    uint64_t passed, failed;
    uint64_t planted, unnoticed; /* programs with a planted overlap; by the interpreter */
    uint64_t module_programs, modules;
} tally;

/* A graph on its way, and what it gives. */
typedef struct subject {
    const command *c;
    tally *counts;
    hn_compile_options how; /* with the inputs that are given up */
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

/* Of every third seed, for each input of whole numbers of one dimension or more, of those behind
 * `first_input`. */
static void add_data_steps(uint64_t seed, hn_arena *arena, hn_graph *g, uint32_t first_input,
                           uint32_t first_output, double *tolerance) {
    const uint32_t inputs = g->inputs.count;
    for (uint32_t k = first_output; k < g->outputs.count; k++)
        if (g->outputs.items[k].kind != HN_OUTPUT_USER) return; /* those come last */
    for (uint32_t k = first_input; k < inputs && seed % 3 == 0; k++) {
        const hn_value x = g->inputs.items[k].value;
        const hn_value_info *vi = hn_graph_value(g, x);
        if (hn_dtype_is_float(vi->dtype) || vi->dtype == HN_DTYPE_BOOL || !vi->rank) continue;
        int64_t least, most; /* elements, for every size of the input */
        hn_sym_range(g->sym, hn_sym_product(g->sym, vi->sizes, vi->rank), &least, &most);
        const hn_expr numel = hn_sym_product(g->sym, vi->sizes, vi->rank),
                      count = hn_sym_symbol(g->sym, hn_str_of(hn_arena_printf(arena, "u%u", k)),
                                            HN_SYMBOL_DATA, 0, seed % 2 ? most : INT32_MAX);
        tolerance[g->outputs.count] = tolerance[g->outputs.count + 1] = 1e-3;
        add_picked(g, x, numel, count);
    }
}

/* Beside what the graph holds already. */
static hn_status add_seed(const command *c, uint64_t seed, hn_arena *arena, hn_graph *g,
                          double *tolerance) {
    const uint32_t inputs = g->inputs.count, outputs = g->outputs.count;
    HN_TRY(hn_random_family_add(c->family, seed, g, tolerance));
    add_data_steps(seed, arena, g, inputs, outputs, tolerance);
    return hn_graph_status(g);
}

/* ---- a graph, and its program ---- */

static hn_status make_graph(subject *s) {
    HN_TRY(hn_sym_create(&s->arena, &s->d.sym));
    HN_TRY(hn_graph_create(&s->arena, s->d.sym, &s->graph));
    HN_TRY(add_seed(s->c, s->seed, &s->arena, s->graph, s->tolerance));
    HN_TRY(hn_random_inputs(s->seed, &s->arena, s->graph, 0, s->inputs));
    s->input_count = s->graph->inputs.count; /* folding adds constants to them */
    return NULL;
}

/* Of inputs, all that can be given up, by number. */
static hn_status donate(subject *s) {
    const char **names;
    HN_NEW(&s->arena, names, s->w->inputs.count);
    for (uint32_t k = 0; k < s->w->inputs.count && s->c->donates; k++)
        if (!hn_wrapper_donate_objection(s->w, k))
            names[s->how.donated_count++] = hn_arena_printf(&s->arena, "%u", k);
    s->how.donated = names;
    return NULL;
}

static hn_status make_program(subject *s) {
    hn_sym *sym = s->d.sym;
    s->how = s->c->how;
    hn_driver_init(&s->d, &s->how, NULL);
    s->d.graph = s->graph;
    s->d.sym = sym;
    HN_TRY(hn_driver_targets(&s->d));
    HN_TRY(hn_driver_passes(&s->d));
    HN_TRY(hn_driver_kernels(&s->d));
    HN_TRY(hn_driver_wrapper(&s->d, &s->w));
    return donate(s);
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

/* By the plan: the same bits as without it. */
static hn_status check_planned(subject *s, const hn_memory_plan *plan) {
    HN_TRY(hn_status_annotate(interpret(s, plan, s->planned), "planned"));
    for (uint32_t k = 0; k < s->w->outputs.count; k++)
        if (!same_bits(&s->planned[k], &s->apart[k]))
            return HN_ERROR(HN_INTERNAL, "output %u has other bits under the plan", k);
    return NULL;
}

/* ---- planted overlaps ---- */

/* At the sizes of the hints; 0 also for what has no size before the program runs. */
static int64_t bytes_of(const subject *s, hn_wbuf b) {
    return hn_sym_hint(s->d.sym, s->w->buffers.items[b].bytes, 0);
}

static bool can_move(const subject *s, const hn_memory_plan *plan, hn_wbuf b) {
    const hn_wbuf_kind kind = s->w->buffers.items[b].kind;
    return (kind == HN_WBUF_TEMP || kind == HN_WBUF_OUTPUT) && plan->offsets[b] &&
           bytes_of(s, b) > 0;
}

/* Moves a buffer to where another one is that began before it and is mentioned after it. Buffers of
 * one REUSE chain have one place, and are not moved. */
static hn_status plant(subject *s, hn_memory_plan *plan, bool *out_planted) {
    hn_wlives lives;
    bool *is_joined;
    *out_planted = false;
    HN_TRY(hn_wrapper_lives(s->w, &s->arena, &lives));
    HN_NEW(&s->arena, is_joined, s->w->buffers.count);
    for (uint32_t i = 0; i < s->w->lines.count; i++)
        if (s->w->lines.items[i].kind == HN_LINE_REUSE)
            is_joined[s->w->lines.items[i].buffer] = is_joined[s->w->lines.items[i].from] = true;
    for (hn_wbuf b = 1; b < s->w->buffers.count; b++)
        for (hn_wbuf a = 1; a < s->w->buffers.count; a++) {
            const hn_wlife *x = &lives.buffers[a], *y = &lives.buffers[b];
            if (a == b || is_joined[b] || !can_move(s, plan, a) || !can_move(s, plan, b) ||
                plan->pools[a] != plan->pools[b] ||
                s->w->buffers.items[a].device != s->w->buffers.items[b].device ||
                bytes_of(s, b) > bytes_of(s, a) || !x->used || !y->used || x->block != y->block ||
                x->first >= y->first || y->first > x->last)
                continue;
            plan->offsets[b] = plan->offsets[a];
            *out_planted = true;
            return NULL;
        }
    return NULL;
}

static hn_status check_found(subject *s, hn_memory_plan *plan) {
    bool is_planted;
    HN_TRY(plant(s, plan, &is_planted));
    if (!is_planted) return NULL;
    hn_status found = hn_wrapper_plan_verify(s->w, plan);
    if (!found) return HN_ERROR(HN_INTERNAL, "the check of the plan does not find the overlap");
    hn_status_free(found);
    found = check_planned(s, plan);
    s->counts->planted++;
    if (!found) s->counts->unnoticed++;
    hn_status_free(found);
    return NULL;
}

/* ---- checks ---- */

static hn_status check_plan(subject *s) {
    hn_memory_plan plan;
    HN_TRY(hn_driver_plan(&s->d, s->w, &plan));
    HN_TRY(hn_status_annotate(hn_wrapper_plan_verify(s->w, &plan), "plan"));
    HN_TRY(check_planned(s, &plan));
    if (s->c->plants) return check_found(s, &plan);
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

static void free_subject(subject *s) {
    hn_driver_deinit(&s->d);
    if (s->graph) hn_graph_deinit(s->graph);
    hn_arena_deinit(&s->arena);
    free(s);
}

static hn_status check_seed(const command *c, uint64_t seed, tally *counts) {
    subject *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a test");
    s->c = c;
    s->counts = counts;
    s->seed = seed;
    hn_arena_init(&s->arena);
    hn_status status = make_graph(s);
    if (!status) status = c->dumps ? dump(s) : check_program(s);
    free_subject(s);
    return status;
}

/* ---- modules ---- */

/* A graph has at most nine outputs, and two more for each of its inputs. */
static bool has_room(const hn_graph *g) { return g->outputs.count + 27 <= HN_RANDOM_MAX_TENSORS; }

/* The graphs of `count` seeds as one, as far as there is room. */
static hn_status gather(subject *s, uint64_t count, uint64_t *out_count) {
    HN_TRY(hn_sym_create(&s->arena, &s->d.sym));
    HN_TRY(hn_graph_create(&s->arena, s->d.sym, &s->graph));
    for (*out_count = 0; *out_count < count && has_room(s->graph); ++*out_count) {
        const uint32_t first = s->graph->inputs.count;
        const uint64_t seed = s->seed + *out_count;
        HN_TRY(add_seed(s->c, seed, &s->arena, s->graph, s->tolerance));
        HN_TRY(hn_random_inputs(seed, &s->arena, s->graph, first, s->inputs));
    }
    return NULL;
}

static hn_status check_module(const command *c, uint64_t from, uint64_t count, hn_service *service,
                              uint64_t *out_count) {
    subject *s = calloc(1, sizeof *s);
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a test");
    s->c = c;
    s->seed = from;
    hn_arena_init(&s->arena);
    hn_status status = gather(s, count, out_count);
    if (!status)
        status = hn_check_against_interpreter(s->graph, service, s->inputs, s->tolerance, &c->how,
                                              c->donates);
    free_subject(s);
    return status;
}

static void report(const command *c, const char *program, uint64_t seed, uint64_t count,
                   const char *option, hn_status outcome) {
    fprintf(stderr, "seed %llu: %s\n  again: %s %llu %llu%s%s\n", (unsigned long long)seed,
            hn_status_message(outcome), program, (unsigned long long)seed,
            (unsigned long long)count, option, c->again);
}

/* A group that is wrong is tried again seed by seed, for the report. */
static void run_module(const command *c, const char *program, uint64_t from, uint64_t count,
                       hn_service *service, tally *counts) {
    uint64_t done = 0, wrong = 0;
    hn_status outcome = check_module(c, from, count, service, &done);
    counts->module_programs += done;
    counts->modules++;
    for (uint64_t k = 0; outcome && k < done; k++) {
        uint64_t one;
        hn_status alone = check_module(c, from + k, 1, service, &one);
        if (alone) report(c, program, from + k, 1, " --modules 1", alone), wrong++;
        hn_status_free(alone);
    }
    if (outcome && !wrong) report(c, program, from, count, " --modules 1", outcome), wrong++;
    counts->failed += wrong;
    hn_status_free(outcome);
}

static void run_group(const command *c, const char *program, uint64_t from, uint64_t count,
                      hn_service *service, tally *counts) {
    for (uint64_t seed = from; seed < from + count; seed++) {
        const uint64_t planted = counts->planted;
        hn_status outcome = check_seed(c, seed, counts);
        if (outcome)
            report(c, program, seed, 1, c->plants ? " --plant" : "", outcome), counts->failed++;
        else if (!c->plants || counts->planted > planted) counts->passed++;
        hn_status_free(outcome);
    }
    if (service && from / HN_RANDOM_MAX_BATCH % c->modules == 0)
        run_module(c, program, from, count, service, counts);
}

static bool parse(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return *text && !*end;
}

static bool parse_option(int argc, char **argv, int *k, command *out) {
    const char *option = argv[*k], *value = *k + 1 < argc ? argv[*k + 1] : NULL;
    if (hn_random_family_named(option, &out->family)) return out->family != HN_FAMILY_WEIGHTS;
    if (strcmp(option, "--no-fusion") == 0) return out->how.no_fusion = true;
    if (strcmp(option, "--donate") == 0) return out->donates = true;
    if (strcmp(option, "--plant") == 0) return out->plants = true;
    if (strcmp(option, "--dump") == 0) return out->dumps = true;
    if (!value) return false;
    ++*k;
    if (strcmp(option, "--target") == 0) return (out->how.target = value) != NULL;
    if (strcmp(option, "--pool") == 0) return hn_random_pool_named(value, &out->how.memory_pool);
    return strcmp(option, "--modules") == 0 && parse(value, &out->modules);
}

static bool parse_command(int argc, char **argv, command *out) {
    *out = (command){.how = {.threads = 2}};
    if (argc < 3 || !parse(argv[1], &out->from) || !parse(argv[2], &out->count)) return false;
    for (int k = 3; k < argc; k++)
        if (!parse_option(argc, argv, &k, out)) return false;
    const hn_memory_pool pool = out->how.memory_pool;
    snprintf(out->again, sizeof out->again, "%s%s%s%.20s%s%s%s",
             hn_random_family_option(out->family), out->how.no_fusion ? " --no-fusion" : "",
             out->how.target ? " --target " : "", out->how.target ? out->how.target : "",
             pool ? " --pool " : "", pool ? hn_random_pool_name(pool) : "",
             out->donates ? " --donate" : "");
    /* Modules run on this machine. A loop whose test is spoilt may have no end. */
    return !(out->modules && (out->how.target || out->plants)) &&
           !(out->plants && out->family == HN_FAMILY_LOOPS);
}

static void print_counts(const command *c, const tally *n) {
    if (n->modules)
        printf("%llu of the programs ran in %llu modules\n", (unsigned long long)n->module_programs,
               (unsigned long long)n->modules);
    if (c->plants)
        printf("%llu overlaps planted, the interpreter did not notice %llu\n",
               (unsigned long long)n->planted, (unsigned long long)n->unnoticed);
    printf("%llu passed, %llu failed\n", (unsigned long long)n->passed,
           (unsigned long long)n->failed);
}

int main(int argc, char **argv) {
    command c;
    tally n = {0};
    hn_service *service = NULL;
    if (!parse_command(argc, argv, &c)) {
        fprintf(
            stderr,
            "usage: %s FROM COUNT [--contractions | --loops | --shared | --pieces] [--no-fusion] "
            "[--target TARGET] [--pool MODE] [--donate] [--modules N] [--plant | --dump]\n",
            argv[0]);
        return 2;
    }
    hn_status status =
        c.modules
            ? hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &service)
            : NULL;
    for (uint64_t at = 0; at < c.count && !status; at += HN_RANDOM_MAX_BATCH) {
        const uint64_t left = c.count - at;
        run_group(&c, argv[0], c.from + at, left < HN_RANDOM_MAX_BATCH ? left : HN_RANDOM_MAX_BATCH,
                  service, &n);
    }
    if (status) fprintf(stderr, "run_wrappers: %s\n", hn_status_message(status)), n.failed++;
    if (c.plants && n.unnoticed * 4 > n.planted) n.failed++;
    hn_status_free(status);
    hn_service_destroy(service);
    print_counts(&c, &n);
    return n.failed != 0;
}
