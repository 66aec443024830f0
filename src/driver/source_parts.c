/* source_parts.c: what of the extern operations a C project has: only what its program can call, as
 * their loops are most of the time of its build.
 *
 * A parameter that is known only when it is called counts as any: a part is left out where
 * constants prove that no call takes it. */
#include "driver/source_parts.h"

#include "ops/cpu/kernels.h"
#include "sym/sym.h"

#include <string.h>

/* A call of the host. */
typedef struct call {
    const hn_wrapper *w;
    const hn_line *line;
} call;

static bool is(const call *c, hn_extern_kind kind) { return c->line->extern_kind == kind; }

static bool may_be(const call *c, uint32_t param, int64_t value) {
    int64_t known;
    return !hn_sym_is_int(c->w->sym, c->line->params[param], &known) || known == value;
}

static bool may_be_at_least(const call *c, uint32_t param, int64_t least) {
    int64_t known;
    return !hn_sym_is_int(c->w->sym, c->line->params[param], &known) || known >= least;
}

static bool may_be_at_most(const call *c, uint32_t param, int64_t most) {
    int64_t known;
    return !hn_sym_is_int(c->w->sym, c->line->params[param], &known) || known <= most;
}

static bool has_dtype(const call *c, hn_dtype dtype) {
    for (uint32_t k = 0; k < c->line->operand_count; k++)
        if (c->line->operands[k].buffer && c->line->operands[k].dtype == dtype) return true;
    return false;
}

/* ---- which calls need a part ---- */

static bool conv(const call *c) { return is(c, HN_EXTERN_CONV); }
static bool attention_backward(const call *c) { return is(c, HN_EXTERN_ATTENTION_BACKWARD); }
static bool attention(const call *c) { return is(c, HN_EXTERN_ATTENTION) || attention_backward(c); }
static bool grouped(const call *c) { return is(c, HN_EXTERN_GROUPED_MATMUL); }
static bool matmul(const call *c) { return is(c, HN_EXTERN_MATMUL) || grouped(c); }
static bool sort(const call *c) { return is(c, HN_EXTERN_SORT) || is(c, HN_EXTERN_TOPK); }
static bool nonzero(const call *c) { return is(c, HN_EXTERN_NONZERO); }
static bool nms(const call *c) { return is(c, HN_EXTERN_NMS); }
static bool combine(const call *c) { return is(c, HN_EXTERN_COMBINE_SORTED); }
static bool half(const call *c) {
    return has_dtype(c, HN_DTYPE_F16) || has_dtype(c, HN_DTYPE_BF16);
}
static bool matmul_f64(const call *c) { return matmul(c) && has_dtype(c, HN_DTYPE_F64); }

/* Taps that meet nothing but padding are dropped when a call is prepared (ops/cpu/conv/conv.c): so
 * a larger kernel can turn into a smaller one. */
static bool may_shrink(const call *c, uint32_t d) {
    const hn_expr *p = c->line->params;
    int64_t out, stride, padding;
    return !hn_sym_is_int(c->w->sym, p[HN_CONV_OUTSIZE + d], &out) ||
           !hn_sym_is_int(c->w->sym, p[HN_CONV_STRIDE + d], &stride) ||
           !hn_sym_is_int(c->w->sym, p[HN_CONV_PADDING + d], &padding) ||
           (out - 1) * stride < padding;
}

static bool has_kernel(const call *c, int64_t size) {
    for (uint32_t d = 1; d < 3; d++)
        if (!may_be(c, HN_CONV_KERNEL + d, size) &&
            !(may_be_at_least(c, HN_CONV_KERNEL + d, size) && may_shrink(c, d)))
            return false;
    return true;
}

/* Where there is one row or column of outputs, any stride is 1. */
static bool has_stride(const call *c, int64_t stride) {
    for (uint32_t d = 1; d < 3; d++)
        if (!may_be(c, HN_CONV_STRIDE + d, stride) &&
            !(stride == 1 && may_be(c, HN_CONV_OUTSIZE + d, 1)))
            return false;
    return true;
}

static bool winograd(const call *c) { return conv(c) && has_kernel(c, 3) && has_stride(c, 1); }

static bool depthwise(const call *c) {
    const hn_expr *p = c->line->params;
    return conv(c) && !hn_sym_prove_ne(c->w->sym, p[HN_CONV_C], p[HN_CONV_GROUPS]);
}

/* Whether planes are copied with their border, as ops/cpu/conv/depthwise.c decides. */
static bool may_be_padded(const call *c, int64_t stride) {
    const int64_t most = hn_ext_strip_padded_cols(stride);
    return may_be_at_most(c, HN_CONV_IN + 1, most) && may_be_at_most(c, HN_CONV_IN + 2, most);
}
static bool must_be_padded(const call *c, int64_t kernel, int64_t stride) {
    const int64_t most = hn_ext_strip_padded_cols(stride);
    return !may_be_at_least(c, HN_CONV_IN + 1, most + 1) &&
           !may_be_at_least(c, HN_CONV_IN + 2, most + 1) &&
           !may_be_at_least(c, HN_CONV_KERNEL + 2, kernel + 1) &&
           !may_be_at_most(c, HN_CONV_PADDING + 2, 0);
}

static bool strips(const call *c, int kernel, int stride, bool padded) {
    if (!depthwise(c) || !has_kernel(c, kernel) || !has_stride(c, stride)) return false;
    return padded ? may_be_padded(c, stride) : !must_be_padded(c, kernel, stride);
}

/* ---- */

static bool is_among(const hn_source_called *calls, const hn_line *line) {
    return line->kind == HN_LINE_EXTERN && line->device == HN_DEVICE_CPU &&
           (!calls->only || calls->only == line);
}

static bool any(const hn_source_called *calls, bool (*needs)(const call *c)) {
    for (uint32_t k = 0; k < calls->w->lines.count; k++) {
        const hn_line *line = &calls->w->lines.items[k];
        if (is_among(calls, line) && needs(&(call){calls->w, line})) return true;
    }
    return false;
}

/* Sources by the beginnings of their paths: the first row that matches counts. Without them
 * HN_EXT_WITHOUT_<name> is defined. What no row names, several kinds of operations need. */
static const struct {
    const char *files, *name;
    bool (*needs)(const call *c);
} parts[] = {
    {"lib/ops/cpu/conv/winograd", "WINOGRAD", winograd},
    {"lib/ops/cpu/conv/depthwise", "DEPTHWISE", depthwise},
    {"lib/ops/cpu/conv/", "CONV", conv},
    {"lib/ops/cpu/attention/backward", "ATTENTION_BACKWARD", attention_backward},
    {"lib/ops/cpu/attention/", "ATTENTION", attention},
    {"lib/ops/cpu/gemm/matmul_f64", "MATMUL_F64", matmul_f64},
    {"lib/ops/cpu/gemm/matmul", "MATMUL", matmul},
    {"lib/ops/cpu/gemm/grouped", "GROUPED", grouped},
    {"lib/ops/cpu/half", "HALF", half},
    {"lib/ops/cpu/sort/sort", "SORT", sort},
    {"lib/ops/cpu/sort/nonzero", "NONZERO", nonzero},
    {"lib/ops/cpu/sort/nms", "NMS", nms},
    {"lib/ops/cpu/sort/combine", "COMBINE", combine},
};
enum { PART_COUNT = sizeof parts / sizeof *parts };

/* The inner loops of the extern operations exist once for each vector width. A project has those of
 * its target, since they take most of the time of its build. */
static bool is_for_target(const char *path, const char *wanted) {
    static const char prefix[] = "lib/ops/cpu/kernels_";
    static const char *const widths[] = {"generic", "avx2", "avx512"};
    if (strncmp(path, prefix, sizeof prefix - 1) != 0) return true;
    const char *rest = path + sizeof prefix - 1;
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        size_t len = strlen(widths[k]);
        if (strncmp(rest, widths[k], len) == 0 && strcmp(rest + len, ".c") == 0)
            return strcmp(widths[k], wanted) == 0;
    }
    return true;
}

bool hn_source_is_c(const char *path) {
    const size_t len = strlen(path);
    return len > 2 && strcmp(path + len - 2, ".c") == 0;
}

bool hn_source_part_is_needed(const hn_source_called *calls, const char *path) {
    if (!is_for_target(path, calls->variant)) return false;
    for (size_t k = 0; hn_source_is_c(path) && k < PART_COUNT; k++)
        if (strncmp(path, parts[k].files, strlen(parts[k].files)) == 0)
            return any(calls, parts[k].needs);
    return true;
}

/* ---- parts of the loops, as the bits of a number ---- */

static unsigned epilogues_of(const call *c) {
    uint32_t param = HN_CONV_EPILOGUE;
    int64_t epilogue;
    if (is(c, HN_EXTERN_MATMUL)) param = HN_MATMUL_EPILOGUE;
    else if (!conv(c)) return 0;
    if (!hn_sym_is_int(c->w->sym, c->line->params[param], &epilogue)) return ~0u;
    return 1u << epilogue;
}

static unsigned strips_of(const call *c) {
    unsigned shapes = 0;
    for (int kernel = 3; kernel <= 5; kernel += 2)
        for (int stride = 1; stride <= 2; stride++)
            for (int padded = 0; padded < 2; padded++)
                if (strips(c, kernel, stride, padded))
                    shapes |= 1u << HN_EXT_STRIPS_BIT(kernel, stride, padded);
    return shapes;
}

static unsigned bits(const hn_source_called *calls, unsigned (*of)(const call *c)) {
    unsigned all = 0;
    for (uint32_t k = 0; k < calls->w->lines.count; k++) {
        const hn_line *line = &calls->w->lines.items[k];
        if (is_among(calls, line)) all |= of(&(call){calls->w, line});
    }
    return all;
}

hn_status hn_source_part_flags(const hn_source_called *calls, hn_arena *arena, hn_str *out) {
    char *flags = hn_arena_printf(arena, "-DHN_EXT_ONLY=hn_ext_kernels_%s", calls->variant);
    for (size_t k = 0; flags && k < PART_COUNT; k++)
        if (!any(calls, parts[k].needs))
            flags = hn_arena_printf(arena, "%s -DHN_EXT_WITHOUT_%s", flags, parts[k].name);
    if (flags)
        flags = hn_arena_printf(arena, "%s -DHN_EXT_EPILOGUES=0x%x -DHN_EXT_STRIPS=0x%x", flags,
                                bits(calls, epilogues_of), bits(calls, strips_of));
    if (!flags) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a project's flags");
    *out = hn_str_of(flags);
    return NULL;
}
