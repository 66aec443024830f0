/* test_cuda_text.c: forms as text, in CUDA C++. Nothing is compiled: tests/cuda does that. */
#include "codegen/cuda/cuda.h"
#include "codegen/opencl/opencl.h"
#include "unit/kernel/form_fixture.h"

enum { THREADS = 2 };

static hn_fid load(hn_form *f, hn_fmem memory, hn_expr index) {
    return hn_form_value(f, (hn_sop){.kind = HN_SOP_LOAD,
                                     .dtype = f->memories.items[memory].dtype,
                                     .buffer = memory,
                                     .index = index});
}

static void expect_text(fixture *x, hn_form *f, const char *text) {
    hn_kernel_code code = {0};
    EXPECT_OK(hn_form_end(f));
    EXPECT_OK(hn_form_text(f, &hn_cuda_language, &x->arena, &x->arena, &code));
    EXPECT_STR(code.text.ptr, text);
}

/* m0[0] = m1[0] of the program's buffers `out` and `in`. */
static void copy_one(fixture *x, hn_form *f, hn_fmem out, hn_fmem in) {
    const hn_expr first = hn_sym_int(x->sym, 0);
    hn_form_store(f, out, first, load(f, in, first), HN_STORE_SET);
}

/* Sizes stand behind the status, and scratch memory behind all else. */
TEST(scratch_memory_is_the_last_argument) {
    fixture x;
    hn_form *f;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(hn_form_create(x.program, &x.arena, THREADS, x.rows, &f));
    hn_fmem in = hn_form_argument(f, 1, 0, false),
            own = hn_form_add_memory(f, (hn_form_memory){.space = HN_SPACE_SCRATCH,
                                                         .dtype = HN_DTYPE_F32,
                                                         .elems = x.columns,
                                                         .is_written = true});
    hn_form_store(f, own, f->thread, load(f, in, f->thread), HN_STORE_SET);
    hn_form_barrier(f);
    expect_text(
        &x, f,
        "extern \"C\" __global__ void __launch_bounds__(2)\n"
        "KERNEL(const float *__restrict__ m0, int *__restrict__ status, const long long n0, unsigned char *__restrict__ scratch) {\n"
        "  const long long group = blockIdx.x, thread = threadIdx.x;\n"
        "  float *m1 = (float *)(scratch + (64 * (((n0 + 15) / 16) * group)));\n"
        "  const float v0 = m0[thread];\n"
        "  m1[thread] = v0;\n"
        "  __syncthreads();\n"
        "}\n");
    fixture_deinit(&x);
}

/* Blocks are neighbours in the grid: each warp reads what all have, one number of each warp. */
TEST(a_group_of_several_blocks_is_a_cluster) {
    fixture x;
    hn_form *f;
    hn_kernel_code code = {0};
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(hn_form_create(x.program, &x.arena, 256, x.rows, &f));
    f->blocks = 4;
    hn_freg reg = hn_form_add_register(f, HN_OP_SUM, HN_DTYPE_F32);
    hn_form_init(f, reg);
    hn_form_across_threads(f, reg, 256, 1);
    expect_text(
        &x, f,
        "extern \"C\" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(64)\n"
        "KERNEL(int *__restrict__ status) {\n"
        "  const long long group = blockIdx.x / 4, thread = threadIdx.x + blockIdx.x % 4 * 64;\n"
        "  __shared__ float x0[2];\n"
        "  float r0;\n"
        "  r0 = 0x0p+0f;\n"
        "  for (int k = 1; k < 32; k *= 2) {\n"
        "    const float v = __shfl_xor_sync(0xffffffffu, r0, k);\n"
        "    r0 = (r0 + v);\n"
        "  }\n"
        "  if (thread % 32 < 1) {\n"
        "    x0[thread % 64 / 32] = r0;\n"
        "  }\n"
        "  cluster_wait();\n"
        "  r0 = far(&x0[thread % 8 % 2], thread % 8 / 2);\n"
        "  for (int k = 1; k < 8; k *= 2) {\n"
        "    const float v = __shfl_xor_sync(0xffffffffu, r0, k);\n"
        "    r0 = (r0 + v);\n"
        "  }\n"
        "  cluster_leave();\n"
        "}\n");
    EXPECT_OK(hn_form_text(f, &hn_cuda_language, &x.arena, &x.arena, &code));
    EXPECT_INT(code.threads, 64);
    EXPECT(hn_sym_prove_eq(x.sym, code.extent, hn_sym_mul(x.sym, x.rows, hn_sym_int(x.sym, 4))));
    EXPECT_ERROR(hn_form_text(f, &hn_opencl_language, &x.arena, &x.arena, &code), HN_UNSUPPORTED,
                 "has no groups of several blocks");
    fixture_deinit(&x);
}

/* The compiler is told how many groups there are at once, so that it does not save registers. */
TEST(groups_at_once_are_a_bound) {
    fixture x;
    hn_form *f;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(hn_form_create(x.program, &x.arena, THREADS, x.rows, &f));
    f->resident = 5;
    const hn_fmem in = hn_form_argument(f, 1, 0, false);
    copy_one(&x, f, hn_form_argument(f, 2, 0, true), in);
    expect_text(
        &x, f,
        "extern \"C\" __global__ void __launch_bounds__(2, 5)\n"
        "KERNEL(const float *__restrict__ m0, float *__restrict__ m1, int *__restrict__ status) {\n"
        "  const long long group = blockIdx.x, thread = threadIdx.x;\n"
        "  const float v0 = m0[0];\n"
        "  m1[0] = v0;\n"
        "}\n");
    fixture_deinit(&x);
}

static void expect_arguments(fixture *x, hn_form *f, const char *arguments) {
    hn_kernel_code code = {0};
    EXPECT_OK(hn_form_end(f));
    EXPECT_OK(hn_form_text(f, &hn_cuda_language, &x->arena, &x->arena, &code));
    if (!strstr(code.text.ptr, arguments)) EXPECT_STR(code.text.ptr, arguments);
}

/* A pointer is __restrict__ if what it reaches is written through no other. */
TEST(arguments_that_nothing_else_reaches) {
    fixture x;
    hn_form *f;
    EXPECT_OK(fixture_init(&x));
    /* two parts of one buffer, both read */
    EXPECT_OK(hn_form_create(x.program, &x.arena, 1, hn_sym_int(x.sym, 1), &f));
    hn_fmem out = hn_form_argument(f, 2, 0, true), a = hn_form_argument(f, 1, 0, false),
            b = hn_form_argument(f, 1, hn_sym_int(x.sym, 4), false);
    copy_one(&x, f, out, a);
    copy_one(&x, f, out, b);
    expect_arguments(
        &x, f,
        "(float *__restrict__ m0, const float *__restrict__ m1, const float *__restrict__ m2, int");
    /* two parts, one of which is written */
    EXPECT_OK(hn_form_create(x.program, &x.arena, 1, hn_sym_int(x.sym, 1), &f));
    out = hn_form_argument(f, 2, 0, true), a = hn_form_argument(f, 1, 0, false);
    b = hn_form_argument(f, 2, hn_sym_int(x.sym, 4), false);
    copy_one(&x, f, out, a);
    copy_one(&x, f, out, b);
    expect_arguments(&x, f, "(float *m0, const float *__restrict__ m1, const float *m2, int");
    /* the first may lie over the second, and so over the third, a part of the same buffer */
    EXPECT_OK(hn_form_create(x.program, &x.arena, 1, hn_sym_int(x.sym, 1), &f));
    out = hn_form_argument(f, 2, 0, true), a = hn_form_argument(f, 1, 0, false);
    b = hn_form_argument(f, 1, hn_sym_int(x.sym, 4), false);
    f->memories.items[out].may_alias = 1 << 1;
    copy_one(&x, f, out, a);
    copy_one(&x, f, out, b);
    expect_arguments(&x, f, "(float *m0, const float *m1, const float *m2, int");
    fixture_deinit(&x);
}

/* What a unit defines: the functions that its kernels call, and those that these call. */
TEST(a_unit) {
    fixture x;
    hn_form *f;
    hn_kernel_code code = {0};
    hn_target target = {0};
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(hn_form_create(x.program, &x.arena, 1, hn_sym_int(x.sym, 1), &f));
    hn_fid value = load(f, hn_form_argument(f, 1, 0, false), hn_sym_int(x.sym, 0));
    hn_form_value(f, (hn_sop){.kind = HN_SOP_CAST, .dtype = HN_DTYPE_F16, .args = {value}});
    EXPECT_OK(hn_form_end(f));
    EXPECT_OK(hn_form_text(f, &hn_cuda_language, &x.arena, &x.arena, &code));
    EXPECT_OK(hn_target_named(HN_STR("sm_90a"), &target));
    EXPECT_OK(target.kind->unit((const hn_kernel_code *const[]){&code}, 1, &target, &text));
    const char *f_h = strstr(text.ptr, " f_h("), *h_f = strstr(text.ptr, " h_f("),
               *round = strstr(text.ptr, " round_f16("), *kernel = strstr(text.ptr, code.name);
    EXPECT(f_h && h_f && round && kernel && f_h < round && h_f < round && round < kernel);
    EXPECT(!strstr(text.ptr, "KERNEL") && !strstr(text.ptr, "#include"));
    hn_strbuf_deinit(&text);
    fixture_deinit(&x);
}

TEST_MAIN
