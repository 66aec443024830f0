/* make_bundles.c: the corpus of fuzz_bundle, made again after a change of the format:
 *
 *     make_bundles tests/fuzz/corpus
 *
 * Every text of corpus/wrapper_text as a bundle, once for one target and, if that is a CPU, once
 * for two with launches of their own; one with code for GPUs; one that is signed; one with programs
 * for several devices. The objects in them are no machine code. */
#include "base/file.h"
#include "bundle/join.h"
#include "bundle/sign.h"
#include "toolchain/images.h"
#include "wrapper/to_bundle.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The same variants, with other numbers and without a table, for the second level. */
static hn_status add_variants(hn_arena *arena, hn_line *line) {
    hn_wvariant *variants;
    hn_sym_choice *choices;
    if (!line->variant_count) return NULL;
    HN_NEW(arena, variants, line->variant_count);
    HN_NEW(arena, choices, 2);
    for (uint32_t v = 0; v < line->variant_count; v++) {
        hn_wlaunch *launches;
        HN_NEW(arena, launches, 2);
        launches[0] = launches[1] = line->variants[v].launches[0];
        launches[1].grain += 5;
        launches[1].form = HN_STR("other");
        variants[v] = (hn_wvariant){line->variants[v].kernel, launches};
    }
    choices[0] = line->choices[0];
    choices[1].head = (hn_choice){.variant_count = hn_line_variants(line), .fallback = 1};
    line->variants = variants;
    line->choices = choices;
    return NULL;
}

static hn_status add_level(hn_arena *arena, hn_wrapper *w) {
    w->target_count = 2;
    for (uint32_t k = 1; k < w->kernels.count; k++) {
        hn_wkernel_info *other;
        HN_NEW(arena, other, 1);
        *other = (hn_wkernel_info){.name = w->kernels.items[k].name, .object = 1};
        w->kernels.items[k].others = other;
    }
    for (uint32_t k = 0; k < w->lines.count; k++) {
        hn_line *line = &w->lines.items[k];
        hn_wlaunch *launch;
        uint32_t *order;
        if (line->kind != HN_LINE_KERNEL) continue;
        HN_NEW(arena, launch, 1);
        HN_NEW(arena, order, (size_t)line->operand_count + 1);
        for (uint32_t i = 0; i < line->operand_count; i++) order[i] = line->operand_count - 1 - i;
        *launch = (hn_wlaunch){.arg_count = line->operand_count,
                               .order = order,
                               .form = HN_STR("other"),
                               .param_count = line->param_count,
                               .params = line->params,
                               .extent = line->extent,
                               .grain = line->grain + 7,
                               .scratch_bytes = line->scratch_bytes};
        line->others = launch;
        HN_TRY(add_variants(arena, line));
    }
    return NULL;
}

/* The texts speak of one constant of a few floats, the buffer "w". Its bytes are the compiler's
 * own: weights are at a multiple of 64 KiB, which is long for a corpus. Storage 2 is made of it. */
static hn_status add_constant(hn_arena *arena, hn_sym *sym, hn_wrapper *w) {
    static const float weight[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const hn_box_dim turned[2] = {{2, 16, 4}, {4, 4, 12}};
    static const hn_storage_piece pieces[2] = {
        {1, {.rank = 2, .dims = turned, .run_bytes = 4}},
        {1, {.run_bytes = 4, .from = 28, .to = 8}},
    };
    hn_graph *graph;
    hn_expr size = hn_sym_int(sym, 8);
    HN_TRY(hn_graph_create(arena, sym, &graph));
    uint32_t storage = hn_graph_add_storage(
        graph, (hn_storage){.data = (const uint8_t *)weight, .size_bytes = sizeof weight});
    (void)hn_graph_add_storage(graph,
                               (hn_storage){.size_bytes = 48, .pieces = pieces, .piece_count = 2});
    hn_value value = hn_graph_add_tensor(graph, HN_DTYPE_F32, 1, &size, NULL, HN_STR("w"));
    w->graph = graph;
    return hn_graph_add_input(graph, (hn_input){.kind = HN_INPUT_BUFFER,
                                                .value = value,
                                                .name = HN_STR("w"),
                                                .storage = storage});
}

static bool is_for_device(const hn_wrapper *w) {
    for (hn_wbuf b = 1; b < w->buffers.count; b++)
        if (w->buffers.items[b].device != HN_DEVICE_CPU) return true;
    return false;
}

static hn_status write_program(hn_str text, uint32_t levels, const char *path) {
    static const hn_bundle_target cpus[] = {
        {.name = HN_STR("x86-64-v3"), .features = {"avx2\0fma\0", 9}},
        {.name = HN_STR("generic"), .features = {"", 0}}};
    static const hn_bundle_target opencl = {.name = HN_STR("opencl"), .device = HN_DEVICE_OPENCL};
    static const hn_bundle_object objects[] = {
        {.name = HN_STR("kernels"), .bytes = "no code", .len = 7},
        {.name = HN_STR("kernels"), .bytes = "none here", .len = 9, .target = 1}};
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
    hn_memory_plan plan;
    hn_strbuf image;
    hn_arena_init(&arena);
    hn_strbuf_init(&image);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_wrapper_parse(&arena, sym, text, &w);
    if (!status) status = add_constant(&arena, sym, w);
    if (!status) status = hn_wrapper_verify(w);
    if (!status && levels > 1 && is_for_device(w)) {
        hn_strbuf_deinit(&image);
        hn_arena_deinit(&arena);
        return NULL;
    }
    if (!status) status = hn_wrapper_plan(w, &plan);
    if (!status && levels > 1) status = add_level(&arena, w);
    uint32_t kernels = status ? 0 : w->kernels.count - 1;
    const hn_bundle_target *targets = !status && is_for_device(w) ? &opencl : cpus;
    /* what has no code is run, too */
    hn_bundle_objects code = {objects, kernels ? levels : 0, targets, kernels ? levels : 0};
    if (!status) status = hn_wrapper_to_bundle(w, &plan, &code, &(hn_to_bundle_options){0}, &image);
    if (!status) status = hn_file_write_atomic(path, image.ptr, image.len, false);
    hn_strbuf_deinit(&image);
    hn_arena_deinit(&arena);
    return status;
}

static hn_status write_programs(const char *corpus) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/wrapper_text", corpus);
    DIR *dir = opendir(path);
    hn_status status = dir ? NULL : HN_ERROR(HN_NOT_FOUND, "no folder '%s'", path);
    for (struct dirent *e; !status && (e = readdir(dir));) {
        hn_strbuf text;
        if (e->d_name[0] == '.') continue;
        hn_strbuf_init(&text);
        snprintf(path, sizeof path, "%s/wrapper_text/%s", corpus, e->d_name);
        status = hn_file_read(path, &text);
        for (uint32_t levels = 1; !status && levels <= 2; levels++) {
            snprintf(path, sizeof path, "%s/bundle/%.*s%s.hnb", corpus,
                     (int)strcspn(e->d_name, "."), e->d_name, levels > 1 ? "_levels" : "");
            hn_status failed = write_program(hn_strbuf_str(&text), levels, path);
            /* a text that is an error on purpose */
            if (failed) printf("left out %s: %s\n", e->d_name, hn_status_message(failed));
            hn_status_free(failed);
        }
        hn_strbuf_deinit(&text);
    }
    if (dir) closedir(dir);
    return status;
}

static hn_status write_devices(const char *corpus) {
    static const hn_image images[] = {{"sm_90", HN_IMAGE_CUBIN, "ninety", 6},
                                      {"compute_80", HN_IMAGE_PTX, "ptx", 3}};
    char path[PATH_MAX];
    hn_strbuf out;
    hn_strbuf_init(&out);
    snprintf(path, sizeof path, "%s/bundle/devices.hnb", corpus);
    hn_status status =
        hn_images_write(&(hn_images_source){images, 2, HN_STR("f\0f\0g<int>\0_Z1gIiEvv\0")}, &out);
    if (!status) status = hn_file_write_atomic(path, out.ptr, out.len, false);
    hn_strbuf_deinit(&out);
    return status;
}

static hn_status write_signed(const char *corpus) {
    char path[PATH_MAX], dir[PATH_MAX], secret[PATH_MAX + 8], public[PATH_MAX + 8];
    hn_strbuf image;
    hn_strbuf_init(&image);
    HN_TRY(hn_dir_temp(dir, sizeof dir));
    snprintf(secret, sizeof secret, "%s/k.key", dir);
    snprintf(public, sizeof public, "%s/k.pub", dir);
    snprintf(path, sizeof path, "%s/bundle/copies.hnb", corpus);
    hn_status status = hn_bundle_keys_create(secret, public);
    if (!status) status = hn_file_read(path, &image);
    snprintf(path, sizeof path, "%s/bundle/signed.hnb", corpus);
    if (!status) status = hn_file_write_atomic(path, image.ptr, image.len, false);
    if (!status) status = hn_bundle_sign_file(path, secret, NULL);
    hn_strbuf_deinit(&image);
    hn_status removed = hn_dir_remove(dir);
    if (status) hn_status_free(removed);
    return status ? status : removed;
}

/* A program for CPUs and the code for GPUs, which is a bundle without steps. */
static hn_status write_programs_of_devices(const char *corpus) {
    static const char *const names[] = {"copies", "devices"};
    char path[PATH_MAX];
    hn_strbuf images[2], out;
    hn_join_part parts[2] = {0};
    hn_status status = NULL;
    hn_strbuf_init(&out);
    for (uint32_t k = 0; k < 2; k++) {
        hn_strbuf_init(&images[k]);
        snprintf(path, sizeof path, "%s/bundle/%s.hnb", corpus, names[k]);
        if (!status) status = hn_file_read(path, &images[k]);
        if (!status) status = hn_bundle_open(images[k].ptr, images[k].len, true, &parts[k].bundle);
    }
    snprintf(path, sizeof path, "%s/bundle/programs.hnb", corpus);
    if (!status) status = hn_bundle_join(parts, 2, false, &out);
    if (!status) status = hn_file_write_atomic(path, out.ptr, out.len, false);
    for (uint32_t k = 0; k < 2; k++) hn_strbuf_deinit(&images[k]);
    hn_strbuf_deinit(&out);
    return status;
}

int main(int argc, char **argv) {
    hn_status status =
        argc == 2 ? NULL : HN_ERROR(HN_INVALID_ARGUMENT, "usage: make_bundles tests/fuzz/corpus");
    if (!status) status = write_programs(argv[1]);
    if (!status) status = write_devices(argv[1]);
    if (!status) status = write_signed(argv[1]);
    if (!status) status = write_programs_of_devices(argv[1]);
    if (!status) return 0;
    fprintf(stderr, "make_bundles: %s\n", hn_status_message(status));
    hn_status_free(status);
    return 1;
}
