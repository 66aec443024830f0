/* source.c: a program as a C project in a folder: model.c from the wrapper, kernels, weights, and the texts that every project has. */
#include "driver/driver.h"

#include "base/file.h"
#include "driver/source_files.h"
#include "wrapper/to_bundle.h"
#include "wrapper/to_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNELS_A_FILE = 12, WEIGHT_ALIGN = 64, HEAD_BYTES = 64 };

static bool has_content(const char *path, hn_str text) {
    hn_file_map map;
    hn_status status = hn_file_map_init(&map, path);
    hn_status_free(status);
    if (status) return false;
    bool same = map.size_bytes == text.len && (text.len == 0 || memcmp(map.data, text.ptr, text.len) == 0);
    hn_file_map_deinit(&map);
    return same;
}

/* A file that is right already keeps its time, so that make builds again only what is another one. */
static hn_status write_file(hn_driver *d, const char *name, hn_str text) {
    char *path = hn_arena_printf(&d->scratch, "%s/%s", HN_OPT(&d->options, source_dir), name);
    if (!path) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a path");
    return has_content(path, text) ? NULL : hn_file_write_atomic(path, text.ptr, text.len, false);
}

/* --- kernels --- */

static hn_status write_kernels(hn_driver *d, uint32_t *out_files) {
    *out_files = 0;
    for (uint32_t first = 0; first < d->levels[0].unique.count; first += KERNELS_A_FILE) {
        uint32_t count = d->levels[0].unique.count - first < KERNELS_A_FILE ? d->levels[0].unique.count - first : KERNELS_A_FILE;
        char name[32];
        hn_strbuf text;
        hn_strbuf_init(&text);
        snprintf(name, sizeof name, "kernels_%u.c", (*out_files)++);
        hn_status status = hn_c_unit(d->levels[0].unique.items + first, count, &d->levels[0].target, &text);
        if (!status) status = write_file(d, name, hn_strbuf_str(&text));
        hn_strbuf_deinit(&text);
        if (status) return status;
    }
    return NULL;
}

/* --- weights: a head, then every storage at a multiple of 64 bytes --- */

static const uint8_t *storage_bytes(const hn_driver *d, const hn_bundle *b, uint32_t k) {
    const hnb_storage *s = &b->storages[k];
    return (s->where == HNB_STORAGE_FILE ? d->weights.data : b->blob) + s->offset;
}

static hn_status place_weights(const hn_driver *d, const hn_bundle *b, uint64_t *offsets, hn_to_source *source) {
    uint64_t at = 0, id = 0;
    for (uint32_t k = 1; k < b->storages_count; k++) {
        offsets[k] = at;
        at += (b->storages[k].bytes + WEIGHT_ALIGN - 1) / WEIGHT_ALIGN * WEIGHT_ALIGN;
        id = hn_hash64(storage_bytes(d, b, k), b->storages[k].bytes, id);
    }
    source->weight_offsets = offsets;
    source->weights_bytes = at;
    source->weights_id = id;
    return NULL;
}

static hn_status write_bytes(int fd, const void *bytes, size_t len, const char *path) {
    for (const uint8_t *at = bytes, *end = at + len; at < end;) {
        ssize_t wrote = write(fd, at, (size_t)(end - at));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return HN_ERROR(HN_IO, "cannot write '%s': %s", path, strerror(errno));
        at += wrote;
    }
    return NULL;
}

static hn_status write_storages(const hn_driver *d, const hn_bundle *b, const hn_to_source *source, int fd, const char *path) {
    static const uint8_t zeros[WEIGHT_ALIGN];
    uint8_t head[HEAD_BYTES] = "henry weights 1";
    memcpy(head + 16, &source->weights_bytes, 8);
    memcpy(head + 24, &source->weights_id, 8);
    HN_TRY(write_bytes(fd, head, sizeof head, path));
    for (uint32_t k = 1; k < b->storages_count; k++) {
        uint64_t bytes = b->storages[k].bytes;
        HN_TRY(write_bytes(fd, storage_bytes(d, b, k), bytes, path));
        HN_TRY(write_bytes(fd, zeros, (WEIGHT_ALIGN - bytes % WEIGHT_ALIGN) % WEIGHT_ALIGN, path));
    }
    return NULL;
}

/* Hundreds of megabytes: not gathered in memory first. */
static hn_status write_weights(hn_driver *d, const hn_bundle *b, const hn_to_source *source) {
    char *path = hn_arena_printf(&d->scratch, "%s/weights.bin", HN_OPT(&d->options, source_dir));
    char *temp = hn_arena_printf(&d->scratch, "%s/.weights.bin.%ld", HN_OPT(&d->options, source_dir), (long)getpid());
    if (!path || !temp) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a path");
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return HN_ERROR(HN_IO, "cannot write '%s': %s", path, strerror(errno));
    hn_status status = write_storages(d, b, source, fd, path);
    if (close(fd) != 0 && !status) status = HN_ERROR(HN_IO, "cannot write '%s': %s", path, strerror(errno));
    if (!status && rename(temp, path) != 0) status = HN_ERROR(HN_IO, "cannot write '%s': %s", path, strerror(errno));
    if (status) (void)unlink(temp);
    return status;
}

/* --- texts --- */

static bool is_template(const char *path) {
    return strcmp(path, "model.h") == 0 || strcmp(path, "Makefile") == 0 || strcmp(path, "README.md") == 0;
}

static bool is_wanted(const hn_source_text *text, const hn_bundle *b) { return !text->for_externs || hn_source_has_externs(b); }

static void list_runtime_files(const hn_bundle *b, hn_strbuf *out) {
    for (const hn_source_text *t = hn_source_texts; t->path; t++) {
        size_t len = strlen(t->path);
        if (is_wanted(t, b) && strncmp(t->path, "lib/", 4) == 0 && strcmp(t->path + len - 2, ".c") == 0)
            hn_strbuf_printf(out, "%s%s", out->len ? " " : "", t->path);
    }
}

static hn_status write_text(hn_driver *d, const hn_to_source *source, const hn_source_text *t) {
    hn_str text = {t->begin, (size_t)(t->end - t->begin)};
    hn_strbuf filled;
    if (!is_template(t->path)) return write_file(d, t->path, text);
    hn_strbuf_init(&filled);
    hn_status status = hn_source_fill(source, text, &filled);
    if (!status) status = write_file(d, t->path, hn_strbuf_str(&filled));
    hn_strbuf_deinit(&filled);
    return status;
}

static bool is_makefile(const hn_source_text *text) { return strcmp(text->path, "Makefile") == 0; }

static hn_status write_texts(hn_driver *d, const hn_to_source *source, const hn_bundle *b, bool makefile) {
    for (const hn_source_text *t = hn_source_texts; t->path; t++)
        if (is_wanted(t, b) && is_makefile(t) == makefile) HN_TRY(write_text(d, source, t));
    return NULL;
}

/* The Makefile goes first and comes last: what an interruption or a full disk leaves cannot be built. */
static hn_status remove_makefile(hn_driver *d) {
    char *path = hn_arena_printf(&d->scratch, "%s/Makefile", HN_OPT(&d->options, source_dir));
    if (!path) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a path");
    return unlink(path) == 0 || errno == ENOENT ? NULL : HN_ERROR(HN_IO, "cannot replace '%s': %s", path, strerror(errno));
}

static hn_status make_folders(hn_driver *d) {
    static const char *const folders[] = {"lib/runtime", "lib/base", "lib/henry/abi"};
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
        char *path = hn_arena_printf(&d->scratch, "%s/%s", HN_OPT(&d->options, source_dir), folders[k]);
        if (!path) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a path");
        HN_TRY(hn_dir_create_public(path));
    }
    return NULL;
}

static hn_status write_project(hn_driver *d, const hn_wrapper *wrapper, const hn_bundle *b) {
    uint64_t *offsets;
    hn_strbuf model, runtime_files;
    hn_to_source source = {.wrapper = wrapper, .program = b, .target = hn_str_of(d->levels[0].target.name), .target_flags = hn_str_of(d->levels[0].target.flags),
                           .arena = &d->arena};
    HN_NEW(&d->arena, offsets, (size_t)b->storages_count + 1);
    HN_TRY(place_weights(d, b, offsets, &source));
    HN_TRY(make_folders(d));
    HN_TRY(remove_makefile(d));
    HN_TRY(write_kernels(d, &source.kernel_files));
    hn_strbuf_init(&model);
    hn_strbuf_init(&runtime_files);
    list_runtime_files(b, &runtime_files);
    source.runtime_files = hn_strbuf_str(&runtime_files);
    hn_status status = hn_strbuf_status(&runtime_files);
    if (!status) status = hn_wrapper_to_source(&source, &model);
    if (!status) status = write_file(d, "model.c", hn_strbuf_str(&model));
    if (!status) status = write_texts(d, &source, b, false);
    if (!status) status = write_weights(d, b, &source);
    if (!status) status = write_texts(d, &source, b, true);
    hn_strbuf_deinit(&model);
    hn_strbuf_deinit(&runtime_files);
    return status;
}

/* The solved form: a bundle image whose kernels are only named. */
static hn_status make_program(hn_driver *d, hn_wrapper *wrapper, hn_strbuf *out) {
    static const hn_bundle_object object = {.name = HN_STR("kernels")};
    hn_memory_plan plan;
    hn_strbuf features;
    hn_strbuf_init(&features);
    hn_driver_features(&d->levels[0].target, &features);
    hn_to_bundle_options options = {.model = d->graph->name, .cpu_features = hn_strbuf_str(&features)};
    if (d->weights_path) {
        options.weights_path = hn_str_of(d->weights_path);
        options.weights_data = d->weights.data;
        options.weights_bytes = d->weights.size_bytes;
    }
    hn_status status = hn_strbuf_status(&features);
    if (!status) status = hn_driver_plan(wrapper, &plan);
    if (!status) status = hn_wrapper_to_bundle(wrapper, &plan, &(hn_bundle_objects){.items = &object, .count = 1}, &options, out);
    hn_strbuf_deinit(&features);
    return status;
}

hn_status hn_driver_source(hn_driver *d) {
    hn_wrapper *wrapper;
    hn_strbuf image;
    hn_bundle program;
    if (d->level_count > 1) return HN_ERROR(HN_UNSUPPORTED, "a source project is for one CPU; name one with --target-cpu");
    HN_NEW(&d->arena, d->levels[0].unit_of, d->levels[0].unique.count); /* all in the one object */
    HN_TRY(hn_driver_emit(d, &wrapper));
    hn_strbuf_init(&image);
    hn_status status = make_program(d, wrapper, &image);
    if (!status) status = hn_bundle_open(image.ptr, image.len, false, &program);
    if (!status) status = write_project(d, wrapper, &program);
    hn_strbuf_deinit(&image);
    return hn_status_annotate(status, "cannot write the project '%s'", HN_OPT(&d->options, source_dir));
}
