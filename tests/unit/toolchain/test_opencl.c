/* test_opencl.c: the language "opencl". What needs a driver is skipped without one; what a machine
 * without drivers does is tried on every machine, in a process that is told of a folder of drivers
 * that does not exist. */
#include "unit/toolchain/fixture.h"

#include "base/log.h"
#include "base/opencl.h"
#include "base/opencl_program.h"
#include "cache/record.h"

#include <sys/wait.h>
#include <unistd.h>

static const char text[] =
    "__kernel void fill(__global float *p, const float x) { p[get_global_id(0)] = x; }\n"
    "__kernel void add(__global float *p, __global const float *q) { p[get_global_id(0)] += q[get_global_id(0)]; }\n";

static hn_toolchain_job job_of(const char *source) {
    return (hn_toolchain_job){
        .text = hn_str_of(source), .flags = HN_STR("-cl-std=CL1.2\0-w\0"), .own_group = true};
}

static bool has_driver(const language *l) {
    hn_str drivers;
    bool has =
        hn_record_find(hn_strbuf_str(&l->toolchain.record), "drivers", &drivers) && drivers.len;
    if (!has) hn_test_lack("an OpenCL driver");
    return has;
}

static void expect_error(const language *l, const hn_toolchain_job *job, hn_code code,
                         bool is_deterministic, const char *part) {
    hn_toolchain_result result;
    hn_log_configure("error");
    EXPECT_ERROR(hn_toolchain_compile(&l->toolchain, job, &result), code, part);
    EXPECT_INT(result.is_deterministic, is_deterministic);
    hn_log_configure(NULL);
    hn_toolchain_result_deinit(&result);
}

TEST(an_object_has_source_options_and_a_binary_for_each_driver) {
    language l;
    hn_toolchain_result result;
    hn_opencl_program program;
    hn_str drivers;
    const char *driver;
    if (!language_begin(&l, "opencl")) return language_end(&l);
    hn_toolchain_job job = job_of(text);
    job.entries = HN_STR("fill\0add\0");
    EXPECT(l.toolchain.row->reads(job.text, job.flags) == HN_READS_NOTHING);
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    EXPECT(!result.is_unlisted);
    EXPECT_OK(hn_opencl_program_parse(hn_strbuf_str(&result.bytes), &program));
    EXPECT_STR(program.source.ptr, text);
    EXPECT_STR(program.options.ptr, "-cl-std=CL1.2 -w");
    hn_record_find(hn_strbuf_str(&l.toolchain.record), "drivers", &drivers);
    for (uint32_t k = 0; hn_list_next(&drivers, &driver); k++) {
        const hn_opencl_binary *binary = hn_opencl_program_binary(&program, hn_str_of(driver));
        EXPECT(binary && binary->bytes.len);
    }
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(errors_have_the_device_and_the_line_of_the_text) {
    language l;
    if (!language_begin(&l, "opencl")) return language_end(&l);
    if (has_driver(&l)) {
        hn_toolchain_job job = job_of("\n\n__kernel void f(__global int *p) { *p = nothing; }\n");
        job.source_path = "/cache/failed/x.cl";
        expect_error(&l, &job, HN_TOOLCHAIN, true, "OpenCL device '");
        expect_error(&l, &job, HN_TOOLCHAIN, true, ":3:");
        expect_error(&l, &job, HN_TOOLCHAIN, true, "nothing");
        expect_error(
            &l, &job, HN_TOOLCHAIN, true,
            "to run it again: henry kernel compile /cache/failed/x.cl --language opencl --flag=-cl-std=CL1.2 --flag=-w -o /dev/null");
    }
    language_end(&l);
}

TEST(entries_are_kernels_of_the_text) {
    language l;
    if (!language_begin(&l, "opencl")) return language_end(&l);
    hn_toolchain_job job = job_of(text);
    job.entries = HN_STR("fill\0absent\0");
    expect_error(&l, &job, HN_TOOLCHAIN, true,
                 "no function 'absent' in what was compiled; it was asked for as an entry");
    language_end(&l);
}

TEST(targets_and_flags_are_checked) {
    language l;
    if (!language_begin(&l, "opencl")) return language_end(&l);
    hn_toolchain_job job = job_of(text);
    job.target = HN_STR("sm_90\0");
    expect_error(&l, &job, HN_INVALID_ARGUMENT, false, "cannot compile OpenCL C for 'sm_90'");
    job.target = HN_STR("");
    job.flags = HN_STR("-I/usr/include\0");
    expect_error(&l, &job, HN_INVALID_ARGUMENT, false, "cannot compile with flag '-I/usr/include'");
    job.flags = HN_STR("-cl-std=CL1.2 -I.\0");
    expect_error(&l, &job, HN_INVALID_ARGUMENT, false, "cannot compile with flag");
    job.flags = HN_STR("-O2\0");
    expect_error(&l, &job, HN_INVALID_ARGUMENT, false,
                 "-cl-std= and the other -cl- options of OpenCL 1.2");
    language_end(&l);
}

TEST(a_text_that_reads_files_is_not_kept) {
    language l;
    if (!language_begin(&l, "opencl")) return language_end(&l);
    EXPECT(l.toolchain.row->reads(HN_STR("#include \"x.h\"\n"), HN_STR("")) == HN_READS_FILES);
    language_end(&l);
}

/* ---- another machine: one without drivers ---- */

/* A process of its own: drivers are looked for once in each. It runs one of the tests below, which
 * do nothing elsewhere. */
static void run_without_drivers(const char *test) {
    int end = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("OCL_ICD_VENDORS", "/nonexistent/", 1);
        execl("/proc/self/exe", "test", test, (char *)NULL);
        _exit(1);
    }
    EXPECT(child > 0 && waitpid(child, &end, 0) == child);
    EXPECT_INT(end, 0);
}

static bool is_without_drivers(void) {
    const char *vendors = getenv("OCL_ICD_VENDORS");
    return vendors && strcmp(vendors, "/nonexistent/") == 0;
}

TEST(inner_texts_are_checked) {
    language l;
    hn_toolchain_result result;
    hn_opencl_program program;
    hn_strbuf title;
    if (!is_without_drivers()) return;
    EXPECT(language_begin(&l, "opencl"));
    if (!l.is_there) return language_end(&l);
    hn_toolchain_job job = job_of(text);
    job.entries = HN_STR("fill\0add\0");
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    EXPECT(!result.is_unlisted);
    EXPECT_OK(hn_opencl_program_parse(hn_strbuf_str(&result.bytes), &program));
    EXPECT_INT(program.binary_count, 0);
    EXPECT_STR(program.source.ptr, text);
    hn_toolchain_result_deinit(&result);
    job.entries = HN_STR("fil\0");
    expect_error(&l, &job, HN_TOOLCHAIN, true, "no function 'fil' in what was compiled");
    job.entries = HN_STR("fill\0");
    job.text = HN_STR("#define K(f) __kernel void f##l() {}\nK(fil)\n"); /* who knows? */
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    hn_toolchain_result_deinit(&result);
    hn_strbuf_init(&title);
    hn_toolchain_identity_print(&l.toolchain, &title);
    EXPECT(strncmp(title.ptr, "OpenCL C without a driver (", 27) == 0);
    hn_strbuf_deinit(&title);
    language_end(&l);
}

TEST(without_a_driver_an_object_is_the_text) { run_without_drivers("inner_texts_are_checked"); }

/* Results by drivers that are not here any more: the bytes are right, but not what the key says. */
TEST(inner_other_drivers) {
    language l;
    hn_toolchain_result result;
    char hex[HN_DIGEST_HEX_BYTES];
    if (!is_without_drivers()) return;
    EXPECT(language_begin(&l, "opencl"));
    if (!l.is_there) return language_end(&l);
    hn_digest_hex(&l.toolchain.identity, hex);
    EXPECT(strcmp(getenv("TEST_OPENCL_IDENTITY"), hex) != 0);
    hn_strbuf_reset(&l.toolchain.record);
    hn_record_add(&l.toolchain.record, "drivers", HN_STR("some driver\0"));
    hn_toolchain_job job = job_of(text);
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    EXPECT(result.is_unlisted);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(drivers_are_a_part_of_the_identity) {
    language l;
    char hex[HN_DIGEST_HEX_BYTES];
    if (!language_begin(&l, "opencl")) return language_end(&l);
    if (has_driver(&l)) {
        hn_digest_hex(&l.toolchain.identity, hex);
        setenv("TEST_OPENCL_IDENTITY", hex, 1);
        run_without_drivers("inner_other_drivers");
    }
    language_end(&l);
}

TEST_MAIN
