/* test_host.c: tests/support/cuda_on_cpu.c itself: barriers that some threads miss are told, and warps
 * of a group may go different ways between two barriers. */
#include "base/compiler.h"
#include "opencl/fixture.h"

enum { THREADS = 96, GROUPS = 2 };

/* Runs a kernel of 96 threads over one buffer of numbers; `text` is its body. */
static hn_status run(const char *text, int32_t *numbers) {
    hn_strbuf whole;
    hn_kernel_code code = {.threads = THREADS};
    hn_buf buffers[1];
    hn_expr offsets[1] = {0};
    const bool written[1] = {true};
    const uint64_t over[1] = {0};
    opencl_program *program = NULL;
    fixture x;
    EXPECT_OK(fixture_init(&x));
    hn_strbuf_init(&whole);
    hn_strbuf_printf(
        &whole,
        "extern \"C\" __global__ void __launch_bounds__(96)\nKERNEL(int *__restrict__ out, int "
        "*__restrict__ status) {\n"
        "  const int t = (int)threadIdx.x, warp = t / 32;\n"
        "  __shared__ int shared[%d];\n%s\n}\n",
        THREADS, text);
    buffers[0] = add_input(&x, HN_DTYPE_I32, THREADS * GROUPS, numbers);
    offsets[0] = num(&x, 0);
    code.buffers = buffers, code.offsets = offsets, code.written = written, code.over = over;
    code.buffer_count = 1;
    code.extent = num(&x, GROUPS);
    hn_kernel_code_name(&code, hn_strbuf_str(&whole));
    const hn_kernel_code *const all[] = {&code};
    const kernel_env env = {.program = x.program, .buffers = x.memory};
    hn_status status = kernel_build(host, all, 1, &program);
    if (!status) status = kernel_run(program, &code, &env);
    opencl_program_free(program);
    hn_strbuf_deinit(&whole);
    fixture_deinit(&x);
    return status;
}

static void refused(const char *text, const char *message) {
    int32_t numbers[THREADS * GROUPS] = {0};
    EXPECT_ERROR(run(text, numbers), HN_INTERNAL, message);
}

TEST(barriers_that_some_miss) {
    refused("if (t < 40) __syncthreads();", "come to a barrier that the others do not");
    refused("if (warp == 1) __syncthreads();", "come to a barrier that the others do not");
    refused("if (t % 2) __syncwarp();", "threads of a warp wait for others that do not");
    refused("if (t == 0) __syncwarp(); else __syncthreads();",
            "threads of a warp wait for others that do not");
}

/* Each warp takes another number of steps, in which its lanes hand a number on. */
TEST(warps_that_go_different_ways) {
    int32_t numbers[THREADS * GROUPS] = {0};
    EXPECT_OK(run("  shared[t] = t;\n  __syncthreads();\n"
                  "  for (int k = 0; k < 3 * warp; k++) {\n"
                  "    const int next = shared[warp * 32 + (t + 1) % 32];\n    __syncwarp();\n"
                  "    shared[t] = next;\n    __syncwarp();\n  }\n"
                  "  __syncthreads();\n"
                  "  out[blockIdx.x * 96 + t] = shared[95 - t];",
                  numbers));
    for (int k = 0; k < THREADS * GROUPS; k++) {
        const int t = 95 - k % THREADS, warp = t / 32;
        EXPECT_INT(numbers[k], warp * 32 + (t + 3 * warp) % 32);
    }
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
