/* programs.c: which program of a bundle a module runs. A bundle may have one for each kind of
 * device. */
#include "runtime/kernels.h"

#include "base/device.h"

/* What the bundle has, for the message. */
static hn_status refuse(const hn_bundle *file, const char *what, const char *name) {
    hn_strbuf have;
    hn_strbuf_init(&have);
    hn_bundle_programs_print(file, &have);
    hn_status status =
        HN_ERROR(HN_INVALID_ARGUMENT,
                 "the bundle has no %s '%s'; it has: %s; compile the model for it (--target)", what,
                 name, have.len ? have.ptr : "none");
    hn_strbuf_deinit(&have);
    return status;
}

static bool has_target(const hn_bundle *b, const char *name) {
    for (uint32_t t = 0; t < b->targets_count; t++)
        if (strcmp(hn_bundle_text(b, b->targets[t].name), name) == 0) return true;
    return false;
}

/* The program whose targets one of this name is among. */
static hn_status find_target(const hn_module *m, const hn_bundle *file, const char *wanted,
                             hn_bundle *out) {
    const char *name = hn_device_target_named(wanted);
    for (uint32_t k = 0; k < file->programs_count; k++) {
        HN_TRY(hn_bundle_program_open(file, k, !m->skip_digest, out));
        if (has_target(out, name)) return NULL;
    }
    return refuse(file, "code for", name);
}

hn_status hn_program_choose(const hn_module *m, const hn_bundle *file, const char *target,
                            hn_bundle *out) {
    uint32_t program = 0;
    *out = *file;
    /* one program: hn_places_open says whether it is for the device */
    if (!file->programs_count || (!m->has_wanted && !target)) return NULL;
    if (!m->has_wanted) return find_target(m, file, target, out);
    if (!hn_bundle_program_find(file, m->wanted.kind, &program))
        return refuse(file, "program for", hn_device_name(m->wanted.kind));
    return hn_bundle_program_open(file, program, !m->skip_digest, out);
}
