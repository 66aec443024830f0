/* test_cxx.c: the language "c++": headers and their list, the C++ runtime, entries, errors. */
#include "unit/toolchain/fixture.h"

#include "base/trace.h"
#include "toolchain/headers.h"

#include <time.h>
#include <unistd.h>

static const char with_library[] =
    "#include <algorithm>\n"
    "#include <stdexcept>\n"
    "#include <vector>\n"
    "struct logger { ~logger() { live--; } static int live; };\n"
    "int logger::live = 1;\n"
    "static logger one;\n"
    "extern \"C\" int median(const int *p, int n) {\n"
    "    std::vector<int> v(p, p + n);\n"
    "    std::sort(v.begin(), v.end());\n"
    "    try { return v.at(n / 2); } catch (const std::out_of_range &) { return -1; }\n"
    "}\n"
    "int hidden(int x) { return x; }\n";

static hn_toolchain_job job_of(const char *text) {
    return (hn_toolchain_job){.text = hn_str_of(text), .flags = HN_STR("-O2\0"), .own_group = true};
}

static void let_headers_age(void) {
    nanosleep(&(struct timespec){.tv_nsec = 80 * 1000 * 1000}, NULL);
}

TEST(the_library_exceptions_and_destructors_work) {
    language l;
    if (!language_begin(&l, "c++")) return language_end(&l);
    hn_toolchain_job job = job_of(with_library);
    hn_toolchain_result result;
    job.entries = HN_STR("median\0");
    int64_t start = hn_now_ns();
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    fprintf(stderr, "note: %.0f ms with <vector> and <algorithm>\n",
            (double)(hn_now_ns() - start) / 1e6);
    hn_library *library = NULL;
    void *median = NULL;
    EXPECT_OK(hn_library_load(result.bytes.ptr, result.bytes.len, "unit", &library));
    EXPECT_OK(hn_library_symbol(library, "median", &median));
    if (median) {
        int values[] = {5, 1, 4, 2, 3};
        EXPECT_INT(((int (*)(const int *, int))median)(values, 5), 3);
        EXPECT_INT(((int (*)(const int *, int))median)(values, 0), -1);
    }
    hn_library_close(library);
    EXPECT(result.headers.len > 0);
    EXPECT(memmem(result.headers.ptr, result.headers.len, "/algorithm", 10) != NULL);
    start = hn_now_ns();
    EXPECT(hn_headers_unchanged(hn_strbuf_str(&result.headers)));
    fprintf(stderr, "note: %.0f us to check the headers again\n",
            (double)(hn_now_ns() - start) / 1e3);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(a_missing_entry_tells_about_linkage) {
    language l;
    if (!language_begin(&l, "c++")) return language_end(&l);
    hn_toolchain_job job = job_of("int plain(int x) { return x; }\n");
    hn_toolchain_result result;
    job.entries = HN_STR("plain\0");
    EXPECT_ERROR(
        hn_toolchain_compile(&l.toolchain, &job, &result), HN_TOOLCHAIN,
        "no function 'plain' with C linkage; declare it extern \"C\"; to run it again: henry kernel compile SOURCE --language c++ --entry=plain --flag=-O2 -o /dev/null");
    EXPECT(result.is_deterministic);
    hn_toolchain_result_deinit(&result);
    job.entries = HN_STR("other\0");
    EXPECT_ERROR(hn_toolchain_compile(&l.toolchain, &job, &result), HN_TOOLCHAIN,
                 "no function 'other' in what was compiled");
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(errors_have_the_line_of_the_text) {
    language l;
    if (!language_begin(&l, "c++")) return language_end(&l);
    hn_toolchain_job job =
        job_of("#include <vector>\n\nstd::vector<int> v;\nint f() { return v.sizes(); }\n");
    hn_toolchain_result result;
    hn_status status = hn_toolchain_compile(&l.toolchain, &job, &result);
    EXPECT_INT(hn_status_code(status), HN_TOOLCHAIN);
    EXPECT(strstr(hn_status_message(status), "kernel.cc:4:") != NULL);
    EXPECT(strstr(hn_status_message(status), "sizes") != NULL);
    EXPECT(result.is_deterministic);
    hn_status_free(status);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(a_late_compilation_is_killed) {
    language l;
    if (!language_begin(&l, "c++")) return language_end(&l);
    hn_toolchain_job job = job_of(
        "template <int N> struct deep { enum { v = deep<N - 1>::v + deep<N - 1>::v }; };\n"
        "template <> struct deep<0> { enum { v = 1 }; };\n"
        "constexpr long slow(long n) { long s = 0; for (long i = 0; i < n; i++) s += i % 7; return s; }\n"
        "constexpr long value = slow(30000000);\nlong f() { return value; }\n");
    hn_toolchain_result result;
    job.flags = HN_STR("-fconstexpr-ops-limit=1000000000\0-fconstexpr-loop-limit=1000000000\0");
    job.timeout_ms = 200;
    EXPECT_ERROR(hn_toolchain_compile(&l.toolchain, &job, &result), HN_TIMEOUT, "ran too long");
    EXPECT(!result.is_deterministic);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(a_missing_compiler_says_how_to_get_one) {
    const hn_toolchain_row *row = NULL;
    hn_store *store = NULL;
    hn_toolchain toolchain;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    EXPECT_OK(hn_toolchain_row_find(HN_STR("c++"), &row));
    setenv("HENRY_CXX", "/no/such/c++", 1);
    EXPECT_ERROR(hn_toolchain_probe(row, store, &toolchain), HN_TOOLCHAIN,
                 "'/no/such/c++' that HENRY_CXX names");
    unsetenv("HENRY_CXX");
    char *path = strdup(getenv("PATH"));
    setenv("PATH", "/no/such/dir", 1);
    EXPECT_ERROR(
        hn_toolchain_probe(row, store, &toolchain), HN_NOT_FOUND,
        "cannot find a C++ compiler: neither g++ nor clang++ is in PATH; install one or set HENRY_CXX");
    setenv("PATH", path, 1);
    free(path);
    hn_store_close(store);
}

/* ---- the list of headers ---- */

TEST(rules_of_make_are_read) {
    hn_strbuf paths;
    hn_strbuf_init(&paths);
    hn_headers_parse_rule(
        HN_STR(
            "out.so: kernel.cc /usr/include/a.h \\\n  /a\\ b/c.h /d$$e.h \\\n\t/f\\#g.h /usr/include/a.h\n"),
        &paths);
    hn_headers_parse_rule(HN_STR("nothing"), &paths);
    hn_headers_parse_rule(HN_STR("x : \\\n"), &paths);
    static const char expected[] = "/usr/include/a.h\0/a b/c.h\0/d$e.h\0/f#g.h";
    EXPECT(hn_str_eq(hn_strbuf_str(&paths), (hn_str){expected, sizeof(expected)}));
    hn_strbuf_deinit(&paths);
}

static void write_header(const char *dir, const char *name, const char *text) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    EXPECT_OK(hn_file_write_atomic(path, text, strlen(text), false));
}

TEST(a_changed_or_shadowing_header_is_noticed) {
    language l;
    char first[PATH_MAX], second[PATH_MAX], flags[2 * PATH_MAX + 16];
    if (!language_begin(&l, "c++")) return language_end(&l);
    snprintf(first, sizeof(first), "%s/first", l.dir);
    snprintf(second, sizeof(second), "%s/second", l.dir);
    EXPECT_OK(hn_dir_create(first));
    EXPECT_OK(hn_dir_create(second));
    write_header(second, "value.h", "#define VALUE 1\n");
    int len = snprintf(flags, sizeof(flags), "-I%s%c-I%s", first, 0, second);
    hn_toolchain_job job =
        job_of("#include \"value.h\"\nextern \"C\" int value() { return VALUE; }\n");
    job.flags = (hn_str){flags, (size_t)len + 1};
    hn_toolchain_result result;
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    EXPECT_INT(result.headers.len, 0); /* too young to be sure */
    hn_toolchain_result_deinit(&result);
    let_headers_age();
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    hn_str headers = hn_strbuf_str(&result.headers);
    EXPECT(headers.len > 0);
    EXPECT(hn_headers_unchanged(headers));
    write_header(second, "value.h", "#define VALUE 1\n"); /* other stamp, same bytes */
    EXPECT(hn_headers_unchanged(headers));
    write_header(second, "unrelated.h", "");
    EXPECT(hn_headers_unchanged(headers));
    write_header(first, "value.h", "#define VALUE 3\n");
    EXPECT(!hn_headers_unchanged(headers));
    snprintf(first + strlen(first), 16, "/value.h");
    EXPECT(unlink(first) == 0);
    EXPECT(hn_headers_unchanged(headers));
    write_header(second, "value.h", "#define VALUE 2\n");
    EXPECT(!hn_headers_unchanged(headers));
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(damaged_lists_of_headers_do_not_count) {
    EXPECT(!hn_headers_unchanged(HN_STR("")));
    EXPECT(!hn_headers_unchanged(HN_STR("junk that is no record")));
}

TEST_MAIN
