/* run_cases.c: runs operator cases against the reference interpreter, compiled, or as kernels.
 *
 *     run_cases [-v] [--compiled] [--kernels] [--loops] [--no-fusion] [--deterministic] [--target TARGET] [--dump STAGE] [--part K/N] [--watch SECONDS]
 *               [FILE[:LINE]]...
 *
 * Default: every file of tests/ops/cases. -v prints the primitives, --target compiles for another
 * level than this machine's, or for another device, which then runs the case; --watch: in a process
 * that is watched (support/watch.h), a case takes no longer than SECONDS;
 * --dump prints what a stage made (codegen: the kernels). --kernels:
 * kernels alone run, on OpenCL, or in cuda_run_cases as CUDA C++ on the CPU; without OpenCL nothing
 * runs, and with CI=true that is a failure. --part runs every Nth case of a
 * file from the Kth, so that several processes share the work. --loops: what has loops beside its
 * calls of operations is lowered and run by interpreters, the calls as operations and as loops;
 * other cases are run by the reference interpreter. Exit 0 when all pass; an unsupported operator
 * counts as a failure. */
#include "ops/cases.h"

#include "driver/driver.h"
#include "lower/lower.h"
#include "opencl/graph_run.h"
#include "support/module_run.h"
#include "support/watch.h"

typedef struct settings {
    case_totals totals; /* first: the totals that `begin` and `end` get are of settings */
    watch_board *board;
    uint32_t met;           /* cases that this process has come to */
    uint32_t watch_seconds; /* 0: nothing is watched */
    char **files;
    int file_count;
    bool verbose, compiled, loops;
    hn_compile_options compile;
    hn_service *service;
    bool as_kernels;
    opencl_host *host;
    uint32_t both; /* cases whose calls were run both ways */
} settings;

/* A graph of primitives, compiled, loaded, run. */
static hn_status case_compile(void *user, hn_arena *arena, hn_graph *graph,
                              const hn_ref_tensor *inputs, uint32_t input_count,
                              hn_ref_tensor *out_outputs) {
    settings *s = user;
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    hn_status status = hn_compile_graph(graph, s->service, &s->compile, &compiled);
    if (!status)
        status = hn_compiled_load(compiled, &(hn_module_options){.threads = s->compile.threads},
                                  &module);
    if (!status)
        status =
            hn_test_module_run(arena, module, inputs, input_count, out_outputs, CASE_MAX_TENSORS);
    hn_module_release(module);
    hn_compiled_release(compiled);
    return status;
}

static hn_status case_opencl(void *user, hn_arena *arena, hn_graph *graph,
                             const hn_ref_tensor *inputs, uint32_t input_count,
                             hn_ref_tensor *out_outputs) {
    settings *s = user;
    const graph_how how = {.no_fusion = s->compile.no_fusion,
                           .deterministic = s->compile.deterministic};
    return graph_run(s->host, arena, graph, &how, inputs, input_count, out_outputs, NULL);
}

static bool has_loops(const hn_program *p) {
    for (hn_item i = 1; i < p->items.count; i++)
        if (p->items.items[i].kind == HN_ITEM_EXTERN && p->items.items[i].ext->loop_count)
            return true;
    return false;
}

/* Calls as operations and as loops, against each other; the loops are what the case is about. */
static hn_status run_both(hn_arena *arena, const hn_program *p, hn_graph *graph,
                          const hn_ref_tensor *inputs, uint32_t input_count,
                          hn_ref_tensor *out_outputs) {
    hn_ref_tensor called[CASE_MAX_TENSORS];
    HN_TRY(hn_program_run_all(arena, p, graph, inputs, input_count, HN_RUN_OPERATIONS, called));
    HN_TRY(hn_program_run_all(arena, p, graph, inputs, input_count, HN_RUN_LOOPS, out_outputs));
    for (uint32_t k = 0; k < graph->outputs.count; k++) {
        const hn_dtype_info *facts = hn_dtype_facts(called[k].dtype);
        hn_strbuf why;
        if (called[k].dtype == HN_DTYPE_NONE) continue;
        hn_strbuf_init(&why);
        bool same = hn_ref_compare(&out_outputs[k], &called[k], facts->rtol, facts->atol, &why);
        hn_status status =
            same ? NULL
                 : HN_ERROR(HN_INTERNAL, "loops and operation differ: result %u: " HN_STR_FMT, k,
                            HN_STR_ARG(hn_strbuf_str(&why)));
        hn_strbuf_deinit(&why);
        HN_TRY(status);
    }
    return NULL;
}

static hn_status case_loops(void *user, hn_arena *arena, hn_graph *graph,
                            const hn_ref_tensor *inputs, uint32_t input_count,
                            hn_ref_tensor *out_outputs) {
    settings *s = user;
    hn_arena scratch;
    hn_program *p = NULL;
    hn_arena_init(&scratch);
    hn_status status = hn_lower(graph, NULL, arena, &scratch, &p);
    if (!status) status = hn_program_verify(p);
    bool calls = !status && has_loops(p);
    if (!status && calls) status = run_both(arena, p, graph, inputs, input_count, out_outputs);
    s->both += calls;
    hn_arena_deinit(&scratch);
    return status || calls ? status
                           : case_interpret(user, arena, graph, inputs, input_count, out_outputs);
}

static case_executor executor_of(const settings *s) {
    if (s->loops) return case_loops;
    return s->as_kernels ? case_opencl : s->compiled ? case_compile : case_interpret;
}

/* Watched work. False: an earlier process has done the case. */
static bool begin_case(case_totals *totals, const char *path, uint32_t number) {
    settings *s = (settings *)totals;
    if (s->met++ < s->board->done) return false;
    watch_begin(s->board, 1, "%s:%u", path, number);
    return true;
}

static void end_case(case_totals *totals, hn_status outcome) {
    settings *s = (settings *)totals;
    const bool unsupported = outcome && hn_status_code(outcome) == HN_UNSUPPORTED;
    watch_end(s->board, !outcome, outcome && !unsupported, unsupported);
    watch_device(s->board, outcome);
}

static hn_status run_argument(const char *arg, settings *s) {
    char path[512];
    const char *colon = strrchr(arg, ':');
    size_t len = colon ? (size_t)(colon - arg) : strlen(arg);
    if (len >= sizeof path) return HN_ERROR(HN_INVALID_ARGUMENT, "the path is too long");
    memcpy(path, arg, len);
    path[len] = 0;
    uint32_t line = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
    return case_run_file(path, line, executor_of(s), s, s->verbose, &s->totals);
}

static void print_dump(void *context, const char *text) {
    (void)context;
    fputs(text, stderr);
}

/* Options in front of the files; returns the index of the first file, 0 for a wrong option. */
static int parse_options(int argc, char **argv, settings *s) {
    int k = 1;
    for (; k < argc && argv[k][0] == '-'; k++) {
        if (strcmp(argv[k], "-v") == 0) s->verbose = true;
        else if (strcmp(argv[k], "--compiled") == 0) s->compiled = true;
        else if (strcmp(argv[k], "--kernels") == 0) s->as_kernels = true;
        else if (strcmp(argv[k], "--loops") == 0) s->loops = true;
        else if (strcmp(argv[k], "--no-fusion") == 0) s->compile.no_fusion = true;
        else if (strcmp(argv[k], "--deterministic") == 0) s->compile.deterministic = true;
        else if (strcmp(argv[k], "--target") == 0 && k + 1 < argc) s->compile.target = argv[++k];
        else if (strcmp(argv[k], "--watch") == 0 && k + 1 < argc)
            s->watch_seconds = (uint32_t)strtoul(argv[++k], NULL, 10);
        else if (strcmp(argv[k], "--dump") == 0 && k + 1 < argc)
            s->compile.dump_after = argv[++k], s->compile.dump = print_dump;
        else if (strcmp(argv[k], "--part") != 0 || ++k == argc ||
                 sscanf(argv[k], "%u/%u", &s->totals.part, &s->totals.parts) != 2)
            return 0;
    }
    return !s->totals.parts || s->totals.part < s->totals.parts ? k : 0;
}

/* What runs the cases, and what it has in one piece. */
static hn_status find_operations(const settings *s) {
    hn_target target;
    if (!s->as_kernels && !s->compiled) return NULL;
    HN_TRY(s->as_kernels ? kernel_target(&target)
                         : hn_target_named(
                               hn_str_of(s->compile.target ? s->compile.target : "host"), &target));
    case_operations = target.kind->limits->operations;
    return NULL;
}

static void run_cases(void *user) {
    settings *s = user;
    hn_status status = find_operations(s);
    if (s->compiled && !status)
        status =
            hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &s->service);
    if (!s->file_count && !status)
        status = case_run_folder("tests/ops/cases", executor_of(s), s, &s->totals);
    for (int k = 0; k < s->file_count && !status; k++) status = run_argument(s->files[k], s);
    hn_service_destroy(s->service);
    if (status) fprintf(stderr, "run_cases: %s\n", hn_status_message(status));
    if (s->loops) fprintf(stderr, "%u cases both ways\n", s->both);
    s->board->failed += status != NULL;
    hn_status_free(status);
}

int main(int argc, char **argv) {
    /* Several threads, so that ranges are split; inline, since the caller runs one process a
     * CPU. */
    settings s = {.compile = {.compile_threads = 1, .threads = 2},
                  .board = watch_board_create(),
                  .totals = {.begin = begin_case, .end = end_case}};
    int first = parse_options(argc, argv, &s);
    if (!first || !s.board) {
        fprintf(
            stderr,
            "usage: run_cases [-v] [--compiled] [--kernels] [--loops] [--no-fusion] [--deterministic] [--target TARGET] [--dump STAGE] [--part K/N] "
            "[--watch SECONDS] [FILE[:LINE]]...\n");
        return 2;
    }
    s.files = argv + first;
    s.file_count = argc - first;
    if (s.as_kernels) {
        int code = opencl_host_open_or_skip(&s.host);
        if (code >= 0) return code;
    }
    const bool is_whole = watch_run(s.board, s.watch_seconds, run_cases, &s);
    opencl_host_close(s.host);
    const watch_board *b = s.board;
    printf("%u passed, %u failed, %u unsupported\n", b->passed, b->failed + !is_whole,
           b->unsupported);
    return !is_whole || b->failed || b->unsupported;
}
