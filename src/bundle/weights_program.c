/* weights_program.c: the program that computes storages of another one from its weights alone: an
 * image in part two. A reader runs it and writes where the storages say, so all that is said of it
 * is compared with what it is. */
#include "bundle/internal.h"

#include "base/checked.h"

#define CORRUPT(...) HN_ERROR(HN_CORRUPT, "bundle is damaged: " __VA_ARGS__)

/* ---- what the program around it says ---- */

static bool place_ok(const hn_bundle *b, uint64_t *behind) {
    const hnb_weights_program *p = &b->weights_program[0];
    size_t end;
    if (!p->len || p->offset % HNB_ALIGN || p->offset < *behind ||
        !hn_add_size(p->offset, p->len, &end) || end > b->header->code_bytes)
        return false;
    *behind = end;
    return true;
}

static bool has_plain_bytes(const hn_bundle *b, uint32_t storage) {
    const hnb_storage *s = &b->storages[storage];
    return storage && s->where != HNB_STORAGE_MADE && s->where != HNB_STORAGE_COMPUTED &&
           !s->is_mutable;
}

static bool sources_ok(const hn_bundle *b) {
    for (uint32_t k = 0; k < b->weights_sources_count; k++)
        if (b->weights_sources[k] >= b->storages_count ||
            !has_plain_bytes(b, b->weights_sources[k]))
            return false;
    return true;
}

static bool storage_ok(const hn_bundle *b, const hnb_storage *s) {
    if (s->where == HNB_STORAGE_COMPUTED)
        return b->weights_program_count && !s->is_mutable && s->bytes <= INT64_MAX;
    if (s->where == HNB_STORAGE_OUTER) return b->is_of_weights && !s->is_mutable;
    return true;
}

hn_status hn_bundle_check_computed(const hn_bundle *b, uint64_t *behind) {
    if ((b->weights_program_count != 0) != (b->weights_sources_count != 0) ||
        (b->weights_program_count && (b->is_of_weights || !place_ok(b, behind) || !sources_ok(b))))
        return CORRUPT("program of weights");
    for (uint32_t k = 1; k < b->storages_count; k++)
        if (!storage_ok(b, &b->storages[k])) return CORRUPT("storage %u", k);
    return NULL;
}

/* ---- what it is ---- */

/* It reads storages of the program around it, and what is made of those. */
static hn_status check_sources(const hn_bundle *b, const hn_bundle *program) {
    for (uint32_t k = 1; k < program->storages_count; k++) {
        const hnb_storage *s = &program->storages[k];
        if (s->where == HNB_STORAGE_MADE) continue;
        if (s->where != HNB_STORAGE_OUTER || s->offset >= b->weights_sources_count ||
            b->storages[b->weights_sources[s->offset]].bytes != s->bytes)
            return CORRUPT("storage %u of the program of weights", k);
    }
    return NULL;
}

/* Bytes of a row-major tensor of known sizes, which the output is. */
static bool output_bytes(const hn_bundle *program, const hnb_output *o, uint64_t *out) {
    int64_t bytes = hn_bundle_dtype_bytes(o->dtype), size;
    if (o->kind != HNB_VALUE_TENSOR || o->is_mutation) return false;
    for (uint32_t d = 0; d < o->rank; d++)
        if (!hn_bundle_expr_const(program, program->dims[o->dims + d], &size) || size < 0 ||
            !hn_mul_i64(bytes, size, &bytes))
            return false;
    *out = (uint64_t)bytes;
    return true;
}

/* A computed storage is an output, all of it. */
static hn_status check_outputs(const hn_bundle *b, const hn_bundle *program) {
    uint64_t bytes;
    for (uint32_t k = 1; k < b->storages_count; k++) {
        const hnb_storage *s = &b->storages[k];
        if (s->where != HNB_STORAGE_COMPUTED) continue;
        if (s->offset >= program->outputs_count ||
            !output_bytes(program, &program->outputs[s->offset], &bytes) || bytes != s->bytes)
            return CORRUPT("storage %u is no output of the program of weights", k);
    }
    return NULL;
}

static hn_status open_program(const hn_bundle *b, bool check_digest, hn_bundle *out) {
    const hnb_weights_program *p = &b->weights_program[0];
    HN_TRY(hn_bundle_open_in(b, b->code + p->offset, p->len, check_digest, true, out));
    if (check_digest && memcmp(p->digest, out->header->digest, sizeof p->digest) != 0)
        return CORRUPT("its digest is not the recorded one");
    if (out->inputs_count || out->symbols_count) return CORRUPT("it has inputs");
    HN_TRY(check_sources(b, out));
    return check_outputs(b, out);
}

hn_status hn_bundle_weights_program_open(const hn_bundle *b, bool check_digest, hn_bundle *out) {
    if (!b->weights_program_count)
        return HN_ERROR(HN_NOT_FOUND, "the program has no program of weights");
    return hn_status_annotate(open_program(b, check_digest, out), "the program of weights");
}

hn_status hn_bundle_weights_program_check(const hn_bundle *b, bool check_digest) {
    hn_bundle ignored;
    return b->weights_program_count ? hn_bundle_weights_program_open(b, check_digest, &ignored)
                                    : NULL;
}
