/* forms.c: which forms calls may have: see forms.h. */
#include "ops/cpu/forms.h"

enum { CANDIDATES = 8 }; /* of a library's heuristic */

typedef struct list {
    hn_ext_form *items;
    uint32_t count;
} list;

static void add(list *l, hn_ext_form form) {
    if (l->count < HN_EXT_FORMS_MAX) l->items[l->count++] = form;
}

static void list_matmul(list *l, bool has_weights) {
    add(l, (hn_ext_form){.kind = "skinny"});
    for (int64_t block = 128; block <= 1024; block *= 2)
        add(l, (hn_ext_form){.kind = "skinny", .block = block});
    for (int each = 0; each <= (int)has_weights; each++) {
        const hn_ext_form plain = {.kind = "gemm", .repacks = each != 0};
        hn_ext_form f = plain;
        add(l, f);
        for (int rows = HN_EXT_ROWS_IN_PLACE; rows <= HN_EXT_ROWS_PACKED_BY_EACH; rows++) {
            f.rows = (unsigned)rows;
            add(l, f);
        }
        f = plain;
        for (int64_t pass = 256; pass <= 4096; pass *= 2) {
            f.pass = pass;
            add(l, f);
        }
    }
}

static void list_conv(list *l) {
    static const char *const kinds[] = {"product",  "collected", "depthwise",
                                        "winograd", "rows",      "gather"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        add(l, (hn_ext_form){.kind = kinds[k]});
}

static void list_attention(list *l) {
    add(l, (hn_ext_form){.kind = "few-queries"});
    for (int64_t block = 64; block <= 2048; block *= 2)
        add(l, (hn_ext_form){.kind = "blocks", .block = block});
}

uint32_t hn_ext_forms_all(hn_extern_kind kind, bool has_weights, int threads,
                          hn_ext_form out[HN_EXT_FORMS_MAX]) {
    list l = {.items = out};
    add(&l, (hn_ext_form){.kind = NULL});
    if (kind == HN_EXTERN_MATMUL) list_matmul(&l, has_weights);
    if (kind == HN_EXTERN_CONV) list_conv(&l);
    if (kind == HN_EXTERN_ATTENTION) list_attention(&l);
    if (threads > 1) add(&l, (hn_ext_form){.tasks = 1});
    return l.count;
}

uint32_t hn_ext_forms_library(hn_extern_kind kind, hn_ext_form out[HN_EXT_FORMS_MAX]) {
    list l = {.items = out};
    add(&l, (hn_ext_form){.kind = NULL});
    if (kind != HN_EXTERN_MATMUL && kind != HN_EXTERN_CONV) return l.count;
    for (int k = 2; k <= CANDIDATES; k++) add(&l, (hn_ext_form){.kind = "library", .candidate = k});
    return l.count;
}

static bool has_weights(const hn_ext_call *call) {
    return call->kind == HN_EXTERN_MATMUL && call->is_constant[2] &&
           call->params[HN_MATMUL_B_CONSTANT];
}

/* Two passes or one of more than all of k are the same. */
static bool is_pointless(const hn_ext_call *call, const hn_ext_form *form) {
    return form->pass && form->pass >= 2 * call->params[HN_MATMUL_K];
}

hn_status hn_ext_forms_list(const hn_ext_call *call, hn_ext_expected out[HN_EXT_FORMS_MAX],
                            uint32_t *out_count) {
    hn_ext_form all[HN_EXT_FORMS_MAX];
    hn_status failed = NULL; /* of the form that must be possible */
    const uint32_t count = hn_ext_forms_all(call->kind, has_weights(call), call->threads, all);
    *out_count = 0;
    for (uint32_t k = 0; k < count && !failed; k++) {
        hn_ext_call trial = *call;
        trial.form = &all[k];
        if (is_pointless(call, &all[k])) continue;
        hn_status status = hn_ext_prepare(&trial);
        if (!status) hn_ext_release(&trial), out[(*out_count)++].form = all[k];
        else if (!k) failed = status;
        else hn_status_free(status);
    }
    for (uint32_t k = 0; k < *out_count; k++) out[k].ns = 0;
    return failed;
}
