/* operations.c: see operations.h. A text is written once for all dtypes, in words that are defined
 * in front of it and forgotten behind it: a unit has several. */
#include "codegen/cuda/operations.h"

#include "base/compiler.h"
#include "codegen/cuda/texts.h"

HN_CUDA_TEXT(hn_cuda_text_matmul, "matmul.cu")
HN_CUDA_TEXT(hn_cuda_text_conv, "conv.cu")
HN_CUDA_TEXT(hn_cuda_text_attention, "attention.cu")
HN_CUDA_TEXT(hn_cuda_text_grouped, "grouped.cu")
HN_CUDA_TEXT(hn_cuda_text_grouped_mma, "grouped_mma.cu")
HN_CUDA_TEXT(hn_cuda_text_matmul_mma, "matmul_mma.cu")
HN_CUDA_TEXT_OF_TWO(hn_cuda_text_conv_mma, "conv_mma.cu", "conv_mma_end.cu")
HN_CUDA_TEXT_OF_TWO(hn_cuda_text_conv_last_mma, "conv_last_mma.cu", "conv_mma_end.cu")
HN_CUDA_TEXT(hn_cuda_text_attention_mma, "attention_mma.cu")

enum { TILE = 64, THREADS = 256 }; /* of all texts but some of tensor cores */

/* ---- dtypes ---- */

typedef struct words {
    const char *element, *number, *load, *store, *fma;
    char letter; /* of functions of the prelude */
    /* of these; NULL: tensor cores do not have the dtype, as it is */
    const char *mma, *pair;
} words;

static const words dtypes[HN_DTYPE_COUNT] = {
    [HN_DTYPE_F64] = {"double", "double", "(x)", "(x)", "fma(a, b, c)", 'd'},
    [HN_DTYPE_F32] = {"float", "float", "(x)", "(x)", "fmaf(a, b, c)", 'f'},
    [HN_DTYPE_F16] = {"unsigned short", "float", "h_f(x)", "f_h(x)", "fmaf(a, b, c)", 'f',
                      "mma_h(c, a, b)", "pair_h(a, b)"},
    [HN_DTYPE_BF16] = {"unsigned short", "float", "b_f(x)", "f_b(x)", "fmaf(a, b, c)", 'f',
                       "mma_b(c, a, b)", "pair_b(a, b)"},
};

/* ---- the function behind a sum ---- */

static const char *const f32_epilogues[] = {
    [HN_EPILOGUE_NONE] = "(x)",
    [HN_EPILOGUE_RELU] = "relu_f(x)",
    [HN_EPILOGUE_GELU_ERF] = "(0.5f * (x) * (1.0f + erf_f((x) * 0.70710678f)))",
    [HN_EPILOGUE_GELU_TANH] =
        "(0.5f * (x) * (1.0f + tanhf(0.79788456f * ((x) + 0.044715f * (x) * (x) * (x)))))",
    [HN_EPILOGUE_SILU] = "((x) * inverse_f(1.0f + expf(-(x))))",
    [HN_EPILOGUE_HARDSWISH] = "((x) * min_f(max_f((x) + 3.0f, 0.0f), 6.0f) / 6.0f)",
    [HN_EPILOGUE_SIGMOID] = "inverse_f(1.0f + expf(-(x)))",
    [HN_EPILOGUE_TANH] = "tanhf(x)",
    [HN_EPILOGUE_HARDSIGMOID] = "(min_f(max_f((x) + 3.0f, 0.0f), 6.0f) / 6.0f)",
};

/* ---- one call ---- */

typedef struct writer {
    const hn_program *program;
    const hn_extern *call;
    const words *dtype;
    hn_strbuf text;
    uint32_t shared_bytes; /* dynamic shared memory of a group */
} writer;

static bool has_operand(const writer *w, uint32_t k) { return w->call->operands[k].buffer != 0; }

/* Words that the texts have in common. */
void hn_cuda_put_words(hn_strbuf *text, hn_dtype dtype) {
    const words *d = &dtypes[dtype];
    hn_strbuf_printf(text, "#define ELEMENT %s\n#define NUMBER %s\n", d->element, d->number);
    hn_strbuf_printf(text, "#define LOAD(x) %s\n#define STORE(x) %s\n", d->load, d->store);
    if (d->mma)
        hn_strbuf_printf(text, "#define MMA(c, a, b) %s\n#define PAIR(a, b) %s\n", d->mma, d->pair);
    else hn_strbuf_printf(text, "#define FMA(a, b, c) %s\n", d->fma);
}

static hn_dtype dtype_of(const writer *w, uint32_t operand) {
    return w->program->buffers.items[w->call->operands[operand].buffer].dtype;
}

static void put_sum(writer *w, const char *name, uint32_t operand) {
    hn_strbuf_printf(&w->text, "#define %s(from, at) %s\n", name,
                     has_operand(w, operand) ? "x += LOAD(from[at]);" : "");
}

/* Groups along a size. */
static hn_expr blocks(hn_sym *sym, hn_expr size, int64_t each) {
    return hn_sym_ceildiv(sym, size, hn_sym_int(sym, each));
}

/* Of a sum, its bias and residual. False: there is no text for it; f64 has no other than relu. */
static bool put_ending(writer *w, uint32_t param) {
    const hn_extern *call = w->call;
    int64_t value;
    const char *text = NULL;
    put_sum(w, "SUM", 3);
    put_sum(w, "SUM_MORE", 4);
    if (!hn_sym_is_int(w->program->sym, call->params[param], &value) || value < 0 ||
        value >= (int64_t)HN_COUNT_OF(f32_epilogues))
        return false;
    if (w->dtype->letter == 'f') text = f32_epilogues[value];
    else text = value == HN_EPILOGUE_NONE ? "(x)" : value == HN_EPILOGUE_RELU ? "relu_d(x)" : NULL;
    if (text) hn_strbuf_printf(&w->text, "#define FINISH(x) %s\n", text);
    return text != NULL;
}

/* ---- the operations: words, and how many groups; 0: there is no kernel for the call ---- */

/* Of matmul_mma.cu: three stages of 128 rows of 40 numbers of each operand. */
enum { MATMUL_MMA_TILE = 128, MATMUL_MMA_SHARED_BYTES = 3 * 2 * 128 * 40 * 2 };

static hn_expr write_matmul(writer *w) {
    hn_sym *sym = w->program->sym;
    const hn_expr *p = w->call->params;
    const int64_t tile = w->dtype->mma ? MATMUL_MMA_TILE : TILE;
    if (w->dtype->mma) w->shared_bytes = MATMUL_MMA_SHARED_BYTES;
    hn_expr groups =
        hn_sym_mul(sym, blocks(sym, p[HN_MATMUL_M], tile), blocks(sym, p[HN_MATMUL_N], tile));
    for (uint32_t d = 0; d < HN_EXTERN_BATCH; d++)
        groups = hn_sym_mul(sym, groups, p[HN_MATMUL_BATCH + d]);
    return put_ending(w, HN_MATMUL_EPILOGUE) ? groups : 0;
}

static hn_expr write_conv(writer *w) {
    hn_sym *sym = w->program->sym;
    const hn_expr *p = w->call->params;
    const hn_expr places =
        hn_sym_mul(sym, p[HN_CONV_N], hn_sym_product(sym, &p[HN_CONV_OUTSIZE], 3));
    const hn_expr each = hn_sym_floordiv(sym, p[HN_CONV_O], p[HN_CONV_GROUPS]);
    if (has_operand(w, 5) || !put_ending(w, HN_CONV_EPILOGUE)) return 0;
    return hn_sym_mul(sym, p[HN_CONV_GROUPS],
                      hn_sym_mul(sym, blocks(sym, places, TILE), blocks(sym, each, TILE)));
}

/* What the mask makes of a score. */
void hn_cuda_put_mask(hn_strbuf *text, hn_dtype dtype) {
    const bool is_masked = dtype != HN_DTYPE_NONE, is_float = is_masked && dtypes[dtype].element;
    hn_strbuf_printf(text, "#define MASK_ELEMENT %s\n#define MASK_LOAD(x) %s\n",
                     is_float ? dtypes[dtype].element : "unsigned char",
                     is_float ? dtypes[dtype].load : "(x)");
    hn_strbuf_printf(text, "#define IS_MASKED %d\n#define MASKED(score, at) %s\n", is_masked,
                     !is_masked ? "(score)"
                     : is_float ? "((score) + (float)MASK_LOAD(mask[at]))"
                                : "(mask[at] ? (score) : -infinity)");
}

/* Of attention_mma.cu: two stages of 64 keys and their values. */
static uint32_t attention_shared_bytes(int64_t d, int64_t dv) {
    const int64_t row = (d + 15) / 16 * 16 + 8, row_v = (dv + 15) / 16 * 16 + 8;
    return (uint32_t)(2 * 64 * (row + row_v) * 2);
}

static hn_expr write_attention(writer *w) {
    hn_sym *sym = w->program->sym;
    const hn_expr *p = w->call->params;
    int64_t d, dv;
    if (!hn_sym_is_int(sym, p[HN_ATTENTION_D], &d) || !hn_sym_is_int(sym, p[HN_ATTENTION_DV], &dv))
        return 0;
    if (w->dtype->mma) w->shared_bytes = attention_shared_bytes(d, dv);
    /* 48 KiB of shared memory */
    const int64_t rows = w->dtype->mma || (d <= 64 && dv <= 64) ? 64 : 32;
    hn_cuda_put_mask(&w->text, has_operand(w, 4) ? dtype_of(w, 4) : HN_DTYPE_NONE);
    hn_strbuf_printf(&w->text, "#define D %d\n#define DV %d\n#define ROWS %d\n", (int)d, (int)dv,
                     (int)rows);
    return hn_sym_mul(sym, blocks(sym, p[HN_ATTENTION_M], rows),
                      hn_sym_mul(sym, p[HN_ATTENTION_BATCH], p[HN_ATTENTION_BATCH + 1]));
}

/* Each group of rows, and those behind, begin a tile, whatever their ends are. */
static hn_expr write_grouped(writer *w) {
    hn_sym *sym = w->program->sym;
    const hn_expr *p = w->call->params;
    const hn_expr tiles = hn_sym_add(
        sym, hn_sym_floordiv(sym, p[HN_GROUPED_M], hn_sym_int(sym, TILE)), p[HN_GROUPED_GROUPS]);
    return hn_sym_mul(sym, blocks(sym, p[HN_GROUPED_N], TILE),
                      hn_sym_add(sym, tiles, hn_sym_int(sym, 1)));
}

static const struct {
    hn_cuda_text plain, mma;
    uint32_t mma_threads; /* of a group */
    hn_expr (*write)(writer *w);
} kinds[HN_EXTERN_KIND_COUNT] = {
    [HN_EXTERN_MATMUL] = {HN_CUDA_SPAN(hn_cuda_text_matmul), HN_CUDA_SPAN(hn_cuda_text_matmul_mma),
                          256, write_matmul},
    [HN_EXTERN_CONV] = {HN_CUDA_SPAN(hn_cuda_text_conv), HN_CUDA_SPAN(hn_cuda_text_conv_mma), 128,
                        write_conv},
    [HN_EXTERN_ATTENTION] = {HN_CUDA_SPAN(hn_cuda_text_attention),
                             HN_CUDA_SPAN(hn_cuda_text_attention_mma), 128, write_attention},
    [HN_EXTERN_GROUPED_MATMUL] = {HN_CUDA_SPAN(hn_cuda_text_grouped),
                                  HN_CUDA_SPAN(hn_cuda_text_grouped_mma), 128, write_grouped},
};

/* ---- channels in eights ---- */

enum { EIGHT = 8 }; /* 16-bit floats of an access */

static bool is_eights(const writer *w, hn_expr e) {
    hn_sym *sym = w->program->sym;
    return hn_sym_is_value(sym, hn_sym_mod(sym, e, hn_sym_int(sym, EIGHT)), 0);
}

static bool is_one(const writer *w, hn_expr e) { return hn_sym_is_value(w->program->sym, e, 1); }

/* Whether `count` steps along dimensions of several elements keep eights together. */
static bool keep_eights(const writer *w, const hn_expr *sizes, const hn_expr *strides,
                        uint32_t count) {
    for (uint32_t d = 0; d < count; d++)
        if (!is_one(w, sizes[d]) && !is_eights(w, strides[d])) return false;
    return true;
}

/* Whether an operand begins at a multiple of eight elements of its memory. */
static bool begins_at_eights(const writer *w, const struct hn_extern_operand *o) {
    return is_eights(w, o->offset_elems) && hn_program_begin_of(w->program, o->buffer) % EIGHT == 0;
}

/* Whether conv_last_mma.cu may read x and w of a convolution. */
static bool has_eights(const writer *w) {
    const hn_expr *p = w->call->params;
    const struct hn_extern_operand *o = w->call->operands;
    hn_expr depth = hn_sym_floordiv(w->program->sym, p[HN_CONV_C], p[HN_CONV_GROUPS]);
    return is_one(w, p[HN_CONV_X + 1]) && is_one(w, p[HN_CONV_W + 1]) && is_eights(w, depth) &&
           begins_at_eights(w, &o[1]) && begins_at_eights(w, &o[2]) &&
           keep_eights(w, &p[HN_CONV_N], &p[HN_CONV_X], 1) &&
           keep_eights(w, &p[HN_CONV_IN], &p[HN_CONV_X + 2], 3) &&
           keep_eights(w, &p[HN_CONV_O], &p[HN_CONV_W], 1) &&
           keep_eights(w, &p[HN_CONV_KERNEL], &p[HN_CONV_W + 2], 3);
}

static const hn_cuda_text *text_of(const writer *w) {
    static const hn_cuda_text conv_last = HN_CUDA_SPAN(hn_cuda_text_conv_last_mma);
    if (!w->dtype->mma) return &kinds[w->call->kind].plain;
    if (w->call->kind == HN_EXTERN_CONV && has_eights(w)) return &conv_last;
    return &kinds[w->call->kind].mma;
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
    return NULL;
}

/* `out` gets the text if there is one. */
static hn_status write_text(writer *w, hn_arena *arena, hn_kernel_code *out) {
    const hn_extern_kind kind = w->call->kind;
    const hn_cuda_text *t = text_of(w);
    hn_cuda_put_words(&w->text, dtype_of(w, 0));
    const hn_expr groups = kinds[kind].write(w);
    if (!groups) return NULL;
    hn_strbuf_append(&w->text, t->begin, (size_t)(t->end - t->begin));
    hn_cuda_put_undefs(&w->text);
    HN_TRY(hn_strbuf_status(&w->text));
    char *kept = hn_arena_strndup(arena, w->text.ptr, w->text.len);
    if (!kept) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the text of a kernel");
    HN_TRY(describe(w->call, arena, out));
    out->extent = groups;
    out->threads = w->dtype->mma ? kinds[kind].mma_threads : THREADS;
    out->shared_bytes = w->shared_bytes;
    hn_kernel_code_name(out, (hn_str){kept, w->text.len});
    return NULL;
}

/* Those that no library has. */
static hn_status (*const lists[HN_EXTERN_KIND_COUNT])(hn_cuda_list *list) = {
    [HN_EXTERN_SORT] = hn_cuda_sort,
    [HN_EXTERN_TOPK] = hn_cuda_sort,
    [HN_EXTERN_NONZERO] = hn_cuda_nonzero,
    [HN_EXTERN_NMS] = hn_cuda_nms,
    [HN_EXTERN_ATTENTION_BACKWARD] = hn_cuda_attention_backward,
    [HN_EXTERN_COMBINE_SORTED] = hn_cuda_combine_sorted,
};

/* A kernel that is a step of its own gets what its code names. One kernel without memory of its own
 * stands for the call (wrapper.h), and gets all of its operands and parameters. */
static hn_status check_arguments(const hn_extern *call, const hn_kernel_code *code) {
    if (!code->text.ptr || code->next || code->workspace_bytes ||
        (code->buffer_count == call->operand_count && code->size_count == call->param_count))
        return NULL;
    return HN_ERROR(HN_INTERNAL,
                    "the kernel of an operation takes %u operands and %u numbers, not %u and %u",
                    code->buffer_count, code->size_count, call->operand_count, call->param_count);
}

hn_status hn_cuda_operation(const hn_program *program, const hn_extern *call, hn_arena *arena,
                            hn_kernel_code *out) {
    writer w = {.program = program,
                .call = call,
                .dtype = &dtypes[program->buffers.items[call->operands[0].buffer].dtype]};
    hn_cuda_list list = {.program = program, .call = call, .arena = arena, .first = out};
    if (lists[call->kind]) {
        HN_TRY(lists[call->kind](&list));
        return check_arguments(call, out);
    }
    if (!kinds[call->kind].write || !w.dtype->element) return NULL;
    hn_strbuf_init(&w.text);
    hn_status status = write_text(&w, arena, out);
    hn_strbuf_deinit(&w.text);
    return status;
}
