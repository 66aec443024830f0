/* test_device.c: devices of tuning records: what is in them, and how two differ. */
#include "tune/device.h"

#include "tune/record.h"
#include "unit/harness.h"

static void expect_field(const hn_strbuf *device, const char *wanted, const char *value) {
    hn_str rest = hn_strbuf_str(device);
    for (hn_str n, v; hn_device_field_next(&rest, &n, &v);) {
        if (!hn_str_eq(n, hn_str_of(wanted))) continue;
        if (value && !hn_str_eq(v, hn_str_of(value)))
            HN_TEST_FAIL("%s is " HN_STR_FMT ", expected %s", wanted, HN_STR_ARG(v), value);
        return;
    }
    HN_TEST_FAIL("there is no %s", wanted);
}

/* Good for a record. */
static void expect_device(const hn_strbuf *device) {
    hn_form_timing form = {.form = {HN_STR("rows"), HN_STR("")}};
    const hn_tuning_record r = {
        .device = hn_strbuf_str(device), .forms = &form, .form_count = 1, .how = HN_TUNING_MODEL};
    EXPECT_OK(hn_tuning_record_check(&r));
}

TEST(the_host_has_all_that_counts) {
    hn_strbuf device, again;
    hn_strbuf_init(&device), hn_strbuf_init(&again);
    hn_tuning_device_host(&(hn_tuning_code){"avx2", "gcc 12.2.0"}, 3, &device);
    hn_tuning_device_host(&(hn_tuning_code){"x86-64-v3", "gcc 12.2.0"}, 3, &again);
    EXPECT_STR(hn_strbuf_str(&device).ptr, hn_strbuf_str(&again).ptr);
    expect_device(&device);
    expect_field(&device, "kind", "cpu");
    expect_field(&device, "name", NULL);
    expect_field(&device, "target", "x86-64-v3");
    expect_field(&device, "vector_bytes", "32");
    expect_field(&device, "L2", NULL);
    expect_field(&device, "threads", "3");
    expect_field(&device, "compiler", "gcc 12.2.0");
    hn_strbuf_deinit(&device), hn_strbuf_deinit(&again);
}

TEST(another_device_has_its_driver) {
    const hn_device_ops ops = {.kind = HN_DEVICE_CUDA};
    const hn_dev dev = {.ops = &ops,
                        .facts = {.name = "NVIDIA \xc2\xa9 H200",
                                  .memory_bytes = (UINT64_C(141) << 30) - 12345678,
                                  .driver = "CUDA 13.0"}};
    hn_strbuf device;
    hn_strbuf_init(&device);
    hn_tuning_device_of(&dev, &(hn_tuning_code){"sm_90a", NULL}, &device);
    EXPECT_STR(hn_strbuf_str(&device).ptr,
               "kind=cuda\nname=NVIDIA ?? H200\nmemory_GiB=141\ndriver=CUDA 13.0\ntarget=sm_90a\n");
    expect_device(&device);
    hn_strbuf_deinit(&device);
}

TEST(differences_are_named) {
    hn_strbuf out;
    hn_strbuf_init(&out);
    const hn_str was = HN_STR("kind=cpu\nname=A\nthreads=2\n");
    EXPECT_INT(hn_tuning_device_diff(was, was, &out), 0);
    EXPECT_INT(hn_tuning_device_diff(was, HN_STR("threads=2\nkind=cpu\nname=A\n"), &out), 0);
    EXPECT_INT(out.len, 0);
    EXPECT_INT(hn_tuning_device_diff(was, HN_STR("kind=cpu\nname=B=C\nL1=9\n"), &out), 3);
    EXPECT_STR(hn_strbuf_str(&out).ptr, "'name' was 'A', is 'B=C'\n'threads' was '2', is no more\n"
                                        "'L1' was not there, is '9'\n");
    EXPECT_INT(hn_tuning_device_diff(HN_STR(""), was, NULL), 3);
    hn_strbuf_deinit(&out);
}

TEST_MAIN
