/* why_bundle.c: what a bundle records of the key that its program was compiled under, and how this
 * machine's differs. */
#include "driver/key.h"

#include "base/compiler.h"
#include "base/file.h"
#include "bundle/view.h"
#include "cache/record.h"
#include "driver/driver.h"
#include "driver/programs.h"
#include "service/service.h"

static bool is_one_of(hn_str name, const char *const *list, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (hn_str_eq(name, hn_str_of(list[k]))) return true;
    return false;
}

static void add_field(hn_strbuf *out, hn_record_field field) {
    char name[64];
    snprintf(name, sizeof name, HN_STR_FMT, HN_STR_ARG(field.name));
    hn_record_add(out, name, field.value);
}

void hn_driver_key_for_bundle(hn_str record, hn_strbuf *out) {
    static const char *const places[] = {"path", "file"};
    hn_strbuf summary;
    hn_record_field field;
    hn_strbuf_init(&summary);
    hn_status status = hn_record_summarise(record, &summary);
    for (hn_str rest = hn_strbuf_str(&summary); !status && hn_record_next(&rest, &field);)
        if (!is_one_of(field.name, places, HN_COUNT_OF(places))) add_field(out, field);
    out->failed |= status != NULL;
    hn_status_free(status);
    hn_strbuf_deinit(&summary);
}

/* ---- comparing ---- */

/* Fields of the model and of the form of the bundle: what this machine would use is the same. */
static bool is_of_bundle(hn_str name) {
    static const char *const fields[] = {"graph", "weights", "embed_weights", "weights_digest"};
    return is_one_of(name, fields, HN_COUNT_OF(fields));
}

static void add_fields(hn_str record, bool of_bundle, hn_strbuf *out) {
    hn_record_field field;
    while (hn_record_next(&record, &field))
        if (is_of_bundle(field.name) == of_bundle) add_field(out, field);
}

/* A machine without a compiler has no such field. */
static hn_status add_compiler(const hn_driver *d, hn_strbuf *out) {
    hn_strbuf compiler;
    hn_strbuf_init(&compiler);
    hn_status status = hn_service_toolchain_identity(d->service, hn_driver_language(d), &compiler);
    if (!status) hn_record_add(out, "compiler", hn_strbuf_str(&compiler));
    hn_strbuf_deinit(&compiler);
    if (hn_status_code(status) != HN_NOT_FOUND) return status;
    hn_status_free(status);
    return NULL;
}

/* What this machine would use. */
static hn_status machine_record(hn_driver *d, hn_strbuf *out) {
    hn_strbuf environment;
    hn_strbuf_init(&environment);
    hn_status status = hn_driver_targets(d);
    if (!status) status = hn_service_environment(hn_driver_language(d), &environment);
    if (!status)
        hn_driver_key_machine(
            &(hn_graph_key){.options = &d->options, .environment = hn_strbuf_str(&environment)},
            out);
    if (!status) status = add_compiler(d, out);
    hn_strbuf_deinit(&environment);
    return status ? status : hn_strbuf_status(out);
}

static hn_status compare(hn_driver *d, hn_str recorded, hn_strbuf *out) {
    hn_strbuf machine, summary, wanted;
    hn_strbuf_init(&machine);
    hn_strbuf_init(&summary);
    hn_strbuf_init(&wanted);
    hn_status status = machine_record(d, &machine);
    if (!status) hn_driver_key_for_bundle(hn_strbuf_str(&machine), &summary);
    add_fields(hn_strbuf_str(&summary), false, &wanted);
    add_fields(recorded, true, &wanted);
    if (!status) status = hn_strbuf_status(&summary);
    if (!status) status = hn_strbuf_status(&wanted);
    if (!status && !hn_record_diff(recorded, hn_strbuf_str(&wanted), out)) {
        hn_strbuf_puts(
            out, "no field differs: this machine would compile the program under the same key\n");
        hn_record_print(recorded, out);
    }
    hn_strbuf_deinit(&wanted);
    hn_strbuf_deinit(&summary);
    hn_strbuf_deinit(&machine);
    return status;
}

static hn_status why(hn_str recorded, const hn_compile_options *options, hn_strbuf *out) {
    HN_TRY(hn_record_check(recorded));
    hn_driver d;
    hn_driver_init(&d, options, NULL);
    hn_status status = hn_service_create(
        &(hn_service_options){
            .cache_dir = HN_OPT(&d.options, cache_dir), .remote_url = "", .threads = 1},
        &d.service);
    if (!status) status = compare(&d, recorded, out);
    hn_driver_deinit(&d);
    hn_service_destroy(d.service);
    return status;
}

/* The program for the kind of device that is asked about, if the bundle has one. */
static hn_status choose_program(const hn_bundle *file, const hn_compile_options *options,
                                hn_bundle *out) {
    hn_target_groups groups;
    uint32_t program = 0, found;
    hn_status status = hn_target_groups_init(&groups, options ? options->target : NULL);
    for (uint32_t k = 0; !status && k < HN_DEVICE_KIND_COUNT; k++)
        if (groups.names[k].len && hn_bundle_program_find(file, k, &found)) program = found;
    hn_target_groups_deinit(&groups);
    return status ? status : hn_bundle_program_open(file, program, true, out);
}

static hn_status why_program(const hn_bundle *file, const hn_compile_options *options,
                             hn_strbuf *out) {
    hn_bundle program;
    HN_TRY(choose_program(file, options, &program));
    if (program.key_bytes)
        return why((hn_str){program.key, (size_t)program.key_bytes}, options, out);
    return HN_ERROR(HN_NOT_FOUND,
                    "it does not record what it was compiled under; compile the model again");
}

hn_status hn_driver_why_bundle(const char *path, const hn_compile_options *options,
                               hn_strbuf *out) {
    hn_file_map map;
    hn_bundle file;
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = hn_bundle_open(map.data, map.size_bytes, true, &file);
    if (!status) status = why_program(&file, options, out);
    hn_file_map_deinit(&map);
    return hn_status_annotate(status, "cannot tell the key of '%s'", path);
}
