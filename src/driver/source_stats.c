/* source_stats.c: of a project for a GPU the kernels that make statistics of tensors for its
 * debugger: stats.cu, one text for all targets, and its machine code for each. */
#include "driver/gather.h"

#include "runtime/stats_text.h"

static hn_status print_text(const hn_gathering *g, hn_strbuf *out) {
    hn_strbuf_puts(out, "/* stats.cu: statistics of tensors, for debug_device.c. */\n");
    hn_stats_text_of(g->driver->levels[0].target.kind->device, out);
    return hn_strbuf_status(out);
}

hn_status hn_gathering_stats_name(hn_gathering *g) {
    const hn_driver *d = g->driver;
    hn_str *names;
    HN_NEW(g->files.arena, names, d->level_count);
    HN_NEW(g->files.arena, g->stats, d->level_count);
    for (uint32_t l = 0; l < d->level_count; l++) {
        const hn_target *target = &d->levels[l].target;
        const char *name = hn_arena_printf(g->files.arena, "stats.%s.%s", target->architecture,
                                           hn_gathering_code_kind(target));
        if (!name) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the names of a project");
        names[l] = hn_str_of(name);
    }
    g->source.stats_files = names;
    return NULL;
}

hn_status hn_gathering_stats_submit(hn_gathering *g, hn_future **futures) {
    static const char *const entries[] = {HN_STATS_LOOK_NAME, HN_STATS_JOIN_NAME};
    hn_driver *d = g->driver;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status status = print_text(g, &text);
    for (uint32_t l = 0; l < d->level_count && !status; l++)
        status = hn_driver_submit_text(d, &d->levels[l].target, hn_strbuf_str(&text), entries, 2,
                                       &futures[l]);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status keep(hn_gathering *g, const hn_artifact *artifact, uint32_t level) {
    hn_bundle_object object = {.len = 0};
    HN_TRY(hn_driver_object_take(artifact, &g->driver->levels[level].target, &object));
    const char *copy = hn_arena_strndup(g->files.arena, object.bytes, object.len);
    if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for machine code");
    g->stats[level] = (hn_str){copy, object.len};
    return NULL;
}

hn_status hn_gathering_stats_take(hn_gathering *g, hn_future *const *futures) {
    for (uint32_t l = 0; l < g->driver->level_count; l++) {
        hn_artifact *artifact = NULL;
        hn_status status = hn_future_wait(futures[l], -1, &artifact);
        if (!status) status = keep(g, artifact, l);
        hn_artifact_release(artifact);
        HN_TRY(status);
    }
    return NULL;
}

hn_status hn_gathering_stats_add(hn_gathering *g) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_status status = print_text(g, &text);
    if (!status) status = hn_gathering_add(g, HN_STR("stats.cu"), hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
    for (uint32_t l = 0; l < g->driver->level_count && !status; l++)
        if (g->stats[l].len) status = hn_gathering_add(g, g->source.stats_files[l], g->stats[l]);
    return status;
}
