/* sort.c: SORT and TOPK (henry/abi/extern_abi.h). Rows that fit the shared memory of a group are
 * sorted there. Of longer ones the first few elements are found by their digits (top_rows.cu); all
 * are sorted digit by digit, by three kernels for each. Which way a row goes may be known in the
 * run only: then there are the kernels of both, and those with nothing to do have no groups. */
#include "codegen/cuda/texts.h"

#include "base/compiler.h"

HN_CUDA_TEXT(hn_cuda_text_sort_rows, "sort_rows.cu")
HN_CUDA_TEXT(hn_cuda_text_sort_known, "sort_known.cu")
HN_CUDA_TEXT(hn_cuda_text_sort_count, "sort_count.cu")
HN_CUDA_TEXT(hn_cuda_text_sort_scan, "sort_scan.cu")
HN_CUDA_TEXT(hn_cuda_text_sort_scatter, "sort_scatter.cu")
HN_CUDA_TEXT(hn_cuda_text_top_rows, "top_rows.cu")

enum { VALUES = 0, INDICES = 1, X = 2 };
/* As the texts have them: elements of a row, or of a part of it, that a group has room for; most
 * that top_rows.cu finds, and elements of a part; groups that add up the counts of a row. */
enum {
    TILE = 4096,
    TOP_MAX = 2048,
    PART = 16384,
    SCANS = 8,
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS
};
/* Threads of a group; of those that keep a row, elements of a thread. */
enum { THREADS = 256, EACH = 16, SCATTER_THREADS = 512, TOP_THREADS = 512 };

typedef struct element {
    const char *word;
    int bits;
    bool is_signed;
    const char *infinity; /* its bits; NULL: it is no float */
} element;

/* clang-format off */
static const element elements[HN_DTYPE_COUNT] = {
    [HN_DTYPE_F64] = {"unsigned long long", 64, true, "0x7ff0000000000000ull"},
    [HN_DTYPE_F32] = {"unsigned", 32, true, "0x7f800000u"},
    [HN_DTYPE_F16] = {"unsigned short", 16, true, "0x7c00u"},
    [HN_DTYPE_BF16] = {"unsigned short", 16, true, "0x7f80u"},
    [HN_DTYPE_I64] = {"unsigned long long", 64, true, NULL},
    [HN_DTYPE_I32] = {"unsigned", 32, true, NULL},
    [HN_DTYPE_I16] = {"unsigned short", 16, true, NULL},
    [HN_DTYPE_I8] = {"unsigned char", 8, true, NULL},
    [HN_DTYPE_U8] = {"unsigned char", 8, false, NULL},
    [HN_DTYPE_BOOL] = {"unsigned char", 8, false, NULL},
};
/* clang-format on */

static const char *key_type(const element *e) {
    return e->bits == 64 ? "unsigned long long" : "unsigned";
}

/* The key of a word, as ops/cpu/sort/sort.c makes it. */
static void put_words(const element *e, hn_strbuf *out) {
    const uint64_t sign = (uint64_t)1 << (e->bits - 1), all = sign | (sign - 1);
    const char *suffix = e->bits == 64 ? "ull" : "u";
    hn_strbuf_printf(out, "#define WORD %s\n#define KEY %s\n#define BITS %d\n", e->word,
                     key_type(e), e->bits);
    hn_strbuf_printf(out, "#define ALL 0x%llx%s\n", (unsigned long long)all, suffix);
    if (e->infinity)
        hn_strbuf_printf(out,
                         "#define SIGN 0x%llx%s\n"
                         "#define SIZE(w) ((w) & (SIGN - 1))\n"
                         "#define KEY_OF(w) (SIZE(w) > %s ? ALL : SIZE(w) == 0 ? SIGN : "
                         "(w) & SIGN ? ~(KEY)(w) & ALL : (KEY)(w) | SIGN)\n",
                         (unsigned long long)sign, suffix, e->infinity);
    else
        hn_strbuf_printf(out, "#define KEY_OF(w) ((KEY)(w) ^ 0x%llx%s)\n",
                         (unsigned long long)(e->is_signed ? sign : 0), suffix);
}

/* ---- a call ---- */

typedef struct sorter {
    hn_cuda_list *list;
    hn_sym *sym;
    const hn_expr *params;
    const element *element;
    hn_expr rows, tiles;
    hn_expr is_long; /* 1: a row is longer than TILE; 0 */
} sorter;

static hn_expr number(const sorter *s, int64_t value) { return hn_sym_int(s->sym, value); }

static hn_expr when(const sorter *s, hn_expr condition, hn_expr value) {
    return hn_sym_mul(s->sym, condition, value);
}

static hn_expr is_short(const sorter *s) { return hn_sym_sub(s->sym, number(s, 1), s->is_long); }

/* In front of those of the list, for one kernel. */
static hn_status add_with_words(const sorter *s, const char *own, const hn_cuda_kernel *kernel) {
    const char *words = s->list->words;
    hn_strbuf all;
    hn_strbuf_init(&all);
    hn_strbuf_printf(&all, "%s%s", words, own);
    hn_status status = hn_strbuf_status(&all);
    s->list->words = all.ptr;
    if (!status) status = hn_cuda_list_add(s->list, kernel);
    s->list->words = words;
    hn_strbuf_deinit(&all);
    return status;
}

/* Rows side by side, of a known length, whose keys leave room for places. */
static bool is_known(const sorter *s) {
    int64_t n;
    return hn_sym_is_int(s->sym, s->params[HN_SORT_N], &n) && n > 1 && n <= TILE &&
           hn_sym_is_value(s->sym, s->params[HN_SORT_INNER], 1) && s->element->bits <= 32;
}

/* Groups of neighbours that have a row in registers. */
static hn_status add_known(const sorter *s) {
    int64_t n = 0, width = 1;
    char own[64];
    (void)hn_sym_is_int(s->sym, s->params[HN_SORT_N], &n);
    while (width < n) width *= 2;
    const int64_t part = width < 4 ? 1 : width / 4, each = part < EACH ? part : EACH,
                  rows = THREADS * each / width;
    snprintf(own, sizeof own, "#define WIDTH %d\n#define EACH %d\n", (int)width, (int)each);
    const hn_cuda_kernel kernel = {.text = HN_CUDA_SPAN(hn_cuda_text_sort_known),
                                   .operands = (const uint8_t[]){VALUES, INDICES, X},
                                   .operand_count = 3,
                                   .params = s->params,
                                   .param_count = HN_SORT_PARAM_COUNT,
                                   .groups = hn_sym_ceildiv(s->sym, s->rows, number(s, rows)),
                                   .threads = THREADS};
    return add_with_words(s, own, &kernel);
}

/* Groups that sort whole rows: as many as rows where nobody knows how many fit one. */
static hn_status add_rows(const sorter *s) {
    int64_t n, room = TILE;
    if (is_known(s)) return add_known(s);
    if (!hn_sym_is_int(s->sym, s->params[HN_SORT_N], &n)) n = TILE;
    for (int64_t width = 1; width < n; width *= 2) room /= 2;
    return hn_cuda_list_add_call(
        s->list, (hn_cuda_text)HN_CUDA_SPAN(hn_cuda_text_sort_rows),
        when(s, is_short(s), hn_sym_ceildiv(s->sym, s->rows, number(s, room))), THREADS);
}

/* ---- the first few of long rows ---- */

static hn_status add_stage(const sorter *s, int stage, const hn_cuda_kernel *kernel) {
    char own[32];
    snprintf(own, sizeof own, "#define STAGE %d\n", stage);
    return add_with_words(s, own, kernel);
}

/* Whether groups for rows would leave most of a processor idle. Of sizes of the run nobody knows. */
static bool has_parts(const sorter *s) {
    enum { ROWS_MAX = 128, N_MIN = 4 * PART };
    int64_t rows, n;
    return hn_sym_is_int(s->sym, s->rows, &rows) && rows <= ROWS_MAX &&
           hn_sym_is_int(s->sym, s->params[HN_SORT_N], &n) && n >= N_MIN;
}

static hn_expr part_count(const sorter *s) {
    return hn_sym_ceildiv(s->sym, s->params[HN_SORT_N], number(s, PART));
}

/* Keys and places of the first k of each part. */
static hn_expr parts_bytes(const sorter *s) {
    const hn_expr found = hn_sym_mul(s->sym, part_count(s), s->params[HN_SORT_K]);
    return hn_sym_mul(s->sym, hn_sym_mul(s->sym, s->rows, found),
                      number(s, (s->element->bits == 64 ? 8 : 4) + 4));
}

/* A group for each row, or for each part and then for each row; none if nothing is wanted. */
static hn_status add_top(const sorter *s) {
    const hn_expr some = hn_sym_min(s->sym, s->params[HN_SORT_K], number(s, 1));
    const hn_expr rows = when(s, s->is_long, when(s, some, s->rows));
    hn_cuda_kernel kernel = {.text = HN_CUDA_SPAN(hn_cuda_text_top_rows),
                             .operands = (const uint8_t[]){VALUES, INDICES, X},
                             .operand_count = 3,
                             .params = s->params,
                             .param_count = HN_SORT_PARAM_COUNT,
                             .groups = rows,
                             .threads = TOP_THREADS};
    if (!has_parts(s)) return add_stage(s, 0, &kernel);
    hn_cuda_kernel parts = kernel;
    parts.operands = (const uint8_t[]){X};
    parts.operand_count = 1;
    parts.groups = hn_sym_mul(s->sym, rows, part_count(s));
    kernel.has_workspace = parts.has_workspace = true;
    HN_TRY(add_stage(s, 1, &parts));
    return add_stage(s, 2, &kernel);
}

/* ---- all of long rows ---- */

/* The workspace that sort_count.cu describes. */
static hn_expr digits_bytes(const sorter *s) {
    const int64_t item = (s->element->bits == 64 ? 8 : 4) + 4;
    const hn_expr items = hn_sym_mul(s->sym, s->rows, s->params[HN_SORT_N]);
    const hn_expr counts = hn_sym_mul(s->sym, s->rows, hn_sym_add(s->sym, s->tiles, number(s, 1)));
    return when(s, s->is_long,
                hn_sym_add(s->sym, hn_sym_mul(s->sym, items, number(s, 2 * item)),
                           hn_sym_mul(s->sym, counts, number(s, 4 * DIGITS))));
}

/* The kernels of one digit. */
static hn_status add_digit(const sorter *s, int shift) {
    const hn_expr params[] = {s->rows,
                              s->params[HN_SORT_N],
                              s->params[HN_SORT_INNER],
                              s->params[HN_SORT_K],
                              s->params[HN_SORT_DESCENDING],
                              number(s, shift)};
    const hn_expr tiles = when(s, s->is_long, hn_sym_mul(s->sym, s->rows, s->tiles));
    const hn_expr scans = when(s, s->is_long, hn_sym_mul(s->sym, s->rows, number(s, SCANS)));
    const hn_cuda_kernel count = {.text = HN_CUDA_SPAN(hn_cuda_text_sort_count),
                                  .operands = (const uint8_t[]){X},
                                  .operand_count = 1,
                                  .has_workspace = true,
                                  .params = params,
                                  .param_count = HN_COUNT_OF(params),
                                  .groups = tiles,
                                  .threads = THREADS};
    const hn_cuda_kernel scan = {.text = HN_CUDA_SPAN(hn_cuda_text_sort_scan),
                                 .has_workspace = true,
                                 .params = params,
                                 .param_count = 2,
                                 .groups = scans,
                                 .threads = THREADS};
    const hn_cuda_kernel scatter = {.text = HN_CUDA_SPAN(hn_cuda_text_sort_scatter),
                                    .operands = (const uint8_t[]){VALUES, INDICES, X},
                                    .operand_count = 3,
                                    .has_workspace = true,
                                    .params = params,
                                    .param_count = HN_COUNT_OF(params),
                                    .groups = tiles,
                                    .threads = SCATTER_THREADS};
    HN_TRY(hn_cuda_list_add(s->list, &count));
    HN_TRY(hn_cuda_list_add(s->list, &scan));
    return hn_cuda_list_add(s->list, &scatter);
}

static bool has_top(const sorter *s) {
    int64_t k;
    return s->list->call->kind == HN_EXTERN_TOPK &&
           hn_sym_is_int(s->sym, s->params[HN_SORT_K], &k) && k <= TOP_MAX;
}

static hn_status add_long(const sorter *s) {
    if (has_top(s)) return add_top(s);
    for (int shift = 0; shift < s->element->bits; shift += DIGIT_BITS) HN_TRY(add_digit(s, shift));
    return NULL;
}

static hn_status add_kernels(sorter *s) {
    const bool is_never_long = hn_sym_is_value(s->sym, s->is_long, 0);
    if (!is_never_long && !has_top(s)) s->list->workspace_bytes = digits_bytes(s);
    if (!is_never_long && has_top(s) && has_parts(s)) s->list->workspace_bytes = parts_bytes(s);
    if (!hn_sym_is_value(s->sym, s->is_long, 1)) HN_TRY(add_rows(s));
    return is_never_long ? NULL : add_long(s);
}

hn_status hn_cuda_sort(hn_cuda_list *list) {
    hn_sym *sym = list->program->sym;
    const hn_expr *p = list->call->params;
    sorter s = {
        .list = list,
        .sym = sym,
        .params = p,
        .element = &elements[list->program->buffers.items[list->call->operands[X].buffer].dtype],
        .rows = hn_sym_mul(sym, p[HN_SORT_OUTER], p[HN_SORT_INNER]),
        .tiles = hn_sym_ceildiv(sym, p[HN_SORT_N], hn_sym_int(sym, TILE)),
        .is_long = hn_sym_min(sym, hn_sym_floordiv(sym, p[HN_SORT_N], hn_sym_int(sym, TILE + 1)),
                              hn_sym_int(sym, 1)),
    };
    hn_strbuf words;
    hn_strbuf_init(&words);
    put_words(s.element, &words);
    hn_status status = hn_strbuf_status(&words);
    list->words = words.ptr;
    if (!status) status = add_kernels(&s);
    list->words = NULL;
    hn_strbuf_deinit(&words);
    return status;
}
