/* test_device.c: devices by name and number. */
#include "base/device.h"
#include "unit/harness.h"

TEST(names_both_ways) {
    EXPECT_STR(hn_device_name(HN_DEVICE_CPU), "cpu");
    EXPECT_STR(hn_device_name(HN_DEVICE_KIND_COUNT), "unknown");
    for (uint32_t kind = 0; kind < HN_DEVICE_KIND_COUNT; kind++)
        EXPECT_INT(hn_device_named(hn_str_of(hn_device_name(kind))), kind);
    EXPECT_INT(hn_device_named(HN_STR("cud")), HN_DEVICE_KIND_COUNT);
    EXPECT_INT(hn_device_named(HN_STR("")), HN_DEVICE_KIND_COUNT);
}

/* They are in bundles. */
TEST(numbers_stay) {
    EXPECT_INT(HN_DEVICE_CPU, 0);
    EXPECT_INT(HN_DEVICE_CUDA, 1);
    EXPECT_INT(HN_DEVICE_OPENCL, 2);
}

TEST_MAIN
