/* test_cuda_upload.c: weights of several parts, which threads copy side by side: all of them
 * arrive, whichever call of the driver fails, and nothing is left. On the stand-in for the
 * driver. */
#define HN_FIXTURE_CUDA
#include "unit/runtime/module_fixture.h"

#include "support/cuda_standin.h"

/* y = 2 * (x + w), of 400,000 numbers: four parts, the last one of them smaller. */
#define SUM_OF(source)                                                                             \
    "buffer b1 : input f32[400000] source 0 buffer b2 : constant f32[400000] source " source " "   \
    "buffer b3 : temp f32[400000] bytes(1600000) "                                                 \
    "buffer b4 : output f32[400000] bytes(1600000) " KERNELS                                       \
    "input \"x\" : f32[400000] strides [1] in b1 call k1(b1 f32, b2 f32, out b3 f32) "             \
    "extent(400000) call k4(b3 f32, out b4 f32) extent(400000) "                                   \
    "output tensor \"y\" : f32[400000] strides [1] in b4"

#define SUM SUM_OF("1")

enum { COUNT = 400000 };

static float w[COUNT], x[COUNT];

/* Storage 2 is storage 1 as a matrix of 1000 columns, column by column. */
static const hn_box_dim turned_dims[2] = {{.size = 1000, .from_stride = 4, .to_stride = 1600},
                                          {.size = 400, .from_stride = 4000, .to_stride = 4}};
static const hn_storage_piece turned = {1, {.rank = 2, .dims = turned_dims, .run_bytes = 4}};

static void add_turned(hn_wrapper *p) {
    (void)hn_graph_add_storage((hn_graph *)(uintptr_t)p->graph,
                               (hn_storage){.size_bytes = sizeof w,
                                            .file_record = HN_STR(""),
                                            .pieces = &turned,
                                            .piece_count = 1});
}

static hn_status load_text_of(const char *text, int threads, hn_module **out) {
    program p;
    hn_strbuf image;
    for (int k = 0; k < COUNT; k++) w[k] = (float)(k % 4093), x[k] = 1;
    program_init(&p);
    program_add_weight(&p, &(fixture_weight){"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, COUNT, w});
    EXPECT_OK(program_image(&p, text, NULL, &image));
    const hn_module_options options = fixture_options(&(hn_module_options){.threads = threads});
    hn_status status = hn_module_load_memory(image.ptr, image.len, false, &options, out);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    return status;
}

static hn_status load_sum(int threads, hn_module **out) { return load_text_of(SUM, threads, out); }

static hn_status load_turned(int threads, hn_module **out) {
    fixture_edit = add_turned;
    hn_status status = load_text_of(SUM_OF("2"), threads, out);
    fixture_edit = NULL;
    return status;
}

/* Wrong numbers of the result, in a run that does not fail. */
static hn_status run_sum(hn_module *m, int64_t *out_wrong) {
    hn_tensor *in = F32(x, COUNT), *y = NULL;
    hn_status status = hn_module_run(m, &in, 1, &y, 1);
    *out_wrong = 0;
    for (int k = 0; k < COUNT && !status; k++)
        *out_wrong += ((const float *)hn_tensor_data(y))[k] != 2 * (w[k] + 1);
    hn_tensor_release(in), hn_tensor_release(y);
    return status;
}

static int64_t count_wrong_turned(hn_module *m) {
    hn_tensor *in = F32(x, COUNT), *y = NULL;
    int64_t wrong = 0;
    EXPECT_OK(hn_module_run(m, &in, 1, &y, 1));
    const float *z = y ? hn_tensor_data(y) : NULL;
    for (int k = 0; k < COUNT && z; k++) wrong += z[k] != 2 * (w[k % 400 * 1000 + k / 400] + 1);
    hn_tensor_release(in), hn_tensor_release(y);
    return wrong;
}

static cuda_standin *begin(void) {
    cuda_standin *s = cuda_standin_find();
    if (!s) hn_test_skip("this is another driver than the stand-in");
    else cuda_standin_reset(s);
    return s;
}

static void expect_nothing_left(const cuda_standin *s) {
    EXPECT_INT(s->memories, 0);
    EXPECT_INT(s->pinned, 0);
    EXPECT_INT(s->streams, 0);
    EXPECT_INT(s->events, 0);
}

TEST(parts_arrive_by_any_number_of_threads) {
    cuda_standin *s = begin();
    static const int threads[] = {1, 2, 3, 16};
    for (int k = 0; k < 4 && s; k++) {
        hn_module *m = NULL;
        hn_module_stats stats;
        int64_t wrong = -1;
        EXPECT_OK(load_sum(threads[k], &m));
        if (!m) return;
        EXPECT_OK(run_sum(m, &wrong));
        EXPECT_INT(wrong, 0);
        hn_module_stats_get(m, &stats);
        EXPECT_INT(stats.weights_uploaded_bytes, sizeof w);
        EXPECT_INT(s->pageable, 0);
        hn_module_release(m);
        expect_nothing_left(s);
    }
}

/* As of weights that lie in the file as the device wants them, through pinned memory alone. */
TEST(parts_are_made_on_the_way) {
    cuda_standin *s = begin();
    static const int threads[] = {1, 2, 3, 16};
    for (int k = 0; k < 4 && s; k++) {
        hn_module *m = NULL;
        hn_module_stats stats;
        EXPECT_OK(load_turned(threads[k], &m));
        if (!m) return;
        EXPECT_INT(count_wrong_turned(m), 0);
        hn_module_stats_get(m, &stats);
        EXPECT_INT(stats.weights_uploaded_bytes, sizeof w);
        EXPECT_INT(s->pageable, 0);
        hn_module_release(m);
        expect_nothing_left(s);
    }
}

/* Of a call that fails while parts are under way the run sees nothing, or an error; the next one is
 * right. */
TEST(a_failed_call_loses_no_part) {
    cuda_standin *s = begin();
    bool was_reached = s != NULL;
    for (long n = 1; was_reached && n < 400; n += n < 60 ? 1 : 7) {
        hn_module *m = NULL;
        int64_t wrong = 0;
        s->calls = 0;
        s->fail_at = n;
        s->code = 999;
        hn_status status = load_sum(4, &m);
        if (!status) status = run_sum(m, &wrong);
        was_reached = s->calls >= n;
        s->fail_at = 0;
        EXPECT_INT(wrong, 0);
        hn_status_free(status);
        if (m) EXPECT_OK(run_sum(m, &wrong));
        EXPECT_INT(wrong, 0);
        hn_module_release(m);
        expect_nothing_left(s);
    }
}

TEST(a_module_is_released_while_parts_are_under_way) {
    cuda_standin *s = begin();
    for (int k = 0; k < 10 && s; k++) {
        hn_module *m = NULL;
        EXPECT_OK(load_sum(4, &m));
        hn_module_release(m);
        expect_nothing_left(s);
    }
}

TEST_MAIN
