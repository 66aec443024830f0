/* forms.c: see the header. */
#include "ops/cpu/forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static const char *const kinds[] = {"own",       "skinny",      "gemm",     "product",
                                    "collected", "depthwise",   "winograd", "rows",
                                    "gather",    "few-queries", "blocks"};
static const char *const rows_words[] = {"", "in-place", "packed", "packed-by-each"};

const char *hn_ext_form_kind(const hn_ext_form *form) { return form->kind ? form->kind : kinds[0]; }

static void put(char *out, const char *format, long long value) {
    const size_t at = strlen(out);
    if (at && at + 1 < HN_EXT_FORM_TEXT) strcat(out, " ");
    snprintf(out + strlen(out), HN_EXT_FORM_TEXT - strlen(out), format, value);
}

void hn_ext_form_print(const hn_ext_form *form, char out[HN_EXT_FORM_TEXT]) {
    out[0] = 0;
    if (form->repacks) put(out, "weights=each-call", 0);
    if (form->rows) {
        put(out, "rows=", 0);
        strcat(out, rows_words[form->rows]);
    }
    if (form->pass) put(out, "pass=%lld", form->pass);
    if (form->block) put(out, "block=%lld", form->block);
    if (form->tasks) put(out, "tasks=%lld", form->tasks);
}

/* The number behind "NAME=" at the beginning of a word of `len` bytes; 0: it is none. */
static int64_t number_of(const char *word, size_t len, const char *name) {
    const size_t before = strlen(name);
    char *end;
    if (len <= before || strncmp(word, name, before) != 0) return 0;
    const long long value = strtoll(word + before, &end, 10);
    return end == word + len && value > 0 && value <= INT32_MAX ? value : 0;
}

static bool is_word(const char *word, size_t len, const char *name, const char *value) {
    const size_t first = strlen(name);
    return len == first + strlen(value) && strncmp(word, name, first) == 0 &&
           strncmp(word + first, value, len - first) == 0;
}

static bool read_word(const char *word, size_t len, hn_ext_form *out) {
    int64_t value;
    if (is_word(word, len, "weights=", "each-call")) return out->repacks = true;
    for (int k = HN_EXT_ROWS_IN_PLACE; k <= HN_EXT_ROWS_PACKED_BY_EACH; k++)
        if (is_word(word, len, "rows=", rows_words[k])) return (out->rows = (unsigned)k) != 0;
    if ((value = number_of(word, len, "pass="))) return (out->pass = value) != 0;
    if ((value = number_of(word, len, "block="))) return (out->block = value) != 0;
    if ((value = number_of(word, len, "tasks="))) return (out->tasks = (int)value) != 0;
    return false;
}

hn_status hn_ext_form_parse(const char *kind, const char *parameters, hn_ext_form *out) {
    *out = (hn_ext_form){.kind = NULL};
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k], kind) != 0) k++;
    if (k == sizeof kinds / sizeof *kinds)
        return HN_ERROR(HN_INVALID_ARGUMENT, "no form of an operation is called '%s'", kind);
    if (k) out->kind = kinds[k];
    while (*parameters) {
        const size_t len = strcspn(parameters, " ");
        if (!read_word(parameters, len, out))
            return HN_ERROR(HN_INVALID_ARGUMENT, "a form '%s' has no parameter '%.*s'", kind,
                            (int)len, parameters);
        parameters += len;
        parameters += *parameters == ' ';
    }
    return NULL;
}

hn_status hn_ext_form_read(const char *text, hn_ext_form *out) {
    char kind[HN_EXT_FORM_TEXT];
    const size_t len = strcspn(text, " ");
    snprintf(kind, sizeof kind, "%.*s", (int)len, text);
    return hn_ext_form_parse(kind, text + len + (text[len] == ' '), out);
}

/* ---- which there are ---- */

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
    for (size_t k = 3; k <= 8; k++) add(l, (hn_ext_form){.kind = kinds[k]});
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
