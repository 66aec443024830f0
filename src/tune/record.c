/* record.c: tuning records: what they must hold, and what is asked of them. */
#include "tune/record.h"

#include <math.h>
#include <stdlib.h>

const char *hn_tuning_how_name(hn_tuning_how how) {
    static const char *const names[HN_TUNING_HOW_COUNT] = {
        [HN_TUNING_MODEL] = "model",
        [HN_TUNING_TIMED] = "timed",
        [HN_TUNING_DESCENT] = "descent",
        [HN_TUNING_FORCED] = "forced",
    };
    return names[how];
}

/* ---- devices ---- */

bool hn_device_field_next(hn_str *rest, hn_str *out_name, hn_str *out_value) {
    const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    const char *equals = end ? memchr(rest->ptr, '=', (size_t)(end - rest->ptr)) : NULL;
    if (!equals) return false;
    *out_name = (hn_str){rest->ptr, (size_t)(equals - rest->ptr)};
    *out_value = (hn_str){equals + 1, (size_t)(end - equals - 1)};
    rest->len -= (size_t)(end + 1 - rest->ptr), rest->ptr = end + 1;
    return true;
}

void hn_device_field_add(hn_strbuf *device, hn_str name, hn_str value) {
    hn_strbuf_append(device, name.ptr, name.len);
    hn_strbuf_putc(device, '=');
    hn_strbuf_append(device, value.ptr, value.len);
    hn_strbuf_putc(device, '\n');
}

/* ---- names of forms ---- */

bool hn_form_name_eq(const hn_form_name *a, const hn_form_name *b) {
    return hn_str_eq(a->name, b->name) && hn_str_eq(a->parameters, b->parameters);
}

void hn_form_name_print(const hn_form_name *form, hn_strbuf *out) {
    hn_strbuf_append(out, form->name.ptr, form->name.len);
    if (form->parameters.len) hn_strbuf_putc(out, ' ');
    hn_strbuf_append(out, form->parameters.ptr, form->parameters.len);
}

static int compare(hn_str a, hn_str b) {
    const size_t len = a.len < b.len ? a.len : b.len;
    const int order = len ? memcmp(a.ptr, b.ptr, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int by_name(const void *a, const void *b) {
    const hn_form_name *x = a, *y = b;
    const int order = compare(x->name, y->name);
    return order ? order : compare(x->parameters, y->parameters);
}

hn_digest hn_form_set_digest(const hn_form_name *forms, uint32_t count) {
    hn_form_name sorted[HN_TUNING_FORMS_MAX];
    hn_digest_state state;
    if (count > HN_TUNING_FORMS_MAX) count = HN_TUNING_FORMS_MAX;
    for (uint32_t k = 0; k < count; k++) sorted[k] = forms[k];
    if (count) qsort(sorted, count, sizeof *sorted, by_name);
    hn_digest_begin(&state);
    for (uint32_t k = 0; k < count; k++) {
        hn_digest_update(&state, sorted[k].name.ptr, sorted[k].name.len);
        hn_digest_update(&state, " ", 1);
        hn_digest_update(&state, sorted[k].parameters.ptr, sorted[k].parameters.len);
        hn_digest_update(&state, "\n", 1);
    }
    return hn_digest_end(&state);
}

hn_digest hn_tuning_record_set(const hn_tuning_record *r) {
    hn_form_name names[HN_TUNING_FORMS_MAX];
    uint32_t count = 0;
    for (uint32_t k = 0; k < r->form_count && k < HN_TUNING_FORMS_MAX; k++)
        if (!r->forms[k].is_extra) names[count++] = r->forms[k].form;
    return hn_form_set_digest(names, count);
}

hn_digest hn_tuning_record_identity(const hn_tuning_record *r) {
    const hn_digest set = hn_tuning_record_set(r);
    hn_digest_state state;
    hn_digest_begin(&state);
    hn_digest_update(&state, &r->digest, sizeof r->digest);
    hn_digest_update(&state, &set, sizeof set);
    hn_digest_update(&state, r->sizes, r->size_count * sizeof *r->sizes);
    hn_digest_update(&state, r->device.ptr, r->device.len);
    return hn_digest_end(&state);
}

/* ---- what a record says ---- */

bool hn_tuning_record_has_winner(const hn_tuning_record *r) {
    const hn_form_timing *f = &r->forms[r->pick];
    return f->ratio == 1 && f->ratio_low == 1 && f->ratio_high == 1;
}

/* By ratios: those of all other forms are above 1. */
static bool is_ahead(const hn_tuning_record *r, double *out_margin) {
    double second = INFINITY, low = INFINITY;
    for (uint32_t k = 0; k < r->form_count; k++) {
        const hn_form_timing *f = &r->forms[k];
        if (k == r->pick || !f->samples) continue;
        if (f->ratio < second) second = f->ratio;
        if (f->ratio_low < low) low = f->ratio_low;
    }
    if (isfinite(second)) *out_margin = second - 1;
    return low > 1;
}

bool hn_tuning_record_is_certain(const hn_tuning_record *r, double *out_margin) {
    const hn_form_timing *first = NULL;
    double second_ns = INFINITY, next_low_ns = INFINITY;
    *out_margin = 0;
    if (hn_tuning_record_has_winner(r)) return is_ahead(r, out_margin);
    for (uint32_t k = 0; k < r->form_count; k++)
        if (r->forms[k].samples && (!first || r->forms[k].median_ns < first->median_ns))
            first = &r->forms[k];
    for (uint32_t k = 0; k < r->form_count; k++) {
        const hn_form_timing *f = &r->forms[k];
        if (!f->samples || f == first) continue;
        if (f->median_ns < second_ns) second_ns = f->median_ns;
        if (f->low_ns < next_low_ns) next_low_ns = f->low_ns;
    }
    if (first && isfinite(second_ns)) *out_margin = second_ns / first->median_ns - 1;
    return first && first == &r->forms[r->pick] && first->high_ns < next_low_ns;
}

/* ---- checking ---- */

static bool is_text(hn_str s, size_t least, bool blanks) {
    if (s.len < least || s.len > HN_TUNING_TEXT_MAX) return false;
    for (size_t k = 0; k < s.len; k++)
        if (s.ptr[k] < (blanks ? ' ' : '!') || s.ptr[k] > '~') return false;
    return true;
}

static bool is_time(double ns) { return isfinite(ns) && ns > 0; }

static hn_status check_form(const hn_form_timing *f, uint32_t number) {
    if (!is_text(f->form.name, 1, false) || !is_text(f->form.parameters, 0, true))
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "form %u has no name of 1 to %d printable bytes without blanks", number,
                        HN_TUNING_TEXT_MAX);
    if (!is_text(f->dropped, 0, true))
        return HN_ERROR(HN_INVALID_ARGUMENT, "form %u is dropped for no printable reason", number);
    if (f->samples ? !is_time(f->low_ns) || !is_time(f->high_ns) || !(f->low_ns <= f->median_ns) ||
                         !(f->median_ns <= f->high_ns) || f->dropped.len
                   : f->low_ns != 0 || f->median_ns != 0 || f->high_ns != 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "form %u has no times low <= median <= high", number);
    if (f->ratio != 0 || f->ratio_low != 0 || f->ratio_high != 0)
        if (!f->samples || !is_time(f->ratio_low) || !is_time(f->ratio_high) ||
            !(f->ratio_low <= f->ratio) || !(f->ratio <= f->ratio_high))
            return HN_ERROR(HN_INVALID_ARGUMENT, "form %u has no ratios low <= ratio <= high",
                            number);
    if (f->predicted_ns != 0 && !is_time(f->predicted_ns))
        return HN_ERROR(HN_INVALID_ARGUMENT, "form %u has no predicted time", number);
    return NULL;
}

static hn_status check_forms(const hn_tuning_record *r) {
    if (!r->form_count || r->form_count > HN_TUNING_FORMS_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u forms, not 1 to %d", r->form_count,
                        HN_TUNING_FORMS_MAX);
    for (uint32_t k = 0; k < r->form_count; k++) {
        HN_TRY(check_form(&r->forms[k], k));
        for (uint32_t j = 0; j < k; j++)
            if (hn_form_name_eq(&r->forms[j].form, &r->forms[k].form))
                return HN_ERROR(HN_INVALID_ARGUMENT, "forms %u and %u are the same", j, k);
    }
    if (r->pick >= r->form_count || r->forms[r->pick].dropped.len)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the pick is not one of the forms that take part");
    if ((r->how == HN_TUNING_TIMED || r->how == HN_TUNING_DESCENT) && !r->forms[r->pick].samples)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the pick was not timed, so it is \"forced\"");
    return NULL;
}

static hn_status check_device(hn_str device) {
    hn_str name, value;
    uint32_t count = 0;
    while (hn_device_field_next(&device, &name, &value)) {
        count++;
        if (!is_text(name, 1, false) || !is_text(value, 0, true))
            return HN_ERROR(HN_INVALID_ARGUMENT, "field %u of the device is no printable text",
                            count);
    }
    return count && !device.len ? NULL : HN_ERROR(HN_INVALID_ARGUMENT, "the device has no fields");
}

hn_status hn_tuning_record_check(const hn_tuning_record *r) {
    if (!is_text(r->kernel, 0, true) || !is_text(r->tool, 0, true))
        return HN_ERROR(HN_INVALID_ARGUMENT, "the kernel or the tool has no printable name");
    if (r->size_count > HN_TUNING_SIZES_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%u sizes, more than %d", r->size_count,
                        HN_TUNING_SIZES_MAX);
    for (uint32_t k = 0; k < r->size_count; k++)
        if (!is_text(r->symbols[k], 1, true))
            return HN_ERROR(HN_INVALID_ARGUMENT, "size %u has no name", k);
    if ((uint32_t)r->how >= HN_TUNING_HOW_COUNT)
        return HN_ERROR(HN_INVALID_ARGUMENT, "found in no known way");
    HN_TRY(check_device(r->device));
    return check_forms(r);
}
