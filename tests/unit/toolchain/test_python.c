/* test_python.c: the language "python": signatures, and a module in a real interpreter:
 * HENRY_PYTHON, else python3. */
#include "unit/toolchain/fixture.h"

#include "base/process.h"
#include "base/trace.h"
#include "toolchain/python.h"

#include <unistd.h>

static const char text[] =
    "typedef unsigned char u8;\n"
    "extern \"C\" void scale(float *p, long n, float by) { for (long i = 0; i < n; i++) p[i] *= by; }\n"
    "extern \"C\" long add(long a, int b) { return a + b; }\n"
    "double half(double x) { return x / 2; }\n"
    "extern \"C\" bool flip(bool x) { return !x; }\n"
    "u8 low(u8 x, unsigned long y) { return (u8)(x + y); }\n"
    "float *same(float *p) { return p; }\n"
    "extern \"C\" int fail(int x) { if (x) throw x; return 7; }\n"
    "extern \"C\" void increment() {}\n" /* a name that the binding uses too */
    "extern \"C\" unsigned long biggest(unsigned long x) { return x; }\n"
    "extern \"C\" short small(short x) { return x; }\n";

static const char entries[] =
    "nogil void scale(ptr, i64, f32)\0i64 add(i64, i32)\0f64 half(f64)\0bool flip(bool)\0"
    "u8 low(u8,u64)\0ptr same ( ptr )\0nogil i32 fail(i32)\0void increment()\0u64 biggest(u64)\0"
    "i16 small(i16)";

/* Everything that a call can meet. An assertion that fails ends the interpreter with its line. */
static const char script[] =
    "import sys, ctypes, threading\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "import demo as m\n"
    "def refuses(error, part, call, *args):\n"
    "    try: call(*args)\n"
    "    except error as e: assert part in str(e), str(e)\n"
    "    else: raise AssertionError('no ' + error.__name__)\n"
    "a = (ctypes.c_float * 4)(1, 2, 3, 4)\n"
    "assert m.scale(ctypes.addressof(a), 4, 2.5) is None\n"
    "assert list(a) == [2.5, 5, 7.5, 10]\n"
    "m.scale(ctypes.addressof(a), 4, 2)\n"
    "assert m.add(2**40, -3) == 2**40 - 3 and type(m.add(1, 2)) is int\n"
    "assert m.half(3) == 1.5 and m.flip(0) is True and m.flip([1]) is False\n"
    "assert m.low(250, 10) == 4 and m.same(0) == 0 and m.same(2**63) == 2**63\n"
    "assert m.increment() is None and m.fail(0) == 7\n"
    "assert m.biggest(2**64 - 1) == 2**64 - 1 and m.small(-2**15) == -2**15\n"
    "assert m.add(-1, -1) == -2\n"
    "class Index:\n"
    "    def __index__(self): return 5\n"
    "assert m.add(Index(), Index()) == 10\n"
    "class Bad:\n"
    "    def __index__(self): raise ValueError('mine')\n"
    "refuses(ValueError, 'mine', m.add, Bad(), 1)\n"
    "refuses(TypeError, 'scale() takes 3 arguments (1 given)', m.scale, 1)\n"
    "refuses(TypeError, 'increment() takes 0 arguments (1 given)', m.increment, 1)\n"
    "refuses(TypeError, 'scale() argument 1 (ptr) must be an int, not', m.scale, 1.5, 1, 1)\n"
    "refuses(TypeError, 'scale() argument 1 (ptr) must be an int, not', m.scale, None, 1, 1)\n"
    "refuses(TypeError, 'scale() argument 3 (f32) must be a float', m.scale, 1, 1, 'x')\n"
    "refuses(TypeError, 'must be an int', m.add, 1.0, 1)\n"
    "refuses(OverflowError, 'add() argument 2: 2147483648 does not fit i32', m.add, 1, 2**31)\n"
    "refuses(OverflowError, 'does not fit i64', m.add, 2**63, 1)\n"
    "refuses(OverflowError, 'does not fit ptr', m.same, -1)\n"
    "refuses(OverflowError, 'does not fit ptr', m.same, 2**64)\n"
    "refuses(OverflowError, 'does not fit u8', m.low, 256, 1)\n"
    "refuses(OverflowError, 'does not fit f32', m.scale, 1, 0, 1e300)\n"
    "m.scale(0, 0, float('inf'))\n"
    "refuses(OverflowError, 'does not fit f64', m.half, 10**400)\n"
    "refuses(RuntimeError, 'fail() threw a C++ exception', m.fail, 1)\n"
    "refuses(TypeError, 'keyword', lambda: m.add(a=1, b=2))\n"
    "assert m.__name__ == 'demo' and m.add.__doc__ == 'i64 add(i64, i32)'\n"
    "threads = [threading.Thread(target=lambda: [m.fail(0) for _ in range(1000)]) for _ in range(4)]\n"
    "[t.start() for t in threads]; [t.join() for t in threads]\n"
    "import sys; before = sys.getrefcount(None)\n"
    "for _ in range(1000): m.increment()\n"
    "assert abs(sys.getrefcount(None) - before) < 100\n"
    "print('python', sys.version.split()[0])\n";

static hn_toolchain_job job_of(const char *source, hn_str signatures) {
    return (hn_toolchain_job){.text = hn_str_of(source),
                              .flags = HN_STR("-O2\0"),
                              .target = HN_STR("module=demo\0"),
                              .entries = signatures,
                              .own_group = true};
}

/* Runs the interpreter with the script on a directory. False, with a line, when there is none. */
static bool run_python(const char *dir, const char *code) {
    const char *python = getenv("HENRY_PYTHON");
    const char *argv[] = {python ? python : "python3", "-c", code, dir, NULL};
    hn_strbuf output;
    int exit_status = 0;
    hn_strbuf_init(&output);
    hn_status status =
        hn_process_run(&(hn_spawn){.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1},
                       60000, &output, &exit_status);
    if (status) hn_test_skip(hn_status_message(status));
    else if (exit_status != 0)
        HN_TEST_FAIL("the interpreter ended with %d: %s", exit_status,
                     output.ptr ? output.ptr : "");
    else fprintf(stderr, "note: %s", output.ptr ? output.ptr : "");
    bool ran = !status;
    hn_status_free(status);
    hn_strbuf_deinit(&output);
    return ran;
}

static void write_module(const language *l, const hn_toolchain_result *result) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/demo.abi3.so", l->dir);
    EXPECT_OK(hn_file_write_atomic(path, result->bytes.ptr, result->bytes.len, false));
}

TEST(a_module_works_in_the_interpreter) {
    language l;
    if (!language_begin(&l, "python")) return language_end(&l);
    hn_toolchain_job job = job_of(text, (hn_str){entries, sizeof(entries)});
    hn_toolchain_result result;
    int64_t start = hn_now_ns();
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    fprintf(stderr, "note: %.0f ms, %zu bytes\n", (double)(hn_now_ns() - start) / 1e6,
            result.bytes.len);
    EXPECT(l.toolchain.row->reads(job.text, job.flags) == HN_READS_NOTHING);
    write_module(&l, &result);
    run_python(l.dir, script);
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(standard_exceptions_keep_their_text) {
    language l;
    if (!language_begin(&l, "python")) return language_end(&l);
    hn_toolchain_job job =
        job_of("#include <stdexcept>\nvoid f() { throw std::runtime_error(\"no luck\"); }\n",
               HN_STR("void f()\0"));
    hn_toolchain_result result;
    EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
    write_module(&l, &result);
    run_python(l.dir, "import sys; sys.path.insert(0, sys.argv[1]); import demo\n"
                      "try: demo.f()\n"
                      "except RuntimeError as e: print(e); assert str(e) == 'f() threw no luck'\n"
                      "else: raise AssertionError\n");
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

static void expect_bad(const char *signature, const char *message) {
    char list[300];
    hn_strbuf out;
    snprintf(list, sizeof(list), "%s", signature);
    hn_strbuf_init(&out);
    EXPECT_ERROR(hn_python_binding("m", (hn_str){list, strlen(list) + 1}, false, &out),
                 HN_INVALID_ARGUMENT, message);
    hn_strbuf_deinit(&out);
}

TEST(bad_signatures_are_refused) {
    expect_bad("", "expected '[nogil] RESULT NAME(TYPE, ...)'");
    expect_bad("scale", "expected '[nogil] RESULT NAME(TYPE, ...)'");
    expect_bad("void scale", "expected '[nogil]");
    expect_bad("void scale(", "expected a type at ''");
    expect_bad("void scale(ptr", "expected '[nogil]");
    expect_bad("void scale(ptr) x", "expected '[nogil]");
    expect_bad("void scale(ptr,)", "expected a type at ')'");
    expect_bad("void scale(void)", "'void' is no type");
    expect_bad("void scale(float)", "'float' is no type; there are ptr, bool");
    expect_bad("int scale(ptr)", "'int' is no type");
    expect_bad("void a\"b(ptr)", "expected '[nogil]");
    hn_strbuf out;
    hn_strbuf_init(&out);
    EXPECT_ERROR(hn_python_binding("m", HN_STR(""), false, &out), HN_INVALID_ARGUMENT,
                 "no entries");
    hn_strbuf_deinit(&out);
}

static void expect_failure(const language *l, const char *source, hn_str signatures,
                           const char *part) {
    hn_toolchain_job job = job_of(source, signatures);
    hn_toolchain_result result;
    hn_status status = hn_toolchain_compile(&l->toolchain, &job, &result);
    if (!status || !strstr(hn_status_message(status), part))
        HN_TEST_FAIL("'%s' is not in '%s'", part, hn_status_message(status));
    hn_status_free(status);
    hn_toolchain_result_deinit(&result);
}

TEST(errors_tell_the_line_or_the_entry) {
    language l;
    if (!language_begin(&l, "python")) return language_end(&l);
    expect_failure(&l, "void f() {}\n\nvoid g() { nothing(); }\n", HN_STR("void f()\0"),
                   "kernel.cc:3:12: error:");
    expect_failure(&l, "void f() {}\n", HN_STR("void f()\0void g(ptr)\0"), "entries:2:");
    expect_failure(&l, "void f() {}\n", HN_STR("void f()\0void g(ptr)\0"),
                   "'::g' has not been declared");
    expect_failure(&l, "void f(int *p) {}\n", HN_STR("void f(ptr, i32)\0"),
                   "entry 'void f(ptr, i32)' is not the type of the function");
    expect_failure(&l, "void f(int x) {}\n", HN_STR("void f(i64)\0"),
                   "entry 'void f(i64)' is not the type of the function");
    expect_failure(&l, "void f(unsigned x) {}\n", HN_STR("void f(i32)\0"),
                   "is not the type of the function");
    expect_failure(&l, "void f(float x) {}\n", HN_STR("void f(i32)\0"),
                   "is not the type of the function");
    expect_failure(&l, "int f() { return 1; }\n", HN_STR("void f()\0"),
                   "is not the type of the function");
    hn_toolchain_job job = job_of("void f() {}\n", HN_STR("void f()\0"));
    hn_toolchain_result result;
    job.target = HN_STR("module=a.b\0");
    EXPECT_ERROR(hn_toolchain_compile(&l.toolchain, &job, &result), HN_INVALID_ARGUMENT,
                 "'a.b' cannot be the name of a Python module");
    hn_toolchain_result_deinit(&result);
    language_end(&l);
}

TEST(the_identity_is_not_that_of_cxx) {
    language a, b;
    bool both = language_begin(&a, "python");
    both = language_begin(&b, "c++") && both;
    EXPECT(!both || memcmp(&a.toolchain.identity, &b.toolchain.identity, sizeof(hn_digest)) != 0);
    language_end(&a);
    language_end(&b);
}

TEST_MAIN
