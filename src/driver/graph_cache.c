/* graph_cache.c: see graph_cache.h. An entry is: the statistics of the compilation, the number of kernels, the keys of the
 * kernels, the image. The kernels are not needed to run it; `henry cache export` takes them along, for programs that share
 * some of them. */
#include "driver/graph_cache.h"

#include "bundle/view.h"

#include <string.h>

enum { KERNELS_MAX = 1 << 16 };

typedef struct graph_entry {
    hn_compile_stats stats;
    uint32_t kernel_count;
    hn_str kernels, image; /* borrowed; keys one after another */
} graph_entry;

static bool take(hn_str *rest, void *out, size_t len) {
    if (rest->len < len) return false;
    memcpy(out, rest->ptr, len);
    *rest = (hn_str){rest->ptr + len, rest->len - len};
    return true;
}

static bool parse(const hn_store_entry *entry, graph_entry *out) {
    hn_str rest = {(const char *)entry->bytes, entry->len};
    if (!take(&rest, &out->stats, sizeof out->stats) || !take(&rest, &out->kernel_count, sizeof out->kernel_count)) return false;
    size_t len = (size_t)out->kernel_count * sizeof(hn_digest);
    if (out->kernel_count > KERNELS_MAX || rest.len < len) return false;
    out->kernels = (hn_str){rest.ptr, len};
    out->image = (hn_str){rest.ptr + len, rest.len - len};
    return true;
}

hn_cache_level hn_graph_cache_get(hn_cache *cache, const hn_digest *key, hn_compiled *c) {
    hn_store_entry entry;
    graph_entry graph;
    hn_cache_level level = hn_cache_get(cache, HN_STORE_GRAPH, key, &entry);
    if (level == HN_LEVEL_NONE) return level;
    bool good = parse(&entry, &graph);
    if (good) {
        c->stats = graph.stats;
        hn_strbuf_append(&c->image, graph.image.ptr, graph.image.len);
        good = !c->image.failed;
    }
    hn_store_entry_deinit(&entry);
    hn_bundle view;
    hn_status status = good ? hn_bundle_open(c->image.ptr, c->image.len, false, &view) : NULL;
    good = good && !status;
    hn_status_free(status);
    return good ? level : HN_LEVEL_NONE;
}

void hn_graph_cache_put(hn_cache *cache, const hn_digest *key, hn_str record, const hn_compiled *c, const hn_digest *kernels,
                        uint32_t kernel_count) {
    hn_strbuf bytes;
    if (kernel_count > KERNELS_MAX) kernel_count = 0;
    hn_strbuf_init(&bytes);
    hn_strbuf_append(&bytes, (const char *)&c->stats, sizeof c->stats);
    hn_strbuf_append(&bytes, (const char *)&kernel_count, sizeof kernel_count);
    hn_strbuf_append(&bytes, (const char *)kernels, kernel_count * sizeof *kernels);
    hn_strbuf_append(&bytes, c->image.ptr, c->image.len);
    if (!bytes.failed)
        hn_cache_put(cache, &(hn_store_put_args){.ns = HN_STORE_GRAPH, .key = key, .bytes = bytes.ptr, .len = bytes.len, .record = record});
    hn_strbuf_deinit(&bytes);
}

hn_status hn_graph_cache_list(hn_cache *cache, const hn_digest *key, hn_entry_list *out) {
    hn_store_entry entry;
    graph_entry graph;
    if (hn_cache_get(cache, HN_STORE_GRAPH, key, &entry) == HN_LEVEL_NONE) return HN_ERROR(HN_NOT_FOUND, "the cache does not have the program");
    bool good = parse(&entry, &graph);
    hn_entry_list_add(out, HN_STORE_GRAPH, key);
    for (uint32_t k = 0; good && k < graph.kernel_count; k++) {
        hn_digest kernel;
        memcpy(&kernel, graph.kernels.ptr + k * sizeof kernel, sizeof kernel);
        hn_entry_list_add(out, HN_STORE_KERNEL, &kernel);
    }
    hn_store_entry_deinit(&entry);
    return good ? hn_entry_list_status(out) : HN_ERROR(HN_CORRUPT, "the program in the cache is of another build of Henry");
}
