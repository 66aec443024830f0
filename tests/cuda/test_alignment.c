/* test_alignment.c: an access of several elements that is not aligned is found where the CPU runs
 * kernels in CUDA C++ (tests/support/cuda_on_cpu.c), also with an argument whose elements are. */
#include "codegen/cuda/prelude.h"
#include "support/cuda_texts.h"
#include "unit/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char kernel[] =
    "extern \"C\" __global__ void\nfour(const float *__restrict__ x, float *__restrict__ y, "
    "int *__restrict__ status, const long long n, unsigned char *__restrict__ scratch) {\n"
    "  alignas(16) float m[4];\n  move(m, x, pack<float, 4>());\n"
    "  move(y, m, pack<float, 4>());\n}\n";

static opencl_program *build(opencl_host *host) {
    opencl_program *program = NULL;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_cuda_prelude(hn_str_of(kernel), &text);
    hn_strbuf_puts(&text, kernel);
    EXPECT_OK(opencl_program_build(host, text.ptr, text.len, "", &program));
    hn_strbuf_deinit(&text);
    return program;
}

/* How a child ends that runs the kernel. */
static int run_apart(opencl_program *p, float *x, float *y) {
    int how = 0;
    const pid_t child = fork();
    if (child == 0) {
        const opencl_memory memories[] = {{.bytes = x}, {.bytes = y}};
        const int64_t n = 1;
        int failed;
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        hn_status status = opencl_program_run(p,
                                              &(opencl_launch){.kernel = "four",
                                                               .memories = memories,
                                                               .memory_count = 2,
                                                               .sizes = &n,
                                                               .size_count = 1,
                                                               .groups = 1,
                                                               .threads = 1},
                                              &failed);
        _exit(status != NULL);
    }
    EXPECT(child > 0 && waitpid(child, &how, 0) == child);
    return how;
}

TEST(accesses) {
    static _Alignas(64) float x[16], y[16];
    opencl_host *host = NULL;
    EXPECT_OK(opencl_host_open(&host));
    opencl_program *p = host ? build(host) : NULL;
    if (!p) return;
    EXPECT_INT(run_apart(p, x, y), 0);
    EXPECT_INT(run_apart(p, x + 4, y + 8), 0);
    EXPECT(WTERMSIG(run_apart(p, x + 1, y)) == SIGABRT);
    EXPECT(WTERMSIG(run_apart(p, x, y + 2)) == SIGABRT);
    opencl_program_free(p);
    opencl_host_close(host);
}

/* What a launch is checked for by the stand-in of the driver. */
TEST(arguments) {
    opencl_host *host = NULL;
    EXPECT_OK(opencl_host_open(&host));
    opencl_program *p = host ? build(host) : NULL;
    const unsigned *aligns = p ? cuda_program_alignments(p, "four") : NULL;
    if (!aligns) return;
    EXPECT(aligns[0] == 4 && aligns[1] == 4 && aligns[2] == 4 && aligns[3] == 0 && aligns[4] == 64);
    opencl_program_free(p);
    opencl_host_close(host);
}

TEST_MAIN
