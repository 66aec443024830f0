/* source_code.c: kernels of a project for a GPU: their text, and machine code. A file of text has the
 * kernels of a unit, so that machine code is the same that a bundle has. Where there is no compiler
 * the project makes it: see share/source/Makefile. */
#include "driver/gather.h"

#include "base/log.h"

#include <string.h>

/* "kernels_3.sm_90a.cu", and of machine code "kernels_3.sm_90a.cubin". */
static char *file_name(hn_gathering *g, uint32_t unit, bool is_text) {
    for (uint32_t l = 0; l < g->driver->level_count; l++) {
        const hn_driver_level *level = &g->driver->levels[l];
        for (uint32_t k = 0; k < level->unique.count; k++)
            if (level->unit_of[k] == unit)
                return hn_arena_printf(g->files.arena, "kernels_%u.%s.%s", unit,
                                       level->target.architecture,
                                       is_text ? "cu" : hn_gathering_code_kind(&level->target));
    }
    return NULL;
}

const char *hn_gathering_code_kind(const hn_target *target) {
    return strncmp(target->architecture, "compute_", 8) == 0 ? "ptx" : "cubin";
}

static hn_status name_files(hn_gathering *g, uint32_t units) {
    hn_str *names;
    HN_NEW(g->files.arena, names, (size_t)units + 1);
    for (uint32_t u = 0; u < units; u++) {
        const char *name = file_name(g, u, false);
        if (!name) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the names of a project");
        names[u] = hn_str_of(name);
    }
    g->source.code_files = names;
    g->source.code_count = units;
    return hn_gathering_stats_name(g);
}

/* Copies of the bytes: artifacts are given back. */
static hn_status keep_code(hn_gathering *g, const hn_bundle_object *objects, uint32_t units) {
    for (uint32_t u = 0; u < units; u++) {
        char *copy = hn_arena_strndup(g->files.arena, objects[u].bytes, objects[u].len);
        if (!copy) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for machine code");
        g->code[u] = (hn_str){copy, objects[u].len};
    }
    return NULL;
}

static hn_status compile(hn_gathering *g) {
    hn_driver *d = g->driver;
    hn_artifact **artifacts;
    hn_bundle_object *objects;
    hn_future **stats;
    HN_NEW(&d->scratch, stats, d->level_count);
    HN_TRY(hn_driver_submit(d));
    HN_TRY(hn_gathering_stats_submit(g, stats));
    const uint32_t units = d->units.count;
    HN_NEW(&d->scratch, artifacts, units);
    HN_NEW(&d->scratch, objects, units);
    HN_NEW(g->files.arena, g->code, (size_t)units + 1);
    hn_status status = hn_driver_objects(d, artifacts, objects);
    if (!status) status = keep_code(g, objects, units);
    for (uint32_t u = 0; u < units; u++) hn_artifact_release(artifacts[u]);
    if (!status) status = name_files(g, units);
    return status ? status : hn_gathering_stats_take(g, stats);
}

hn_status hn_gathering_compile(hn_gathering *g) {
    uint32_t units;
    hn_strbuf identity;
    hn_strbuf_init(&identity);
    hn_status status =
        hn_service_toolchain_identity(g->driver->service, hn_driver_language(g->driver), &identity);
    hn_strbuf_deinit(&identity);
    if (!status) return compile(g); /* a kernel that is refused is an error */
    if (hn_status_code(status) != HN_TOOLCHAIN && hn_status_code(status) != HN_NOT_FOUND)
        return status;
    hn_log("toolchain", HN_LOG_WARN,
           "the project comes without machine code, which its Makefile makes: %s",
           hn_status_message(status));
    hn_status_free(status);
    HN_TRY(hn_driver_pack(g->driver, &units));
    HN_NEW(g->files.arena, g->code, (size_t)units + 1);
    return name_files(g, units);
}

/* --- files --- */

static hn_status add_unit(hn_gathering *g, const hn_driver_level *level, uint32_t unit) {
    const hn_kernel_code **kernels;
    uint32_t count;
    hn_strbuf text;
    HN_TRY(hn_driver_unit_kernels(g->driver, level, unit, &kernels, &count));
    if (!count) return NULL;
    const char *name = file_name(g, unit, true);
    if (!name) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for the names of a project");
    hn_strbuf_init(&text);
    hn_status status = level->target.kind->unit(kernels, count, &level->target, &text);
    if (!status) status = hn_gathering_add(g, hn_str_of(name), hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
    return status;
}

static void print_codes(const char *table, const char *prefix, const hn_str *files, uint32_t count,
                        hn_strbuf *out) {
    for (uint32_t k = 0; k < count; k++)
        hn_strbuf_printf(out, "CODE(%s%u, \"" HN_STR_FMT "\");\n", prefix, k, HN_STR_ARG(files[k]));
    hn_strbuf_printf(out, "\nconst device_code %s[] = {\n", table);
    for (uint32_t k = 0; k < count; k++)
        hn_strbuf_printf(out, "    {\"" HN_STR_FMT "\", model_code_%s%u, model_code_end_%s%u},\n",
                         HN_STR_ARG(files[k]), prefix, k, prefix, k);
    hn_strbuf_puts(out, "    {NULL, NULL, NULL},\n};\n");
}

/* The code becomes a part of the model's library; that of statistics, one file for each target, if
 * it has a debugger. */
static void print_code(const hn_gathering *g, hn_strbuf *out) {
    hn_strbuf_puts(
        out,
        "/* kernels.c: the machine code of kernels_*.cu, as the Makefile has it. */\n"
        "#include \"support.h\"\n\n"
        "#define CODE(n, file)                                                             \\\n"
        "    __asm__(\".pushsection .rodata\\n.balign 64\\n.globl model_code_\" #n            \\\n"
        "            \"\\nmodel_code_\" #n \":\\n.incbin \\\"\" file                              \\\n"
        "            \"\\\"\\n.globl model_code_end_\" #n \"\\nmodel_code_end_\" #n                \\\n"
        "            \":\\n.byte 0\\n.popsection\\n\");                                      \\\n"
        "    extern const unsigned char model_code_##n[], model_code_end_##n[]\n\n");
    print_codes("device_codes", "", g->source.code_files, g->source.code_count, out);
    hn_strbuf_puts(out, "\n#ifdef MODEL_DEBUG\n");
    print_codes("debug_codes", "stats_", g->source.stats_files, g->source.target_count, out);
    hn_strbuf_puts(out, "#endif\n");
}

static hn_status add_code_table(hn_gathering *g) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    print_code(g, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = hn_gathering_add(g, HN_STR("kernels.c"), hn_strbuf_str(&text));
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_gathering_add_code(hn_gathering *g) {
    for (uint32_t l = 0; l < g->driver->level_count; l++)
        for (uint32_t u = 0; u < g->source.code_count; u++)
            HN_TRY(add_unit(g, &g->driver->levels[l], u));
    for (uint32_t u = 0; u < g->source.code_count; u++)
        if (g->code[u].len) HN_TRY(hn_gathering_add(g, g->source.code_files[u], g->code[u]));
    HN_TRY(hn_gathering_stats_add(g));
    return add_code_table(g);
}
