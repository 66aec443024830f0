/* run_cubins.c: kernels of models, operator cases and random graphs as machine code for GPUs, by
 * NVRTC. Nothing is run; what the code takes of a processor is read from it.
 *
 *     cuda_run_cubins [--targets NAME,NAME...] [--models FOLDER...] [--cases K/N]
 *                     [--graphs FROM COUNT] [--lists]
 *
 * Default targets: sm_80, sm_90a, sm_120. Of a FOLDER model.pt2 is taken; of the operator cases
 * every Nth from the Kth; the graphs of COUNT seeds; --lists: operations that are several kernels,
 * of every width of elements. Kernels are planned as the driver does it, and compiled many at a
 * time. A test is a kernel for a target: it fails when it does not compile, has a stack (registers
 * that do not fit their processor) in each of its best plans, or more shared memory than a group
 * may declare. Without NVRTC nothing is compiled, and with CI=true that is a failure. */
#include "ops/cases.h"

#include "base/compiler.h"
#include "base/cubin.h"
#include "base/file.h"
#include "base/map.h"
#include "driver/driver.h"
#include "front/importer.h"
#include "support/program_run.h"
#include "tests/support/random_graph.h"

enum { TARGETS_MAX = 8, UNIT_BYTES = 24 << 10, SHARED_MAX = 48 << 10 };

/* Functions of CUDA's library that reduce angles keep an array of so much: sin, cos and tan of f64,
 * and tan of f32. */
enum { LIBRARY_STACK_BYTES = 40 };

static bool may_reduce_angles(const char *text) {
    return strstr(text, "double") || strstr(text, "digamma1(") || strstr(text, "random_normal(") ||
           strstr(text, "tanf(");
}

/* The driver takes the first plan, or if it has a stack the next one without (driver/fit.c); it
 * tries more of them. */
enum { PLANS_MAX = 6 };
typedef struct tested {
    hn_kernel_code plans[PLANS_MAX]; /* text and name */
    uint32_t count;
} tested;

typedef struct unit {
    hn_future *future;
    const hn_target *target;
    tested *kernels;
    uint32_t count;
} unit;

/* The kernels for a target: those that were seen, and those of the next unit. */
typedef struct level {
    hn_target target;
    hn_strmap seen;
    size_t bytes;
    struct {
        tested *items;
        uint32_t count, cap;
    } next;
    uint32_t kernels, replaced, most_registers;
} level;

typedef struct collector {
    hn_arena arena; /* what lives as long as the program */
    hn_service *service;
    hn_scope *scope;
    level levels[TARGETS_MAX];
    uint32_t level_count;
    struct {
        unit *items;
        uint32_t count, cap;
    } units;
    uint32_t passed, failed;
    case_totals totals;
} collector;

/* ---- kernels ---- */

static hn_status submit_text(collector *c, const hn_target *target,
                             const hn_kernel_code *const *kernels, uint32_t count,
                             hn_future **out) {
    const char **entries, *flags[8];
    size_t flag_count = 0;
    hn_strbuf text;
    HN_NEW(&c->arena, entries, count);
    for (uint32_t k = 0; k < count; k++) entries[k] = kernels[k]->name;
    for (const char *const *flag = target->kind->flags; *flag; flag++) flags[flag_count++] = *flag;
    hn_strbuf_init(&text);
    hn_status status = target->kind->unit(kernels, count, target, &text);
    const hn_source source = {.name = entries[0],
                              .language = target->kind->language,
                              .text = text.ptr,
                              .text_len = text.len,
                              .entries = entries,
                              .entry_count = count,
                              .flags = flags,
                              .flag_count = flag_count,
                              .target = &target->architecture,
                              .target_count = 1};
    if (!status) status = hn_compile_submit(c->scope, &source, out);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status submit(collector *c, level *l) {
    unit u = {.target = &l->target, .kernels = l->next.items, .count = l->next.count};
    const hn_kernel_code **kernels;
    if (!u.count) return NULL;
    HN_NEW(&c->arena, kernels, u.count);
    for (uint32_t k = 0; k < u.count; k++) kernels[k] = &u.kernels[k].plans[0];
    HN_TRY(submit_text(c, &l->target, kernels, u.count, &u.future));
    HN_PUSH(&c->arena, &c->units, u);
    memset(&l->next, 0, sizeof l->next);
    l->bytes = 0;
    return NULL;
}

static hn_status keep_text(collector *c, const hn_kernel_code *code, hn_kernel_code *out) {
    char *text = hn_arena_strndup(&c->arena, code->text.ptr, code->text.len);
    if (!text) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a kernel");
    *out = (hn_kernel_code){.threads = code->threads};
    hn_kernel_code_name(out, (hn_str){text, code->text.len});
    return NULL;
}

/* A new kernel, with its other plans. */
static hn_status add_kernel(collector *c, level *l, const hn_kernel_code *plans, uint32_t count) {
    const size_t len = strlen(plans[0].name);
    tested kernel = {.count = count};
    char *name = hn_arena_strndup(&c->arena, plans[0].name, len);
    if (!name) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a kernel");
    HN_TRY(hn_strmap_put(&l->seen, (hn_str){name, len}, 1));
    for (uint32_t k = 0; k < count; k++) HN_TRY(keep_text(c, &plans[k], &kernel.plans[k]));
    HN_PUSH(&c->arena, &l->next, kernel);
    l->kernels++;
    l->bytes += plans[0].text.len;
    return l->bytes < UNIT_BYTES ? NULL : submit(c, l);
}

static hn_status add_step_for(collector *c, level *l, const hn_program *p, const hn_kernel *kernel,
                              hn_arena *arena, hn_arena *scratch) {
    hn_form *forms[PLANS_MAX];
    hn_kernel_code codes[PLANS_MAX];
    uint32_t count = 0;
    hn_arena_reset(scratch);
    HN_TRY(l->target.kind->plan(p, kernel, &l->target, PLANS_MAX, arena, scratch, forms, &count));
    for (uint32_t k = 0; k < count; k++) {
        hn_arena_reset(scratch);
        HN_TRY(hn_target_print_form(&l->target, forms[k], arena, scratch, &codes[k]));
        if (!k && hn_strmap_get(&l->seen, hn_str_of(codes[0].name))) return NULL;
    }
    return count ? add_kernel(c, l, codes, count) : HN_ERROR(HN_INTERNAL, "no plan");
}

/* The kernels of an operation, for where no library does the call. */
static hn_status add_operation(collector *c, const hn_program *p, hn_item item, hn_arena *arena) {
    const hn_extern *call = p->items.items[item].ext;
    for (uint32_t k = 0; k < c->level_count; k++) {
        level *l = &c->levels[k];
        const hn_target_kind *kind = l->target.kind;
        hn_kernel_code code = {.threads = 0};
        if (!hn_operation_of(kind->limits->operations, p, call)) continue;
        HN_TRY(kind->operation(p, call, arena, &code));
        for (const hn_kernel_code *each = &code; each && each->text.ptr; each = each->next)
            if (!hn_strmap_get(&l->seen, hn_str_of(each->name))) HN_TRY(add_kernel(c, l, each, 1));
    }
    return NULL;
}

static hn_status add_step(collector *c, const hn_program *p, const hn_kernel *kernel,
                          hn_arena *arena, hn_arena *scratch) {
    for (uint32_t k = 0; k < c->level_count; k++)
        HN_TRY(add_step_for(c, &c->levels[k], p, kernel, arena, scratch));
    return NULL;
}

/* One schedule for all targets, as the driver has it. */
static hn_status add_program(collector *c, hn_program *p, hn_arena *arena, hn_arena *scratch) {
    hn_schedule schedule = {0};
    const hn_target *first = &c->levels[0].target;
    const hn_sched_options sched = {.threads = hn_target_threads(first, 1),
                                    .limits = first->kind->limits};
    HN_TRY(hn_schedule_program(p, &sched, arena, scratch, &schedule));
    for (uint32_t k = 0; k < schedule.steps.count; k++) {
        const hn_step *step = &schedule.steps.items[k];
        if (step->kind == HN_STEP_KERNEL) HN_TRY(add_step(c, p, step->kernel, arena, scratch));
        if (step->kind == HN_STEP_EXTERN) HN_TRY(add_operation(c, p, step->item, arena));
    }
    return NULL;
}

/* The graph is changed. */
static hn_status add_graph(collector *c, hn_graph *graph) {
    hn_arena arena, scratch;
    hn_program *p;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_status status = hn_program_of_graph(graph, &arena, &p);
    if (!status) status = add_program(c, p, &arena, &scratch);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return status;
}

/* ---- where they come from ---- */

static hn_status add_model(collector *c, const char *folder) {
    char path[512];
    hn_model_file *file;
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    snprintf(path, sizeof path, "%s/model.pt2", folder);
    HN_TRY(hn_model_open(path, &file));
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = file->importer->import(file, NULL, &arena, sym, &graph);
    if (!status) status = add_graph(c, graph);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    hn_model_close(file);
    return status;
}

static hn_status add_case(void *user, hn_arena *arena, hn_graph *graph, const hn_ref_tensor *inputs,
                          uint32_t input_count, hn_ref_tensor *out_outputs) {
    HN_TRY(hn_interpret(arena, graph, inputs, input_count, out_outputs));
    return add_graph(user, graph);
}

static hn_status add_cases(collector *c, const char *part) {
    if (sscanf(part, "%u/%u", &c->totals.part, &c->totals.parts) != 2)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' is no part; '0/20' is one", part);
    return case_run_folder("tests/ops/cases", add_case, c, &c->totals);
}

static hn_status add_random(collector *c, uint64_t seed) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    double tolerance[HN_RANDOM_MAX_TENSORS] = {0};
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_create(&arena, sym, &graph);
    if (!status) status = hn_random_graph_add(seed, graph, tolerance);
    if (!status) status = add_graph(c, graph);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return hn_status_annotate(status, "seed %llu", (unsigned long long)seed);
}

/* Of elements of this dtype; sizes are known in the run only. */
static hn_status add_list(collector *c, const char *format, const char *dtype) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph = NULL;
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_strbuf_init(&text);
    for (const char *at = format; *at; at++) {
        if (*at == '$') hn_strbuf_puts(&text, dtype);
        else hn_strbuf_append(&text, at, 1);
    }
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_graph_parse(&arena, sym, hn_strbuf_str(&text), &graph);
    if (!status) status = add_graph(c, graph);
    if (graph) hn_graph_deinit(graph);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
    return status;
}

/* Of values at sorted places: rows of so many columns. */
static hn_status add_combination(collector *c, const char *dtype, int mode, int columns,
                                 bool has_x) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program;
    char text[600];
    snprintf(text, sizeof text,
             "program {\n  b1 : input 0 i%d[2000]\n  b2 : input 1 i64[2000]\n"
             "  b3 : input 2 %s[2000, %d]\n  b4 : input 3 %s[900, %d]\n"
             "  b5 : output %s[900, %d] extent %d\n"
             "  combine_sorted(out b5[0], b1[0], b2[0], b3[0], %s) params [900, %d, 2000, %d]\n"
             "  result 0 = b5[0] [900, %d]\n}\n",
             has_x ? 64 : 32, dtype, columns, dtype, columns, dtype, columns, 900 * columns,
             has_x ? "b4[0]" : "none", columns, mode, columns);
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, hn_str_of(text), &program);
    if (!status) status = add_program(c, program, &arena, &scratch);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status add_lists(collector *c) {
    static const char *const dtypes[] = {"f64", "f32", "bf16", "i64", "i32", "i8"};
    static const char sorts[] = "graph {\n"
                                "  symbol size s0 in [0, inf]\n"
                                "  input user %x : $[7, s0] \"x\"\n"
                                "  %v, %i = sort(%x, 1, true, true)\n"
                                "  %t, %j = topk(%x, 5, 1, true, true)\n"
                                "  output user %v \"v\"\n  output user %i \"i\"\n"
                                "  output user %t \"t\"\n  output user %j \"j\"\n}\n";
    static const char tops[] = "graph {\n"
                               "  input user %x : $[2, 70000] \"x\"\n"
                               "  %t, %j = topk(%x, 5, 1, true, true)\n"
                               "  output user %t \"t\"\n  output user %j \"j\"\n}\n";
    static const char rows[] =
        "graph {\n" /* that fit a group, of known lengths */
        "  input user %x : $[7, 20] \"x\"\n  input user %y : $[7, 256] \"y\"\n"
        "  input user %z : $[7, 3000] \"z\"\n"
        "  %v, %i = sort(%x, 1, true, true)\n"
        "  %t, %j = topk(%y, 50, 1, true, true)\n"
        "  %w, %k = sort(%z, 1, true, true)\n"
        "  output user %v \"v\"\n  output user %j \"j\"\n"
        "  output user %w \"w\"\n}\n";
    static const char boxes[] = "graph {\n"
                                "  symbol size s0 in [0, inf]\n"
                                "  input user %x : $[s0, 4] \"x\"\n"
                                "  %k = nms(%x, 0.5)\n"
                                "  output user %k \"k\"\n}\n";
    static const char ones[] = "graph {\n"
                               "  symbol size s0 in [0, inf]\n"
                               "  symbol data u0 in [0, inf]\n"
                               "  input user %x : bool[3, s0] \"x\"\n"
                               "  %n = nonzero(%x) : i64[u0, 2]\n"
                               "  output user %n \"n\"\n}\n";
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++) {
        HN_TRY(add_list(c, sorts, dtypes[d]));
        HN_TRY(add_list(c, tops, dtypes[d]));
        HN_TRY(add_list(c, rows, dtypes[d]));
    }
    for (size_t d = 0; d < HN_COUNT_OF(dtypes); d++)
        for (int mode = HN_COMBINE_SET; mode <= (d < 3 ? HN_COMBINE_MAX : HN_COMBINE_SET); mode++) {
            HN_TRY(add_combination(c, dtypes[d], mode, 1, true));
            HN_TRY(add_combination(c, dtypes[d], mode, 70, mode % 2 != 0));
        }
    for (size_t d = 0; d < 2; d++) HN_TRY(add_list(c, boxes, dtypes[d]));
    return add_list(c, ones, "");
}

/* ---- what came of them ---- */

static bool is_good(level *l, const hn_kernel_code *kernel, const hn_image *image,
                    hn_cubin_use *use) {
    const uint32_t stack = may_reduce_angles(kernel->text.ptr) ? LIBRARY_STACK_BYTES : 0;
    if (!hn_cubin_use_find((hn_str){image->bytes, image->len}, kernel->name, use)) return false;
    if (use->registers > l->most_registers) l->most_registers = use->registers;
    return use->registers && use->shared_bytes <= SHARED_MAX && use->stack_bytes <= stack;
}

/* Whether some plan behind the first one is good. */
static bool has_good_plan(collector *c, level *l, const tested *kernel) {
    const hn_kernel_code *others[PLANS_MAX];
    hn_artifact *artifact = NULL;
    hn_future *future;
    hn_image image;
    hn_cubin_use use;
    bool good = false;
    for (uint32_t k = 1; k < kernel->count; k++) others[k - 1] = &kernel->plans[k];
    if (kernel->count < 2) return false;
    hn_status status = submit_text(c, &l->target, others, kernel->count - 1, &future);
    if (!status) status = hn_future_wait(future, -1, &artifact);
    if (!status) status = hn_artifact_image_find(artifact, l->target.architecture, &image);
    for (uint32_t k = 1; k < kernel->count && !status && !good; k++)
        good = is_good(l, &kernel->plans[k], &image, &use);
    if (status)
        printf("FAILED plans of %s: %s\n", kernel->plans[0].name, hn_status_message(status));
    hn_status_free(status);
    hn_artifact_release(artifact);
    return good;
}

static void check_kernel(collector *c, level *l, const tested *kernel, const hn_image *image) {
    const hn_kernel_code *first = &kernel->plans[0];
    hn_cubin_use use = {.registers = 0};
    bool good = is_good(l, first, image, &use);
    if (!good) good = has_good_plan(c, l, kernel), l->replaced += good;
    c->passed += good;
    c->failed += !good;
    if (!good)
        printf("FAILED %s for %s, %u threads: %u registers, %u bytes of stack, %u shared\n%s",
               first->name, l->target.name, first->threads, use.registers, use.stack_bytes,
               use.shared_bytes, first->text.ptr);
}

static void check_unit(collector *c, const unit *u) {
    hn_artifact *artifact = NULL;
    hn_image image;
    level *l = (level *)(uintptr_t)u->target; /* its first member */
    hn_status status = hn_future_wait(u->future, -1, &artifact);
    if (!status) status = hn_artifact_image_find(artifact, u->target->architecture, &image);
    for (uint32_t k = 0; !status && k < u->count; k++) check_kernel(c, l, &u->kernels[k], &image);
    if (status) {
        c->failed += u->count;
        printf("FAILED a unit of %u kernels for %s: %s\n", u->count, u->target->name,
               hn_status_message(status));
    }
    hn_status_free(status);
    hn_artifact_release(artifact);
}

static hn_status finish(collector *c) {
    for (uint32_t k = 0; k < c->level_count; k++) HN_TRY(submit(c, &c->levels[k]));
    for (uint32_t k = 0; k < c->units.count; k++) check_unit(c, &c->units.items[k]);
    for (uint32_t k = 0; k < c->level_count; k++)
        printf("%s: %u kernels, %u by another plan, at most %u registers\n",
               c->levels[k].target.name, c->levels[k].kernels, c->levels[k].replaced,
               c->levels[k].most_registers);
    return NULL;
}

/* ---- the program ---- */

static hn_status begin(collector *c, const char *names) {
    HN_TRY(hn_service_create(&(hn_service_options){.cache_dir = ""}, &c->service));
    HN_TRY(hn_scope_create(c->service, &c->scope));
    while (*names) {
        const size_t len = strcspn(names, ",");
        level *l = &c->levels[c->level_count];
        if (c->level_count++ == TARGETS_MAX)
            return HN_ERROR(HN_INVALID_ARGUMENT, "too many targets");
        HN_TRY(hn_target_named((hn_str){names, len}, &l->target));
        hn_strmap_init(&l->seen, &c->arena);
        names += len + (names[len] == ',');
    }
    return NULL;
}

static hn_status run_options(collector *c, int argc, char **argv) {
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--targets") == 0) k++;
        else if (strcmp(argv[k], "--models") == 0)
            for (; k + 1 < argc && argv[k + 1][0] != '-'; k++) HN_TRY(add_model(c, argv[k + 1]));
        else if (strcmp(argv[k], "--cases") == 0 && k + 1 < argc) HN_TRY(add_cases(c, argv[++k]));
        else if (strcmp(argv[k], "--graphs") == 0 && k + 2 < argc) {
            const uint64_t from = strtoull(argv[k + 1], NULL, 10);
            for (uint64_t n = 0; n < strtoull(argv[k + 2], NULL, 10); n++)
                HN_TRY(add_random(c, from + n));
            k += 2;
        } else if (strcmp(argv[k], "--lists") == 0) {
            HN_TRY(add_lists(c));
        } else
            return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' is no option, or lacks its value", argv[k]);
    }
    return finish(c);
}

static bool lacks_compiler(const collector *c) {
    hn_strbuf identity;
    hn_strbuf_init(&identity);
    hn_status status =
        hn_service_toolchain_identity(c->service, c->levels[0].target.kind->language, &identity);
    hn_strbuf_deinit(&identity);
    if (status) printf("%s; make setup-cuda\n", hn_status_message(status));
    const bool lacks = status != NULL;
    hn_status_free(status);
    return lacks;
}

int main(int argc, char **argv) {
    collector *c = calloc(1, sizeof *c);
    const char *targets = "sm_80,sm_90a,sm_120", *ci = getenv("CI");
    for (int k = 1; k + 1 < argc; k++)
        if (strcmp(argv[k], "--targets") == 0) targets = argv[k + 1];
    if (!c) return 1;
    hn_arena_init(&c->arena);
    hn_status status = begin(c, targets);
    const bool lacks = !status && lacks_compiler(c);
    if (lacks) {
        const bool must = ci && strcmp(ci, "true") == 0;
        printf("0 passed, %d failed, %d skipped\n", must, !must);
        c->failed = must;
    } else {
        if (!status) status = run_options(c, argc, argv);
        if (status) printf("FAILED %s\n", hn_status_message(status));
        c->failed += (status != NULL) + c->totals.failed + c->totals.unsupported;
        printf("%u passed, %u failed\n", c->passed, c->failed);
    }
    hn_status_free(status);
    hn_scope_destroy(c->scope);
    hn_service_destroy(c->service);
    hn_arena_deinit(&c->arena);
    const bool failed = c->failed > 0;
    free(c);
    return failed;
}
