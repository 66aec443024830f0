/* test_flags.c: which flags a job may have, for each language, and that those that it may not have
 * do nothing. */
#include "unit/toolchain/fixture.h"

#include "base/log.h"
#include "toolchain/flags.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_all(const char *const *flags, size_t count, hn_flag_user user, bool is_taken) {
    for (size_t i = 0; i < count; i++)
        if ((hn_flag_kind_of(flags[i], user) != HN_FLAG_REFUSED) != is_taken)
            HN_TEST_FAIL("%s: %s", is_taken ? "refused" : "taken", flags[i]);
}

#define EXPECT_TAKEN(user, ...)                                                                    \
    expect_all((const char *const[]){__VA_ARGS__},                                                 \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), user, true)
#define EXPECT_REFUSED(user, ...)                                                                  \
    expect_all((const char *const[]){__VA_ARGS__},                                                 \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), user, false)

/* clang-format off */
TEST(usual_flags_are_taken) {
    EXPECT_TAKEN(HN_FLAGS_CC, "-O", "-O0", "-O2", "-Ofast", "-Og", "-g", "-g3", "-ggdb3", "-gdwarf-4", "-w", "-Wall", "-Wno-unused", "-Werror=return-type",
                 "-std=c17", "-std=gnu++20", "-ansi", "-pedantic", "-DX", "-DX=1", "-DF(a,b)=a + b", "-DX=a b", "-DX=\"$(x)\"", "-UX", "-I/x", "-I/a b'c",
                 "-isystem/x", "-iquote/x", "-idirafter/x", "-include/x.h", "-fopenmp", "-pthread", "-ffast-math", "-fno-math-errno", "-ftree-vectorize",
                 "-fno-tree-loop-distribute-patterns", "-fwrapv", "-ffp-contract=off", "-fvisibility=hidden", "-fdebug-prefix-map=/a=/b",
                 "-fconstexpr-ops-limit=1000", "-ftemplate-depth=2000", "-fdiagnostics-color=never", "-fsanitize=address,undefined", "-flto", "-flto=auto",
                 "-fuse-ld=lld", "-mavx2", "-mno-avx512f", "-msse4.2", "-march=x86-64-v3", "-march=armv8.2-a+crypto", "-mtune=generic",
                 "-mprefer-vector-width=512", "-mfpmath=sse", "-lm", "-lfoo", "-L/x", "-Wl,-z,now", "-Wl,--no-as-needed", "-Wl,-soname,x", "-Wl,-rpath,/x",
                 "-Wa,--noexecstack", "--param=max-inline-insns-single=100", "-stdlib=libc++", "-static-libstdc++", "--sysroot=/x");
    EXPECT_TAKEN(HN_FLAGS_NVCC, "-O3", "-g", "-G", "-lineinfo", "--generate-line-info", "-DX=1", "--define-macro=X=1", "-UX", "-I/x", "--include-path=/x",
                 "-isystem/x", "-isystem=/x", "-std=c++17", "--std=c++20", "--use_fast_math", "-use_fast_math", "--maxrregcount=64", "-maxrregcount=64",
                 "--ftz=true", "-prec-div=false", "--fmad=false", "-rdc=true", "--expt-relaxed-constexpr", "--extended-lambda", "-w", "-lcudart",
                 "-Xcompiler=-O3,-fopenmp", "-Xptxas=-O3,-v", "--ptxas-options=-dlcm=ca", "-Xcudafe=--diag_suppress=177", "--default-stream=per-thread",
                 "--diag-suppress=20012", "-Wno-deprecated-gpu-targets", "-allow-unsupported-compiler", "-cudart=static");
    EXPECT_TAKEN(HN_FLAGS_NVRTC, "-DX=a b", "--define-macro=X", "-I/a b", "--include-path=/x", "--pre-include=/x.h", "--std=c++17", "-G", "--device-debug", "-lineinfo",
                 "--use_fast_math", "--maxrregcount=32", "--ftz=false", "--extra-device-vectorization", "--restrict", "-default-device", "-rdc=true",
                 "--device-int128", "--split-compile=2", "--ptxas-options=-O2", "--diag-suppress=177", "-w");
}
/* clang-format on */

/* What runs programs or loads code, reads or writes files that nobody knows of, or means this
 * machine; and what only looks like a flag that is allowed. */
/* clang-format off */
TEST(hostile_flags_are_refused) {
    static const char *const everywhere[] = {
        "", "-", "--", "x", "x.c", "@F", "-o", "-oF", "--output=F", "-c", "-S", "-E", "-x", "-xc++", "-MD", "-MFx", "-M", "-B/x", "--prefix=/x", "-wrapper", "-wrapper=x",
        "-specs=/x", "--specs=/x", "-fplugin=/x", "-fplugin-arg-x-y=z", "-Xlinker", "-Xlinker=-oF", "-Xassembler", "-Xpreprocessor", "-Xclang", "-Xarchive=x", "-Xnvlink=x",
        "-save-temps", "-save-temps=obj", "--save-temps", "-I", "-Iinclude", "-I.", "-D", "-D=1", "-D1=1", "-U", "-UX=1", "-DX=\n#include \"x\"", "-DX=\033[2J",
        "-march=native", "-mcpu=native", "-mtune=native", "-mcpu=native+nofp", "-arch=native", "--gpu-architecture=native", "-arch=sm_80", "-gencode=arch=compute_80,code=sm_80",
        "-ccbin", "-ccbin=/x", "--compiler-bindir=/x", "-optf=F", "--options-file=F", "-time=F", "--time=F", "-keep", "--keep-dir=/x", "-run", "--run-args=x",
        "-fdevice-time-trace=F", "-dlto", "-create-pch=F", "-use-pch=F", "-odir=/x", "-dryrun", "-t=0", "--version"};
    static const char *const of_cc[] = {
        "-Wl,-o,F", "-Wl,-oF", "-Wl,-z,now,--output=F", "-Wl,--outp=F", "-Wl,-Map,F", "-Wl,-Map=F", "-Wl,--Map=F", "-Wl,--plugin,F", "-Wl,-plugin=F",
        "-Wl,--dependency-file=F", "-Wl,@F", "-Wl,-T/x", "-Wl,-rpath,x", "-Wl,-z,now,-T,x", "-Wl,", "-Wa,-o,F", "-Wa,-aln=F", "-Wa,--MD,F", "-Wa,-I,/x",
        "-Wp,-MD,F", "-Wp,-fplugin=F", "-Wp,F", "-Wp,-DX", "-dumpdir", "-dumpbase=x", "-working-directory=/x", "-fworking-directory", "-fprofile-generate",
        "-fprofile-generate=/x", "-fprofile-dir=/x", "-fprofile-use", "-fprofile-use=/x", "-fprofile-arcs", "-fauto-profile=/x", "-fbranch-probabilities", "-ftest-coverage",
        "--coverage", "-ftime-trace", "-ftime-trace=/x", "-fdump-tree-all", "-fdump-tree-all=F", "-fstack-usage", "-fcallgraph-info", "-fsave-optimization-record",
        "-fopt-info-vec=F", "-foptimization-record-file=F", "-fdiagnostics-format=sarif-file", "-fdiagnostics-add-output=sarif:file=F", "-fpass-plugin=/x", "-fuse-ld=/x",
        "-fuse-ld=x", "--ld-path=/x", "-fmodule-mapper=|x", "-fmodules", "-fmodules-ts", "-fmodule-file=/x", "-fpch-preprocess", "-fpreprocessed", "-fsyntax-only",
        "-finstrument-functions-exclude-file-list=x", "-fsanitize-blacklist=/x", "-fsanitize-ignorelist=/x", "-fprofile-list=/x", "-fcrash-diagnostics-dir=/x", "-fself-test=/x",
        "-fsso-struct=native", "-falign-functions=native", "-f", "-fno-", "-fno-no-wrapv", "-fwrapv=1", "-ffast-math -fplugin=x", "-m", "-mno-", "-mllvm", "-mllvm=-load=x",
        "-mkernel", "-mavx2,x", "-mabi=/x", "--config=/x", "-ccc-gcc-name", "-isysroot/x", "-imacros/x", "-iwithprefix/x", "-iplugindir=/x", "-include", "-includex.h", "-l", "-l:x.a",
        "-l../x", "-L", "-Lx", "-std=", "-std=../x", "-gsplit-dwarf", "-g/x", "-O/x", "--param=x", "--param=x=/y", "-aux-info", "-target", "--target=arm-linux-gnueabi",
        "-nostdlib", "-static", "-shared", "-fpic -o", "-v", "-###", "-pass-exit-codes", "-no-canonical-prefixes", "-fexec-charset=../x", "-finput-charset=x"};
    static const char *const of_nvcc[] = {
        "-DA=$(touch x)", "-DA=`touch x`", "-DA=1;touch", "-DA=1|x", "-DA=1&x", "-DA=a b", "-DA='a'", "-DA=\"a\"", "-DA=a\\b", "-DA=~/x", "-DA=*", "-DA={a}", "-DA=(1)", "-DA=<x>",
        "-DA=!x", "-DA=#x", "-I/a b", "-I/a\"b", "-I/$x", "-I/a,/b", "-Xcompiler", "-Xcompiler=", "-Xcompiler=-O2,-fplugin=/x", "-Xcompiler=-Wl,-Map=F", "-Xcompiler=-O2 -specs=/x",
        "-Xcompiler=@F", "-Xcompiler=-DA=$(x)", "-Xcompiler=-wrapper,x", "-Xcompiler=,", "--compiler-options=-B/x", "-Xptxas=--output-file=F", "-Xptxas=-o,F", "-Xptxas=x.ptx",
        "-Xptxas=-optf,F", "-Xcudafe=--gen_c_file_name=F", "-Xcudafe=x", "-lx,y", "--forward-unknown-opts", "--forward-unknown-to-host-compiler", "-arbin=/x", "-ldir=/x",
        "-target-dir=x", "-idp=x", "-jobserver", "--sanitize=address", "-hls=gen-lcs", "-clean", "-prec-div=x", "-maxrregcount=-1"};
    for (hn_flag_user user = HN_FLAGS_CC; user <= HN_FLAGS_NVRTC; user = (hn_flag_user)(user * 2)) expect_all(everywhere, sizeof(everywhere) / sizeof(*everywhere), user, false);
    expect_all(of_cc, sizeof(of_cc) / sizeof(*of_cc), HN_FLAGS_CC, false);
    expect_all(of_nvcc, sizeof(of_nvcc) / sizeof(*of_nvcc), HN_FLAGS_NVCC, false);
    EXPECT_REFUSED(HN_FLAGS_NVRTC, "-Ix", "-pch", "--pch-dir=/x", "--no-cache", "--minimal=1", "-Xptxas=--output-file=F", "--ptxas-options=x", "-optix-ir", "--gpu-name=x");
}
/* clang-format on */

TEST(a_refused_flag_is_named_and_what_is_allowed_is_told) {
    static const struct {
        const char *flag, *text;
        hn_flag_user user;
    } cases[] = {
        {"-fplugin=x",
         "cannot compile with flag '-fplugin=x': it is not in the list of allowed flags: -O -g -D",
         HN_FLAGS_CC},
        {"-march=native", "'native' means this machine", HN_FLAGS_CC},
        {"-Iinclude", "write '-I' and an absolute path as one flag", HN_FLAGS_CC},
        {"-ftemplate-depth=x", "what follows '-ftemplate-depth=' must be a whole number",
         HN_FLAGS_CC},
        {"-DA=$(x)",
         "nvcc gives its flags to a shell, so only letters, digits and '_-+=.,/:@%' are allowed",
         HN_FLAGS_NVCC},
        {"-ftz=yes", "what follows '-ftz=' must be true or false", HN_FLAGS_NVCC},
        {"-arch=sm_80", "architectures go into the target", HN_FLAGS_NVRTC},
        {"-DX=\033[2J", "it has a control character", HN_FLAGS_CC},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        hn_flag_kind worst;
        char text[64];
        int len = snprintf(text, sizeof(text), "%s", cases[i].flag);
        EXPECT_ERROR(hn_flags_read((hn_str){text, (size_t)len + 1}, cases[i].user, NULL, &worst),
                     HN_INVALID_ARGUMENT, cases[i].text);
    }
}

/* ---- that nothing is run ---- */

static const struct {
    const char *language, *text, *entries, *target;
} units[] = {
    {"c", "int f(void) { return 1; }\n", "f", ""},
    {"c++", "extern \"C\" int f(void) { return 1; }\n", "f", ""},
    {"python", "int f(void) { return 1; }\n", "i32 f()", ""},
    {"cuda", "extern \"C\" __global__ void f(int *p) { *p = 1; }\n", "f", "sm_90"},
    {"nvcc", "extern \"C\" __global__ void f(int *p) { *p = 1; }\n", "f", "sm_90"},
    {"nvcc", "extern \"C\" int f(void) { return 1; }\n", "f", "host\0sm_90"},
};

static hn_toolchain_job job_of(size_t unit) {
    hn_toolchain_job job = {.text = hn_str_of(units[unit].text), .own_group = true};
    job.entries = (hn_str){units[unit].entries, strlen(units[unit].entries) + 1};
    size_t len = strlen(units[unit].target);
    if (len)
        job.target =
            (hn_str){units[unit].target,
                     strcmp(units[unit].target, "host") == 0 ? sizeof("host\0sm_90") : len + 1};
    return job;
}

TEST(hostile_flags_run_nothing) {
    static const char *const hostile[] = {"-DA=$(touch %s)",
                                          "-DA=`touch %s`",
                                          "-DA=1;touch %s",
                                          "-Xcompiler=-DA=$(touch %s)",
                                          "-Xcompiler=-wrapper,touch,%s",
                                          "-wrapper,touch,%s",
                                          "-I/x$(touch %s)",
                                          "-specs=%s",
                                          "-o%s",
                                          "-Wl,-Map=%s",
                                          "-fprofile-generate=%s",
                                          "--options-file=%s",
                                          "-Wp,-MD,%s",
                                          "-Xptxas=-o,%s"};
    for (size_t u = 0; u < sizeof(units) / sizeof(*units); u++) {
        language l;
        if (language_begin(&l, units[u].language)) {
            char marker[PATH_MAX], flag[2 * PATH_MAX];
            snprintf(marker, sizeof(marker), "%s/marker", l.dir);
            for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
                int len = snprintf(flag, sizeof(flag), hostile[i], marker);
                hn_toolchain_job job = job_of(u);
                hn_toolchain_result result;
                job.flags = (hn_str){flag, (size_t)len + 1};
                hn_log_configure("error");
                /* for a compiler without a shell a macro may be anything */
                hn_status_free(hn_toolchain_compile(&l.toolchain, &job, &result));
                hn_log_configure(NULL);
                hn_toolchain_result_deinit(&result);
                if (access(marker, F_OK) == 0)
                    HN_TEST_FAIL("%s: '%s' wrote '%s'", units[u].language, flag, marker);
            }
        }
        language_end(&l);
    }
}

/* A directory for temporary files whose name a shell would obey. */
TEST(a_strange_tmpdir_breaks_no_job) {
    for (size_t u = 0; u < sizeof(units) / sizeof(*units); u++) {
        language l;
        char temp[PATH_MAX], marker[PATH_MAX + 8], saved[PATH_MAX] = "";
        bool was_set = getenv("TMPDIR") != NULL;
        if (was_set) snprintf(saved, sizeof(saved), "%s", getenv("TMPDIR"));
        if (language_begin(&l, units[u].language)) {
            snprintf(temp, sizeof(temp), "%s/a b'\"$(touch marker)", l.dir);
            EXPECT(mkdir(temp, 0700) == 0);
            setenv("TMPDIR", temp, 1);
            hn_toolchain_job job = job_of(u);
            hn_toolchain_result result;
            EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
            EXPECT(result.bytes.len > 0);
            hn_toolchain_result_deinit(&result);
            snprintf(marker, sizeof(marker), "%s/marker", temp);
            EXPECT(access(marker, F_OK) != 0 && access("marker", F_OK) != 0);
        }
        if (was_set) setenv("TMPDIR", saved, 1);
        else unsetenv("TMPDIR");
        language_end(&l);
    }
}

TEST(headers_in_a_directory_with_a_strange_name_are_listed) {
    static const char *const names[] = {"c", "c++"};
    for (int i = 0; i < 2; i++) {
        language l;
        if (language_begin(&l, names[i])) {
            char dir[PATH_MAX], path[PATH_MAX + 16], flag[PATH_MAX + 2];
            snprintf(dir, sizeof(dir), "%s/a b'c\"d$e#f", l.dir);
            snprintf(path, sizeof(path), "%s/x.h", dir);
            EXPECT(mkdir(dir, 0700) == 0);
            EXPECT_OK(hn_file_write_atomic(path, "#define X 1\n", 12, false));
            usleep(100000); /* a header that is younger is not kept */
            int len = snprintf(flag, sizeof(flag), "-I%s", dir);
            hn_toolchain_job job = job_of((size_t)i);
            hn_toolchain_result result;
            job.text = i ? HN_STR("#include <x.h>\nextern \"C\" int f(void) { return X; }\n")
                         : HN_STR("#include <x.h>\nint f(void) { return X; }\n");
            job.flags = (hn_str){flag, (size_t)len + 1};
            EXPECT_OK(hn_toolchain_compile(&l.toolchain, &job, &result));
            EXPECT(result.headers.len &&
                   memmem(result.headers.ptr, result.headers.len, path, strlen(path)));
            hn_toolchain_result_deinit(&result);
        }
        language_end(&l);
    }
}

TEST_MAIN
