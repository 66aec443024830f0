/* list.c: lists of tuning records, and files of them. */
#include "tune/list.h"

#include "base/file.h"
#include "base/log.h"

#include <stdlib.h>

void hn_tuning_list_init(hn_tuning_list *list, hn_arena *arena) {
    *list = (hn_tuning_list){.arena = arena};
    hn_strmap_init(&list->places, arena);
    hn_strmap_init(&list->kernels, arena);
}

/* ---- adding, finding ---- */

static hn_str bytes_of(const hn_digest *digest) {
    return (hn_str){(const char *)digest->bytes, sizeof digest->bytes};
}

/* Behind the ones of its kernel. `identity` lives in the arena. */
static hn_status append(hn_tuning_list *list, const hn_tuning_record *record,
                        const hn_digest *identity) {
    hn_digest *kernel;
    const uint64_t *last = hn_strmap_get(&list->kernels, bytes_of(&record->digest));
    HN_NEW(list->arena, kernel, 1);
    *kernel = record->digest;
    HN_PUSH(list->arena, &list->before, last ? (uint32_t)*last : 0);
    HN_PUSH(list->arena, list, *record);
    HN_TRY(hn_strmap_put(&list->kernels, bytes_of(kernel), list->count));
    return hn_strmap_put(&list->places, bytes_of(identity), list->count - 1);
}

hn_status hn_tuning_list_add(hn_tuning_list *list, const hn_tuning_record *record) {
    hn_digest *identity;
    HN_NEW(list->arena, identity, 1);
    *identity = hn_tuning_record_identity(record);
    const uint64_t *place = hn_strmap_get(&list->places, bytes_of(identity));
    if (!place) return append(list, record, identity);
    list->items[*place] = *record;
    return NULL;
}

const hn_tuning_record *hn_tuning_list_find(const hn_tuning_list *list, const hn_digest *identity) {
    const uint64_t *place = hn_strmap_get(&list->places, bytes_of(identity));
    return place ? &list->items[*place] : NULL;
}

const hn_tuning_record *hn_tuning_list_next(const hn_tuning_list *list, const hn_digest *kernel,
                                            uint32_t *at) {
    if (*at) {
        *at = list->before.items[*at - 1];
    } else {
        const uint64_t *last = hn_strmap_get(&list->kernels, bytes_of(kernel));
        *at = last ? (uint32_t)*last : 0;
    }
    return *at ? &list->items[*at - 1] : NULL;
}

/* ---- reading ---- */

static hn_str trim(hn_str line) {
    while (line.len && strchr(" \t\r", line.ptr[line.len - 1])) line.len--;
    while (line.len && strchr(" \t\r", *line.ptr)) line.ptr++, line.len--;
    return line;
}

/* Takes the line off the front. */
static hn_str next_line(hn_str *rest) {
    const char *end = memchr(rest->ptr, '\n', rest->len);
    const size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
    const hn_str line = {rest->ptr, len};
    rest->ptr += len + (end != NULL), rest->len -= len + (end != NULL);
    return line;
}

static void note(hn_tuning_damage *damage, uint32_t line, const char *what) {
    if (damage->lines++) return;
    damage->first = line;
    snprintf(damage->what, sizeof damage->what, "%s", what);
}

/* NULL: the line was added, or noted. */
static hn_status add_line(hn_tuning_list *list, hn_str line, uint32_t number,
                          hn_tuning_damage *damage) {
    hn_tuning_record record;
    hn_status status = hn_tuning_record_parse(list->arena, line, &record);
    if (!status) return hn_tuning_list_add(list, &record);
    if (hn_status_code(status) == HN_OUT_OF_MEMORY) return status;
    note(damage, number, hn_status_message(status));
    hn_status_free(status);
    return NULL;
}

hn_status hn_tuning_list_parse(hn_tuning_list *list, hn_str text, hn_tuning_damage *out_damage) {
    *out_damage = (hn_tuning_damage){.lines = 0};
    for (uint32_t number = 1; text.len; number++) {
        const hn_str line = trim(next_line(&text));
        if (!line.len) continue;
        if (list->count == HN_TUNING_RECORDS_MAX) {
            note(out_damage, number, "expected at most 65536 records; the rest is left out");
            break;
        }
        HN_TRY(add_line(list, line, number, out_damage));
    }
    return NULL;
}

void hn_tuning_damage_warn(const hn_tuning_damage *damage, const char *where) {
    if (!damage->lines) return;
    if (damage->lines == 1)
        hn_log("tune", HN_LOG_WARN, "tuning records of %s: line %u is left out: %s", where,
               damage->first, damage->what);
    else
        hn_log("tune", HN_LOG_WARN,
               "tuning records of %s: %u lines are left out; the first, line %u: %s", where,
               damage->lines, damage->first, damage->what);
}

/* The file's bytes in the arena: strings of records are in them. */
static hn_status read_bytes(hn_arena *arena, const char *path, hn_str *out) {
    hn_file_map map;
    HN_TRY(hn_file_map_init(&map, path));
    const bool is_too_large = map.size_bytes > HN_TUNING_BYTES_MAX;
    char *copy =
        is_too_large ? NULL : hn_arena_strndup(arena, (const char *)map.data, map.size_bytes);
    *out = (hn_str){copy, map.size_bytes};
    hn_file_map_deinit(&map);
    if (is_too_large)
        return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' has more than %zu MiB: no tuning records", path,
                        HN_TUNING_BYTES_MAX >> 20);
    return copy ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for '%s'", path);
}

hn_status hn_tuning_list_read(hn_tuning_list *list, const char *path) {
    hn_str text;
    hn_tuning_damage damage;
    HN_TRY(read_bytes(list->arena, path, &text));
    HN_TRY(hn_tuning_list_parse(list, text, &damage));
    char *where = hn_arena_printf(list->arena, "'%s'", path);
    hn_tuning_damage_warn(&damage, where ? where : "a file");
    return NULL;
}

/* ---- writing ---- */

static int compare(hn_str a, hn_str b) {
    const size_t len = a.len < b.len ? a.len : b.len;
    const int order = len ? memcmp(a.ptr, b.ptr, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_sizes(const hn_tuning_record *a, const hn_tuning_record *b) {
    for (uint32_t k = 0; k < a->size_count && k < b->size_count; k++)
        if (a->sizes[k] != b->sizes[k]) return a->sizes[k] < b->sizes[k] ? -1 : 1;
    return (a->size_count > b->size_count) - (a->size_count < b->size_count);
}

static int by_place(const void *a, const void *b) {
    const hn_tuning_record *x = *(const hn_tuning_record *const *)a,
                           *y = *(const hn_tuning_record *const *)b;
    int order = compare(x->kernel, y->kernel);
    if (!order) order = memcmp(&x->digest, &y->digest, sizeof x->digest);
    if (!order) order = compare(x->device, y->device);
    if (order) return order;
    const hn_digest xs = hn_tuning_record_set(x), ys = hn_tuning_record_set(y);
    order = memcmp(&xs, &ys, sizeof xs);
    return order ? order : compare_sizes(x, y);
}

void hn_tuning_list_print(const hn_tuning_list *list, hn_strbuf *out) {
    const hn_tuning_record **sorted = calloc((size_t)list->count + 1, sizeof(void *));
    if (!sorted) out->failed = true;
    for (uint32_t k = 0; sorted && k < list->count; k++) sorted[k] = &list->items[k];
    if (sorted) qsort(sorted, list->count, sizeof(void *), by_place);
    for (uint32_t k = 0; sorted && k < list->count; k++) hn_tuning_record_print(sorted[k], out);
    free(sorted);
}

hn_status hn_tuning_list_write(const hn_tuning_list *list, const char *path) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_tuning_list_print(list, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = hn_file_write_atomic(path, hn_strbuf_str(&text).ptr, text.len, false);
    hn_strbuf_deinit(&text);
    return status;
}
