/* test_plan_names.c: forms of groups of threads that somebody names: those around the planner's
 * own, which it does not offer, give the right results by the interpreter, which checks barriers,
 * bounds and races. */
#include "tests/unit/kernel/plan_gpu_check.h"

/* Of each kernel: plan `plan`, and of the forms near it number `number`, the last one where there
 * are fewer. */
typedef struct nearest {
    uint32_t plan, number;
    bool any, any_plan; /* some kernel has that many */
    uint32_t run;
} nearest;

/* "rows, kept" is called "rows-kept". */
static hn_str name_of(const char *words, char out[32]) {
    size_t len = 0;
    for (; *words && len < 31; words++) {
        const bool is_letter = *words >= 'a' && *words <= 'z';
        if (is_letter) out[len++] = *words;
        else if (len && out[len - 1] != '-') out[len++] = '-';
    }
    return (hn_str){out, len};
}

static hn_status choose_near(void *context, const hn_program *p, const hn_kernel *k,
                             hn_arena *arena, hn_arena *scratch, hn_form **out) {
    nearest *c = context;
    hn_form *plans[HN_GPU_PLANS_MAX];
    hn_str *near;
    char text[32];
    uint32_t count, near_count;
    HN_TRY(
        hn_form_plans_gpu(p, k, &gpu_of_clusters, HN_GPU_PLANS_MAX, arena, scratch, plans, &count));
    c->any_plan |= c->plan < count;
    const hn_form *plan = plans[c->plan < count ? c->plan : count - 1];
    const hn_str name = name_of(plan->shape, text);
    HN_TRY(hn_form_near_gpu(p, k, &gpu_of_clusters, name, hn_str_of(plan->parameters), arena,
                            scratch, &near, &near_count));
    c->any |= c->number < near_count;
    c->run += c->number < near_count;
    const hn_str parameters = !near_count              ? hn_str_of(plan->parameters)
                              : c->number < near_count ? near[c->number]
                                                       : near[near_count - 1];
    return hn_form_plan_gpu_as(p, k, &gpu_of_clusters, name, parameters, arena, scratch, out);
}

static hn_status run_near(hn_arena *arena, const char *text, nearest *c) {
    const hn_forms_check how = {.plan = choose_near,
                                .context = c,
                                .facts = &gpu_of_clusters,
                                .schedule = {.threads = gpu_of_clusters.multiprocessors,
                                             .limits = &gpu_of_clusters.limits}};
    double tolerance[HN_RANDOM_MAX_TENSORS];
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    hn_forms_count count;
    hn_graph *graph = NULL;
    hn_sym *sym;
    for (int k = 0; k < HN_RANDOM_MAX_TENSORS; k++) tolerance[k] = 1e-3;
    HN_TRY(hn_sym_create(arena, &sym));
    HN_TRY(hn_graph_parse(arena, sym, hn_str_of(text), &graph));
    hn_status status = hn_random_inputs(5, arena, graph, 0, inputs);
    if (!status) status = hn_check_forms(graph, inputs, tolerance, &how, &count);
    hn_graph_deinit(graph);
    return status;
}

/* All forms near every sixth plan. */
static void check_near(const char *graph, int rows, int columns) {
    char text[2048];
    nearest c = {.any_plan = true};
    snprintf(text, sizeof text, graph, rows, columns);
    for (; c.any_plan; c.plan += 6)
        for (c.number = 0, c.any = true, c.any_plan = false; c.any; c.number++) {
            hn_arena arena;
            hn_arena_init(&arena);
            c.any = false;
            hn_status status = run_near(&arena, text, &c);
            if (status)
                HN_TEST_FAIL("%d x %d, near plan %u number %u: %s\n%s", rows, columns, c.plan,
                             c.number, hn_status_message(status), text);
            hn_status_free(status);
            hn_arena_deinit(&arena);
        }
    if (c.run < 6) HN_TEST_FAIL("%d x %d: %u forms are near\n%s", rows, columns, c.run, text);
}

#define ROWS_AND_COLUMNS "input user %%x : f32[%1$d, %2$d] \"x\"\n "

TEST(rows) {
    static const char softmax[] = "graph {\n" ROWS_AND_COLUMNS
                                  "%%y = aten._softmax.default(%%x, -1, false) : f32[%1$d, %2$d]\n "
                                  "output user %%y \"y\"\n}\n";
    check_near(softmax, 37, 65);
    check_near(softmax, 5, 256);
    check_near(softmax, 70, 12);
}

TEST(rows_and_their_columns) {
    static const char norm[] =
        "graph {\n" ROWS_AND_COLUMNS "%%m = sum(%%x, dims=[1], keepdim=true)\n %%d = sub(%%x, "
        "%%m)\n %%s = sum(%%d, dims=[0], keepdim=false)\n output user %%d \"d\"\n output user %%s "
        "\"s\"\n}\n";
    check_near(norm, 130, 64);
}

TEST(columns) {
    check_near("graph {\n" ROWS_AND_COLUMNS "%%y = sum(%%x, dims=[0], keepdim=false)\n output user "
               "%%y \"y\"\n}\n",
               70, 44);
}

TEST(elements) {
    static const char turned[] =
        "graph {\n" ROWS_AND_COLUMNS "input user %%b : f32[%2$d, %1$d] \"b\"\n %%t = permute(%%x, "
        "dims=[1, 0])\n %%y = add(%%t, %%b)\n output user %%y \"y\"\n}\n";
    check_near(turned, 64, 72);
    check_near("graph {\n" ROWS_AND_COLUMNS "%%y = exp(%%x)\n output user %%y \"y\"\n}\n", 33, 40);
}

TEST(scans) {
    check_near("graph {\n" ROWS_AND_COLUMNS "%%y = cumsum(%%x, dim=1)\n output user %%y \"y\"\n}\n",
               9, 100);
}

TEST_MAIN
