/* options.c: how the key of the graph cache covers each option. See options.h. */
#include "driver/options.h"

#include "base/compiler.h"
#include "cache/cache.h"
#include "cache/record.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

uint32_t hn_driver_cpu_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static uint32_t threads_of(const hn_compile_options *given) {
    return given->threads > 0 ? (uint32_t)given->threads : hn_driver_cpu_count();
}

/* ---- fields of the key ---- */

static void put_model(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add(record, field, hn_str_of(o->given->model ? o->given->model : ""));
}
static void put_no_fusion(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, o->given->no_fusion);
}
/* Machines that share a cache have different CPUs: the number counts, not the wish. */
static void put_threads(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, threads_of(o->given));
}
static void put_tag(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add(record, field, hn_str_of(hn_cache_tag(o->given->cache_tag)));
}
static void put_deterministic(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, o->given->deterministic);
}
static void put_pool(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, o->given->memory_pool);
}
/* From wherever they are named. */
static const char *forms_of(const hn_compile_options *given) {
    const char *forms = given->forms ? given->forms : getenv("HENRY_FORM");
    return forms ? forms : "";
}
static void put_shipped(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, o->given->forms_shipped);
}
static void put_forms(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add(record, field, hn_str_of(forms_of(o->given)));
}
/* Names as they are given: which inputs these are is known when the model is read. */
static void put_donated(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < o->given->donated_count; k++)
        hn_strbuf_printf(&text, "%zu:%s,", strlen(o->given->donated[k]), o->given->donated[k]);
    hn_record_add(record, field, hn_strbuf_str(&text));
    record->failed |= text.failed;
    hn_strbuf_deinit(&text);
}
static void put_donated_count(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, o->given->donated_count);
}
static void put_computed(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, o->given->computed_weights_bytes);
}
static void put_embed(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, o->given->embed_weights);
}
/* What is timed at them has records, and is in the key so. */
static uint32_t hints_of(const hn_options *o) {
    return o->given->tune == HN_TUNE_KNOWN ? o->given->tune_hint_count : 0;
}
static void put_hints(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < hints_of(o); k++)
        hn_strbuf_printf(&text, "%s%s", k ? " " : "",
                         o->given->tune_hints[k] ? o->given->tune_hints[k] : "");
    hn_record_add(record, field, hn_strbuf_str(&text));
    record->failed |= text.failed;
    hn_strbuf_deinit(&text);
}
static void put_hint_count(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_record_add_i64(record, field, hints_of(o));
}
/* Every feature level; what this machine has counts as if it had been named. */
static void put_target(const hn_options *o, const char *field, hn_strbuf *record) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < o->target_count; k++) {
        const hn_target *t = o->targets[k];
        hn_strbuf_printf(&text, "%s%s, vectors of %u bytes, %s", k ? "; " : "", t->name,
                         t->vector_bytes, t->flags);
    }
    hn_record_add(record, field, hn_strbuf_str(&text));
    record->failed |= text.failed;
    hn_strbuf_deinit(&text);
}

#define ROW(member)                                                                                \
    .name = #member, .offset = offsetof(hn_compile_options, member),                               \
    .bytes = sizeof(((hn_compile_options *)0)->member)

static const hn_option_row rows[] = {
    {ROW(model), HN_OPTION_KEYED, "model", put_model, ""},
    {ROW(no_fusion), HN_OPTION_KEYED, "no_fusion", put_no_fusion, ""},
    {ROW(threads), HN_OPTION_KEYED, "threads", put_threads, ""},
    {ROW(target), HN_OPTION_KEYED, "target", put_target, ""},
    {ROW(deterministic), HN_OPTION_KEYED, "deterministic", put_deterministic, ""},
    {ROW(memory_pool), HN_OPTION_KEYED, "memory_pool", put_pool, ""},
    {ROW(donated), HN_OPTION_KEYED, "donated", put_donated, ""},
    {ROW(donated_count), HN_OPTION_KEYED, "donated_count", put_donated_count, ""},
    {ROW(embed_weights), HN_OPTION_KEYED, "embed_weights", put_embed, ""},
    {ROW(computed_weights_bytes), HN_OPTION_KEYED, "computed_weights_bytes", put_computed, ""},
    {ROW(cache_tag), HN_OPTION_KEYED, "tag", put_tag, ""},
    {ROW(forms), HN_OPTION_KEYED, "forms", put_forms, ""},
    {ROW(forms_shipped), HN_OPTION_KEYED, "forms_shipped", put_shipped, ""},
    {ROW(tune), HN_OPTION_FREE, NULL, NULL, "the records that come of it are in the key: tuning"},
    {ROW(tuning), HN_OPTION_FREE, NULL, NULL, "what the file has is in the key: tuning"},
    {ROW(tune_budget_ns), HN_OPTION_FREE, NULL, NULL, "as tune"},
    {ROW(tune_hints), HN_OPTION_KEYED, "hints", put_hints, ""},
    {ROW(tune_hint_count), HN_OPTION_KEYED, "hint_count", put_hint_count, ""},
    {ROW(tune_radius), HN_OPTION_FREE, NULL, NULL, "as tune"},
    {ROW(tune_fusion), HN_OPTION_FREE, NULL, NULL, "as tune"},
    {ROW(inputs), HN_OPTION_GUARDED, NULL, NULL, "decisions taken by sizes are guarded"},
    {ROW(input_count), HN_OPTION_GUARDED, NULL, NULL, "as inputs"},
    {ROW(dump_after), HN_OPTION_UNCACHED, NULL, NULL,
     "a program from the cache has no passes to show"},
    {ROW(dump), HN_OPTION_UNCACHED, NULL, NULL, "as dump_after"},
    {ROW(dump_context), HN_OPTION_UNCACHED, NULL, NULL, "as dump_after"},
    {ROW(source_dir), HN_OPTION_UNCACHED, NULL, NULL, "a project is written, not a program"},
    {ROW(safetensors), HN_OPTION_UNCACHED, NULL, NULL,
     "a file of weights is written beside the program"},
    {ROW(verify), HN_OPTION_FREE, NULL, NULL,
     "the file is compared with its checksums first; the program is the same"},
    {ROW(cache_dir), HN_OPTION_FREE, NULL, NULL, "where results are kept"},
    {ROW(remote_url), HN_OPTION_FREE, NULL, NULL, "where results are kept"},
    {ROW(no_cache), HN_OPTION_FREE, NULL, NULL, "whether results are kept"},
    {ROW(compile_threads), HN_OPTION_FREE, NULL, NULL,
     "how many compilers run at once; the units are the same"},
    {ROW(no_standby), HN_OPTION_FREE, NULL, NULL,
     "how compilers are started; the units are the same"},
    {ROW(metric_tables), HN_OPTION_FREE, NULL, NULL,
     "with tables, from wherever they are named, the graph cache is left out: compile_file.c"},
    {ROW(metric_dir), HN_OPTION_FREE, NULL, NULL, "where rows go"},
    {ROW(progress), HN_OPTION_FREE, NULL, NULL, "tells, and is told nothing"},
    {ROW(progress_context), HN_OPTION_FREE, NULL, NULL, "as progress"},
    {ROW(tune_progress), HN_OPTION_FREE, NULL, NULL, "as progress"},
    {ROW(tune_progress_context), HN_OPTION_FREE, NULL, NULL, "as progress"},
};
_Static_assert(sizeof rows / sizeof *rows <= HN_OPTION_ROWS_MAX,
               "hn_options.read has a bit for each row");

const hn_option_row *hn_option_rows(uint32_t *out_count) {
    *out_count = HN_COUNT_OF(rows);
    return rows;
}

void hn_options_init(hn_options *options, const hn_compile_options *given, hn_option_marks *marks) {
    static const hn_compile_options defaults;
    *options = (hn_options){.given = given ? given : &defaults,
                            .rows = rows,
                            .row_count = HN_COUNT_OF(rows),
                            .marks = marks};
}

static hn_status check_threads(const char *name, int32_t threads) {
    if (threads >= 0 && threads <= HN_THREADS_MAX) return NULL;
    return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' is %d, must be 1 to %d, or 0 for the default", name,
                    threads, HN_THREADS_MAX);
}

static hn_status check_sizes(const hn_input_sizes *in, uint32_t k) {
    if (in->rank > HN_TENSOR_MAX_RANK)
        return HN_ERROR(HN_INVALID_ARGUMENT, "input %u has %u dimensions, at most %d are possible",
                        k, in->rank, HN_TENSOR_MAX_RANK);
    if (in->rank && !in->sizes)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the sizes of input %u are NULL", k);
    for (uint32_t d = 0; d < in->rank; d++)
        if (in->sizes[d] < 0)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "input %u dimension %u is %lld, must not be negative", k, d,
                            (long long)in->sizes[d]);
    return NULL;
}

static hn_status check_memory(const hn_compile_options *o) {
    if ((uint32_t)o->memory_pool > HN_MEMORY_POOL_COMBINED)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'memory_pool' is %d", (int)o->memory_pool);
    if (o->donated_count && !o->donated)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'donated' is NULL, but 'donated_count' is %u",
                        o->donated_count);
    for (uint32_t k = 0; k < o->donated_count; k++)
        if (!o->donated[k]) return HN_ERROR(HN_INVALID_ARGUMENT, "name %u in 'donated' is NULL", k);
    return NULL;
}

enum { RADIUS_MOST = 4, SHIPPED_MOST = 32 };

static hn_status check_tuning(const hn_compile_options *o) {
    if ((uint32_t)o->tune > HN_TUNE_AGAIN)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'tune' is %d", (int)o->tune);
    if (o->tune && o->deterministic)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "'tune' and 'deterministic' are both set; what is measured is not the same "
                        "each time");
    if (o->tune && o->tuning && !*o->tuning)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "'tune' is set, and 'tuning' says that no records count");
    if (o->tune_budget_ns < 0)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'tune_budget_ns' is %lld, must not be negative",
                        (long long)o->tune_budget_ns);
    if (o->tune_radius < 0 || o->tune_radius > RADIUS_MOST)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'tune_radius' is %d, must be 0 to %d",
                        (int)o->tune_radius, RADIUS_MOST);
    if (o->forms_shipped < 0 || o->forms_shipped > SHIPPED_MOST)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'forms_shipped' is %d, must be 0 to %d",
                        (int)o->forms_shipped, SHIPPED_MOST);
    if (o->tune_hint_count && !o->tune_hints)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'tune_hints' is NULL, but 'tune_hint_count' is %u",
                        o->tune_hint_count);
    return NULL;
}

hn_status hn_options_validate(const hn_compile_options *o) {
    if (!o) return NULL;
    HN_TRY(check_threads("threads", o->threads));
    HN_TRY(check_threads("compile_threads", o->compile_threads));
    if (o->input_count && !o->inputs)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'inputs' is NULL, but 'input_count' is %u",
                        o->input_count);
    for (uint32_t k = 0; k < o->input_count; k++) HN_TRY(check_sizes(&o->inputs[k], k));
    HN_TRY(check_memory(o));
    HN_TRY(check_tuning(o));
    if (o->embed_weights && o->safetensors)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "'embed_weights' and 'safetensors' are both set; choose one");
    return NULL;
}

void hn_options_note(const hn_options *options, size_t offset) {
    for (uint32_t k = 0; k < options->row_count; k++) {
        if (options->rows[k].offset != offset) continue;
        options->marks->read |= (uint64_t)1 << k;
        return;
    }
    options->marks->stray = offset + 1;
}

uint32_t hn_options_threads(const hn_options *options) {
    hn_options_note(options, offsetof(hn_compile_options, threads));
    return threads_of(options->given);
}

const char *hn_options_forms(const hn_options *options) {
    hn_options_note(options, offsetof(hn_compile_options, forms));
    return forms_of(options->given);
}

bool hn_options_uncached(const hn_options *options) {
    for (uint32_t k = 0; k < options->row_count; k++) {
        const hn_option_row *row = &options->rows[k];
        const char *value = (const char *)options->given + row->offset;
        if (row->option_class != HN_OPTION_UNCACHED) continue;
        for (size_t i = 0; i < row->bytes; i++)
            if (value[i]) return true;
    }
    return false;
}

void hn_options_key(const hn_options *options, hn_strbuf *record) {
    for (uint32_t k = 0; k < options->row_count; k++)
        if (options->rows[k].option_class == HN_OPTION_KEYED && options->rows[k].put)
            options->rows[k].put(options, options->rows[k].field, record);
}

hn_status hn_options_check(const hn_options *options, hn_str record) {
    if (options->marks->stray)
        return HN_ERROR(
            HN_INTERNAL,
            "the option at byte %zu of hn_compile_options was read and has no row in driver/options.c",
            options->marks->stray - 1);
    for (uint32_t k = 0; k < options->row_count; k++) {
        const hn_option_row *row = &options->rows[k];
        hn_str value;
        if (!(options->marks->read >> k & 1) || row->option_class != HN_OPTION_KEYED) continue;
        if (!row->field || !hn_record_find(record, row->field, &value))
            return HN_ERROR(HN_INTERNAL,
                            "the option '%s' was read and is not in the key of the graph cache",
                            row->name);
    }
    return NULL;
}

bool hn_cache_check_is_on(void) {
    const char *text = getenv("HENRY_CACHE_CHECK");
    return text && *text && strcmp(text, "0") != 0;
}
