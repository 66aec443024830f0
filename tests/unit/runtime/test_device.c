/* test_device.c: the table of devices, which every row must serve in the same way; and who refuses
 * memory and code of other devices. */
#include "unit/runtime/module_fixture.h"

#include "bundle/view.h"
#include "runtime/device/device.h"

/* ---- the rows ---- */

enum { COUNT = 1000 };

static void check_memory(hn_dev *dev, hn_queue *q) {
    int32_t numbers[COUNT], back[COUNT] = {0}, one = 0;
    const hn_device_ops *ops = dev->ops;
    uint8_t *a = hn_dev_alloc(dev, sizeof numbers), *b = hn_dev_alloc(dev, sizeof numbers),
            *none = hn_dev_alloc(dev, 0);
    EXPECT(a && b && none && a != b);
    EXPECT_INT((uintptr_t)a % dev->facts.align, 0);
    EXPECT(!hn_dev_alloc(dev, SIZE_MAX - 100));
    for (int k = 0; k < COUNT; k++) numbers[k] = 7 * k;
    EXPECT_OK(ops->copy_in(q, a, numbers, sizeof numbers));
    EXPECT_OK(ops->copy(q, b, a, sizeof numbers));
    /* inside of the memory, and behind the copies */
    EXPECT_OK(ops->read(q, &one, b + 11 * sizeof one, sizeof one));
    EXPECT_INT(one, 77);
    EXPECT_OK(ops->copy_out(q, back, b, sizeof numbers));
    hn_device_fault fault;
    EXPECT_OK(ops->finish(q, &fault));
    EXPECT(!fault.is_set && memcmp(numbers, back, sizeof numbers) == 0);
    EXPECT_OK(ops->copy(q, a, none, 0));
    hn_dev_free(dev, a), hn_dev_free(dev, b), hn_dev_free(dev, none), hn_dev_free(dev, NULL);
}

static void check_events(hn_dev *dev, const hn_queue_options *options) {
    const hn_device_ops *ops = dev->ops;
    hn_queue *first = NULL, *second = NULL;
    hn_event *event = NULL;
    int64_t number = 5, back = 0;
    EXPECT_OK(ops->queue_create(dev, options, &first));
    EXPECT_OK(ops->queue_create(dev, options, &second));
    void *memory = hn_dev_alloc(dev, sizeof number);
    EXPECT_OK(ops->copy_in(first, memory, &number, sizeof number));
    EXPECT_OK(ops->record(first, &event));
    EXPECT_OK(ops->wait(second, event));
    EXPECT_OK(ops->read(second, &back, memory, sizeof back));
    EXPECT_INT(back, 5);
    ops->event_free(event), ops->event_free(NULL);
    ops->queue_destroy(first), ops->queue_destroy(second), ops->queue_destroy(NULL);
    hn_dev_free(dev, memory);
}

TEST(every_row) {
    uint32_t rows = 0;
    for (uint32_t kind = 0; kind < HN_DEVICE_KIND_COUNT; kind++) {
        const hn_device_ops *ops = hn_device_ops_of(kind);
        hn_team team = {.limit = 2};
        const hn_queue_options options = {.step_count = 4, .team = &team};
        hn_dev *dev = NULL;
        hn_queue *q = NULL;
        if (!ops) continue;
        EXPECT_INT(ops->kind, kind);
        /* a bundle's code for the kind finds the row */
        EXPECT_INT(hn_bundle_target_device(hn_bundle_words_of(ops->kind)->target), kind);
        hn_status status = hn_dev_open(ops, &(hn_device_options){.number = 0}, &dev);
        if (hn_status_code(status) == HN_NOT_FOUND && ops != hn_device_ops_of_host()) {
            /* nobody installs a GPU for the tests */
            if (kind == HN_DEVICE_CUDA) hn_test_skip(hn_status_message(status));
            else hn_test_lack(hn_status_message(status));
            hn_status_free(status);
            continue;
        }
        EXPECT_OK(status);
        if (!dev) continue;
        EXPECT(dev->ops == ops && dev->facts.name[0] && dev->facts.align >= 64);
        EXPECT_INT(dev->facts.driver[0] != 0, !dev->facts.is_host);
        EXPECT_OK(ops->queue_create(dev, &options, &q));
        check_memory(dev, q);
        check_events(dev, &options);
        ops->queue_destroy(q);
        hn_dev_release(hn_dev_retain(dev));
        hn_dev_release(dev);
        rows++;
    }
    EXPECT(rows > 0);
    EXPECT(!hn_device_ops_of(HN_DEVICE_KIND_COUNT));
    hn_dev_release(NULL);
}

/* ---- the CPU's row ---- */

static hn_dev *open_cpu(void) {
    hn_dev *dev = NULL;
    EXPECT_OK(hn_dev_open(hn_device_ops_of_host(), &(hn_device_options){.number = 0}, &dev));
    return dev;
}

TEST(there_is_one_cpu) {
    hn_dev *dev = NULL;
    EXPECT_ERROR(
        hn_dev_open(hn_device_ops_of(HN_DEVICE_CPU), &(hn_device_options){.number = 1}, &dev),
        HN_NOT_FOUND, "there is no device cpu:1");
    EXPECT(hn_device_ops_of_host() == hn_device_ops_of(HN_DEVICE_CPU));
    EXPECT_STR(hn_device_target_named("avx2"), "x86-64-v3");
    EXPECT_STR(hn_device_target_named("sm_90"), "sm_90");
}

/* Kernels in parts, on threads; what they find wrong. */
TEST(launches_on_the_cpu) {
    hn_dev *dev = open_cpu();
    hn_team team = {.limit = 2};
    hn_queue *q = NULL;
    hn_device_program *code = NULL;
    void *gather = NULL, *none = NULL;
    const hn_strbuf *object = kernel_object();
    if (!dev) return;
    const hn_device_ops *ops = dev->ops;
    EXPECT_OK(ops->queue_create(dev, &(hn_queue_options){.step_count = 3, .team = &team}, &q));
    EXPECT_OK(ops->load(dev, object->ptr, object->len, "kernels", &code));
    EXPECT_ERROR(ops->load(dev, "no object", 9, "kernels", (hn_device_program **)&none),
                 HN_TOOLCHAIN, "kernels");
    if (code) EXPECT_OK(ops->find(code, "gather", &gather));
    if (code) EXPECT_ERROR(ops->find(code, "gathers", &none), HN_NOT_FOUND, "gathers");
    float x[4] = {1, 2, 3, 4}, y[8];
    long long at[8] = {3, 2, 1, 0, 0, 1, 2, 3}, params[1] = {4};
    void *args[3] = {x, at, y};
    hn_device_launch launch = {.kernel = gather,
                               .step = 2,
                               .args = args,
                               .arg_count = 3,
                               .params = params,
                               .param_count = 1,
                               .extent = 8};
    for (uint32_t parts = 1; gather && parts <= 8; parts++) {
        hn_device_fault fault;
        launch.parts = parts;
        memset(y, 0, sizeof y);
        EXPECT_OK(ops->launch(q, &launch, &fault));
        EXPECT(!fault.is_set);
        for (int k = 0; k < 8; k++) EXPECT(y[k] == x[at[k]]);
        at[5] = 4;
        EXPECT_OK(ops->launch(q, &launch, &fault));
        EXPECT(fault.is_set && fault.step == 2);
        at[5] = 1;
    }
    EXPECT(gather && ops->direct(gather)(args, params, 0, 8, NULL) == 0);
    ops->unload(code), ops->unload(NULL);
    ops->queue_destroy(q);
    hn_dev_release(dev);
}

/* ---- what is refused ---- */

static hn_tensor *elsewhere(const int64_t *sizes, float *data) {
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32,
                                                 .rank = 1,
                                                 .sizes = sizes,
                                                 .data = data,
                                                 .device = {.kind = HN_DEVICE_OPENCL, .number = 1}},
                               &t));
    return t;
}

TEST(runs_want_memory_of_the_cpu) {
    float w[2] = {0}, x[2] = {0};
    const int64_t sizes[1] = {2};
    const fixture_weight weights[] = {
        {.name = "w", .kind = HN_INPUT_PARAMETER, .dtype = HN_DTYPE_F32, .count = 2, .bytes = w}};
    hn_module *m = load_weights(
        "buffer b1 : input f32[2] source 0 buffer b2 : constant f32[2] source 1 buffer b3 : output f32[2] bytes(8) " KERNELS
        "input \"x\" : f32[2] strides [1] in b1 call k1(b1 f32, b2 f32, out b3 f32) extent(2) "
        "output tensor \"y\" : f32[2] strides [1] in b3",
        weights, 1, NULL);
    hn_tensor *here[1] = {F32(x, 2)}, *there[1] = {elsewhere(sizes, x)}, *out[1] = {NULL};
    if (!m) return;
    EXPECT_ERROR(hn_module_run(m, there, 1, out, 1), HN_UNSUPPORTED,
                 "input 'x' is on opencl:1; give it on cpu");
    EXPECT(!out[0]);
    EXPECT_ERROR(hn_module_run(m, here, 1, there, 1), HN_UNSUPPORTED,
                 "the tensor given for output 0 is on opencl:1; give one on cpu");
    for (int borrow = 0; borrow < 2; borrow++)
        EXPECT_ERROR(hn_module_weights_replace(m, &(hn_named_tensor){"w", there[0]}, 1, borrow),
                     HN_UNSUPPORTED,
                     "weight 'w' cannot take a tensor on opencl:1; give one on cpu");
    EXPECT_OK(hn_module_run(m, here, 1, out, 1));
    EXPECT_INT(hn_tensor_device(out[0]).kind, HN_DEVICE_CPU);
    hn_tensor_release(here[0]), hn_tensor_release(there[0]), hn_tensor_release(out[0]);
    hn_module_release(m);
}

/* Code of a kind of device that is not here, or is of no architecture that it knows. */
TEST(targets_of_another_device) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    program_init(&p);
    EXPECT_OK(program_image(
        &p,
        "buffer b1 : input f32[2] source 0 buffer b2 : output f32[2] bytes(8) " KERNELS
        "input \"x\" : f32[2] strides [1] in b1 call k4(b1 f32, out b2 f32) extent(2) "
        "output tensor \"y\" : f32[2] strides [1] in b2",
        NULL, &image));
    ((hnb_target *)entry_of(&image, HNB_TARGETS, 0))->kind = HNB_TARGET_CUDA;
    ((hnb_object *)entry_of(&image, HNB_OBJECTS, 0))->kind = HNB_OBJECT_CUBIN;
    *(hnb_step *)entry_of(&image, HNB_STEPS, 0) =
        (hnb_step){.kind = HNB_STEP_COPY, .buffer = 2, .from = 1};
    const hn_module_options options = {.skip_digest = true};
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false, &options, &m), HN_INCOMPATIBLE,
                 "no code in the bundle is for this machine: 'cpu' ");
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

TEST_MAIN
