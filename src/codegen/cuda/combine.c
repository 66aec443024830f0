/* combine.c: COMBINE_SORTED (henry/abi/extern_abi.h): one kernel, of single elements or of rows. */
#include "codegen/cuda/texts.h"

#include "base/compiler.h"

HN_CUDA_TEXT(hn_cuda_text_combine_sorted, "combine_sorted.cu")
HN_CUDA_TEXT(hn_cuda_text_combine_rows, "combine_rows.cu")

enum { OUT = 0, PLACES = 1, X = 4, THREADS = 256, ROWS = THREADS / 32 };

static hn_dtype dtype_of(const hn_cuda_list *list, uint32_t operand) {
    return list->program->buffers.items[list->call->operands[operand].buffer].dtype;
}

/* What stays is moved, whatever it is. */
static void put_word(hn_dtype dtype, hn_strbuf *out) {
    const uint32_t bytes = hn_dtype_facts(dtype)->size_bytes;
    hn_strbuf_printf(out,
                     "#define ELEMENT unsigned %s\n#define NUMBER ELEMENT\n#define LOAD(x) (x)\n"
                     "#define STORE(x) (x)\n#define COMBINE(a, b) (b)\n",
                     bytes == 1   ? "char"
                     : bytes == 2 ? "short"
                     : bytes == 4 ? "int"
                                  : "long long");
}

/* Functions of the prelude, which compute in f32 what is narrower. */
static void put_combination(hn_dtype dtype, int64_t mode, hn_strbuf *out) {
    static const char *const results[][2] = {[HN_COMBINE_ADD] = {"(a) + (b)", "(a) + (b)"},
                                             [HN_COMBINE_MUL] = {"(a) * (b)", "(a) * (b)"},
                                             [HN_COMBINE_MIN] = {"min_f(a, b)", "min_d(a, b)"},
                                             [HN_COMBINE_MAX] = {"max_f(a, b)", "max_d(a, b)"}};
    hn_cuda_put_words(out, dtype);
    hn_strbuf_printf(out, "#define COMBINE(a, b) LOAD(STORE(%s))\n",
                     results[mode][dtype == HN_DTYPE_F64]);
}

static hn_status add_kernel(hn_cuda_list *list) {
    hn_sym *sym = list->program->sym;
    const hn_expr *p = list->call->params;
    const bool has_columns = !hn_sym_is_value(sym, p[HN_COMBINE_COLUMNS], 1);
    const hn_cuda_text one = HN_CUDA_SPAN(hn_cuda_text_combine_sorted),
                       rows = HN_CUDA_SPAN(hn_cuda_text_combine_rows);
    const hn_cuda_kernel kernel = {
        .text = has_columns ? rows : one,
        .operands = (const uint8_t[]){0, 1, 2, 3, 4},
        .operand_count = X + 1,
        .params = p,
        .param_count = HN_COMBINE_PARAM_COUNT,
        .groups = hn_sym_ceildiv(sym, p[HN_COMBINE_PLACES],
                                 hn_sym_int(sym, has_columns ? ROWS : THREADS)),
        .threads = THREADS};
    return hn_cuda_list_add(list, &kernel);
}

hn_status hn_cuda_combine_sorted(hn_cuda_list *list) {
    const hn_dtype dtype = dtype_of(list, OUT);
    int64_t mode;
    if (!hn_sym_is_int(list->program->sym, list->call->params[HN_COMBINE_MODE], &mode) ||
        mode < 0 || mode > HN_COMBINE_MAX || (mode && !hn_dtype_is_float(dtype)))
        return NULL;
    hn_strbuf words;
    hn_strbuf_init(&words);
    hn_strbuf_printf(&words, "#define IS_SET %d\n#define HAS_X %d\n#define PLACE %s\n",
                     mode == HN_COMBINE_SET, list->call->operands[X].buffer != 0,
                     dtype_of(list, PLACES) == HN_DTYPE_I32 ? "int" : "long long");
    if (mode == HN_COMBINE_SET) put_word(dtype, &words);
    else put_combination(dtype, mode, &words);
    hn_status status = hn_strbuf_status(&words);
    list->words = words.ptr;
    if (!status) status = add_kernel(list);
    list->words = NULL;
    hn_strbuf_deinit(&words);
    return status;
}
