/* known.c: see known.h. An entry is a line that says for which hints it is complete, and the
 * records behind it. */
#include "driver/known.h"

#include "base/compiler.h"
#include "base/file.h"
#include "cache/record.h"
#include "driver/key.h"
#include "driver/picked.h"

#include <string.h>

enum { REVISION = 1 };

void hn_known_tuning_init(hn_known_tuning *known) {
    *known = (hn_known_tuning){.is_complete = false};
    hn_strbuf_init(&known->key_record);
    hn_strbuf_init(&known->text);
}

void hn_known_tuning_deinit(hn_known_tuning *known) {
    hn_strbuf_deinit(&known->key_record);
    hn_strbuf_deinit(&known->text);
}

/* ---- keys ---- */

/* Other devices are known by their targets, which are in the key of the program: they are not
 * opened before it is certain that something is compiled. */
static hn_status add_devices(hn_driver *d, hn_strbuf *record) {
    hn_strbuf text;
    hn_status status = NULL;
    hn_strbuf_init(&text);
    for (uint32_t l = 0; l < d->level_count && !status; l++)
        if (d->levels[l].target.kind->device == HN_DEVICE_CPU)
            status = hn_driver_tuning_device(d, &d->levels[l].target, &text);
    hn_record_add(record, "device", hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
    return status;
}

/* What decides which kernels there are, and what they are made by. */
static bool is_of_kernels(hn_str field) {
    static const char *const names[] = {"model",  "no_fusion",     "threads",
                                        "target", "deterministic", "computed_weights_bytes",
                                        "tag",    "compiler"};
    for (uint32_t k = 0; k < HN_COUNT_OF(names); k++)
        if (hn_str_eq(field, hn_str_of(names[k]))) return true;
    return false;
}

static void add_options(hn_str record, hn_strbuf *out) {
    hn_record_field field;
    while (hn_record_next(&record, &field)) {
        char name[64];
        if (!is_of_kernels(field.name)) continue;
        snprintf(name, sizeof name, HN_STR_FMT, HN_STR_ARG(field.name));
        hn_record_add(out, name, field.value);
    }
}

static hn_status make_key(hn_driver *d, hn_model_file *file, hn_str record, hn_known_tuning *out) {
    hn_str graph;
    hn_record_add_i64(&out->key_record, "tuned model", REVISION);
    if (hn_driver_key_is_shared(file, &d->options) && hn_record_find(record, "graph", &graph))
        hn_record_add(&out->key_record, "graph", graph);
    else HN_TRY(hn_driver_key_graph(file, &out->key_record));
    add_options(record, &out->key_record);
    HN_TRY(add_devices(d, &out->key_record));
    HN_TRY(hn_strbuf_status(&out->key_record));
    out->key = hn_digest_of(out->key_record.ptr, out->key_record.len);
    return NULL;
}

/* ---- entries ---- */

/* "complete for s0=64,256\n"; without the hints' line ends, which they do not have. */
static void put_head(hn_driver *d, bool is_complete, hn_strbuf *out) {
    const char *const *hints = HN_OPT(&d->options, tune_hints);
    const uint32_t count = HN_OPT(&d->options, tune_hint_count);
    hn_strbuf_puts(out, is_complete ? "complete for" : "incomplete for");
    for (uint32_t k = 0; k < count; k++) hn_strbuf_printf(out, " %s", hints[k]);
    hn_strbuf_putc(out, '\n');
}

hn_status hn_known_tuning_read(hn_driver *d, hn_known_tuning *out) {
    const hn_str all = hn_strbuf_str(&out->text);
    const char *end = all.len ? memchr(all.ptr, '\n', all.len) : NULL;
    hn_strbuf wanted;
    out->records = HN_STR("");
    out->is_complete = false;
    if (!end) return NULL;
    const size_t len = (size_t)(end + 1 - all.ptr);
    hn_strbuf_init(&wanted);
    put_head(d, true, &wanted);
    out->is_complete = hn_str_eq(hn_strbuf_str(&wanted), (hn_str){all.ptr, len});
    out->records = (hn_str){all.ptr + len, all.len - len};
    hn_status status = hn_strbuf_status(&wanted);
    hn_strbuf_deinit(&wanted);
    return status;
}

hn_status hn_known_tuning_find(hn_driver *d, hn_cache *cache, hn_model_file *file, hn_str record,
                               hn_known_tuning *out) {
    if (hn_driver_picks_are_off(d)) return NULL;
    HN_TRY(make_key(d, file, record, out));
    /* A program that is on the disk starts without a word to a server. */
    if (!hn_tuning_get_local(cache, &out->key, &out->text)) return hn_strbuf_status(&out->text);
    return hn_known_tuning_read(d, out);
}

hn_status hn_known_tuning_keep(hn_driver *d, hn_cache *cache, hn_known_tuning *known,
                               hn_str records, bool is_complete) {
    hn_strbuf_reset(&known->text);
    put_head(d, is_complete, &known->text);
    const size_t head = known->text.len;
    hn_strbuf_append(&known->text, records.ptr, records.len);
    HN_TRY(hn_strbuf_status(&known->text));
    known->records = (hn_str){known->text.ptr + head, records.len};
    known->is_complete = is_complete;
    hn_tuning_put(cache, &known->key, hn_strbuf_str(&known->text),
                  hn_strbuf_str(&known->key_record));
    return NULL;
}

/* ---- the program's key ---- */

static hn_status add_field(hn_str file, hn_str records, hn_strbuf *record) {
    char hex[HN_DIGEST_HEX_BYTES];
    const hn_digest digest = hn_digest_of_two(file, records);
    hn_digest_hex(&digest, hex);
    if (file.len || records.len) hn_record_add(record, "tuning", hn_str_of(hex));
    return hn_strbuf_status(record);
}

hn_status hn_known_tuning_add_field(hn_driver *d, hn_str records, hn_strbuf *record) {
    const char *path = HN_OPT(&d->options, tuning);
    hn_strbuf file;
    if (hn_driver_picks_are_off(d)) return NULL;
    hn_strbuf_init(&file);
    hn_status status = path ? hn_file_read(path, &file) : NULL;
    if (!status) status = add_field(hn_strbuf_str(&file), records, record);
    hn_strbuf_deinit(&file);
    return status;
}
