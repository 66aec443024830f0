/* test_opencl.c: errors of OpenCL as statuses, the objects that hold its programs, and the
 * program's signal handlers, which drivers must leave as they are. Nothing here needs a driver. */
#include "base/opencl.h"
#include "base/opencl_program.h"
#include "unit/harness.h"

#include <dirent.h>
#include <signal.h>

TEST(errors_have_the_name_of_the_call_and_of_the_error) {
    EXPECT_OK(hn_opencl_status(CL_SUCCESS, "clFinish"));
    EXPECT_ERROR(hn_opencl_status(CL_OUT_OF_RESOURCES, "clFinish"), HN_DEVICE,
                 "OpenCL: clFinish failed: CL_OUT_OF_RESOURCES (-5)");
    EXPECT_ERROR(hn_opencl_status(CL_MEM_OBJECT_ALLOCATION_FAILURE, "clCreateBuffer"),
                 HN_OUT_OF_MEMORY, "clCreateBuffer failed: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)");
    EXPECT_ERROR(hn_opencl_status(CL_OUT_OF_HOST_MEMORY, "clCreateContext"), HN_OUT_OF_MEMORY,
                 "CL_OUT_OF_HOST_MEMORY");
    EXPECT_ERROR(hn_opencl_status(-9999, "clFlush"), HN_DEVICE, "an unknown error (-9999)");
}

/* ---- handlers ---- */

static void handle(int number) { (void)number; }

/* Threads of this process that would take SIGTERM. */
static int count_takers(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *task; dir && (task = readdir(dir));) {
        char path[300], line[200];
        unsigned long long blocked;
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
                count += !(blocked >> (SIGTERM - 1) & 1);
        if (file) fclose(file);
    }
    if (dir) closedir(dir);
    return count;
}

TEST(handlers_of_the_program_stay) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGFPE, SIGSEGV};
    hn_opencl cl;
    hn_opencl_device devices[HN_OPENCL_DEVICES_MAX];
    uint32_t count;
    struct sigaction now;
    for (size_t k = 0; k < HN_COUNT_OF(numbers); k++) signal(numbers[k], handle);
    signal(SIGHUP, SIG_IGN);
    hn_status status = hn_opencl_load(&cl);
    if (!status) status = hn_opencl_devices(&cl, devices, &count);
    EXPECT(!status || hn_status_code(status) == HN_NOT_FOUND); /* without a driver */
    hn_status_free(status);
    EXPECT_INT(count_takers(), 1); /* this one, and no thread of a driver */
    for (size_t k = 0; k < HN_COUNT_OF(numbers); k++) {
        EXPECT(sigaction(numbers[k], NULL, &now) == 0 && now.sa_handler == handle);
        signal(numbers[k], SIG_DFL);
    }
    EXPECT(sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
}

/* ---- programs ---- */

static const hn_opencl_program whole = {
    .options = {"-cl-std=CL1.2", 13},
    .source = {"__kernel void f() {}", 20},
    .binary_count = 2,
    .binaries = {{{"one driver", 10}, {"\0\1\2", 3}}, {{"another", 7}, {"", 0}}},
};

TEST(a_program_is_read_as_it_was_written) {
    hn_strbuf bytes;
    hn_opencl_program p;
    hn_strbuf_init(&bytes);
    hn_opencl_program_write(&whole, &bytes);
    EXPECT_OK(hn_strbuf_status(&bytes));
    EXPECT_OK(hn_opencl_program_parse(hn_strbuf_str(&bytes), &p));
    EXPECT_STR(p.options.ptr, "-cl-std=CL1.2");
    EXPECT_STR(p.source.ptr, "__kernel void f() {}");
    EXPECT_INT(p.source.len, 20);
    EXPECT_INT(p.binary_count, 2);
    const hn_opencl_binary *b = hn_opencl_program_binary(&p, HN_STR("one driver"));
    EXPECT(b && b->bytes.len == 3 && memcmp(b->bytes.ptr, "\0\1\2", 3) == 0);
    b = hn_opencl_program_binary(&p, HN_STR("another"));
    EXPECT(b && !b->bytes.len);
    EXPECT(!hn_opencl_program_binary(&p, HN_STR("one")));
    hn_strbuf_deinit(&bytes);
}

/* Every shorter text, and every byte with a bit turned: an error, or a program within the bytes. */
TEST(damaged_programs_are_refused) {
    hn_strbuf bytes;
    hn_opencl_program p;
    hn_strbuf_init(&bytes);
    hn_opencl_program_write(&whole, &bytes);
    for (size_t len = 0; len < bytes.len; len++)
        EXPECT_ERROR(hn_opencl_program_parse((hn_str){bytes.ptr, len}, &p), HN_CORRUPT,
                     "an OpenCL program is damaged");
    for (size_t k = 0; k < bytes.len * 8; k++) {
        bytes.ptr[k / 8] ^= (char)(1 << k % 8);
        hn_status status = hn_opencl_program_parse(hn_strbuf_str(&bytes), &p);
        if (!status)
            EXPECT(p.source.ptr + p.source.len <= bytes.ptr + bytes.len && p.binary_count <= 2);
        hn_status_free(status);
        bytes.ptr[k / 8] ^= (char)(1 << k % 8);
    }
    bytes.ptr[4] = 2;
    EXPECT_ERROR(hn_opencl_program_parse(hn_strbuf_str(&bytes), &p), HN_INCOMPATIBLE,
                 "has version 2, not 1");
    bytes.ptr[4] = 1;
    bytes.ptr[sizeof(hn_opencl_program_header) + 2] = 0;
    EXPECT_ERROR(hn_opencl_program_parse(hn_strbuf_str(&bytes), &p), HN_CORRUPT, "its options");
    hn_strbuf_deinit(&bytes);
}

TEST(bytes_behind_a_program_are_no_part_of_it) {
    hn_strbuf bytes;
    hn_opencl_program p;
    hn_strbuf_init(&bytes);
    hn_opencl_program_write(&whole, &bytes);
    hn_strbuf_puts(&bytes, "x");
    EXPECT_ERROR(hn_opencl_program_parse(hn_strbuf_str(&bytes), &p), HN_CORRUPT,
                 "there are bytes behind it");
    hn_strbuf_deinit(&bytes);
}

TEST_MAIN
