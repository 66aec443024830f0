/* source.c: a program as a C project in a folder: model.c from the wrapper, kernels, weights, and
 * the texts that every project has. */
#include "driver/gather.h"
#include "driver/source_files.h"
#include "driver/source_parts.h"

#include <string.h>

#define WEIGHTS_MAGIC "henry weights 1"
enum { KERNELS_A_FILE = 12, WEIGHT_ALIGN = 64 };

typedef hn_gathering gathering;

hn_status hn_gathering_add(hn_gathering *g, hn_str name, hn_str text) {
    hn_str *part;
    HN_NEW(g->files.arena, part, 1);
    char *name_copy = hn_arena_strndup(g->files.arena, name.ptr, name.len),
         *copy = hn_arena_strndup(g->files.arena, text.ptr, text.len);
    if (!copy || !name_copy)
        return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the text of '" HN_STR_FMT "'",
                        HN_STR_ARG(name));
    *part = (hn_str){copy, text.len};
    return hn_project_add(&g->files, (hn_str){name_copy, name.len}, part, 1);
}

/* --- kernels --- */

static bool is_for_device(const gathering *g) {
    return g->driver->levels[0].target.kind->device != HN_DEVICE_CPU;
}

static hn_status add_kernels(gathering *g) {
    const hn_driver_level *level = &g->driver->levels[0];
    if (is_for_device(g)) return hn_gathering_add_code(g);
    for (uint32_t first = 0; first < level->unique.count; first += KERNELS_A_FILE) {
        uint32_t count = level->unique.count - first < KERNELS_A_FILE ? level->unique.count - first
                                                                      : KERNELS_A_FILE;
        char name[32];
        hn_strbuf text;
        hn_strbuf_init(&text);
        snprintf(name, sizeof name, "kernels_%u.c", g->source.kernel_files++);
        hn_status status =
            level->target.kind->unit(level->unique.items + first, count, &level->target, &text);
        if (!status) status = hn_gathering_add(g, hn_str_of(name), hn_strbuf_str(&text));
        hn_strbuf_deinit(&text);
        if (status) return status;
    }
    return NULL;
}

/* --- weights: a head, then every storage at a multiple of 64 bytes --- */

static hn_status place_weights(const hn_wnumbering *numbering, hn_arena *arena, uint64_t *offsets,
                               hn_to_source *source) {
    uint64_t at = 0, id = 0;
    for (uint32_t k = 1; k < numbering->places.storages.count; k++) {
        const size_t bytes = hn_wnumbering_storage(numbering, k)->size_bytes;
        const uint8_t *data;
        HN_TRY(hn_wnumbering_bytes(numbering, k, arena, &data));
        offsets[k] = at;
        at += (bytes + WEIGHT_ALIGN - 1) / WEIGHT_ALIGN * WEIGHT_ALIGN;
        id = hn_hash64(data, bytes, id);
    }
    source->weight_offsets = offsets;
    source->weights_bytes = at;
    source->weights_id = id;
    return NULL;
}

/* Hundreds of megabytes: added as the parts that they are. */
static hn_status add_weights(gathering *g) {
    const hn_wnumbering *numbering = g->source.numbering;
    const uint32_t storages = numbering->places.storages.count;
    static const char zeros[WEIGHT_ALIGN];
    uint8_t *head;
    hn_str *parts;
    uint32_t count = 0;
    HN_NEW(g->files.arena, head, HN_SOURCE_HEAD_BYTES);
    HN_NEW(g->files.arena, parts, 2 * (size_t)storages + 1);
    memcpy(head, WEIGHTS_MAGIC, sizeof WEIGHTS_MAGIC - 1);
    memcpy(head + 16, &g->source.weights_bytes, 8);
    memcpy(head + 24, &g->source.weights_id, 8);
    parts[count++] = (hn_str){(const char *)head, HN_SOURCE_HEAD_BYTES};
    for (uint32_t k = 1; k < storages; k++) {
        const size_t bytes = hn_wnumbering_storage(numbering, k)->size_bytes;
        const uint8_t *data;
        HN_TRY(hn_wnumbering_bytes(numbering, k, g->files.arena, &data));
        parts[count++] = (hn_str){(const char *)data, bytes};
        parts[count++] = (hn_str){zeros, (WEIGHT_ALIGN - bytes % WEIGHT_ALIGN) % WEIGHT_ALIGN};
    }
    return hn_project_add(&g->files, HN_STR("weights.bin"), parts, count);
}

/* --- texts --- */

static bool is_template(const char *path) {
    return strcmp(path, "model.h") == 0 || strcmp(path, "Makefile") == 0 ||
           strcmp(path, "README.md") == 0;
}

/* Which variant of the extern operations a project has: beside a GPU that of this machine. */
static const char *variant_of(const gathering *g) {
    return is_for_device(g) ? hn_target_host().ops : g->driver->levels[0].target.ops;
}

/* The operations that the host calls. */
static hn_source_called called_by(const gathering *g) {
    return (hn_source_called){.w = g->source.numbering->w, .variant = variant_of(g)};
}

/* What the host does needs other files than what the device does. */
static bool is_wanted(const gathering *g, const hn_source_text *text) {
    const hn_source_called calls = called_by(g);
    if (!text->wanted_by) return true;
    if (text->wanted_by & HN_TEXT_DEVICE && is_for_device(g)) return true;
    if (text->wanted_by & HN_TEXT_HOST && !is_for_device(g)) return true;
    return text->wanted_by & HN_TEXT_EXTERNS && hn_source_has_externs(calls.w) &&
           hn_source_part_is_needed(&calls, text->path);
}

/* What tells the sources of extern operations which of them came along. */
static hn_status choose_parts(gathering *g) {
    const hn_source_called calls = called_by(g);
    if (!hn_source_has_externs(calls.w)) return NULL;
    return hn_source_part_flags(&calls, g->files.arena, &g->source.extern_flags);
}

static void list_runtime_files(const gathering *g, hn_strbuf *out) {
    for (const hn_source_text *t = hn_source_texts; t->path; t++) {
        if (is_wanted(g, t) && strncmp(t->path, "lib/", 4) == 0 && hn_source_is_c(t->path))
            hn_strbuf_printf(out, "%s%s", out->len ? " " : "", t->path);
    }
}

static hn_status add_template(gathering *g, const hn_source_text *t) {
    hn_str text = {t->begin, (size_t)(t->end - t->begin)};
    hn_strbuf filled;
    if (!is_template(t->path)) return hn_gathering_add(g, hn_str_of(t->path), text);
    hn_strbuf_init(&filled);
    hn_status status = hn_source_fill(&g->source, text, &filled);
    if (!status) status = hn_gathering_add(g, hn_str_of(t->path), hn_strbuf_str(&filled));
    hn_strbuf_deinit(&filled);
    return status;
}

static bool is_makefile(const hn_source_text *text) { return strcmp(text->path, "Makefile") == 0; }

static hn_status add_texts(gathering *g, bool makefile) {
    for (const hn_source_text *t = hn_source_texts; t->path; t++)
        if (is_wanted(g, t) && is_makefile(t) == makefile) HN_TRY(add_template(g, t));
    return NULL;
}

static hn_status add_model(gathering *g) {
    hn_strbuf model;
    hn_strbuf_init(&model);
    hn_status status = hn_wrapper_to_source(&g->source, &model);
    if (!status) status = hn_gathering_add(g, HN_STR("model.c"), hn_strbuf_str(&model));
    hn_strbuf_deinit(&model);
    return status;
}

static hn_status add_json(gathering *g) {
    hn_strbuf json;
    hn_strbuf_init(&json);
    hn_wrapper_to_json(&g->source, &json);
    hn_status status = hn_strbuf_status(&json);
    if (!status) status = hn_gathering_add(g, HN_STR("program.json"), hn_strbuf_str(&json));
    hn_strbuf_deinit(&json);
    return status;
}

/* All files of the project. The Makefile is the last: see hn_project_write. */
static hn_status gather(gathering *g) {
    const hn_wnumbering *numbering = g->source.numbering;
    uint64_t *offsets;
    hn_strbuf runtime_files;
    HN_NEW(g->files.arena, offsets, numbering->places.storages.count);
    HN_TRY(place_weights(numbering, g->files.arena, offsets, &g->source));
    HN_TRY(add_kernels(g));
    HN_TRY(choose_parts(g));
    hn_strbuf_init(&runtime_files);
    list_runtime_files(g, &runtime_files);
    g->source.runtime_files = hn_strbuf_str(&runtime_files);
    hn_status status = hn_strbuf_status(&runtime_files);
    if (!status) status = add_model(g);
    if (!status) status = add_json(g);
    if (!status) status = add_texts(g, false);
    if (!status) status = add_weights(g);
    if (!status) status = add_texts(g, true);
    hn_strbuf_deinit(&runtime_files);
    return status;
}

/* A line for each file, "written model.c". */
static void report_file(void *context, const char *what, hn_str name) {
    hn_driver *d = context;
    char *line = hn_arena_printf(&d->arena, "%s " HN_STR_FMT "\n", what, HN_STR_ARG(name));
    if (line) HN_OPT(&d->options, dump)(HN_OPT(&d->options, dump_context), line);
}

/* Takes " -w" out: whether warnings are shown stands in the Makefile. */
static void drop_silence(hn_strbuf *flags) {
    static const char silence[] = " -w ";
    char *at = flags->ptr ? strstr(flags->ptr, silence) : NULL;
    if (!at) return;
    const size_t len = sizeof silence - 2;
    memmove(at, at + len, strlen(at + len) + 1);
    flags->len -= len;
}

/* What kernels are compiled with here, for the Makefile. */
static hn_status kernel_flags(hn_driver *d, const hn_target *target, hn_str *out) {
    hn_strbuf flags;
    hn_strbuf_init(&flags);
    hn_target_put_flags(target, &flags);
    hn_strbuf_putc(&flags, ' ');
    hn_status status = hn_strbuf_status(&flags);
    if (!status && target->kind->device == HN_DEVICE_CPU) drop_silence(&flags);
    char *copy = status ? NULL : hn_arena_strndup(&d->arena, flags.ptr, flags.len - 1);
    *out = (hn_str){copy, copy ? flags.len - 1 : 0};
    hn_strbuf_deinit(&flags);
    if (status || copy) return status;
    return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a project's flags");
}

/* "sm_90a, sm_80" */
static hn_status name_targets(gathering *g) {
    const hn_driver *d = g->driver;
    char *all = hn_arena_printf(g->files.arena, "%s", d->levels[0].target.name);
    hn_str *names;
    HN_NEW(g->files.arena, names, d->level_count);
    for (uint32_t l = 0; l < d->level_count; l++) {
        names[l] = hn_str_of(d->levels[l].target.name);
        if (l && all) all = hn_arena_printf(g->files.arena, "%s, %s", all, names[l].ptr);
    }
    if (!all) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the names of targets");
    g->source.targets = names;
    g->source.target_count = d->level_count;
    g->source.target = hn_str_of(all);
    return NULL;
}

static hn_status write_project(gathering *g, const hn_wnumbering *numbering) {
    hn_driver *d = g->driver;
    g->source.numbering = numbering;
    HN_TRY(name_targets(g));
    HN_TRY(kernel_flags(d, &d->levels[0].target, &g->source.kernel_flags));
    HN_TRY(gather(g));
    bool is_told = HN_OPT(&d->options, dump) && !HN_OPT(&d->options, dump_after);
    return hn_project_write(&g->files, HN_OPT(&d->options, source_dir),
                            is_told ? report_file : NULL, d);
}

static hn_status print_wrapper(gathering *g, hn_wrapper *wrapper) {
    hn_driver *d = g->driver;
    hn_memory_plan plan;
    hn_wnumbering numbering;
    HN_TRY(hn_driver_plan(d, wrapper, &plan));
    HN_TRY(hn_wrapper_number(wrapper, &plan, &d->arena, &numbering));
    return write_project(g, &numbering);
}

static hn_status check_targets(const hn_driver *d) {
    const hn_target *target = &d->levels[0].target;
    const hn_device_kind device = target->kind->device;
    if (device != HN_DEVICE_CPU && device != HN_DEVICE_CUDA)
        return HN_ERROR(
            HN_UNSUPPORTED,
            "a source project is for a CPU or for CUDA, not for '%s'; name one with --target",
            target->name);
    if (device == HN_DEVICE_CPU && d->level_count > 1)
        return HN_ERROR(HN_UNSUPPORTED, "a source project is for one CPU; name one with --target");
    return NULL;
}

/* What the host must have: for its kernels, or beside a GPU for operations. */
static hn_status put_features(gathering *g, const hn_wrapper *wrapper, hn_strbuf *out) {
    const hn_target host = hn_target_host();
    if (!is_for_device(g)) hn_target_features(&g->driver->levels[0].target, out);
    else if (hn_source_has_externs(wrapper)) hn_target_features(&host, out);
    g->source.features = hn_strbuf_str(out);
    return hn_strbuf_status(out);
}

static hn_status make_project(gathering *g) {
    hn_wrapper *wrapper;
    hn_strbuf features;
    HN_TRY(check_targets(g->driver));
    if (is_for_device(g)) HN_TRY(hn_gathering_compile(g));
    HN_TRY(hn_driver_wrapper(g->driver, &wrapper));
    hn_strbuf_init(&features);
    hn_status status = put_features(g, wrapper, &features);
    if (!status) status = print_wrapper(g, wrapper);
    hn_strbuf_deinit(&features);
    return status;
}

hn_status hn_driver_source(hn_driver *d) {
    gathering g = {.driver = d,
                   .files.arena = &d->arena,
                   .source = {.model = d->graph->name, .arena = &d->arena}};
    return hn_status_annotate(make_project(&g), "cannot write the project '%s'",
                              HN_OPT(&d->options, source_dir));
}
