/* ceilings.c: ceilings from the cache, or measured now. */
#include "measure/ceilings.h"

#include "base/cpu.h"
#include "base/team.h"
#include "cache/cache.h"
#include "cache/record.h"
#include "runtime/device/device.h"
#include "runtime/load.h"

/* Of how they are measured: other loops give other ceilings. */
enum { REVISION = 1 };

double hn_ceiling_move_ns(const hn_ceiling_level *l, double read_bytes, double written_bytes) {
    const double bytes = read_bytes + written_bytes;
    if (!(bytes > 0)) return 0;
    const double share = written_bytes / bytes, copy = 1 / l->copy;
    const double end = share < 0.5 ? 1 / l->read : 1 / l->fill;
    const double way = share < 0.5 ? 1 - 2 * share : 2 * share - 1;
    return bytes * (copy + (end - copy) * way);
}

hn_ceiling_math hn_ceiling_math_of(hn_scalar_type type) {
    switch (type) {
    case HN_F64: return HN_CEILING_PRODUCTS_F64;
    case HN_F16:
    case HN_BF16: return HN_CEILING_PRODUCTS_HALF;
    default: return HN_CEILING_PRODUCTS;
    }
}

/* ---- identity ---- */

/* What tells two machines apart whose ceilings differ, as far as a machine knows it. */
static void add_host(hn_strbuf *record, int threads) {
    char name[64];
    int64_t caches[3];
    hn_cpu_name(name, sizeof name);
    hn_cpu_caches(caches);
    hn_record_add(record, "cpu", hn_str_of(name));
    hn_record_add(record, "level", hn_str_of(hn_cpu_level_host()->name));
    for (int k = 0; k < 3; k++)
        hn_record_add_i64(record, k == 0 ? "L1" : k == 1 ? "L2" : "L3", caches[k]);
    hn_record_add_i64(record, "memory", hn_ceilings_host_memory());
    hn_record_add_i64(record, "room", hn_ceilings_host_room());
    hn_record_add_i64(record, "processors", hn_team_default_threads());
    hn_record_add_i64(record, "threads", threads);
}

static void add_device(hn_strbuf *record, const hn_dev *dev) {
    hn_record_add_i64(record, "kind", dev->ops->kind);
    hn_record_add(record, "name", hn_str_of(dev->facts.name));
    hn_record_add_i64(record, "memory", (int64_t)dev->facts.memory_bytes);
}

/* ---- the cache ---- */

/* `dev` NULL: the host. */
typedef struct wanted {
    const hn_ceilings_options *options;
    hn_dev *dev;
    int threads;
} wanted;

static hn_status measure(const wanted *w, hn_ceilings *out) {
    return w->dev ? hn_ceilings_measure_device(w->dev, out)
                  : hn_ceilings_measure_host(w->threads, hn_ceilings_host_room(), out);
}

/* What is there but cannot be read is as if it were not there. */
static bool find(hn_cache *cache, const hn_digest *key, hn_ceilings *out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    bool is_found = hn_tuning_get(cache, key, &text);
    if (is_found) {
        hn_status status = hn_ceilings_parse(hn_strbuf_str(&text), out);
        is_found = !status;
        hn_status_free(status);
    }
    hn_strbuf_deinit(&text);
    return is_found;
}

static void keep(hn_cache *cache, const hn_digest *key, const hn_strbuf *record,
                 const hn_ceilings *ceilings) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_ceilings_print(ceilings, &text);
    if (!text.failed) hn_tuning_put(cache, key, hn_strbuf_str(&text), hn_strbuf_str(record));
    hn_strbuf_deinit(&text);
}

static hn_status get_with(hn_cache *cache, const hn_strbuf *record, const wanted *w,
                          hn_ceilings *out, bool *out_is_cached) {
    const hn_digest key = hn_digest_of(record->ptr, record->len);
    *out_is_cached = !w->options->anew && find(cache, &key, out);
    if (*out_is_cached) return NULL;
    HN_TRY(measure(w, out));
    keep(cache, &key, record, out);
    return NULL;
}

/* On this disk alone: another machine with the same processor may have other memory. */
static hn_status get_kept(const hn_strbuf *record, const wanted *w, hn_ceilings *out,
                          bool *out_is_cached) {
    hn_store *store;
    hn_cache cache;
    HN_TRY(hn_store_open(&(hn_store_options){.dir = w->options->cache_dir}, &store));
    hn_status status = hn_cache_init(store, "", &cache);
    if (!status) {
        status = get_with(&cache, record, w, out, out_is_cached);
        hn_cache_deinit(&cache);
    }
    hn_store_close(store);
    return status;
}

static hn_status get(const wanted *w, hn_ceilings *out, bool *out_is_cached) {
    if (w->options->no_cache) return measure(w, out);
    hn_strbuf record;
    hn_strbuf_init(&record);
    hn_record_add_i64(&record, "ceilings", REVISION);
    if (w->dev) add_device(&record, w->dev);
    else add_host(&record, w->threads);
    hn_status status = hn_strbuf_status(&record);
    if (!status) status = get_kept(&record, w, out, out_is_cached);
    hn_strbuf_deinit(&record);
    return status;
}

static hn_status get_of_device(wanted w, hn_ceilings *out, bool *out_is_cached) {
    const hn_device device = w.options->device;
    const hn_device_ops *ops = hn_device_ops_of(device.kind);
    if (!ops) return HN_ERROR(HN_NOT_FOUND, "this library has no such kind of device");
    HN_TRY(hn_dev_open(ops, &(hn_device_options){.number = device.number}, &w.dev));
    hn_status status = get(&w, out, out_is_cached);
    if (!status) out->device = device; /* of two that are equal, one was measured */
    hn_dev_release(w.dev);
    return status;
}

/* Of the CPU with as many threads, or of the device. */
static bool find_known(const hn_ceilings_options *o, int threads, hn_ceilings *out) {
    for (uint32_t k = 0; k < o->known_count; k++) {
        const hn_ceilings *c = &o->known[k];
        if (c->device.kind != o->device.kind || c->device.number != o->device.number ||
            (c->threads && c->threads != threads))
            continue;
        *out = *c;
        return true;
    }
    return false;
}

hn_status hn_ceilings_get(const hn_ceilings_options *options, hn_ceilings *out,
                          bool *out_is_cached) {
    bool ignored;
    wanted w = {.options = options, .threads = options->threads};
    if (!out_is_cached) out_is_cached = &ignored;
    *out_is_cached = false;
    if (w.threads < 1) w.threads = hn_threads_default();
    if (find_known(options, w.threads, out)) return NULL;
    if (options->device.kind != hn_device_ops_of_host()->kind)
        return get_of_device(w, out, out_is_cached);
    return get(&w, out, out_is_cached);
}
