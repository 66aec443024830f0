/* graph_cache.c: see graph_cache.h. The entry of a program is: what leads to it, the statistics of
 * the compilation, the keys of the kernels, the image. The kernels are not needed to run it; `henry
 * cache export` takes them along, for programs that share some of them. */
#include "driver/graph_cache.h"

#include "bundle/view.h"
#include "bundle/weights.h"
#include "driver/graph_guards.h"
#include "driver/graph_index.h"

#include <string.h>

enum { KERNELS_MAX = 1 << 16 };

/* The fixed part of the payload. */
typedef struct graph_head {
    hn_digest compiler, base, table; /* keys of the entries that lead here */
    /* where the weights lay in the file that it was compiled from */
    hn_digest places;
    hn_compile_stats stats;
    hn_metrics metrics;
    uint32_t kernel_count, reserved;
} graph_head;

typedef struct graph_entry {
    graph_head head;
    hn_str kernels, image; /* borrowed; keys one after another */
} graph_entry;

static bool parse(const hn_store_entry *entry, graph_entry *out) {
    if (entry->len < sizeof out->head) return false;
    memcpy(&out->head, entry->bytes, sizeof out->head);
    hn_str rest = {(const char *)entry->bytes + sizeof out->head, entry->len - sizeof out->head};
    size_t len = (size_t)out->head.kernel_count * sizeof(hn_digest);
    if (out->head.kernel_count > KERNELS_MAX || rest.len < len) return false;
    out->kernels = (hn_str){rest.ptr, len};
    out->image = (hn_str){rest.ptr + len, rest.len - len};
    return true;
}

/* ---- compilers ---- */

bool hn_graph_cache_compiler(hn_cache *cache, const hn_digest *bare, hn_strbuf *out) {
    hn_store_entry entry;
    hn_digest key = hn_graph_compiler_key(bare);
    if (hn_cache_get(cache, HN_STORE_INDEX, &key, &entry) == HN_LEVEL_NONE) return false;
    hn_strbuf_append(out, (const char *)entry.bytes, entry.len);
    hn_store_entry_deinit(&entry);
    return !out->failed;
}

/* Of several compilers the last one: its programs are the newest. */
static void put_compiler(const hn_graph_query *q, const hn_graph_place *place) {
    hn_strbuf stored;
    hn_strbuf_init(&stored);
    if (!hn_graph_cache_compiler(q->cache, &q->bare, &stored) ||
        !hn_str_eq(hn_strbuf_str(&stored), q->compiler))
        hn_cache_put(q->cache, &(hn_store_put_args){.ns = HN_STORE_INDEX,
                                                    .key = &place->compiler,
                                                    .bytes = q->compiler.ptr,
                                                    .len = q->compiler.len});
    hn_strbuf_deinit(&stored);
}

/* ---- getting ---- */

/* Whether the image may be used with this file, and makes it one for this file. */
static bool fit_file(const hn_graph_query *q, const graph_entry *graph, hn_compiled *c) {
    hn_digest places;
    if (!hn_graph_file_verified(q, &places)) return false;
    if (memcmp(&places, &graph->head.places, sizeof places) != 0) return false;
    return hn_bundle_weight_file_set(c->image.ptr, q->path, q->file->map.data,
                                     q->file->map.size_bytes);
}

static hn_cache_level get_program(const hn_graph_query *q, const hn_digest *key, hn_compiled *c) {
    hn_store_entry entry;
    graph_entry graph;
    hn_bundle view;
    hn_cache_level level = hn_cache_get(q->cache, HN_STORE_GRAPH, key, &entry);
    if (level == HN_LEVEL_NONE) return level;
    bool good = parse(&entry, &graph);
    hn_strbuf_reset(&c->image);
    if (good) hn_strbuf_append(&c->image, graph.image.ptr, graph.image.len);
    hn_status status =
        good && !c->image.failed ? hn_bundle_open(c->image.ptr, c->image.len, false, &view) : NULL;
    good = good && !c->image.failed && !status && fit_file(q, &graph, c);
    if (good) c->stats = graph.head.stats;
    if (good) c->metrics = graph.head.metrics;
    if (good) c->stats.time_saved_ns = entry.made_ns;
    hn_status_free(status);
    hn_store_entry_deinit(&entry);
    return good ? level : HN_LEVEL_NONE;
}

hn_cache_level hn_graph_cache_get(const hn_graph_query *q, const hn_input_sizes *inputs,
                                  uint32_t input_count, hn_compiled *c) {
    hn_digest key;
    return hn_graph_index_find(q, inputs, input_count, &key) ? get_program(q, &key, c)
                                                             : HN_LEVEL_NONE;
}

/* ---- putting ---- */

/* The guards of a program, from its image. */
static hn_status guards_of(const hn_compiled *c, hn_strbuf *out) {
    hn_bundle view;
    HN_TRY(hn_bundle_open(c->image.ptr, c->image.len, false, &view));
    return hn_graph_guards_write(&view, out);
}

static void put_program(const hn_graph_query *q, const hn_graph_place *place, const hn_digest *key,
                        const hn_compiled *c, const hn_digest *kernels, uint32_t kernel_count) {
    graph_head head = {.compiler = place->compiler,
                       .base = place->base,
                       .table = place->table,
                       .places = place->places,
                       .stats = c->stats,
                       .metrics = c->metrics};
    hn_strbuf bytes, record;
    hn_metrics_keep_cached(&head.metrics);
    head.kernel_count = kernel_count > KERNELS_MAX ? 0 : kernel_count;
    hn_strbuf_init(&bytes);
    hn_strbuf_init(&record);
    hn_strbuf_append(&bytes, (const char *)&head, sizeof head);
    hn_strbuf_append(&bytes, (const char *)kernels, head.kernel_count * sizeof *kernels);
    hn_strbuf_append(&bytes, c->image.ptr, c->image.len);
    const hn_compile_stats *s = &c->stats;
    int64_t made_ns = s->import_ns + s->opt_ns + s->lower_ns + s->sched_ns + s->codegen_ns +
                      s->count_ns + s->compile_ns + s->bundle_ns;
    hn_graph_place_record(q, place, &record);
    if (!bytes.failed && !record.failed)
        hn_cache_put(q->cache, &(hn_store_put_args){.ns = HN_STORE_GRAPH,
                                                    .key = key,
                                                    .bytes = bytes.ptr,
                                                    .len = bytes.len,
                                                    .record = hn_strbuf_str(&record),
                                                    .made_ns = made_ns});
    hn_strbuf_deinit(&record);
    hn_strbuf_deinit(&bytes);
}

void hn_graph_cache_put(const hn_graph_query *q, const hn_compiled *c, bool is_default,
                        const hn_digest *kernels, uint32_t kernel_count) {
    hn_graph_place place;
    hn_strbuf guards;
    hn_digest key;
    hn_strbuf_init(&guards);
    hn_status status = guards_of(c, &guards);
    if (!status) status = hn_graph_index_place(q, &place);
    if (!status) {
        key = hn_graph_program_key(&place, hn_strbuf_str(&guards));
        put_program(q, &place, &key, c, kernels, kernel_count);
        put_compiler(q, &place);
        hn_graph_index_add(q, &place, &(hn_variant){key, is_default, hn_strbuf_str(&guards)});
        hn_graph_file_mark(q, &place.places);
    }
    hn_status_free(status);
    hn_strbuf_deinit(&guards);
}

/* ---- listing ---- */

static hn_status list_program(hn_cache *cache, const hn_digest *key, bool with_index,
                              hn_entry_list *out) {
    hn_store_entry entry;
    graph_entry graph;
    if (hn_cache_get(cache, HN_STORE_GRAPH, key, &entry) == HN_LEVEL_NONE)
        return HN_ERROR(HN_NOT_FOUND, "the cache does not have the program");
    bool good = parse(&entry, &graph);
    hn_entry_list_add(out, HN_STORE_GRAPH, key);
    if (good && with_index) hn_entry_list_add(out, HN_STORE_INDEX, &graph.head.compiler);
    if (good && with_index) hn_entry_list_add(out, HN_STORE_INDEX, &graph.head.base);
    if (good && with_index) hn_entry_list_add(out, HN_STORE_INDEX, &graph.head.table);
    for (uint32_t k = 0; good && k < graph.head.kernel_count; k++) {
        hn_digest kernel;
        memcpy(&kernel, graph.kernels.ptr + k * sizeof kernel, sizeof kernel);
        hn_entry_list_add(out, HN_STORE_KERNEL, &kernel);
    }
    hn_store_entry_deinit(&entry);
    return good ? hn_entry_list_status(out)
                : HN_ERROR(HN_CORRUPT, "the program in the cache is of another build of Henry");
}

hn_status hn_graph_cache_list(hn_cache *cache, const hn_digest *key, hn_entry_list *out) {
    return list_program(cache, key, true, out);
}

typedef struct lister {
    hn_cache *cache;
    hn_entry_list *out;
    uint32_t programs;
} lister;

static void visit_list(void *user, const hn_variant *variant) {
    lister *l = user;
    hn_status status = list_program(l->cache, &variant->key, l->programs == 0, l->out);
    l->programs += !status;
    hn_status_free(status); /* evicted, say: the others are worth having */
}

hn_status hn_graph_cache_list_model(const hn_graph_query *q, hn_entry_list *out) {
    lister l = {.cache = q->cache, .out = out};
    hn_status status = hn_graph_index_each(q, visit_list, &l);
    if (!status && !l.programs)
        status = HN_ERROR(HN_NOT_FOUND, "the cache does not have the program");
    return status ? status : hn_entry_list_status(out);
}

static void visit_why(void *user, const hn_variant *variant) {
    hn_strbuf *out = user;
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(&variant->key, hex);
    hn_strbuf_printf(out, "program %.12s%s takes ", hex,
                     variant->is_default ? "" : ", for certain sizes,");
    hn_status status = hn_graph_guards_describe(variant->guards, out);
    if (status) hn_strbuf_puts(out, "sizes that cannot be told");
    hn_status_free(status);
    hn_strbuf_putc(out, '\n');
}

/* Which records were computed with is known of a graph that was compiled: of another one, that
 * field says nothing. */
static void drop_values(hn_strbuf *text) {
    static const char field[] = "field 'values' ";
    char *line = text->ptr ? strstr(text->ptr, field) : NULL;
    if (!line || (line == text->ptr && strchr(line, '\n') == text->ptr + text->len - 1)) return;
    char *end = strchr(line, '\n');
    size_t cut = end ? (size_t)(end + 1 - line) : 0;
    memmove(line, line + cut, text->len - (size_t)(line - text->ptr) - cut + 1);
    text->len -= cut;
}

hn_status hn_graph_cache_why(const hn_graph_query *q, hn_strbuf *out) {
    hn_graph_place place;
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_status status = hn_graph_index_place(q, &place);
    if (!status) hn_graph_place_record(q, &place, &record);
    if (!status)
        status = hn_store_why(q->cache->store, HN_STORE_GRAPH, hn_strbuf_str(&record), out);
    hn_strbuf_deinit(&record);
    if (status) return status;
    drop_values(out);
    status = hn_graph_index_each(q, visit_why, out);
    if (hn_status_code(status) != HN_NOT_FOUND) return status;
    hn_status_free(status);
    return NULL;
}
