/* test_cuda_stats.c: the statistics that a GPU makes of its tensors, with the stand-in for the
 * driver, and on a GPU. Skipped without NVRTC, which compiles the kernels. */
#include "unit/runtime/cuda_row.h"

#include "base/nvrtc.h"

static bool open_device(hn_dev **dev, hn_queue **queue) {
    char path[PATH_MAX];
    if (hn_test_lacks(hn_nvrtc_find(path))) return false;
    if (hn_test_lacks(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, dev)))
        return false;
    EXPECT_OK((*dev)->ops->queue_create(*dev, &(hn_queue_options){.step_count = 1}, queue));
    return *queue != NULL;
}

static void close_device(hn_dev *dev, hn_queue *queue) {
    dev->ops->queue_destroy(queue);
    hn_dev_release(dev);
    expect_nothing_left();
}

#include "support/stats_cases.h"

TEST_MAIN
