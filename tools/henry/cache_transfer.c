/* cache_transfer.c: `henry cache export` and `henry cache import`: what one program needs, as one
 * file. */
#include "source.h"

#include "base/file.h"
#include "cache/transfer.h"
#include "driver/graph_cache.h"

#include <stdio.h>

/* A model's program, or an entry by its key; a program takes its kernels along. */
static hn_status list_one(const tool_options *o, hn_cache *cache, const char *word,
                          hn_entry_list *list) {
    if (hn_file_exists(word)) {
        hn_compile_options options = {0};
        tool_compile_options(o, &options);
        return hn_driver_list_entries(word, &options, list);
    }
    hn_entry_list found = {0};
    hn_status status = hn_store_find(cache->store, word, &found);
    for (uint32_t k = 0; k < found.count && !status; k++) {
        hn_entry_list_add(list, found.items[k].ns, &found.items[k].key);
        if (found.items[k].ns == HN_STORE_GRAPH)
            status = hn_graph_cache_list(cache, &found.items[k].key, list);
    }
    hn_entry_list_deinit(&found);
    return status ? status : hn_entry_list_status(list);
}

static void report_json(const char *path, const hn_transfer_report *r, const char *extra,
                        uint64_t extra_count, tool_json *json) {
    tool_json_str(json, "file", path);
    tool_json_int(json, "bytes", (int64_t)r->bytes);
    for (uint32_t k = 0; k < HN_STORE_NS_COUNT; k++)
        if (k != HN_STORE_TOOLCHAIN)
            tool_json_int(json, hn_store_ns_name((hn_store_ns)k), (int64_t)r->entries[k]);
    tool_json_int(json, extra, (int64_t)extra_count);
}

static hn_status print_report(const tool_options *o, const char *path, const hn_transfer_report *r,
                              const char *extra, uint64_t extra_count) {
    if (o->json) {
        tool_json json;
        tool_json_init(&json);
        report_json(path, r, extra, extra_count, &json);
        hn_status status = tool_json_finish(&json, true, NULL);
        tool_json_deinit(&json);
        return status;
    }
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "%s: %llu bytes", path, (unsigned long long)r->bytes);
    for (uint32_t k = 0; k < HN_STORE_NS_COUNT; k++)
        if (k != HN_STORE_TOOLCHAIN)
            hn_strbuf_printf(&text, ", %llu %s", (unsigned long long)r->entries[k],
                             hn_store_ns_name((hn_store_ns)k));
    hn_strbuf_printf(&text, ", %llu %s\n", (unsigned long long)extra_count, extra);
    hn_status status = tool_print(&text);
    hn_strbuf_deinit(&text);
    return status;
}

hn_status tool_cache_export(const tool_options *o, hn_cache *cache) {
    hn_entry_list list = {0};
    hn_transfer_report report;
    hn_status status = NULL;
    for (uint32_t k = 1; k < o->args.count && !status; k++)
        status = list_one(o, cache, o->args.items[k], &list);
    if (!status) status = hn_cache_export(cache, &list, o->output, &report);
    hn_entry_list_deinit(&list);
    return status ? status : print_report(o, o->output, &report, "missing", report.missing);
}

hn_status tool_cache_import(const tool_options *o, hn_cache *cache) {
    hn_transfer_report report;
    HN_TRY(hn_store_import(cache->store, o->args.items[1], &report));
    return print_report(o, o->args.items[1], &report, "existing", report.existing);
}
