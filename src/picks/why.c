/* why.c: why no record of a kernel counts: another set of forms, another device, other sizes. */
#include "picks/picks.h"

#include "tune/device.h"

#include <inttypes.h>

/* The record of the same kernel that differs least; of equal ones the first that was seen. */
typedef struct nearest {
    const hn_picks_wanted *wanted;
    hn_digest set;
    hn_arena *arena;
    const hn_tuning_record *record; /* NULL: nothing is known of the kernel */
    hn_picks_place place;
    uint32_t device_differences;
    bool is_other_set;
    hn_status status; /* of reading */
} nearest;

/* ---- looking ---- */

/* A set differs more than a field of the device: other forms make all times worthless. */
static uint32_t distance(uint32_t device_differences, bool is_other_set) {
    return device_differences + (is_other_set ? 1000 : 0);
}

static void look_at_list(nearest *n, const hn_tuning_list *list, hn_picks_place place) {
    uint32_t at = 0;
    for (const hn_tuning_record *r; (r = hn_tuning_list_next(list, &n->wanted->digest, &at));) {
        const hn_digest set = hn_tuning_record_set(r);
        const bool is_other_set = memcmp(&set, &n->set, sizeof set) != 0;
        const uint32_t differences = hn_tuning_device_diff(r->device, n->wanted->device, NULL);
        if (n->record &&
            distance(differences, is_other_set) >= distance(n->device_differences, n->is_other_set))
            continue;
        n->record = r, n->place = place;
        n->device_differences = differences, n->is_other_set = is_other_set;
    }
}

static void look_at_entry(void *user, const hn_store_entry *entry) {
    nearest *n = user;
    hn_tuning_list *list;
    if (n->status || !hn_picks_is_of(entry, &n->wanted->digest)) return;
    n->status = hn_arena_array(n->arena, 1, sizeof *list, &list);
    if (n->status) return;
    hn_tuning_list_init(list, n->arena);
    n->status = hn_picks_read(entry, list);
    if (!n->status) look_at_list(n, list, HN_PICKS_LOCAL);
}

/* Without a disk there is nothing to look at. */
static hn_status look_at_cache(nearest *n, hn_store *store) {
    hn_status status = hn_store_each(store, HN_STORE_TUNING, look_at_entry, n);
    if (hn_status_code(status) == HN_OUT_OF_MEMORY) return status;
    hn_status_free(status);
    return n->status;
}

/* ---- saying ---- */

static void put_subject(const nearest *n, hn_strbuf *out) {
    char hex[HN_DIGEST_HEX_BYTES];
    const hn_picks_wanted *w = n->wanted;
    hn_digest_hex(&w->digest, hex);
    hn_strbuf_printf(out, "kernel '" HN_STR_FMT "' (%.8s): ", HN_STR_ARG(w->kernel), hex);
}

static bool is_in_record(const hn_tuning_record *r, const hn_form_name *form) {
    for (uint32_t k = 0; k < r->form_count; k++)
        if (!r->forms[k].is_extra && hn_form_name_eq(&r->forms[k].form, form)) return true;
    return false;
}

static bool is_wanted(const hn_picks_wanted *w, const hn_form_name *form) {
    for (uint32_t k = 0; k < w->form_count; k++)
        if (hn_form_name_eq(&w->forms[k], form)) return true;
    return false;
}

static void put_form(const hn_form_name *form, const char *word, uint32_t *count, hn_strbuf *out) {
    hn_strbuf_puts(out, (*count)++ ? ", '" : word);
    hn_form_name_print(form, out);
    hn_strbuf_putc(out, '\'');
}

static void put_sets(const nearest *n, hn_strbuf *out) {
    const hn_tuning_record *r = n->record;
    const hn_picks_wanted *w = n->wanted;
    uint32_t set = 0, gone = 0, new = 0;
    for (uint32_t k = 0; k < r->form_count; k++) set += !r->forms[k].is_extra;
    put_subject(n, out);
    hn_strbuf_printf(out, "the set of forms changed since it was tuned: was %u forms, is %u", set,
                     w->form_count);
    for (uint32_t k = 0; k < r->form_count; k++)
        if (!r->forms[k].is_extra && !is_wanted(w, &r->forms[k].form))
            put_form(&r->forms[k].form, "; gone: '", &gone, out);
    for (uint32_t k = 0; k < w->form_count; k++)
        if (!is_in_record(r, &w->forms[k])) put_form(&w->forms[k], "; new: '", &new, out);
    hn_strbuf_printf(out, " (%s)\n", hn_picks_place_name(n->place));
}

static void put_device(const nearest *n, hn_strbuf *out) {
    hn_strbuf lines;
    hn_strbuf_init(&lines);
    (void)hn_tuning_device_diff(n->record->device, n->wanted->device, &lines);
    for (const char *at = hn_strbuf_str(&lines).ptr; *at;) {
        const size_t len = strcspn(at, "\n");
        put_subject(n, out);
        hn_strbuf_printf(out, "it was tuned on another device: %.*s (%s)\n", (int)len, at,
                         hn_picks_place_name(n->place));
        at += len + (at[len] != 0);
    }
    out->failed |= lines.failed;
    hn_strbuf_deinit(&lines);
}

static void put_sizes(const hn_tuning_record *r, const int64_t *sizes, hn_strbuf *out) {
    for (uint32_t k = 0; k < r->size_count; k++)
        hn_strbuf_printf(out, "%s" HN_STR_FMT " = %" PRId64, k ? ", " : "",
                         HN_STR_ARG(r->symbols[k]), sizes[k]);
}

/* It counts: at which sizes not? */
static void put_found(const nearest *n, const hn_tuning_list *found, hn_strbuf *out) {
    const hn_picks_wanted *w = n->wanted;
    put_subject(n, out);
    hn_strbuf_printf(out, "tuned at %u set%s of sizes (%s)\n", found->count,
                     found->count == 1 ? "" : "s", hn_picks_place_name(n->place));
    for (uint32_t k = 0; k < w->sample_count; k++) {
        hn_picks_wanted one = *w;
        one.sizes = w->size_count ? w->sizes + (size_t)k * w->size_count : NULL;
        one.sample_count = 1;
        if (hn_picks_cover(found, &one)) continue;
        put_subject(n, out);
        hn_strbuf_puts(out, "not tuned at ");
        put_sizes(n->record, one.sizes, out);
        hn_strbuf_putc(out, '\n');
    }
}

static hn_status say(const nearest *n, const hn_picks *picks, hn_strbuf *out) {
    hn_tuning_list found;
    hn_picks_place place;
    hn_tuning_list_init(&found, n->arena);
    hn_picks local = *picks;
    hn_cache disk = picks->cache ? *picks->cache : (hn_cache){0};
    disk.remote = NULL;
    if (picks->cache) local.cache = &disk;
    HN_TRY(hn_picks_find(&local, n->wanted, &found, &place));
    if (found.count) put_found(n, &found, out);
    else {
        if (n->is_other_set) put_sets(n, out);
        if (n->device_differences) put_device(n, out);
    }
    return NULL;
}

hn_status hn_picks_why(const hn_picks *picks, const hn_picks_wanted *w, hn_strbuf *out) {
    hn_arena arena;
    hn_arena_init(&arena);
    nearest n = {.wanted = w,
                 .set = hn_form_set_digest(w->forms, w->form_count),
                 .arena = &arena,
                 .place = HN_PICKS_NOWHERE};
    hn_status status = NULL;
    if (w->form_count < 2) {
        put_subject(&n, out);
        hn_strbuf_puts(out, "it has one form: there is nothing to tune\n");
    } else {
        if (picks->file) look_at_list(&n, picks->file, HN_PICKS_FILE);
        if (picks->bundle) look_at_list(&n, picks->bundle, HN_PICKS_BUNDLE);
        if (picks->cache) status = look_at_cache(&n, picks->cache->store);
        if (!status && n.record) status = say(&n, picks, out);
        if (!status && !n.record) {
            put_subject(&n, out);
            hn_strbuf_puts(out, "it was never tuned\n");
        }
    }
    hn_arena_deinit(&arena);
    return status ? status : hn_strbuf_status(out);
}
