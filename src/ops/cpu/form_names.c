/* form_names.c: the names of forms: see forms.h. */
#include "ops/cpu/forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"own",       "skinny",      "gemm",     "product",
                                    "collected", "depthwise",   "winograd", "rows",
                                    "gather",    "few-queries", "blocks",   "library"};
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
    if (form->candidate) put(out, "candidate=%lld", form->candidate);
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
    if ((value = number_of(word, len, "candidate="))) return (out->candidate = (int)value) != 0;
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
