/* programs.c: several programs in one file, each for one kind of device, with one copy of the
 * weights. The first is the file itself; the others are images in part two (hnb_program). */
#include "bundle/internal.h"

#include "base/checked.h"
#include "base/device.h"

#define CORRUPT(...) HN_ERROR(HN_CORRUPT, "bundle is damaged: " __VA_ARGS__)

/* ---- checking ---- */

static bool place_ok(const hn_bundle *b, uint32_t k, uint64_t *behind) {
    const hnb_program *p = &b->programs[k];
    size_t end;
    if (k == 0)
        return !p->offset && !p->len && !p->first_object && hn_bundle_digest_is_unknown(p->digest);
    if (!p->len || p->offset % HNB_ALIGN || p->offset < *behind ||
        !hn_add_size(p->offset, p->len, &end))
        return false;
    *behind = end;
    return end <= b->header->code_bytes;
}

/* Targets are for the device of their program. */
static hn_status check_device(const hn_bundle *b, uint32_t device) {
    for (uint32_t t = 0; t < b->targets_count; t++)
        if (hn_bundle_target_device(b->targets[t].kind) != device)
            return CORRUPT("target %u is not for %s", t, hn_device_name(device));
    return NULL;
}

hn_status hn_bundle_check_programs(const hn_bundle *b, uint64_t behind) {
    bool seen[HN_DEVICE_KIND_COUNT] = {false};
    for (uint32_t k = 0; k < b->programs_count; k++) {
        const uint32_t device = b->programs[k].device;
        if (device >= HN_DEVICE_KIND_COUNT || seen[device] || !place_ok(b, k, &behind))
            return CORRUPT("program %u", k);
        seen[device] = true;
    }
    return b->programs_count ? check_device(b, b->programs[0].device) : NULL;
}

/* Also of its program of weights. */
static hn_status check_program_code(const hn_bundle *b) {
    hn_bundle of_weights;
    HN_TRY(hn_bundle_check_own_code(b));
    if (!b->weights_program_count) return NULL;
    HN_TRY(hn_bundle_weights_program_open(b, true, &of_weights));
    return hn_bundle_check_own_code(&of_weights);
}

hn_status hn_bundle_check_code(const hn_bundle *b) {
    HN_TRY(check_program_code(b));
    for (uint32_t k = 1; k < b->programs_count; k++) {
        hn_bundle program;
        HN_TRY(hn_bundle_program_open(b, k, true, &program));
        HN_TRY(check_program_code(&program));
    }
    return NULL;
}

/* ---- opening ---- */

static hn_status open_program(const hn_bundle *file, const hnb_program *p, bool check_digest,
                              hn_bundle *out) {
    HN_TRY(hn_bundle_open_in(file, file->code + p->offset, p->len, check_digest, false, out));
    if (check_digest && memcmp(p->digest, out->header->digest, sizeof p->digest) != 0)
        return CORRUPT("its digest is not the recorded one");
    out->first_object = p->first_object;
    return check_device(out, p->device);
}

hn_status hn_bundle_program_open(const hn_bundle *file, uint32_t program, bool check_digest,
                                 hn_bundle *out) {
    *out = *file;
    if (!program) return NULL;
    const hnb_program *p = &file->programs[program];
    return hn_status_annotate(open_program(file, p, check_digest, out), "program %u, for %s",
                              program, hn_device_name(p->device));
}

hn_status hn_bundle_programs_check(const hn_bundle *file, bool check_digest) {
    uint64_t objects = file->objects_count;
    HN_TRY(hn_bundle_weights_program_check(file, check_digest));
    for (uint32_t k = 1; k < file->programs_count; k++) {
        hn_bundle program;
        HN_TRY(hn_bundle_program_open(file, k, check_digest, &program));
        if (program.first_object != objects)
            return CORRUPT("number of objects before program %u", k);
        HN_TRY(hn_bundle_weights_program_check(&program, check_digest));
        objects += program.objects_count;
    }
    return NULL;
}

/* ---- asking ---- */

hn_device_kind hn_bundle_program_device(const hn_bundle *file, uint32_t program) {
    if (file->programs_count) return (hn_device_kind)file->programs[program].device;
    return file->targets_count ? hn_bundle_target_device(file->targets[0].kind) : HN_DEVICE_CPU;
}

bool hn_bundle_program_find(const hn_bundle *file, uint32_t device, uint32_t *out_program) {
    const uint32_t count = hn_bundle_program_count(file);
    uint32_t k = 0;
    while (k < count && hn_bundle_program_device(file, k) != device) k++;
    *out_program = k;
    return k < count;
}

void hn_bundle_programs_print(const hn_bundle *file, hn_strbuf *out) {
    for (uint32_t k = 0; k < hn_bundle_program_count(file); k++) {
        hn_bundle program;
        hn_status status = hn_bundle_program_open(file, k, false, &program);
        hn_strbuf_printf(out, "%s%s", k ? ", " : "",
                         hn_device_name(hn_bundle_program_device(file, k)));
        for (uint32_t t = 0; !status && t < program.targets_count; t++)
            hn_strbuf_printf(out, "%s%s%s", t ? ", " : " (",
                             hn_bundle_text(&program, program.targets[t].name),
                             t + 1 == program.targets_count ? ")" : "");
        hn_status_free(status);
    }
}
