/* test_walk.c: forms as text, in OpenCL C. Nothing is compiled: tests/opencl runs them. */
#include "codegen/opencl/opencl.h"
#include "unit/kernel/form_fixture.h"

enum { THREADS = 2 };

static hn_fid load(hn_form *f, hn_fmem memory, hn_expr index) {
    return hn_form_value(f, (hn_sop){.kind = HN_SOP_LOAD,
                                     .dtype = f->memories.items[memory].dtype,
                                     .buffer = memory,
                                     .index = index});
}

/* A part of each row for each thread, and then all in shared memory; from buffer `in`. */
static hn_status build_row_sum(fixture *x, hn_buf in, hn_form **out) {
    hn_form *f;
    HN_TRY(hn_form_create(x->program, &x->arena, THREADS, x->rows, &f));
    hn_fmem from = hn_form_argument(f, in, 0, false), to = hn_form_argument(f, 2, 0, true);
    hn_fmem parts = hn_form_add_memory(f, (hn_form_memory){.space = HN_SPACE_SHARED,
                                                           .dtype = HN_DTYPE_F32,
                                                           .elems = hn_sym_int(x->sym, THREADS),
                                                           .is_read = true,
                                                           .is_written = true});
    hn_freg sum = hn_form_add_register(f, HN_OP_SUM, HN_DTYPE_F32);
    hn_expr column = hn_form_symbol(f, x->columns),
            other = hn_sym_add(x->sym, f->thread, hn_sym_int(x->sym, 1));
    hn_form_init(f, sum);
    hn_form_add(f, (hn_form_stmt){.kind = HN_FORM_FOR,
                                  .var = column,
                                  .begin = f->thread,
                                  .end = x->columns,
                                  .step = THREADS,
                                  .unroll = 4});
    hn_form_step(
        f, sum, load(f, from, hn_sym_add(x->sym, hn_sym_mul(x->sym, f->group, x->columns), column)),
        0);
    hn_form_close(f);
    hn_form_store(f, parts, f->thread, hn_form_result(f, sum, false), HN_STORE_SET);
    hn_form_barrier(f);
    hn_form_if(f, f->thread, hn_sym_int(x->sym, 1));
    hn_form_step(f, sum, load(f, parts, other), 0);
    hn_form_store(f, to, f->group, hn_form_result(f, sum, false), HN_STORE_SET);
    hn_form_close(f);
    *out = f;
    return hn_form_end(f);
}

static hn_status print(const hn_form *f, hn_kernel_code *out) {
    return hn_form_text(f, &hn_opencl_language, f->arena, f->arena, out);
}

TEST(a_row_sum) {
    fixture x;
    hn_form *f = NULL;
    hn_kernel_code code = {0};
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(build_row_sum(&x, 1, &f));
    EXPECT_OK(print(f, &code));
    EXPECT_STR(
        code.text.ptr,
        "__kernel __attribute__((reqd_work_group_size(2, 1, 1)))\n"
        "void KERNEL(__global const float *m0, const long m0_at, __global float *m1, const long m1_at, __global int *status, const long status_at, const long n0) {\n"
        "  const long group = get_group_id(0), thread = get_local_id(0);\n"
        "  m0 += m0_at / sizeof *m0;\n"
        "  m1 += m1_at / sizeof *m1;\n"
        "  status += status_at / sizeof *status;\n"
        "  __local float m2[2];\n"
        "  float r0;\n"
        "  r0 = 0x0p+0f;\n"
        "  #pragma unroll 4\n"
        "  for (long i0 = thread; i0 < n0; i0 += 2) {\n"
        "    const float v0 = m0[((group * n0) + i0)];\n"
        "    r0 = (r0 + v0);\n"
        "  }\n"
        "  const float v0 = r0;\n"
        "  m2[thread] = v0;\n"
        "  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
        "  if (thread < 1) {\n"
        "    const float v1 = m2[(thread + 1)];\n"
        "    r0 = (r0 + v1);\n"
        "    const float v2 = r0;\n"
        "    m1[group] = v2;\n"
        "  }\n"
        "}\n");
    EXPECT_INT(code.threads, THREADS);
    EXPECT(code.extent == x.rows);
    EXPECT_INT(code.buffer_count, 2);
    EXPECT_INT(code.buffers[0], 1);
    EXPECT(!code.written[0] && code.written[1]);
    EXPECT_INT(code.size_count, 1);
    EXPECT(code.sizes[0] == x.columns);
    EXPECT_INT(code.scratch_bytes, 0);
    fixture_deinit(&x);
}

TEST(equal_kernels_are_equal_text) {
    fixture x;
    hn_form *a = NULL, *b = NULL;
    hn_kernel_code first = {0}, second = {0};
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(build_row_sum(&x, 1, &a));
    EXPECT_OK(build_row_sum(&x, 5, &b)); /* another buffer, other index symbols */
    EXPECT_OK(print(a, &first));
    EXPECT_OK(print(b, &second));
    EXPECT_STR(second.text.ptr, first.text.ptr);
    EXPECT_STR(second.name, first.name);
    EXPECT_INT(second.buffers[0], 5);
    fixture_deinit(&x);
}

/* Sums have an order of their own in the context of symbols: that in which their terms were
 * made. */
TEST(text_does_not_depend_on_what_was_made_before) {
    fixture x, y;
    hn_form *a = NULL, *b = NULL;
    hn_kernel_code first = {0}, second = {0};
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(fixture_init(&y));
    hn_expr group = hn_sym_index(y.sym, HN_FORM_FIRST_ORDINAL, y.rows);
    EXPECT(hn_sym_mul(y.sym, group, y.columns) != 0);
    EXPECT_OK(build_row_sum(&x, 1, &a));
    EXPECT_OK(build_row_sum(&y, 1, &b));
    EXPECT_OK(print(a, &first));
    EXPECT_OK(print(b, &second));
    EXPECT_STR(second.text.ptr, first.text.ptr);
    fixture_deinit(&x);
    fixture_deinit(&y);
}

/* What a unit defines: the functions that its kernels call, f64 where it occurs. */
TEST(a_unit) {
    fixture x;
    hn_form *f = NULL;
    hn_kernel_code code = {0};
    hn_target target = {0};
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(build_row_sum(&x, 1, &f));
    EXPECT_OK(print(f, &code));
    EXPECT_OK(hn_target_named(HN_STR("opencl"), &target));
    EXPECT_OK(target.kind->unit((const hn_kernel_code *const[]){&code}, 1, &target, &text));
    EXPECT(strncmp(text.ptr, "#pragma OPENCL FP_CONTRACT OFF\n__kernel", 39) == 0);
    EXPECT(strstr(text.ptr, code.name) && !strstr(text.ptr, "KERNEL"));
    hn_strbuf_deinit(&text);
    fixture_deinit(&x);
}

/* One VALUE on b1's first element, of `op`. */
static hn_status print_op(fixture *x, hn_sop op, const hn_language *language, hn_kernel_code *out) {
    hn_form *f;
    HN_TRY(hn_form_create(x->program, &x->arena, 1, hn_sym_int(x->sym, 1), &f));
    hn_fid value = load(f, hn_form_argument(f, 1, 0, false), hn_sym_int(x->sym, 0));
    op.args[0] = value;
    op.args[1] =
        op.kind == HN_SOP_ELEM && hn_op_facts(op.op)->op_class == HN_OPC_BINARY ? value : 0;
    hn_form_value(f, op);
    HN_TRY(hn_form_end(f));
    return hn_form_text(f, language, f->arena, f->arena, out);
}

TEST(what_has_no_text_is_told) {
    fixture x;
    hn_kernel_code code;
    hn_class_texts ops[HN_OP_COUNT];
    hn_language lacking = hn_opencl_language; /* which itself has all ops on all their dtypes */
    memcpy(ops, lacking.ops, sizeof ops);
    ops[HN_OP_NEG].of[HN_NUMBER_F32] = NULL;
    lacking.ops = ops;
    const hn_sop neg = {.kind = HN_SOP_ELEM, .op = HN_OP_NEG, .dtype = HN_DTYPE_F32};
    EXPECT_OK(fixture_init(&x));
    EXPECT_ERROR(print_op(&x, neg, &lacking, &code), HN_UNSUPPORTED,
                 "op 'neg' has no OpenCL C for dtype f32");
    EXPECT_OK(print_op(&x, neg, &hn_opencl_language, &code));
    EXPECT_OK(print_op(&x, (hn_sop){.kind = HN_SOP_CAST, .dtype = HN_DTYPE_U8}, &hn_opencl_language,
                       &code));
    EXPECT(strstr(code.text.ptr, "const int v1 = (uchar)(f_i(v0));\n"));
    fixture_deinit(&x);
}

TEST(shared_memory_of_unknown_extent_is_told) {
    fixture x;
    hn_form *f = NULL;
    hn_kernel_code code;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(hn_form_create(x.program, &x.arena, THREADS, x.rows, &f));
    hn_fmem m = hn_form_add_memory(f, (hn_form_memory){.space = HN_SPACE_SHARED,
                                                       .dtype = HN_DTYPE_F32,
                                                       .elems = x.columns,
                                                       .is_written = true});
    hn_form_store(f, m, f->thread, load(f, hn_form_argument(f, 1, 0, false), f->thread),
                  HN_STORE_SET);
    EXPECT_OK(hn_form_end(f));
    EXPECT_ERROR(print(f, &code), HN_UNSUPPORTED, "shared memory whose extent is not known");
    fixture_deinit(&x);
}

TEST_MAIN
