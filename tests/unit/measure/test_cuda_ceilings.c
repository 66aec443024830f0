/* test_cuda_ceilings.c: measuring a GPU by the table of devices, with the stand-in for the driver,
 * which computes nothing, and on a GPU. Skipped without NVRTC, which compiles the kernels. */
#include "measure/ceilings.h"

#include "base/nvrtc.h"
#include "unit/runtime/cuda_row.h"

static bool open_device(hn_dev **dev) {
    char path[PATH_MAX];
    return !hn_test_lacks(hn_nvrtc_find(path)) &&
           !hn_test_lacks(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, dev));
}

TEST(a_gpu_has_ceilings) {
    hn_dev *dev;
    hn_ceilings c;
    if (!open_device(&dev)) return;
    EXPECT_OK(hn_ceilings_measure_device(dev, &c));
    EXPECT_STR(c.name, dev->facts.name);
    EXPECT_INT(c.device.kind, HN_DEVICE_CUDA);
    EXPECT_INT(c.level_count, 2);
    EXPECT_STR(c.levels[0].name, "cache");
    EXPECT_INT(c.levels[0].bytes, dev->facts.cache_bytes);
    EXPECT_STR(c.levels[1].name, "memory");
    for (uint32_t k = 0; k < c.level_count; k++)
        EXPECT(c.levels[k].read > 0 && c.levels[k].copy > 0 && c.levels[k].fill > 0);
    EXPECT(c.math[HN_CEILING_ADD] > 0);
    EXPECT(c.math[HN_CEILING_PRODUCTS] >= 2 * c.math[HN_CEILING_ADD]);
    EXPECT(c.math[HN_CEILING_PRODUCTS_HALF] >= 2 * c.math[HN_CEILING_ADD]);
    hn_dev_release(dev);
    expect_nothing_left();
}

/* A call of the driver fails: each of the first ones, and fewer of the many launches behind. Each
 * attempt compiles the kernels. */
TEST(a_call_that_fails_is_told_and_leaves_nothing) {
    cuda_standin *s = cuda_standin_find();
    hn_dev *dev;
    hn_ceilings c;
    bool has_failed = true;
    if (!s || !open_device(&dev)) return;
    for (long k = 1; has_failed && k < 80; k += 1 + k / 8) {
        cuda_standin_reset(s);
        s->fail_at = k;
        s->code = 1;
        hn_status status = hn_ceilings_measure_device(dev, &c);
        has_failed = status != NULL;
        if (status) EXPECT(strstr(hn_status_message(status), "cannot measure") != NULL);
        hn_status_free(status);
    }
    cuda_standin_reset(s);
    hn_dev_release(dev);
    expect_nothing_left();
}

TEST_MAIN
