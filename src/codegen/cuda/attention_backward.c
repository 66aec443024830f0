/* attention_backward.c: ATTENTION_BACKWARD of 16-bit floats as two kernels: gradients of queries, then
 * those of keys and values. Between them are two numbers of f32 for each query. */
#include "codegen/cuda/texts.h"

HN_CUDA_TEXT(hn_cuda_text_attention_backward_words, "attention_backward_words.cu")
HN_CUDA_TEXT(hn_cuda_text_attention_dq_mma, "attention_dq_mma.cu")
HN_CUDA_TEXT(hn_cuda_text_attention_dkv_mma, "attention_dkv_mma.cu")

enum { D_Q, D_K, D_V, GRAD, Q, K, V, OUT, MASK };
enum { TILE = 64, THREADS = 128, ROW_NUMBERS = 2 };

/* Of attention_dkv_mma.cu. */
static bool is_deep(int64_t d, int64_t dv) { return d + dv > 128; }

static hn_dtype dtype_of(const hn_cuda_list *list, uint32_t operand) {
    return list->program->buffers.items[list->call->operands[operand].buffer].dtype;
}

static void put_words(const hn_cuda_list *list, int64_t d, int64_t dv, hn_strbuf *text) {
    static const hn_cuda_text common = HN_CUDA_SPAN(hn_cuda_text_attention_backward_words);
    const bool is_masked = list->call->operands[MASK].buffer != 0;
    hn_cuda_put_words(text, dtype_of(list, D_Q));
    hn_cuda_put_mask(text, is_masked ? dtype_of(list, MASK) : HN_DTYPE_NONE);
    hn_strbuf_printf(
        text, "#define D %d\n#define DV %d\n#define IS_DEEP %d\n#define MASK_OPERAND %s\n", (int)d,
        (int)dv, is_deep(d, dv), is_masked ? "const MASK_ELEMENT *__restrict__ mask," : "");
    hn_strbuf_append(text, common.begin, (size_t)(common.end - common.begin));
}

/* A kernel with a group for each tile of `rows` of each of `heads` heads. */
static hn_status add_kernel(hn_cuda_list *list, hn_cuda_text text, const uint8_t *operands,
                            hn_expr rows, hn_expr heads, uint32_t shared_bytes) {
    hn_sym *sym = list->program->sym;
    const hn_expr *p = list->call->params;
    const hn_expr tiles = hn_sym_ceildiv(sym, rows, hn_sym_int(sym, TILE));
    return hn_cuda_list_add(
        list, &(hn_cuda_kernel){
                  .text = text,
                  .operands = operands,
                  .operand_count = list->call->operands[MASK].buffer ? 7 : 6,
                  .has_workspace = true,
                  .params = p,
                  .param_count = HN_ATTENTION_BACKWARD_PARAM_COUNT,
                  .groups = hn_sym_mul(sym, tiles, hn_sym_mul(sym, heads, p[HN_ATTENTION_BATCH])),
                  .threads = THREADS,
                  .shared_bytes = shared_bytes});
}

/* In shared memory: a multiple of 16 numbers, and 8 more. */
static uint32_t row_bytes(int64_t d) { return (uint32_t)((d + 15) / 16 * 16 + 8) * 2; }

static hn_status add_kernels(hn_cuda_list *list, int64_t d, int64_t dv) {
    const hn_expr *p = list->call->params;
    const uint32_t tile = TILE * (row_bytes(d) + row_bytes(dv)),
                   rows = is_deep(d, dv) ? TILE / 2 : TILE,
                   numbers = 2 * ROW_NUMBERS * rows * (uint32_t)sizeof(float);
    HN_TRY(add_kernel(list, (hn_cuda_text)HN_CUDA_SPAN(hn_cuda_text_attention_dq_mma),
                      (const uint8_t[]){D_Q, GRAD, Q, K, V, OUT, MASK}, p[HN_ATTENTION_M],
                      p[HN_ATTENTION_BATCH + 1], 2 * tile));
    return add_kernel(list, (hn_cuda_text)HN_CUDA_SPAN(hn_cuda_text_attention_dkv_mma),
                      (const uint8_t[]){D_K, D_V, GRAD, Q, K, V, MASK}, p[HN_ATTENTION_N],
                      p[HN_ATTENTION_KV_HEADS], 2 * tile + numbers);
}

hn_status hn_cuda_attention_backward(hn_cuda_list *list) {
    hn_sym *sym = list->program->sym;
    const hn_expr *p = list->call->params;
    int64_t d, dv;
    hn_strbuf words;
    if (!hn_sym_is_int(sym, p[HN_ATTENTION_D], &d) || !hn_sym_is_int(sym, p[HN_ATTENTION_DV], &dv))
        return NULL;
    hn_strbuf_init(&words);
    put_words(list, d, dv, &words);
    list->words = words.ptr;
    list->workspace_bytes =
        hn_sym_mul(sym, hn_sym_mul(sym, p[HN_ATTENTION_M], hn_sym_product(sym, p, 2)),
                   hn_sym_int(sym, ROW_NUMBERS * (int64_t)sizeof(float)));
    hn_status status = hn_strbuf_status(&words);
    if (!status) status = add_kernels(list, d, dv);
    list->words = NULL;
    hn_strbuf_deinit(&words);
    return status;
}
