/* programs.c: a model compiled for several kinds of device: a program for each, joined into one
 * file. */
#include "driver/programs.h"

#include "base/trace.h"
#include "bundle/join.h"
#include "bundle/weights.h"
#include "driver/tuning.h"

#include <string.h>

/* ---- targets ---- */

static hn_status add_target(hn_target_groups *groups, hn_str name) {
    hn_target target;
    HN_TRY(hn_target_named(name, &target));
    hn_strbuf *names = &groups->names[target.kind->device];
    groups->count += !names->len;
    hn_strbuf_printf(names, "%s" HN_STR_FMT, names->len ? "," : "", HN_STR_ARG(name));
    return hn_strbuf_status(names);
}

hn_status hn_target_groups_init(hn_target_groups *groups, const char *targets) {
    groups->count = 0;
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++) hn_strbuf_init(&groups->names[k]);
    for (const char *at = targets ? targets : "host";;) {
        const size_t len = strcspn(at, ",");
        HN_TRY(add_target(groups, (hn_str){at, len}));
        if (!at[len]) return NULL;
        at += len + 1;
    }
}

void hn_target_groups_deinit(hn_target_groups *groups) {
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++) hn_strbuf_deinit(&groups->names[k]);
}

/* ---- compiling ---- */

typedef struct several {
    const char *path;
    const hn_compile_options *options;
    hn_compiled *programs[HN_DEVICE_KIND_COUNT];
    hn_join_part parts[HN_DEVICE_KIND_COUNT];
    uint32_t count;
} several;

/* Weights of a file stay there until the programs are joined, so that they are not copied for each
 * program; the file is compared with its checksums, and a file of weights written, once. */
static hn_compile_options options_of_program(const several *s, const char *targets) {
    hn_compile_options own = *s->options;
    own.target = targets;
    own.verify = own.verify && !s->count;
    if (s->count) own.safetensors = NULL;
    own.embed_weights = !s->path && !own.safetensors;
    return own;
}

static hn_status compile_all(several *s, hn_compile_fn compile, hn_str bytes,
                             const hn_target_groups *groups) {
    for (uint32_t k = 0; k < HN_DEVICE_KIND_COUNT; k++) {
        if (!groups->names[k].len) continue;
        const hn_compile_options own = options_of_program(s, groups->names[k].ptr);
        HN_TRY(compile(s->path, bytes, &own, &s->programs[s->count]));
        s->count++;
    }
    return NULL;
}

/* ---- joining ---- */

static hn_status open_part(const hn_compiled *c, hn_join_part *out) {
    HN_TRY(hn_bundle_open(c->image.ptr, c->image.len, false, &out->bundle));
    return hn_bundle_weights_open(&out->bundle, NULL, c->weights_path, false, &out->weights);
}

static hn_status join(several *s, hn_compiled *out) {
    hn_status status = NULL;
    for (uint32_t k = 0; k < s->count && !status; k++)
        status = open_part(s->programs[k], &s->parts[k]);
    if (!status)
        status = hn_bundle_join(s->parts, s->count, s->options->embed_weights, &out->image);
    for (uint32_t k = 0; k < s->count; k++) hn_file_map_deinit(&s->parts[k].weights);
    return status;
}

/* The graph cache has all programs, or the file counts as not found in it. */
static hn_cache_state worse(hn_cache_state a, hn_cache_state b) {
    return a == HN_CACHE_HIT ? b : b == HN_CACHE_HIT ? a : HN_CACHE_MISS;
}

/* Times and counts of kernels are sums; those of the model's nodes are of the first program. */
static void add_stats(hn_compile_stats *sum, const hn_compile_stats *s) {
    sum->import_ns += s->import_ns, sum->opt_ns += s->opt_ns, sum->lower_ns += s->lower_ns;
    sum->sched_ns += s->sched_ns, sum->codegen_ns += s->codegen_ns;
    sum->compile_ns += s->compile_ns, sum->bundle_ns += s->bundle_ns;
    sum->count_ns += s->count_ns;
    sum->kernels_generated += s->kernels_generated, sum->kernels_unique += s->kernels_unique;
    sum->kernels_compiled += s->kernels_compiled, sum->kernels_cached += s->kernels_cached;
    sum->kernels_extern += s->kernels_extern, sum->kernels_remote += s->kernels_remote;
    sum->graph_remote &= s->graph_remote;
    sum->graph_cache = worse(sum->graph_cache, s->graph_cache);
    sum->time_saved_ns += s->time_saved_ns;
    for (int k = 0; k < HN_BYPASS_COUNT; k++) sum->bypasses[k] += s->bypasses[k];
    sum->remote.hits += s->remote.hits, sum->remote.misses += s->remote.misses;
    sum->remote.puts += s->remote.puts, sum->remote.damaged += s->remote.damaged;
    sum->remote.failures += s->remote.failures, sum->remote.skipped += s->remote.skipped;
    sum->remote.total_ns += s->remote.total_ns;
}

static hn_status take_report(hn_compiled *from, hn_compiled *to) {
    hn_tune_report *report = from->tuned;
    from->tuned = NULL;
    if (to->tuned && report) return hn_tune_report_join(to->tuned, report);
    if (report) to->tuned = report;
    return NULL;
}

static hn_status join_compiled(several *s, hn_compiled **out) {
    hn_compiled *c;
    const int64_t begin = hn_now_ns();
    HN_TRY(hn_compiled_create(s->programs[0]->weights_path, &c));
    c->stats = s->programs[0]->stats;
    for (uint32_t k = 1; k < s->count; k++) add_stats(&c->stats, &s->programs[k]->stats);
    for (uint32_t k = 0; k < s->count; k++) {
        hn_metrics_add(&c->metrics, &s->programs[k]->metrics);
        for (int kind = 0; kind < HN_DEVICE_KIND_COUNT; kind++)
            if (s->programs[k]->rows[kind].compilation) c->rows[kind] = s->programs[k]->rows[kind];
    }
    hn_status status = join(s, c);
    for (uint32_t k = 0; k < s->count && !status; k++) status = take_report(s->programs[k], c);
    c->stats.bundle_ns += hn_now_ns() - begin;
    if (status) hn_compiled_release(c);
    else *out = c;
    return status;
}

static hn_status compile_several(hn_compile_fn compile, hn_str bytes,
                                 const hn_target_groups *groups, several *s, hn_compiled **out) {
    const int64_t begin = hn_now_ns();
    if (s->options->source_dir)
        return HN_ERROR(HN_UNSUPPORTED,
                        "a source project is for one kind of device; name it with --target");
    const char *stage = s->options->dump_after;
    if (stage && strncmp(stage, "memory-", 7) == 0)
        return HN_ERROR(HN_UNSUPPORTED, "a picture of the memory plan is of one program; name "
                                        "targets of one kind of device with --target");
    hn_status status = compile_all(s, compile, bytes, groups);
    if (!status) status = join_compiled(s, out);
    for (uint32_t k = 0; k < s->count; k++) hn_compiled_release(s->programs[k]);
    if (!status) (*out)->stats.total_ns = hn_now_ns() - begin;
    return status;
}

hn_status hn_compile_programs(hn_compile_fn compile, const char *path, hn_str bytes,
                              const hn_compile_options *options, hn_compiled **out) {
    several s = {.path = path, .options = options};
    hn_target_groups groups;
    hn_status status = hn_options_validate(options);
    if (status || !options || !options->target)
        return status ? status : compile(path, bytes, options, out);
    status = hn_target_groups_init(&groups, options->target);
    if (!status)
        status = groups.count > 1 ? compile_several(compile, bytes, &groups, &s, out)
                                  : compile(path, bytes, options, out);
    hn_target_groups_deinit(&groups);
    return status;
}
