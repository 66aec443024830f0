/* test_toolchain.c: the C row: probing, compiling both ways, refused flags, errors, limits,
 * loading. */
#include "toolchain/toolchain.h"

#include "base/file.h"
#include "base/log.h"
#include "base/trace.h"
#include "cache/record.h"
#include "toolchain/c.h"
#include "toolchain/tool.h"
#include "unit/harness.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char two_kernels[] = "typedef float v4 __attribute__((vector_size(16), aligned(4)));\n"
                                  "#define SCALE 3\n"
                                  "int twice(int x) { return 2 * x; }\n"
                                  "void fill(float *p) { *(v4 *)p = (v4){1, 2, 3, 4} * SCALE; }\n";

/* A toolchain and an empty store for it. */
typedef struct fixture {
    char dir[PATH_MAX - 64];
    hn_store *store;
    hn_toolchain toolchain;
} fixture;

static void fixture_begin(fixture *f) {
    const hn_toolchain_row *row = NULL;
    EXPECT_OK(hn_dir_temp(f->dir, sizeof(f->dir)));
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = f->dir}, &f->store));
    EXPECT_OK(hn_toolchain_row_find(HN_STR("c"), &row));
    EXPECT_OK(hn_toolchain_probe(row, f->store, &f->toolchain));
}

static void fixture_end(fixture *f) {
    hn_toolchain_deinit(&f->toolchain);
    hn_store_close(f->store);
    EXPECT_OK(hn_dir_remove(f->dir));
}

static hn_toolchain_job job_of(const char *text) {
    return (hn_toolchain_job){.text = hn_str_of(text), .flags = HN_STR("-O2\0"), .own_group = true};
}

/* The same toolchain, which always calls the driver. */
static hn_status through_driver(const hn_toolchain *toolchain, hn_toolchain *out) {
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_record_field field;
    for (hn_str rest = hn_strbuf_str(&toolchain->record); hn_record_next(&rest, &field);) {
        char name[32];
        snprintf(name, sizeof(name), HN_STR_FMT, HN_STR_ARG(field.name));
        bool is_switch = strcmp(name, "is_direct") == 0;
        hn_record_add(&record, name, is_switch ? HN_STR("0") : field.value);
    }
    hn_status status = hn_toolchain_from_record(toolchain->row, hn_strbuf_str(&record), out);
    hn_strbuf_deinit(&record);
    return status;
}

TEST(unknown_languages_are_named) {
    const hn_toolchain_row *row;
    EXPECT_ERROR(hn_toolchain_row_find(HN_STR("cobol"), &row), HN_UNSUPPORTED,
                 "'cobol'; known: 'c', 'c++', 'python', 'cuda', 'nvcc', 'opencl'");
}

TEST(two_kernels_of_one_unit_run) {
    fixture f;
    fixture_begin(&f);
    hn_toolchain_job job = job_of(two_kernels);
    hn_toolchain_result result;
    EXPECT_OK(hn_toolchain_compile(&f.toolchain, &job, &result));
    hn_library *library = NULL;
    EXPECT_OK(hn_library_load(result.bytes.ptr, result.bytes.len, "unit", &library));
    void *twice, *fill, *none;
    EXPECT_OK(hn_library_symbol(library, "twice", &twice));
    EXPECT_OK(hn_library_symbol(library, "fill", &fill));
    EXPECT_ERROR(hn_library_symbol(library, "none", &none), HN_NOT_FOUND,
                 "'unit' has no function 'none'");
    float out[4] = {0};
    EXPECT_INT(((int (*)(int))twice)(21), 42);
    ((void (*)(float *))fill)(out);
    EXPECT(out[0] == 3 && out[3] == 12);
    hn_library_close(library);
    hn_toolchain_result_deinit(&result);
    fixture_end(&f);
}

TEST(the_short_way_gives_the_bytes_of_the_driver) {
    fixture f;
    fixture_begin(&f);
    hn_toolchain driver;
    hn_toolchain_result fast, slow;
    EXPECT_OK(through_driver(&f.toolchain, &driver));
    hn_toolchain_job job = job_of(two_kernels);
    int64_t start = hn_now_ns();
    EXPECT_OK(hn_toolchain_compile(&f.toolchain, &job, &fast));
    int64_t middle = hn_now_ns();
    EXPECT_OK(hn_toolchain_compile(&driver, &job, &slow));
    int64_t end = hn_now_ns();
    EXPECT(fast.bytes.len > 0);
    EXPECT(hn_str_eq(hn_strbuf_str(&fast.bytes), hn_strbuf_str(&slow.bytes)));
    fprintf(stderr, "note: %.1f ms directly, %.1f ms through the driver, %zu bytes\n",
            (double)(middle - start) / 1e6, (double)(end - middle) / 1e6, fast.bytes.len);
    hn_toolchain_result_deinit(&fast);
    hn_toolchain_result_deinit(&slow);
    hn_toolchain_deinit(&driver);
    fixture_end(&f);
}

TEST(clang_works_too) {
    if (access("/usr/bin/clang", X_OK) != 0) {
        hn_test_skip("no /usr/bin/clang");
        return;
    }
    fixture f, g;
    fixture_begin(&g);
    setenv("HENRY_CC", "/usr/bin/clang", 1);
    fixture_begin(&f);
    unsetenv("HENRY_CC");
    EXPECT(memcmp(&f.toolchain.identity, &g.toolchain.identity, sizeof(hn_digest)) != 0);
    hn_toolchain_job job = job_of(two_kernels);
    job.flags = HN_STR("-O2\0-fno-tree-loop-distribute-patterns\0"); /* which clang does not know */
    hn_toolchain_result result;
    hn_library *library = NULL;
    void *twice = NULL;
    EXPECT_OK(hn_toolchain_compile(&f.toolchain, &job, &result));
    EXPECT_OK(hn_library_load(result.bytes.ptr, result.bytes.len, "unit", &library));
    EXPECT_OK(hn_library_symbol(library, "twice", &twice));
    EXPECT_INT(((int (*)(int))twice)(4), 8);
    hn_library_close(library);
    hn_toolchain_result_deinit(&result);
    fixture_end(&f);
    fixture_end(&g);
}

TEST(the_second_probe_asks_nobody) {
    fixture f;
    fixture_begin(&f);
    hn_store_stats before, after;
    hn_store_stats_get(f.store, &before);
    hn_toolchain again;
    int64_t start = hn_now_ns();
    EXPECT_OK(hn_toolchain_probe(f.toolchain.row, f.store, &again));
    fprintf(stderr, "note: a warm probe took %.0f us\n", (double)(hn_now_ns() - start) / 1e3);
    hn_store_stats_get(f.store, &after);
    EXPECT_INT(after.hits - before.hits, 1);
    EXPECT_INT(after.puts - before.puts, 0);
    EXPECT(memcmp(&again.identity, &f.toolchain.identity, sizeof(hn_digest)) == 0);
    EXPECT(hn_str_eq(hn_strbuf_str(&again.record), hn_strbuf_str(&f.toolchain.record)));
    hn_toolchain_deinit(&again);
    fixture_end(&f);
}

TEST(errors_quote_the_compiler_and_tell_how_to_run_it_again) {
    fixture f;
    fixture_begin(&f);
    hn_toolchain_job job =
        job_of("int good(void) { return 0; }\nint bad(void) { return missing; }\n");
    job.source_path = "/cache dir/bad.c";
    hn_toolchain_result result;
    hn_log_configure("error");
    hn_status status = hn_toolchain_compile(&f.toolchain, &job, &result);
    EXPECT_INT(hn_status_code(status), HN_TOOLCHAIN);
    const char *message = hn_status_message(status);
    EXPECT(strstr(message, "kernel.c:2:") != NULL);
    EXPECT(strstr(message, "missing") != NULL);
    EXPECT(strstr(message, "to run it again: /") != NULL);
    EXPECT(strstr(message, "-o /dev/null -x c '/cache dir/bad.c'") != NULL);
    EXPECT(strchr(message, '\n') == NULL);
    EXPECT(result.is_deterministic);
    EXPECT_INT(result.bytes.len, 0);
    hn_status_free(status);
    hn_toolchain_result_deinit(&result);
    hn_log_configure(NULL);
    fixture_end(&f);
}

TEST(a_missing_entry_is_an_error) {
    fixture f;
    fixture_begin(&f);
    hn_toolchain_job job = job_of(two_kernels);
    hn_toolchain_result result;
    job.entries = HN_STR("fill\0twice\0");
    EXPECT_OK(hn_toolchain_compile(&f.toolchain, &job, &result));
    hn_toolchain_result_deinit(&result);
    job.entries = HN_STR("twice\0thrice\0");
    EXPECT_ERROR(
        hn_toolchain_compile(&f.toolchain, &job, &result), HN_TOOLCHAIN,
        "no function 'thrice' in what was compiled; it was asked for as an entry; to run it again: henry kernel compile SOURCE "
        "--language c --entry=twice --entry=thrice --flag=-O2 -o /dev/null");
    EXPECT(result.is_deterministic);
    EXPECT_INT(result.bytes.len, 0);
    hn_toolchain_result_deinit(&result);
    fixture_end(&f);
}

static void expect_refused(const fixture *f, hn_str flags, hn_str target, const char *text) {
    hn_toolchain_job job = job_of(two_kernels);
    hn_toolchain_result result;
    job.flags = flags;
    job.target = target;
    EXPECT_ERROR(hn_toolchain_compile(&f->toolchain, &job, &result), HN_INVALID_ARGUMENT, text);
    hn_toolchain_result_deinit(&result);
}

TEST(flags_that_tie_to_the_machine_are_refused) {
    fixture f;
    fixture_begin(&f);
    expect_refused(&f, HN_STR("-march=native\0"), HN_STR(""), "'-march=native'");
    expect_refused(&f, HN_STR("-O2\0-mtune=native\0"), HN_STR(""), "'-mtune=native'");
    expect_refused(&f, HN_STR("-o\0x\0"), HN_STR(""), "'-o'");
    expect_refused(&f, HN_STR("other.c\0"), HN_STR(""), "'other.c'");
    expect_refused(&f, HN_STR("@file\0"), HN_STR(""), "'@file'");
    expect_refused(&f, HN_STR("-Iinclude\0"), HN_STR(""), "write '-I' and an absolute path");
    expect_refused(&f, HN_STR("-O2\0"), HN_STR("arch=native\0"), "'arch=native'");
    expect_refused(&f, HN_STR("-O2\0"), HN_STR("-fplugin=x\0"), "'-fplugin=x'");
    expect_refused(&f, HN_STR("-O2\0"), HN_STR("a b\0"), "'a b'");
    fixture_end(&f);
}

TEST(the_identity_has_words) {
    fixture f;
    hn_strbuf text;
    setenv("HENRY_CC", "gcc", 1);
    fixture_begin(&f);
    unsetenv("HENRY_CC");
    hn_strbuf_init(&text);
    hn_toolchain_identity_print(&f.toolchain, &text);
    EXPECT(hn_str_starts_with(hn_strbuf_str(&text), HN_STR("gcc ")) && text.ptr[4] >= '0' &&
           text.ptr[4] <= '9');
    EXPECT(strstr(text.ptr, " (") && text.ptr[text.len - 1] == ')');
    hn_strbuf_reset(&text);
    hn_strbuf_deinit(&f.toolchain.record); /* as those of before had it */
    hn_strbuf_init(&f.toolchain.record);
    hn_toolchain_identity_print(&f.toolchain, &text);
    EXPECT_INT(text.len, HN_DIGEST_HEX_BYTES - 1);
    hn_strbuf_deinit(&text);
    fixture_end(&f);
}

TEST(targets_become_machine_flags) {
#if defined(__x86_64__)
    static const char text[] =
        "#if !defined(__AVX2__) || !defined(__FMA__)\n#error no\n#endif\nint x(void) { return 1; }\n";
    fixture f;
    fixture_begin(&f);
    hn_toolchain_job job = job_of(text);
    hn_toolchain_result result;
    job.target = HN_STR("avx2\0fma\0prefer-vector-width=256\0");
    EXPECT_OK(hn_toolchain_compile(&f.toolchain, &job, &result));
    hn_toolchain_result_deinit(&result);
    fixture_end(&f);
#else
    hn_test_skip("the features are those of x86-64");
#endif
}

TEST(headers_work_and_are_noticed) {
    static const char text[] =
        "#include <stddef.h>\n#include <math.h>\nsize_t f(void) { return sizeof(double_t); }\n";
    fixture f;
    fixture_begin(&f);
    hn_toolchain_job job = job_of(text);
    hn_toolchain_result result;
    EXPECT_OK(hn_toolchain_compile(&f.toolchain, &job, &result));
    hn_toolchain_result_deinit(&result);
    hn_toolchain_reads (*reads)(hn_str, hn_str) = f.toolchain.row->reads;
    EXPECT(reads(hn_str_of(text), HN_STR("")) == HN_READS_HEADERS);
    EXPECT(reads(hn_str_of("/*\n*/ # include <x>"), HN_STR("")) == HN_READS_HEADERS);
    EXPECT(reads(hn_str_of("  #  include \"x\""), HN_STR("")) == HN_READS_HEADERS);
    EXPECT(reads(HN_STR(""), HN_STR("-I/x\0")) == HN_READS_HEADERS);
    EXPECT(reads(HN_STR(""), HN_STR("-include/x.h\0")) == HN_READS_HEADERS);
    EXPECT(reads(hn_str_of(two_kernels),
                 HN_STR("-O2\0-mavx2\0-fno-math-errno\0-DX=1\0-std=gnu17\0-lm\0-fopenmp\0")) ==
           HN_READS_NOTHING);
    static const char *const sneaky[] = {"%:include <x>",
                                         "#/**/include <x>",
                                         "#inc\\\nlude <x>",
                                         "#embed \"x\"",
                                         "#em\\ \nbed \"x\"",
                                         "% %:",
                                         "%\\\n:embed \"x\"",
                                         "?"
                                         "?/",
                                         "#if __h\\\nas_include(<x>)",
                                         "#define P(a, b) a##b\n#if P(__ha, s_include)(<x>)",
                                         "#define P(a, b) a##b\n#if P(_, _has_include)(<x>)",
                                         "#if __has_include(<x>)",
                                         "?"
                                         "?=embed <x>",
                                         "h _h __h __has_"};
    for (size_t i = 0; i < sizeof(sneaky) / sizeof(sneaky[0]); i++)
        if (reads(hn_str_of(sneaky[i]), HN_STR("")) != HN_READS_FILES)
            HN_TEST_FAIL("not noticed: %s", sneaky[i]);
    static const char *const harmless[] = {"%",
                                           ":%",
                                           "?"
                                           "?",
                                           "b",
                                           "ncbin",
                                           "incbi",
                                           "h",
                                           "_has_",
                                           "__has",
                                           ".",
                                           ".includ",
                                           "f(x) ? a % 2 : .5f",
                                           "__has __h _",
                                           "#define P(a, b) a##b\nint P(x, _y) = __harmless;",
                                           "#define X(a) a + \\\n 1\nint x;"};
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        if (reads(hn_str_of(harmless[i]), HN_STR("")) != HN_READS_NOTHING)
            HN_TEST_FAIL("refused: %s", harmless[i]);
    EXPECT(reads(hn_str_of("__asm__(\".incbin \\\"x\\\"\");"), HN_STR("")) == HN_READS_HEADERS);
    EXPECT(reads(hn_str_of("__asm__(\".include \\\"x\\\"\");"), HN_STR("")) == HN_READS_HEADERS);
    static const char *const flags[] = {
        "-fplugin=x.so",      "-specs=x", "-Wl,-Tx", "-Bdir",
        "-fsanitize=address", "-lfoo",    "-L/x",    "-DX=__has_include(<x>)"};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (reads(HN_STR(""), (hn_str){flags[i], strlen(flags[i]) + 1}) != HN_READS_FILES)
            HN_TEST_FAIL("not noticed: %s", flags[i]);
    fixture_end(&f);
}

static void write_script(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    EXPECT(file && fputs(text, file) >= 0 && fclose(file) == 0);
    EXPECT(chmod(path, 0700) == 0);
}

/* A wrapper that answers --version like gcc and then does what `body` says. */
static void fake_begin(fixture *f, const char *body) {
    char path[PATH_MAX], text[1024], dir[PATH_MAX - 64];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/fake-cc", dir);
    snprintf(text, sizeof(text),
             "#!/bin/sh\ncase $1 in --version) echo Free Software Foundation; exit;; esac\n%s\n",
             body);
    write_script(path, text);
    setenv("HENRY_CC", path, 1);
    fixture_begin(f);
    unsetenv("HENRY_CC");
}

static void fake_end(fixture *f) {
    char cc[PATH_MAX];
    hn_str value;
    EXPECT(hn_record_find(hn_strbuf_str(&f->toolchain.record), "cc", &value));
    snprintf(cc, sizeof(cc), "%s", value.ptr);
    *strrchr(cc, '/') = 0;
    EXPECT_OK(hn_dir_remove(cc));
    fixture_end(f);
}

TEST(a_wrapper_script_is_called_and_a_late_one_is_killed) {
    fixture f;
    fake_begin(&f, "sleep 20 & sleep 20");
    hn_toolchain_job job = job_of(two_kernels);
    job.timeout_ms = 150;
    hn_toolchain_result result;
    int64_t start = hn_now_ns();
    EXPECT_ERROR(hn_toolchain_compile(&f.toolchain, &job, &result), HN_TIMEOUT, "ran too long");
    EXPECT(hn_now_ns() - start < 3000000000);
    EXPECT(!result.is_deterministic);
    hn_toolchain_result_deinit(&result);
    fake_end(&f);
}

TEST(crashes_and_lack_of_memory_are_not_deterministic) {
    /* a fault, not `kill -SEGV $$`: a signal that the first process of a namespace sends itself
     * does nothing */
    static const char *const bodies[] = {
        "echo 'int main(void) { return *(volatile int *)0; }' | cc -x c -o \"$0.x\" - && exec \"$0.x\"",
        "echo 'error: virtual memory exhausted' >&2; exit 1",
        "echo 'internal compiler error: x' >&2; exit 4"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        fixture f;
        fake_begin(&f, bodies[i]);
        hn_toolchain_job job = job_of(two_kernels);
        hn_toolchain_result result;
        hn_status status = hn_toolchain_compile(&f.toolchain, &job, &result);
        EXPECT_INT(hn_status_code(status), HN_TOOLCHAIN);
        EXPECT(!result.is_deterministic);
        if (i == 0) EXPECT(strstr(hn_status_message(status), "was killed by signal 11") != NULL);
        hn_status_free(status);
        hn_toolchain_result_deinit(&result);
        fake_end(&f);
    }
}

TEST(messages_of_a_compiler_are_cleaned) {
    fixture f;
    fake_begin(
        &f,
        "printf 'kernel.c:1:1: error: \\033[31mred\\377 \\302\\233x\\r \\303\\251\\tkept\\n' >&2; exit 1");
    hn_toolchain_job job = job_of(two_kernels);
    hn_toolchain_result result;
    hn_log_configure("error");
    EXPECT_ERROR(hn_toolchain_compile(&f.toolchain, &job, &result), HN_TOOLCHAIN,
                 "error: \\x1b[31mred\\xff \\xc2\\x9bx\\x0d \xc3\xa9\tkept;");
    hn_log_configure(NULL);
    hn_toolchain_result_deinit(&result);
    fake_end(&f);
}

/* A tool that talks for ever costs neither the memory nor the reader what it says. */
TEST(of_many_messages_the_beginning_and_the_end_are_kept) {
    enum { LINES = 600000 };
    int fd = -1;
    struct stat info;
    hn_strbuf text, line;
    hn_strbuf_init(&text);
    hn_strbuf_init(&line);
    EXPECT_OK(hn_tool_memory_file("test", &fd));
    for (int i = 0; i < LINES; i++) hn_strbuf_printf(&line, "line %07d\n", i);
    EXPECT_OK(hn_tool_write_all(fd, line.ptr, 1000));
    hn_tool_messages_trim(fd);
    EXPECT_OK(hn_tool_read_errors(fd, &text));
    EXPECT(text.len == 1000 && memcmp(text.ptr, line.ptr, 1000) == 0);
    EXPECT_OK(hn_tool_write_all(fd, line.ptr + 1000, line.len - 1000));
    for (int round = 0; round < 2; round++) { /* the second time without the middle */
        hn_strbuf_reset(&text);
        EXPECT_OK(hn_tool_read_errors(fd, &text));
        EXPECT(text.len > (256 << 10) && text.len < (257 << 10));
        EXPECT(memcmp(text.ptr, line.ptr, 128 << 10) == 0);
        EXPECT(memcmp(text.ptr + text.len - (128 << 10), line.ptr + line.len - (128 << 10),
                      128 << 10) == 0);
        EXPECT(memmem(text.ptr, text.len, "\n[7537856 bytes left out]\n", 26) != NULL);
        hn_tool_messages_trim(fd);
        EXPECT(fstat(fd, &info) == 0 && info.st_size == (off_t)line.len &&
               info.st_blocks * 512 < 512 << 10);
    }
    close(fd);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&line);
}

TEST(memory_is_limited) {
    fixture f;
    fake_begin(&f, "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done");
    hn_toolchain_job job = job_of(two_kernels);
    job.memory_bytes = 64 << 20;
    job.timeout_ms = 20000;
    hn_toolchain_result result;
    hn_status status = hn_toolchain_compile(&f.toolchain, &job, &result);
    EXPECT_INT(hn_status_code(status), HN_TOOLCHAIN); /* and not a timeout */
    EXPECT(!result.is_deterministic);
    hn_status_free(status);
    hn_toolchain_result_deinit(&result);
    fake_end(&f);
}

TEST(a_missing_compiler_says_so) {
    const hn_toolchain_row *row = hn_toolchain_row_at(0);
    hn_store *store = NULL;
    hn_toolchain toolchain;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    setenv("HENRY_CC", "/no/such/cc", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_TOOLCHAIN,
                 "'/no/such/cc' that HENRY_CC names");
    setenv("HENRY_CC", "/bin/false", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_TOOLCHAIN,
                 "cannot use the C compiler '/bin/false'");
    unsetenv("HENRY_CC");
    fixture f;
    fake_begin(&f, "exit 0");
    const hn_toolchain_job job = job_of(two_kernels);
    hn_toolchain_result result;
    EXPECT_ERROR(hn_toolchain_compile(&f.toolchain, &job, &result), HN_TOOLCHAIN,
                 "ended with success and wrote no output");
    hn_toolchain_result_deinit(&result);
    fake_end(&f);
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/no/such/dir", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_NOT_FOUND,
                 "neither gcc nor clang is in PATH");
    setenv("PATH", path, 1);
    free(path);
    hn_store_close(store);
}

/* Equal paths would make the loader return the first library for the second. */
TEST(libraries_are_told_apart) {
    fixture f;
    fixture_begin(&f);
    hn_library *libraries[4];
    for (int i = 0; i < 4; i++) {
        char text[64];
        snprintf(text, sizeof(text), "int which(void) { return %d; }", i);
        hn_toolchain_job job = job_of(text);
        hn_toolchain_result result;
        EXPECT_OK(hn_toolchain_compile(&f.toolchain, &job, &result));
        EXPECT_OK(hn_library_load(result.bytes.ptr, result.bytes.len, "which", &libraries[i]));
        hn_toolchain_result_deinit(&result);
    }
    for (int i = 0; i < 4; i++) {
        void *which = NULL;
        EXPECT_OK(hn_library_symbol(libraries[i], "which", &which));
        EXPECT_INT(((int (*)(void))which)(), i);
        hn_library_close(libraries[i]);
    }
    hn_library *none = NULL;
    EXPECT_ERROR(hn_library_load("not an object", 13, "junk", &none), HN_TOOLCHAIN,
                 "cannot load kernel 'junk'");
    fixture_end(&f);
}

TEST_MAIN
