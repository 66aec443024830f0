/* select.c: NONZERO and NMS (henry/abi/extern_abi.h), each by several kernels. */
#include "codegen/cuda/texts.h"

#include "base/compiler.h"

HN_CUDA_TEXT(hn_cuda_text_nonzero_count, "nonzero_count.cu")
HN_CUDA_TEXT(hn_cuda_text_nonzero_scan, "nonzero_scan.cu")
HN_CUDA_TEXT(hn_cuda_text_nonzero_write, "nonzero_write.cu")
HN_CUDA_TEXT(hn_cuda_text_nms_overlaps, "nms_overlaps.cu")
HN_CUDA_TEXT(hn_cuda_text_nms_keep, "nms_keep.cu")

/* The kernels of a list whose words are in `words`, which is given back. */
static hn_status add_all(hn_cuda_list *list, hn_strbuf *words, const hn_cuda_kernel *kernels,
                         uint32_t count) {
    hn_status status = hn_strbuf_status(words);
    list->words = words->ptr;
    for (uint32_t k = 0; k < count && !status; k++) status = hn_cuda_list_add(list, &kernels[k]);
    list->words = NULL;
    hn_strbuf_deinit(words);
    return status;
}

/* ---- nonzero ---- */

/* COORDINATES(to, j) takes the element's number apart, from the last dimension on. */
static void put_coordinates(int64_t rank, hn_strbuf *out) {
    hn_strbuf_printf(out, "#define RANK %d\n#define COORDINATES(to, j) long long rest = j;",
                     (int)rank);
    for (int64_t d = rank - 1; d > 0; d--)
        hn_strbuf_printf(out, " to[%d] = rest %% s%d; rest /= s%d;", (int)d, (int)d, (int)d);
    hn_strbuf_puts(out, rank ? " to[0] = rest;\n" : "\n");
}

hn_status hn_cuda_nonzero(hn_cuda_list *list) {
    enum { POSITIONS = 0, X = 1, TILE = 4096 };
    hn_sym *sym = list->program->sym;
    const hn_expr *p = list->call->params;
    const hn_expr elems = hn_sym_product(sym, &p[HN_NONZERO_SIZES], HN_NONZERO_RANK_MAX);
    const hn_expr tiles = hn_sym_ceildiv(sym, elems, hn_sym_int(sym, TILE));
    hn_expr params[2 + HN_NONZERO_RANK_MAX] = {elems, p[HN_NONZERO_COUNT]};
    const hn_cuda_kernel kernels[] = {
        {.text = HN_CUDA_SPAN(hn_cuda_text_nonzero_count),
         .operands = (const uint8_t[]){X},
         .operand_count = 1,
         .has_workspace = true,
         .params = params,
         .param_count = 1,
         .groups = tiles,
         .threads = 256},
        {.text = HN_CUDA_SPAN(hn_cuda_text_nonzero_scan),
         .has_workspace = true,
         .params = params,
         .param_count = 2,
         .groups = hn_sym_int(sym, 1),
         .threads = 1024},
        {.text = HN_CUDA_SPAN(hn_cuda_text_nonzero_write),
         .operands = (const uint8_t[]){POSITIONS, X},
         .operand_count = 2,
         .has_workspace = true,
         .params = params,
         .param_count = HN_COUNT_OF(params),
         .groups = tiles,
         .threads = 256},
    };
    int64_t rank;
    hn_strbuf words;
    if (!hn_sym_is_int(sym, p[HN_NONZERO_RANK], &rank)) return NULL;
    memcpy(params + 2, &p[HN_NONZERO_SIZES], HN_NONZERO_RANK_MAX * sizeof *params);
    list->workspace_bytes = hn_sym_mul(sym, tiles, hn_sym_int(sym, 8));
    hn_strbuf_init(&words);
    put_coordinates(rank, &words);
    return add_all(list, &words, kernels, HN_COUNT_OF(kernels));
}

/* ---- non-maximum suppression ---- */

hn_status hn_cuda_nms(hn_cuda_list *list) {
    enum { KEEP = 0, BOXES = 1, EACH = 64 };
    hn_sym *sym = list->program->sym;
    const hn_expr n = list->call->params[HN_NMS_N];
    const hn_expr across = hn_sym_ceildiv(sym, n, hn_sym_int(sym, EACH));
    const bool is_f32 =
        list->program->buffers.items[list->call->operands[BOXES].buffer].dtype == HN_DTYPE_F32;
    const hn_cuda_kernel kernels[] = {
        {.text = HN_CUDA_SPAN(hn_cuda_text_nms_overlaps),
         .operands = (const uint8_t[]){BOXES},
         .operand_count = 1,
         .has_workspace = true,
         .params = list->call->params,
         .param_count = HN_NMS_PARAM_COUNT,
         .groups = hn_sym_mul(sym, across, across),
         .threads = EACH},
        {.text = HN_CUDA_SPAN(hn_cuda_text_nms_keep),
         .operands = (const uint8_t[]){KEEP},
         .operand_count = 1,
         .has_workspace = true,
         .params = list->call->params,
         .param_count = 1,
         .groups = hn_sym_min(sym, across, hn_sym_int(sym, 1)),
         .threads = 256},
    };
    hn_strbuf words;
    hn_strbuf_init(&words);
    hn_strbuf_printf(&words, "#define NUMBER %s\n#define MUL(a, b) %s(a, b)\n",
                     is_f32 ? "float" : "double", is_f32 ? "__fmul_rn" : "__dmul_rn");
    /* a word for each box and 64 boxes, and one row of them more */
    list->workspace_bytes = hn_sym_mul(
        sym, hn_sym_mul(sym, across, hn_sym_add(sym, n, hn_sym_int(sym, 1))), hn_sym_int(sym, 8));
    return add_all(list, &words, kernels, HN_COUNT_OF(kernels));
}
