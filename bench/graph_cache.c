/* graph_cache.c: what a program from the cache costs: the whole of hn_compile_file for a program
 * that is there, the same for a copy of the model that this machine has not seen (its weights are
 * verified first), finding the last one of a full table of variants, and, with HENRY_REDIS_URL,
 * hits in the remote cache.
 *
 *     build/bench_graph_cache [--json] MODEL.pt2...
 *
 * --json: a line for each model, and one for the variants. */
#include "bench/median.h"
#include "cache/cache.h"
#include "cache/variants.h"
#include "driver/graph_guards.h"
#include "henry/program.h"

#include "base/file.h"
#include "base/trace.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 101, COPIES = 11 };

static void check(hn_status status) {
    if (!status) return;
    fprintf(stderr, "bench_graph_cache: %s\n", hn_status_message(status));
    exit(1);
}

static double us_since(int64_t begin_ns) { return (double)(hn_now_ns() - begin_ns) / 1e3; }

/* Microseconds. */
static double compile(const char *path, const char *cache, hn_cache_state want) {
    hn_compile_options options = {.cache_dir = cache, .remote_url = ""};
    hn_compiled *c;
    hn_compile_stats stats;
    int64_t begin = hn_now_ns();
    check(hn_compile_file(path, &options, &c));
    double spent = us_since(begin);
    hn_compiled_stats_get(c, &stats);
    if (stats.graph_cache != want)
        check(HN_ERROR(HN_INTERNAL, "'%s' was no %s", path, want == HN_CACHE_HIT ? "hit" : "miss"));
    hn_compiled_release(c);
    return spent;
}

static void bench_model(const char *path, const char *root, bool as_json) {
    double times[ROUNDS], copies[COPIES];
    char cache[PATH_MAX], copy[PATH_MAX];
    hn_file_map map;
    snprintf(cache, sizeof cache, "%s/cache", root);
    check(hn_dir_create(cache));
    double cold = compile(path, cache, HN_CACHE_MISS);
    for (int k = 0; k < ROUNDS; k++) times[k] = compile(path, cache, HN_CACHE_HIT);
    check(hn_file_map_init(&map, path));
    for (int k = 0; k < COPIES; k++) {
        snprintf(copy, sizeof copy, "%s/copy%d.pt2", root, k);
        check(hn_file_write_atomic(copy, map.data, map.size_bytes, false));
        copies[k] = compile(copy, cache, HN_CACHE_HIT);
        remove(copy);
    }
    if (as_json)
        printf(
            "{\"model\": \"%s\", \"bytes\": %zu, \"cold_us\": %.0f, \"hit_us\": %.0f, \"copy_hit_us\": %.0f, \"rounds\": %d, \"copies\": %d}\n",
            path, map.size_bytes, cold, median(times, ROUNDS), median(copies, COPIES), ROUNDS,
            COPIES);
    else
        printf(
            "%s (%.1f MB)\n  cold               %10.0f us\n  hit                %10.0f us, median of %d\n"
            "  hit of a new copy  %10.0f us, median of %d\n",
            path, (double)map.size_bytes / 1e6, cold, median(times, ROUNDS), ROUNDS,
            median(copies, COPIES), COPIES);
    hn_file_map_deinit(&map);
    check(hn_dir_remove(cache));
}

/* A full table of programs for one size each. */
static void make_table(hn_strbuf *table) {
    const hnb_input input = {.kind = HNB_VALUE_TENSOR, .rank = 1};
    const hnb_symbol symbol = {.input = 0, .dim = 0, .coeff = 1};
    for (int64_t k = 0; k < HN_VARIANTS_MAX; k++) {
        const hnb_node nodes[3] = {{0, 0, 0}, {HNB_OP_SYMBOL, 0, 0}, {HNB_OP_CONST, 0, 8 * k}};
        const hnb_guard guard = {.relation = HNB_EQ, .lhs = 1, .rhs = 2};
        const hn_bundle bundle = {.nodes = nodes,
                                  .nodes_count = 3,
                                  .symbols = &symbol,
                                  .symbols_count = 1,
                                  .guards = &guard,
                                  .guards_count = 1,
                                  .inputs = &input,
                                  .inputs_count = 1};
        hn_strbuf guards, next;
        hn_strbuf_init(&guards);
        hn_strbuf_init(&next);
        check(hn_graph_guards_write(&bundle, &guards));
        check(hn_variants_add(
            hn_strbuf_str(table),
            &(hn_variant){hn_digest_of(&k, sizeof k), k == 0, hn_strbuf_str(&guards)}, &next));
        hn_strbuf_deinit(table);
        hn_strbuf_deinit(&guards);
        *table = next;
    }
}

/* The variant that is looked at last. */
static void bench_variants(const char *root, bool as_json) {
    hn_strbuf table;
    hn_store *store;
    double memory[ROUNDS], disk[ROUNDS];
    hn_digest key = hn_digest_of("table", 5), found;
    hn_strbuf_init(&table);
    make_table(&table);
    check(hn_store_open(&(hn_store_options){.dir = root}, &store));
    hn_store_put(store,
                 &(hn_store_put_args){
                     .ns = HN_STORE_INDEX, .key = &key, .bytes = table.ptr, .len = table.len});
    for (int k = 0; k < ROUNDS; k++) {
        const int64_t size = 8 * (HN_VARIANTS_MAX - 1);
        const hn_input_sizes input = {.rank = 1, .sizes = &size};
        hn_store_entry entry;
        int64_t begin = hn_now_ns();
        bool hit = hn_graph_guards_find(hn_strbuf_str(&table), &input, 1, &found);
        memory[k] = us_since(begin);
        begin = hn_now_ns();
        if (hn_store_get(store, HN_STORE_INDEX, &key, &entry)) {
            hit = hit && hn_graph_guards_find((hn_str){(const char *)entry.bytes, entry.len},
                                              &input, 1, &found);
            hn_store_entry_deinit(&entry);
        }
        disk[k] = us_since(begin);
        if (!hit) check(HN_ERROR(HN_INTERNAL, "a variant was not found"));
    }
    if (as_json)
        printf("{\"variants\": %d, \"table_bytes\": %zu, \"memory_us\": %.2f, \"disk_us\": %.2f}\n",
               HN_VARIANTS_MAX, table.len, median(memory, ROUNDS), median(disk, ROUNDS));
    else
        printf(
            "the last of %d variants (table of %zu KB)\n  in memory          %10.2f us\n  from the disk      %10.2f us\n",
            HN_VARIANTS_MAX, table.len / 1000, median(memory, ROUNDS), median(disk, ROUNDS));
    hn_store_close(store);
    hn_strbuf_deinit(&table);
}

/* An entry that only the server has, from the request to verified bytes. */
static void bench_remote(const char *url, size_t bytes) {
    hn_store *store;
    hn_cache cache;
    double times[ROUNDS];
    uint8_t *value = malloc(bytes);
    hn_digest key = hn_digest_of(&bytes, sizeof bytes);
    if (!value) check(HN_ERROR(HN_OUT_OF_MEMORY, "no memory"));
    for (size_t k = 0; k < bytes; k++) value[k] = (uint8_t)(k * 2654435761u >> 11);
    check(hn_store_open(&(hn_store_options){.dir = ""}, &store));
    check(hn_cache_init(store, url, &cache));
    hn_cache_put(
        &cache,
        &(hn_store_put_args){
            .ns = HN_STORE_TUNING, .key = &key, .bytes = value, .len = bytes, .lifetime_s = 60});
    for (int k = 0; k < ROUNDS; k++) {
        hn_store_entry entry;
        int64_t begin = hn_now_ns();
        bool hit = hn_cache_get(&cache, HN_STORE_TUNING, &key, &entry) == HN_LEVEL_REMOTE &&
                   entry.len == bytes;
        times[k] = us_since(begin);
        if (!hit) check(HN_ERROR(HN_NOT_FOUND, "the server did not have the entry"));
        hn_store_entry_deinit(&entry);
    }
    printf("remote hit of %7zu bytes %10.0f us, median of %d\n", bytes, median(times, ROUNDS),
           ROUNDS);
    hn_cache_deinit(&cache);
    hn_store_close(store);
    free(value);
}

int main(int argc, char **argv) {
    char root[PATH_MAX - 64];
    check(hn_dir_temp(root, sizeof root));
    bool as_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    for (int k = as_json ? 2 : 1; k < argc; k++) bench_model(argv[k], root, as_json);
    bench_variants(root, as_json);
    const char *url = getenv("HENRY_REDIS_URL");
    if (url && *url) bench_remote(url, 5000);
    if (url && *url) bench_remote(url, 1 << 20);
    check(hn_dir_remove(root));
    return 0;
}
