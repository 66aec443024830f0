/* test_cuda_too_old.c: a driver that lacks a function: the stand-in, built without one
 * (CMakeLists.txt). */
#include "base/cuda.h"

#include "runtime/device/rows.h"
#include "support/cuda_standin.h"
#include "unit/harness.h"

#include <dlfcn.h>

static const char message[] = "the NVIDIA driver is too old: 'libcuda.so.1' has no function "
                              "'cuMemPoolCreate'; install driver 470 or newer";

TEST(the_function_and_what_to_install_are_told) {
    hn_cuda cuda;
    hn_dev *dev = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda_standin_find() || dlsym(library, "cuMemPoolCreate")) {
        fprintf(stderr, "skipped: this is another driver than the stand-in without a function\n");
        return;
    }
    EXPECT_ERROR(hn_cuda_load(&cuda), HN_INCOMPATIBLE, message);
    EXPECT_ERROR(hn_dev_open(&hn_device_cuda, &(hn_device_options){.number = 0}, &dev),
                 HN_INCOMPATIBLE, message);
    EXPECT(!dev && cuda_standin_find()->calls == 0);
}

TEST_MAIN
