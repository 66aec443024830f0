/* What depends on weights alone, compiled and run: a module computes it when it is opened and when
 * weights are exchanged, and calls give what the reference interpreter does. */
#include "unit/opt/equivalence.h"

#include "bundle/view.h"
#include "driver/driver.h"
#include "henry/debug.h"
#include "henry/module.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 3, RANK = 4, WEIGHTS = 4 };

/* ---- graphs ---- */

static hn_value add_input(hn_graph *g, hn_input_kind kind, const char *name, int64_t rows,
                          int64_t cols) {
    const hn_expr sizes[] = {hn_sym_int(g->sym, rows), hn_sym_int(g->sym, cols)};
    hn_input in = {.kind = kind, .name = hn_str_of(name)};
    in.value = hn_graph_add_tensor(g, HN_DTYPE_F32, 2, sizes, NULL, in.name);
    if (kind != HN_INPUT_USER)
        in.storage = hn_graph_add_storage(
            g, (hn_storage){.size_bytes = (size_t)(rows * cols) * 4, .file_record = HN_STR("")});
    EXPECT_OK(hn_graph_add_input(g, in));
    return in.value;
}

static hn_value norm(hn_graph *g, hn_value v, hn_value scale) {
    const hn_value squares = hn_b_binary(g, HN_OP_MUL, v, v),
                   sum = hn_b_reduce(g, HN_OP_SUM, squares, (uint32_t[]){1}, 1, true),
                   unit = hn_b_binary(g, HN_OP_DIV, v, hn_b_unary(g, HN_OP_SQRT, sum));
    return hn_b_binary(g, HN_OP_MUL, unit, scale);
}

/* The rows of x are a size that calls bring, and something is required of it. */
static hn_value add_rows(hn_graph *g, int64_t cols) {
    hn_sym *sym = g->sym;
    const hn_expr rows = hn_sym_symbol(sym, HN_STR("s0"), HN_SYMBOL_SIZE, 1, 4096),
                  sizes[] = {rows, hn_sym_int(sym, cols)};
    hn_input in = {.kind = HN_INPUT_USER, .name = HN_STR("x")};
    hn_sym_set_hint(sym, rows, ROWS);
    hn_sym_require(sym, HN_REL_NE, hn_sym_mod(sym, rows, hn_sym_int(sym, 7)), hn_sym_int(sym, 0),
                   "no weeks");
    in.value = hn_graph_add_tensor(g, HN_DTYPE_F32, 2, sizes, NULL, in.name);
    EXPECT_OK(hn_graph_add_input(g, in));
    return in.value;
}

/* y = x @ f(w + b @ a): which f, and what else leaves the graph, is as the seed says. */
static void make_graph(eq_graph *e, uint64_t seed) {
    static const int64_t sizes[] = {64, 65, 97, 101, 128, 129};
    uint64_t state = seed;
    eq_begin(e);
    EXPECT_OK(hn_graph_create(&e->arena, e->sym, &e->g));
    hn_graph *g = e->g;
    const int64_t n = sizes[eq_random(&state) % HN_COUNT_OF(sizes)];
    const hn_value x = seed % 2 ? add_input(g, HN_INPUT_USER, "x", ROWS, n) : add_rows(g, n),
                   w = add_input(g, HN_INPUT_PARAMETER, "w", n, n),
                   a = add_input(g, HN_INPUT_PARAMETER, "a", RANK, n),
                   b = add_input(g, HN_INPUT_PARAMETER, "b", n, RANK),
                   scale = add_input(g, HN_INPUT_BUFFER, "scale", n, 1);
    hn_value v = hn_b_binary(g, HN_OP_ADD, w, hn_b_matmul(g, b, a, 0));
    const uint64_t form = eq_random(&state);
    if (form & 1) v = norm(g, v, scale);
    const hn_value u = form & 2 ? hn_b_transpose(g, v, 0, 1) : v;
    hn_value results[3] = {hn_b_matmul(g, x, u, 0)};
    uint32_t count = 1;
    if (form & 4) results[count++] = v;
    if (form & 8)
        results[count++] =
            hn_b_binary(g, HN_OP_MUL, x, hn_b_reduce(g, HN_OP_AMAX, v, (uint32_t[]){0}, 1, true));
    for (uint32_t k = 0; k < count; k++)
        EXPECT_OK(hn_graph_add_output(
            g, (hn_output){.kind = HN_OUTPUT_USER, .value = results[k], .name = HN_STR("")}));
    EXPECT_OK(hn_graph_status(g));
    eq_fill_storages(&e->arena, g);
}

static hn_compiled *compile(hn_graph *g, int64_t computed_bytes) {
    hn_service *service = NULL;
    hn_compiled *c = NULL;
    EXPECT_OK(hn_service_create(&(hn_service_options){.cache_dir = ""}, &service));
    EXPECT_OK(hn_compile_graph(
        g, service, &(hn_compile_options){.threads = 2, .computed_weights_bytes = computed_bytes},
        &c));
    hn_service_destroy(service);
    return c;
}

static hn_module *load(const hn_compiled *c) {
    hn_module *m = NULL;
    if (c) EXPECT_OK(hn_compiled_load(c, &(hn_module_options){.threads = 2}, &m));
    return m;
}

/* A compilation takes the graph, so each has its own. */
static hn_module *load_graph(uint64_t seed, hn_metrics *out) {
    eq_graph e;
    make_graph(&e, seed);
    hn_compiled *c = compile(e.g, 0);
    hn_module *m = load(c);
    hn_compiled_metrics_get(c, out);
    hn_compiled_release(c);
    eq_end(&e);
    return m;
}

/* ---- against the interpreter ---- */

static hn_tensor *tensor(const float *data, int64_t rows, int64_t cols) {
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32,
                                                 .rank = 2,
                                                 .sizes = (int64_t[]){rows, cols},
                                                 .data = (void *)(uintptr_t)data},
                               &t));
    return t;
}

/* Of the graph with the bytes that its storages have now. */
static bool matches(hn_graph *g, hn_tensor *const *outputs, const hn_ref_tensor *x) {
    hn_arena arena;
    hn_ref_tensor want[3], got;
    bool same = true;
    hn_arena_init(&arena);
    EXPECT_OK(hn_interpret(&arena, g, x, 1, want));
    for (uint32_t k = 0; k < g->outputs.count; k++) {
        EXPECT_OK(hn_ref_tensor_load(&arena, want[k].dtype, want[k].rank, want[k].sizes, NULL,
                                     hn_tensor_data(outputs[k]), &got));
        same &= hn_ref_compare(&got, &want[k], 2e-4, 1e-4, NULL);
    }
    hn_arena_deinit(&arena);
    return same;
}

typedef struct call {
    hn_ref_tensor x;
    float *data;
    hn_tensor *input, *outputs[3];
    hn_arena arena;
} call;

static void call_begin(call *c, const hn_graph *g) {
    uint64_t state = 9;
    const eq_options finite = {.finite = true};
    hn_arena_init(&c->arena);
    eq_describe(g, g->inputs.items[0].value, &c->x);
    eq_fill(&c->arena, &c->x, &state, 0, &finite, false);
    c->data = hn_arena_alloc(&c->arena, (size_t)c->x.numel * sizeof *c->data);
    hn_ref_tensor_store(&c->x, c->data);
    c->input = tensor(c->data, c->x.sizes[0], c->x.sizes[1]);
    memset(c->outputs, 0, sizeof c->outputs);
}

static void call_end(call *c) {
    hn_tensor_release(c->input);
    hn_arena_deinit(&c->arena);
}

static bool runs_like(hn_module *m, hn_graph *g) {
    call c;
    call_begin(&c, g);
    EXPECT_OK(hn_module_run(m, &c.input, 1, c.outputs, g->outputs.count));
    const bool same = c.outputs[0] && matches(g, c.outputs, &c.x);
    for (uint32_t k = 0; k < g->outputs.count; k++) hn_tensor_release(c.outputs[k]);
    call_end(&c);
    return same;
}

/* Other numbers in a storage of the graph, and in the module's weight. */
static hn_status exchange(hn_module *m, eq_graph *e, uint32_t input, uint64_t seed, bool borrow) {
    const hn_input *in = &e->g->inputs.items[input];
    hn_storage *storage = &e->g->storages.items[in->storage];
    hn_ref_tensor t;
    eq_describe(e->g, in->value, &t);
    float *fresh = hn_arena_alloc(&e->arena, storage->size_bytes);
    for (size_t k = 0; k < storage->size_bytes / 4; k++)
        fresh[k] = (float)(eq_random(&seed) % 1000) / 500 - 1;
    storage->data = (const uint8_t *)fresh;
    char name[16];
    snprintf(name, sizeof name, HN_STR_FMT, HN_STR_ARG(in->name));
    hn_named_tensor given = {name, tensor(fresh, t.sizes[0], t.sizes[1])};
    hn_status status = hn_module_weights_replace(m, &given, 1, borrow);
    hn_tensor_release(given.tensor);
    return status;
}

TEST(random_programs_compute_weights_once_and_follow_an_exchange) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        eq_graph reference;
        hn_metrics metrics;
        hn_module_stats stats;
        make_graph(&reference, seed);
        hn_module *m = load_graph(seed, &metrics);
        EXPECT(hn_metrics_value(&metrics, "weights_computed_once") > 0);
        hn_module_stats_get(m, &stats);
        EXPECT_INT(stats.weights_computed_bytes,
                   hn_metrics_value(&metrics, "weights_computed_bytes"));
        EXPECT(runs_like(m, reference.g));
        for (uint32_t k = 1; m && k <= WEIGHTS; k++) {
            EXPECT_OK(exchange(m, &reference, k, seed + k, k == 2));
            if (!runs_like(m, reference.g))
                HN_TEST_FAIL("seed %u: other results behind an exchange of weight %u",
                             (unsigned)seed, k);
        }
        hn_module_release(m);
        eq_end(&reference);
    }
}

TEST(nothing_is_computed_once_if_the_options_say_so) {
    eq_graph e, reference;
    hn_bundle b;
    size_t len;
    make_graph(&e, 3);
    make_graph(&reference, 3);
    hn_compiled *c = compile(e.g, -1);
    const void *image = hn_compiled_image(c, &len);
    EXPECT_OK(hn_bundle_open(image, len, true, &b));
    EXPECT_INT(b.weights_program_count, 0);
    EXPECT(b.header->version == HNB_VERSION_SINGLE);
    hn_module *m = load(c);
    EXPECT(runs_like(m, reference.g));
    hn_module_release(m);
    hn_compiled_release(c);
    eq_end(&e);
    eq_end(&reference);
}

/* ---- those who look ---- */

typedef struct looker {
    uint32_t of_weights, of_model;
    uint64_t last_call;
} looker;

static hn_status look(void *user, const hn_step_info *step, uint64_t *note) {
    looker *l = user;
    (void)note;
    *(*step->program ? &l->of_weights : &l->of_model) += 1;
    if (*step->program) EXPECT_STR(step->program, "weights");
    if (*step->program) l->last_call = step->call;
    return NULL;
}

TEST(hooks_see_the_steps_of_the_program_of_weights) {
    eq_graph reference;
    hn_metrics metrics;
    looker l = {0};
    make_graph(&reference, 3);
    hn_module *m = load_graph(3, &metrics), *program = hn_module_weights_program(m);
    const hn_step_hook hook = {.before = look, .user = &l};
    EXPECT(program);
    const uint32_t steps = hn_module_step_count(program);
    EXPECT(steps > 0);
    EXPECT_OK(hn_module_hook_add(program, &hook));
    EXPECT_OK(hn_module_hook_add(m, &hook));
    EXPECT(runs_like(m, reference.g));
    EXPECT(l.of_model > 0);
    EXPECT_INT(l.of_weights, 0);
    EXPECT_OK(hn_module_weights_recompute(m));
    EXPECT_INT(l.of_weights, steps);
    EXPECT_OK(exchange(m, &reference, 2, 5, false));
    EXPECT_INT(l.of_weights, 2 * steps);
    EXPECT_INT(l.last_call, 2);
    EXPECT(runs_like(m, reference.g));
    EXPECT_OK(hn_module_hook_remove(program, &hook));
    EXPECT_OK(hn_module_weights_recompute(m));
    EXPECT_INT(l.of_weights, 2 * steps);
    EXPECT(runs_like(m, reference.g));
    hn_module_release(m);
    eq_end(&reference);
}

TEST(the_program_of_weights_cannot_be_run_by_itself) {
    hn_metrics metrics;
    hn_tensor *outputs[3] = {NULL};
    hn_module *m = load_graph(2, &metrics), *program = hn_module_weights_program(m);
    EXPECT_ERROR(hn_module_run(program, NULL, 0, outputs, hn_module_output_count(program)),
                 HN_INVALID_ARGUMENT, "the program of weights runs with the module");
    EXPECT(!hn_module_weights_program(program));
    EXPECT_OK(hn_module_weights_recompute(program)); /* it has no such program */
    EXPECT(!hn_module_weights_program(NULL));
    hn_module_release(m);
}

static hn_status count_lines(void *user, const hn_debug_event *event) {
    looker *l = user;
    *(*event->step->program ? &l->of_weights : &l->of_model) += 1;
    return NULL;
}

/* One that is attached later sees what comes later; and runs by number are runs of the model. */
TEST(the_debugger_looks_at_the_program_of_weights) {
    eq_graph reference;
    hn_metrics metrics;
    looker l = {0};
    hn_debug *d = NULL;
    hn_debug_options options = {.level = HN_DEBUG_NAMES, .sink = count_lines, .user = &l};
    make_graph(&reference, 3);
    hn_module *m = load_graph(3, &metrics);
    const uint32_t steps = hn_module_step_count(hn_module_weights_program(m));
    EXPECT_OK(hn_debug_attach(m, &options, &d));
    EXPECT_OK(exchange(m, &reference, 2, 5, false));
    EXPECT_INT(l.of_weights, steps);
    EXPECT(runs_like(m, reference.g));
    EXPECT(l.of_model > 0);
    hn_debug_detach(d);
    options.first_call = 1;
    EXPECT_OK(hn_debug_attach(m, &options, &d));
    EXPECT_OK(hn_module_weights_recompute(m));
    EXPECT_INT(l.of_weights, steps);
    hn_module_release(m);
    eq_end(&reference);
}

/* ---- threads ---- */

typedef struct runner {
    hn_module *m;
    hn_graph *graphs[2]; /* before and behind each exchange */
    atomic_bool *stop;
    uint32_t wrong, runs;
} runner;

static void *run_often(void *context) {
    runner *r = context;
    call c;
    hn_arena arena;
    hn_ref_tensor want[2][3], got;
    hn_arena_init(&arena);
    call_begin(&c, r->graphs[0]);
    for (int k = 0; k < 2; k++) EXPECT_OK(hn_interpret(&arena, r->graphs[k], &c.x, 1, want[k]));
    while (!atomic_load(r->stop) || !r->runs) {
        bool found = false;
        EXPECT_OK(hn_module_run(r->m, &c.input, 1, c.outputs, r->graphs[0]->outputs.count));
        EXPECT_OK(hn_ref_tensor_load(&arena, HN_DTYPE_F32, 2, want[0][0].sizes, NULL,
                                     hn_tensor_data(c.outputs[0]), &got));
        for (int k = 0; k < 2; k++) found |= hn_ref_compare(&got, &want[k][0], 2e-4, 1e-4, NULL);
        r->wrong += !found;
        r->runs++;
        for (uint32_t k = 0; k < r->graphs[0]->outputs.count; k++) {
            hn_tensor_release(c.outputs[k]);
            c.outputs[k] = NULL;
        }
    }
    call_end(&c);
    hn_arena_deinit(&arena);
    return NULL;
}

/* Of the weights of one graph. */
static hn_status set_weights(hn_module *m, const eq_graph *e) {
    hn_named_tensor given[] = {{"a", NULL}, {"b", NULL}};
    for (int k = 0; k < 2; k++) {
        const hn_input *in = &e->g->inputs.items[2 + k];
        hn_ref_tensor t;
        eq_describe(e->g, in->value, &t);
        given[k].tensor =
            tensor((const float *)(const void *)e->g->storages.items[in->storage].data, t.sizes[0],
                   t.sizes[1]);
    }
    hn_status status = hn_module_weights_replace(m, given, 2, false);
    for (int k = 0; k < 2; k++) hn_tensor_release(given[k].tensor);
    return status;
}

TEST(threads_see_all_of_an_exchange_or_nothing) {
    eq_graph old[2], other[2];
    hn_metrics metrics;
    atomic_bool stop = false;
    runner runners[2];
    pthread_t threads[2];
    hn_module *m = load_graph(2, &metrics);
    for (int k = 0; k < 2 && m; k++) { /* graphs are of one thread each */
        make_graph(&old[k], 2);
        make_graph(&other[k], 2);
        for (uint32_t input = 2; input <= 3; input++) {
            const hn_storage *from = &old[k].g->storages.items[input];
            float *fresh = hn_arena_alloc(&other[k].arena, from->size_bytes);
            memcpy(fresh, from->data, from->size_bytes);
            for (size_t i = 0; i < from->size_bytes / 4; i++) fresh[i] *= -1.5f;
            other[k].g->storages.items[input].data = (const uint8_t *)fresh;
        }
        runners[k] = (runner){.m = m, .graphs = {old[k].g, other[k].g}, .stop = &stop};
        EXPECT(pthread_create(&threads[k], NULL, run_often, &runners[k]) == 0);
    }
    eq_graph sets[2];
    for (int k = 0; k < 2; k++) make_graph(&sets[k], 2);
    for (uint32_t input = 2; input <= 3; input++)
        for (size_t i = 0; i < sets[1].g->storages.items[input].size_bytes / 4; i++)
            ((float *)(uintptr_t)sets[1].g->storages.items[input].data)[i] *= -1.5f;
    for (int round = 0; m && round < 20; round++) EXPECT_OK(set_weights(m, &sets[(round + 1) % 2]));
    atomic_store(&stop, true);
    for (int k = 0; k < 2 && m; k++) {
        pthread_join(threads[k], NULL);
        EXPECT_INT(runners[k].wrong, 0);
        eq_end(&old[k]);
        eq_end(&other[k]);
    }
    for (int k = 0; k < 2; k++) eq_end(&sets[k]);
    hn_module_release(m);
}

/* ---- fork ---- */

/* A child has what was computed, and computes by itself. */
TEST(a_child_exchanges_weights_of_its_own) {
    eq_graph e;
    hn_metrics metrics;
    int how = 0;
    make_graph(&e, 4);
    hn_module *m = load_graph(4, &metrics);
    const pid_t child = fork();
    if (child == 0) {
        bool good = runs_like(m, e.g);
        hn_status status = exchange(m, &e, 2, 77, false);
        good = good && !status && runs_like(m, e.g);
        _exit(good ? 0 : 1);
    }
    EXPECT(child > 0 && waitpid(child, &how, 0) == child && how == 0);
    EXPECT(runs_like(m, e.g));
    hn_module_release(m);
    eq_end(&e);
}

/* ---- errors ---- */

static const char looked_up[] =
    "graph { storage 1 : 262144 bytes storage 2 : 512 bytes\n"
    "input parameter %t : f32[64, 1024] storage 1 offset 0 \"t\"\n"
    "input buffer %i : i64[64] storage 2 offset 0 \"i\"\n"
    "input user %x : f32[64, 1024] \"x\"\n"
    "%r = index(%t, [%i], wrap=false) %e = exp(%r) %y = mul(%x, %e) output user %y \"\" }\n";

TEST(an_index_out_of_bounds_is_told_when_a_module_is_opened_or_weights_are_exchanged) {
    eq_graph e;
    int64_t good[64] = {0}, bad[64] = {[7] = 64};
    hn_module *m = NULL;
    hn_module_stats stats;
    for (int is_bad = 0; is_bad < 2; is_bad++) {
        if (!eq_parse(&e, looked_up)) return;
        eq_fill_storages(&e.arena, e.g);
        e.g->storages.items[2].data = (const uint8_t *)(is_bad ? bad : good);
        hn_compiled *c = compile(e.g, 0);
        if (is_bad) {
            hn_module *none;
            EXPECT_ERROR(hn_compiled_load(c, NULL, &none), HN_INVALID_ARGUMENT,
                         "cannot compute what depends on weights alone");
        } else {
            m = load(c);
        }
        hn_compiled_release(c);
        eq_end(&e);
    }
    hn_tensor *fresh = NULL;
    EXPECT_OK(hn_tensor_create(
        &(hn_tensor_desc){.type = HN_I64, .rank = 1, .sizes = (int64_t[]){64}, .data = bad},
        &fresh));
    EXPECT_ERROR(hn_module_weights_replace(m, &(hn_named_tensor){"i", fresh}, 1, false),
                 HN_INVALID_ARGUMENT, "out of");
    memset(bad, 0, sizeof bad);
    EXPECT_OK(hn_module_weights_replace(m, &(hn_named_tensor){"i", fresh}, 1, false));
    hn_tensor_release(fresh);
    hn_module_stats_get(m, &stats);
    EXPECT_INT(stats.weights_computed_bytes, 262144);
    EXPECT(stats.weights_compute_ns > 0);
    hn_module_release(m);
}

/* ---- bundles that are damaged ---- */

typedef void (*edit_fn)(hn_bundle *b);

static void spoil_digest(hn_bundle *b) {
    ((hnb_weights_program *)(uintptr_t)b->weights_program)->digest[3] ^= 1;
}
static void spoil_place(hn_bundle *b) {
    ((hnb_weights_program *)(uintptr_t)b->weights_program)->len += 64;
}
static void spoil_source(hn_bundle *b) { *(uint32_t *)(uintptr_t)b->weights_sources = 999; }
static void spoil_output(hn_bundle *b) {
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (b->storages[k].where == HNB_STORAGE_COMPUTED)
            ((hnb_storage *)(uintptr_t)b->storages)[k].offset = 7;
}
static void spoil_bytes(hn_bundle *b) {
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (b->storages[k].where == HNB_STORAGE_COMPUTED)
            ((hnb_storage *)(uintptr_t)b->storages)[k].bytes += 4;
}
static void make_outer(hn_bundle *b) {
    ((hnb_storage *)(uintptr_t)b->storages)[1].where = HNB_STORAGE_OUTER;
}
static void make_old(hn_bundle *b) { ((hnb_header *)(uintptr_t)b->header)->version = HNB_VERSION; }

TEST(a_damaged_program_of_weights_is_refused) {
    static const edit_fn edits[] = {spoil_digest, spoil_place, spoil_source, spoil_output,
                                    spoil_bytes,  make_outer,  make_old};
    eq_graph e;
    size_t len;
    make_graph(&e, 3);
    hn_compiled *c = compile(e.g, 0);
    const void *image = hn_compiled_image(c, &len);
    for (size_t k = 0; k < HN_COUNT_OF(edits); k++) {
        hn_bundle b, file;
        hn_module *m = NULL;
        void *copy = aligned_alloc(64, (len + 63) / 64 * 64);
        if (!copy) abort();
        memcpy(copy, image, len);
        EXPECT_OK(hn_bundle_open(copy, len, false, &b));
        EXPECT_INT(b.weights_program_count, 1);
        edits[k](&b);
        hn_status status = hn_bundle_open(copy, len, false, &file);
        if (!status) status = hn_bundle_programs_check(&file, edits[k] == spoil_digest);
        if (hn_status_code(status) != HN_CORRUPT) HN_TEST_FAIL("edit %zu is taken", k);
        hn_status_free(status);
        /* a reader that trusts digests is not led astray either */
        if (edits[k] != spoil_digest)
            EXPECT_ERROR(hn_module_load_memory(copy, len, true,
                                               &(hn_module_options){.skip_digest = true}, &m),
                         HN_CORRUPT, "");
        free(copy);
    }
    hn_compiled_release(c);
    eq_end(&e);
}

TEST_MAIN
