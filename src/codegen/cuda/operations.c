/* operations.c: see operations.h. A text is written once for all dtypes, in words that are defined
 * in front of it and forgotten behind it: a unit has several. */
#include "codegen/cuda/operations.h"

#include "base/compiler.h"

/* The files of this folder, as CMake names them. */
#define TEXT(name, file)                                                                           \
    __asm__(".pushsection .rodata\n.hidden " #name "\n.globl " #name "\n" #name ":\n"              \
            ".incbin \"" file "\"\n.hidden " #name "_end\n.globl " #name "_end\n" #name            \
            "_end:\n.byte 0\n.popsection\n");                                                      \
    extern const char name[], name##_end[];
TEXT(hn_cuda_text_matmul, HN_CUDA_TEXT_MATMUL)

enum { TILE = 64, THREADS = 256 }; /* of matmul.cu */

/* ---- dtypes ---- */

typedef struct words {
    const char *element, *number, *load, *store, *fma;
    char letter; /* of functions of the prelude */
} words;

static const words dtypes[HN_DTYPE_COUNT] = {
    [HN_DTYPE_F64] = {"double", "double", "(x)", "(x)", "fma(a, b, c)", 'd'},
    [HN_DTYPE_F32] = {"float", "float", "(x)", "(x)", "fmaf(a, b, c)", 'f'},
    [HN_DTYPE_F16] = {"unsigned short", "float", "h_f(x)", "f_h(x)", "fmaf(a, b, c)", 'f'},
    [HN_DTYPE_BF16] = {"unsigned short", "float", "b_f(x)", "f_b(x)", "fmaf(a, b, c)", 'f'},
};

/* ---- the function behind a sum ---- */

static const char *const f32_epilogues[] = {
    [HN_EPILOGUE_NONE] = "(x)",
    [HN_EPILOGUE_RELU] = "relu_f(x)",
    [HN_EPILOGUE_GELU_ERF] = "(0.5f * (x) * (1.0f + erf_f((x) * 0.70710678f)))",
    [HN_EPILOGUE_GELU_TANH] =
        "(0.5f * (x) * (1.0f + tanh_f(0.79788456f * ((x) + 0.044715f * (x) * (x) * (x)))))",
    [HN_EPILOGUE_SILU] = "((x) / (1.0f + exp_f(-(x))))",
    [HN_EPILOGUE_HARDSWISH] = "((x) * min_f(max_f((x) + 3.0f, 0.0f), 6.0f) / 6.0f)",
    [HN_EPILOGUE_SIGMOID] = "(1.0f / (1.0f + exp_f(-(x))))",
    [HN_EPILOGUE_TANH] = "tanh_f(x)",
    [HN_EPILOGUE_HARDSIGMOID] = "(min_f(max_f((x) + 3.0f, 0.0f), 6.0f) / 6.0f)",
};

/* The scheduler gives f64 none; lowering may. NULL: there is no text. */
static const char *epilogue_text(const hn_program *program, const hn_extern *call, char letter) {
    int64_t value;
    if (!hn_sym_is_int(program->sym, call->params[HN_MATMUL_EPILOGUE], &value) || value < 0 ||
        value >= (int64_t)HN_COUNT_OF(f32_epilogues))
        return NULL;
    if (letter == 'f') return f32_epilogues[value];
    return value == HN_EPILOGUE_NONE ? "(x)" : value == HN_EPILOGUE_RELU ? "relu_d(x)" : NULL;
}

/* ---- MATMUL ---- */

static void put_sum(const char *name, bool is_there, hn_strbuf *out) {
    hn_strbuf_printf(out, "#define %s(from, at) %s\n", name,
                     is_there ? "x += LOAD(from[at]);" : "");
}

static void put_matmul(const words *w, const char *epilogue, const hn_extern *call,
                       hn_strbuf *out) {
    static const char *const names[] = {"ELEMENT", "NUMBER", "LOAD",     "STORE",
                                        "FMA",     "SUM",    "SUM_MORE", "FINISH"};
    hn_strbuf_printf(out, "#define ELEMENT %s\n#define NUMBER %s\n", w->element, w->number);
    hn_strbuf_printf(out, "#define LOAD(x) %s\n#define STORE(x) %s\n", w->load, w->store);
    hn_strbuf_printf(out, "#define FMA(a, b, c) %s\n", w->fma);
    put_sum("SUM", call->operands[3].buffer, out);
    put_sum("SUM_MORE", call->operands[4].buffer, out);
    hn_strbuf_printf(out, "#define FINISH(x) %s\n", epilogue);
    hn_strbuf_append(out, hn_cuda_text_matmul,
                     (size_t)(hn_cuda_text_matmul_end - hn_cuda_text_matmul));
    for (size_t k = 0; k < HN_COUNT_OF(names); k++) hn_strbuf_printf(out, "#undef %s\n", names[k]);
}

static hn_expr matmul_groups(hn_sym *sym, const hn_expr *p) {
    const hn_expr tile = hn_sym_int(sym, TILE);
    hn_expr groups = hn_sym_mul(sym, hn_sym_ceildiv(sym, p[HN_MATMUL_M], tile),
                                hn_sym_ceildiv(sym, p[HN_MATMUL_N], tile));
    for (uint32_t d = 0; d < HN_EXTERN_BATCH; d++)
        groups = hn_sym_mul(sym, groups, p[HN_MATMUL_BATCH + d]);
    return groups;
}

/* ---- any operation ---- */

/* Its arguments are the operands and the parameters of the call. */
static hn_status describe(const hn_extern *call, hn_arena *arena, hn_kernel_code *out) {
    hn_buf *buffers;
    hn_expr *offsets, *sizes;
    bool *written;
    uint64_t *over;
    HN_NEW(arena, buffers, call->operand_count);
    HN_NEW(arena, offsets, call->operand_count);
    HN_NEW(arena, written, call->operand_count);
    HN_NEW(arena, over, call->operand_count);
    HN_NEW(arena, sizes, call->param_count);
    for (uint32_t k = 0; k < call->operand_count; k++) {
        buffers[k] = call->operands[k].buffer;
        offsets[k] = call->operands[k].offset_elems;
        written[k] = call->operands[k].written;
    }
    memcpy(sizes, call->params, call->param_count * sizeof *sizes);
    out->buffers = buffers;
    out->offsets = offsets;
    out->written = written;
    out->over = over;
    out->buffer_count = call->operand_count;
    out->sizes = sizes;
    out->size_count = call->param_count;
    out->threads = THREADS;
    return NULL;
}

hn_status hn_cuda_operation(const hn_program *program, const hn_extern *call, hn_arena *arena,
                            hn_kernel_code *out) {
    const words *w = &dtypes[program->buffers.items[call->operands[0].buffer].dtype];
    const char *epilogue = call->kind == HN_EXTERN_MATMUL && w->element
                               ? epilogue_text(program, call, w->letter)
                               : NULL;
    hn_strbuf text;
    if (!epilogue) return NULL;
    HN_TRY(describe(call, arena, out));
    out->extent = matmul_groups(program->sym, call->params);
    hn_strbuf_init(&text);
    put_matmul(w, epilogue, call, &text);
    hn_status status = hn_strbuf_status(&text);
    char *kept = status ? NULL : hn_arena_strndup(arena, text.ptr, text.len);
    if (kept) hn_kernel_code_name(out, (hn_str){kept, text.len});
    else if (!status) status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the text of a kernel");
    hn_strbuf_deinit(&text);
    return status;
}
