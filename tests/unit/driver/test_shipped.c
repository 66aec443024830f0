/* test_shipped.c: programs that were compiled with several forms of their kernels, which are tuned
 * where they run: hn_module_tune, and the bundle that it makes. No test depends on which form is
 * the fastest here. */
#include "bundle/retable.h"
#include "henry/bench.h"
#include "support/module_run.h"
#include "tune/list.h"
#include "unit/driver/scheduled.h"

static const char dynamic[] =
    "symbol size s0 in [1, 4096] hint 8\n input user %x : f32[s0, 40] \"x\"\n "
    "%m = sum(%x, dims=[1], keepdim=true) at \"total\" \"m.py:1\"\n %d = sub(%x, %m)\n "
    "%q = mul(%d, %d)\n %v = sum(%q, dims=[1], keepdim=true)\n "
    "%y = div(%d, %v) at \"norm\" \"m.py:2\"\n %c = sum(%x, dims=[0], keepdim=false) at \"down\" "
    "\"m.py:3\"\n output user %y \"y\"\n output user %c \"c\"";

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph; /* as it is given; that of the program is another one */
    hn_service *service;
    hn_compiled *compiled;
    hn_module *module;
} fixture;

static void parse(fixture *x, const char *statements, hn_graph **out) {
    hn_strbuf text;
    hn_sym *sym;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements);
    EXPECT_OK(hn_sym_create(&x->arena, &sym));
    EXPECT_OK(hn_graph_parse(&x->arena, sym, hn_strbuf_str(&text), out));
    hn_strbuf_deinit(&text);
}

/* False: this machine has no such device. */
static bool load(fixture *x) {
    hn_status status =
        hn_compiled_load(x->compiled, &(hn_module_options){.threads = 1}, &x->module);
    if (hn_status_code(status) != HN_NOT_FOUND) {
        EXPECT_OK(status);
        return true;
    }
    fprintf(stderr, "skipped: %s\n", hn_status_message(status));
    hn_status_free(status);
    return false;
}

/* `target`: NULL: the CPU of this machine. */
static bool begin_for(fixture *x, const char *target, const char *statements, int32_t forms) {
    const hn_compile_options options = {.threads = 1, .target = target, .forms_shipped = forms};
    hn_graph *graph;
    *x = (fixture){.module = NULL};
    hn_arena_init(&x->arena);
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &x->service));
    parse(x, statements, &x->graph);
    parse(x, statements, &graph);
    EXPECT_OK(hn_compile_graph(graph, x->service, &options, &x->compiled));
    hn_graph_deinit(graph);
    return load(x);
}

static void begin(fixture *x, const char *statements, int32_t forms) {
    EXPECT(begin_for(x, NULL, statements, forms));
}

static void end(fixture *x) {
    hn_module_release(x->module);
    hn_compiled_release(x->compiled);
    hn_graph_deinit(x->graph);
    hn_service_destroy(x->service);
    hn_arena_deinit(&x->arena);
}

/* The clock goes on by one with each look: all forms take the same. */
static hn_status tune(hn_module *module, int64_t budget_ns, hn_module_tuning **out) {
    static int64_t now;
    const hn_bench_options bench = {.now_ns = ticks,
                                    .disturbances = nobody,
                                    .clock_user = &now,
                                    .sample_ns = 1,
                                    .warmup_ns = 1,
                                    .max_rounds = 3};
    return hn_module_tune(module,
                          &(hn_module_tune_options){.budget_ns = budget_ns, .bench = &bench}, out);
}

/* ---- what is compiled ---- */

typedef struct seen {
    uint64_t variants; /* that ran */
    uint32_t most;     /* of a step */
} seen;

static hn_status look(void *user, const hn_step_info *step, uint64_t *note) {
    seen *s = user;
    (void)note;
    if (step->variant_count > 1) s->variants |= UINT64_C(1) << step->variant;
    if (step->variant_count > s->most) s->most = step->variant_count;
    return NULL;
}

/* The results are those of the interpreter at these sizes. */
static void check_runs(const fixture *x, hn_module *module, seen *s) {
    static const int64_t sizes[] = {1, 3, 8, 63, 64, 65, 300};
    EXPECT_OK(hn_module_hook_add(module, &(hn_step_hook){.before = look, .user = s}));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        hn_arena arena;
        hn_ref_tensor input, got[2], want[2];
        hn_strbuf text;
        hn_arena_init(&arena);
        hn_strbuf_init(&text);
        EXPECT_OK(hn_ref_tensor_init(&arena, HN_DTYPE_F32, 2, (int64_t[]){sizes[k], 40}, &input));
        for (int64_t i = 0; i < input.numel; i++)
            input.data.f[i] = (double)(i * 7919 % 61 - 30) / 8;
        EXPECT_OK(hn_test_module_run(&arena, module, &input, 1, got, 2));
        EXPECT_OK(hn_interpret(&arena, x->graph, &input, 1, want));
        for (uint32_t o = 0; o < 2; o++)
            if (!hn_ref_compare(&got[o], &want[o], 1e-4, 1e-4, &text))
                HN_TEST_FAIL("%lld rows, output %u: %s", (long long)sizes[k], o,
                             hn_strbuf_str(&text).ptr);
        hn_strbuf_deinit(&text);
        hn_arena_deinit(&arena);
    }
}

TEST(a_program_has_the_forms_but_runs_one) {
    fixture x;
    seen s = {0};
    begin(&x, dynamic, 4);
    check_runs(&x, x.module, &s);
    EXPECT_INT(s.variants, 1);
    EXPECT_INT(s.most, 4);
    end(&x);
}

/* ---- tuning ---- */

static bool is_table(uint32_t kind) {
    return kind == HNB_CHOICES || kind == HNB_BOXES || kind == HNB_TUNING;
}

static const hnb_section *sections_of(const hn_bundle *b) {
    return (const hnb_section *)(const void *)(b->bytes + sizeof(hnb_header));
}

/* Sections but tables, and code, are the same byte for byte. */
static void check_rest(const hn_bundle *a, const hn_bundle *b) {
    uint32_t equal = 0;
    for (uint32_t k = 0; k < a->header->section_count; k++)
        for (uint32_t e = 0; e < b->header->section_count; e++) {
            const hnb_section *s = &sections_of(a)[k], *t = &sections_of(b)[e];
            if (s->kind != t->kind || is_table(s->kind & ~HNB_SECTION_EXTRA)) continue;
            EXPECT(s->count == t->count && s->elem_bytes == t->elem_bytes);
            EXPECT(memcmp(a->bytes + s->offset, b->bytes + t->offset, s->count * s->elem_bytes) ==
                   0);
            equal++;
        }
    EXPECT(equal > 20);
    EXPECT(a->header->code_bytes && a->header->code_bytes == b->header->code_bytes);
    EXPECT(memcmp(a->code, b->code, a->header->code_bytes) == 0);
}

static void open_image(const void *bytes, size_t len, hn_bundle *out) {
    EXPECT_OK(hn_bundle_open(bytes, len, true, out));
    EXPECT_OK(hn_bundle_check_code(out));
}

static void check_races(const hn_module_tuning *t) {
    uint32_t sized = 0;
    EXPECT(t->is_complete && t->timed_calls && t->race_count > 2 * t->kernel_count);
    for (uint32_t k = 0; k < t->race_count; k++) {
        const hn_module_race *r = &t->races[k];
        sized += strncmp(r->sizes, "s0=", 3) == 0;
        EXPECT(*r->node && r->steps == 1 && r->was < r->report->count);
        EXPECT(r->report->count > 1 && r->report->count <= 4);
        for (uint32_t f = 0; f < r->report->count; f++)
            if (r->report->results[f].state == HN_BENCH_DROPPED)
                HN_TEST_FAIL("%s: %s", r->report->results[f].name, r->report->results[f].why);
    }
    EXPECT_INT(sized, t->race_count);
}

/* One for each race, which can be read. */
static void check_records(const hn_bundle *b, uint32_t count) {
    hn_arena arena;
    hn_tuning_list list;
    hn_tuning_damage damage;
    hn_arena_init(&arena);
    hn_tuning_list_init(&list, &arena);
    EXPECT_OK(hn_tuning_list_parse(&list, (hn_str){b->tuning, b->tuning_bytes}, &damage));
    EXPECT_INT(damage.lines, 0);
    EXPECT_INT(list.count, count);
    for (uint32_t k = 0; k < list.count; k++) EXPECT_OK(hn_tuning_record_check(&list.items[k]));
    hn_arena_deinit(&arena);
}

static void check_tuned(fixture *x) {
    hn_module_tuning *t;
    hn_module *tuned = NULL;
    hn_bundle before, after;
    const void *image;
    size_t len;
    seen s = {0};
    EXPECT_OK(tune(x->module, 60000000000, &t));
    check_races(t);
    image = hn_compiled_image(x->compiled, &len);
    open_image(image, len, &before);
    open_image(t->image, t->image_len, &after);
    check_rest(&before, &after);
    EXPECT(!before.tuning_bytes && after.tuning_bytes);
    check_records(&after, t->race_count);
    EXPECT_OK(hn_module_load_memory(t->image, t->image_len, true,
                                    &(hn_module_options){.threads = 1}, &tuned));
    check_runs(x, tuned, &s);
    EXPECT_INT(s.most, 4);
    hn_module_release(tuned);
    hn_module_tuning_destroy(t);
}

TEST(a_tuned_bundle_has_other_tables_and_records) {
    fixture x;
    begin(&x, dynamic, 4);
    check_tuned(&x);
    end(&x);
}

/* Tables that say that the last form runs from 64 rows on. */
static void check_other_tables(fixture *x) {
    hn_bundle before;
    const void *image;
    size_t len;
    hn_strbuf out;
    hn_module *module = NULL;
    seen s = {0};
    hnb_choice choices[8];
    hn_choice_box boxes[8];
    uint32_t axis = 0;
    image = hn_compiled_image(x->compiled, &len);
    open_image(image, len, &before);
    EXPECT(before.choices_count > 0 && before.choices_count <= 8);
    for (uint32_t k = 1; k < before.nodes_count; k++)
        if (before.nodes[k].op == HNB_OP_SYMBOL) axis = k;
    for (uint32_t k = 0; k < before.choices_count && k < 8; k++) {
        choices[k] = before.choices[k];
        choices[k].head.axis_count = choices[k].head.box_count = 1;
        choices[k].axes[0] = axis;
        choices[k].boxes = k;
        boxes[k] = (hn_choice_box){
            .lo = {64}, .hi = {INT64_MAX}, .variant = choices[k].head.variant_count - 1};
    }
    hn_strbuf_init(&out);
    const hn_bundle_tables tables = {.choices = choices,
                                     .boxes = boxes,
                                     .box_count = before.choices_count,
                                     .tuning = HN_STR("{}\n")};
    EXPECT_OK(hn_bundle_retable(&before, &tables, &out));
    EXPECT_OK(
        hn_module_load_memory(out.ptr, out.len, true, &(hn_module_options){.threads = 1}, &module));
    check_runs(x, module, &s);
    EXPECT(s.variants & 1 && s.variants & ~UINT64_C(1));
    hn_module_release(module);
    hn_strbuf_reset(&out);
    boxes[0].variant = 64;
    EXPECT_ERROR(hn_bundle_retable(&before, &tables, &out), HN_CORRUPT, "variant 64");
    hn_strbuf_deinit(&out);
}

TEST(a_bundle_with_other_tables_runs_what_they_say) {
    fixture x;
    begin(&x, dynamic, 3);
    check_other_tables(&x);
    end(&x);
}

/* The same on a device that runs groups of threads: variants have grids, groups and scratch memory
 * of their own. It takes as long as it does because the driver compiles each kernel again for each
 * size of a group. */
TEST(on_an_opencl_device) {
    fixture x;
    if (begin_for(&x, "opencl", dynamic, 4)) {
        seen s = {0};
        check_runs(&x, x.module, &s);
        EXPECT(s.variants >= 1); /* the program has a table by the model of costs */
        EXPECT_INT(s.most, 4);
        check_other_tables(&x);
        check_tuned(&x);
    }
    end(&x);
}

/* ---- calls of operations ---- */

TEST(calls_are_tuned_where_they_run) {
    static const char product[] =
        "symbol size s0 in [1, 4096] hint 8\n input user %x : f32[s0, 40] \"x\"\n "
        "%t = permute(%x, dims=[1, 0])\n %y = matmul(%x, %t, bias=none) at \"outer\" \"m.py:1\"\n "
        "%z = matmul(%t, %x, bias=none) at \"inner\" \"m.py:2\"\n "
        "output user %y \"y\"\n output user %z \"z\"";
    fixture x;
    hn_module_tuning *t;
    hn_module *tuned = NULL;
    seen s = {0};
    begin(&x, product, 2);
    check_runs(&x, x.module, &s);
    EXPECT_INT(s.variants, 1);
    EXPECT(s.most > 10); /* all forms of products */
    EXPECT_OK(tune(x.module, 60000000000, &t));
    EXPECT(t->is_complete);
    EXPECT_INT(t->kernel_count, 2);
    for (uint32_t k = 0; k < t->race_count; k++) {
        const hn_bench_report *r = t->races[k].report;
        EXPECT_INT(r->count, s.most);
        EXPECT_STR(r->results[0].name, "own");
        EXPECT(r->results[0].state != HN_BENCH_DROPPED);
    }
    EXPECT_OK(hn_module_load_memory(t->image, t->image_len, true,
                                    &(hn_module_options){.threads = 1}, &tuned));
    s = (seen){0};
    check_runs(&x, tuned, &s);
    hn_module_release(tuned);
    hn_module_tuning_destroy(t);
    end(&x);
}

static bool is_always(void *user) {
    (void)user;
    return true;
}

TEST(what_cannot_be_tuned) {
    fixture x;
    hn_module_tuning *t;
    begin(&x, dynamic, 0);
    EXPECT_ERROR(tune(x.module, 0, &t), HN_UNSUPPORTED, "--forms N");
    EXPECT_ERROR(tune(x.module, -1, &t), HN_INVALID_ARGUMENT, "'budget_ns' is -1");
    EXPECT_ERROR(hn_module_tune(NULL, NULL, &t), HN_INVALID_ARGUMENT, "'module' is NULL");
    end(&x);
    begin(&x, dynamic, 2);
    EXPECT_OK(tune(x.module, 1, &t)); /* no time for anything: all stays as it is */
    EXPECT(!t->is_complete && !t->race_count && t->image_len);
    hn_module_tuning_destroy(t);
    const hn_bench_options cancelled = {.is_cancelled = is_always};
    EXPECT_ERROR(hn_module_tune(x.module, &(hn_module_tune_options){.bench = &cancelled}, &t),
                 HN_CANCELLED, "");
    end(&x);
    hn_module_tuning_destroy(NULL);
}

TEST_MAIN
