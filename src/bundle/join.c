/* join.c: several programs of one model into one file. The tables of each program stay as they are,
 * except for its storages: all bytes of weights and constants go through one pool, in which equal
 * ones are one. */
#include "bundle/join.h"

#include "base/checked.h"
#include "bundle/writer.h"

/* Bytes that are stored in the file, or in its weights file. */
typedef struct pool_entry {
    const uint8_t *bytes;
    uint64_t len, offset;
    uint32_t where; /* hnb_storage_where */
    uint32_t next;  /* with the same hash, plus 1; 0: none */
} pool_entry;

typedef struct joiner {
    const hn_join_part *parts;
    uint32_t count;
    bool embed_weights;
    hn_arena arena;
    hn_bundle_writer file;
    const hn_join_part *weights; /* whose weights file is that of the file; NULL: it has none */
    hn_map heads;                /* hash of bytes -> entry, plus 1 */
    struct {
        pool_entry *items;
        uint32_t count, cap;
    } pool;
} joiner;

/* ---- the pool ---- */

/* Of the length, the beginning and the end: tensors that agree in these are nearly always equal. */
static uint64_t hash_of(const uint8_t *bytes, uint64_t len) {
    const size_t part = len < 256 ? (size_t)len : 256;
    return hn_hash64(bytes, part, hn_hash64(bytes + len - part, part, len));
}

static const pool_entry *pool_find(const joiner *j, uint64_t hash, const uint8_t *bytes,
                                   uint64_t len) {
    const uint64_t *head = hn_map_get(&j->heads, hash);
    for (uint32_t at = head ? (uint32_t)*head : 0; at; at = j->pool.items[at - 1].next) {
        const pool_entry *e = &j->pool.items[at - 1];
        if (e->len == len && (e->bytes == bytes || memcmp(e->bytes, bytes, len) == 0)) return e;
    }
    return NULL;
}

static hn_status pool_add(joiner *j, uint64_t hash, pool_entry entry) {
    const uint64_t *head = hn_map_get(&j->heads, hash);
    entry.next = head ? (uint32_t)*head : 0;
    HN_PUSH(&j->arena, &j->pool, entry);
    return hn_map_put(&j->heads, hash, j->pool.count);
}

/* ---- storages ---- */

static bool is_same_file(const hn_bundle *a, const hn_bundle *b) {
    const hnb_weight_file *x = a->weight_files, *y = b->weight_files;
    return a->weight_files_count && b->weight_files_count && x->bytes == y->bytes &&
           memcmp(x->ends_digest, y->ends_digest, sizeof x->ends_digest) == 0;
}

/* Whether the storage may stay where it is: in the weights file that the file will refer to. */
static bool stays(const joiner *j, const hn_join_part *part, const hnb_storage *s) {
    return s->where == HNB_STORAGE_FILE && !j->embed_weights && j->weights &&
           is_same_file(&part->bundle, &j->weights->bundle);
}

/* NULL: its weights file is too short. */
static const uint8_t *bytes_of(const hn_join_part *part, const hnb_storage *s) {
    size_t end;
    if (s->where == HNB_STORAGE_BLOB) return part->bundle.blob + s->offset;
    if (s->where == HNB_STORAGE_WEIGHTS) return part->bundle.weights + s->offset;
    if (!hn_add_size(s->offset, s->bytes, &end) || end > part->weights.size_bytes) return NULL;
    return (const uint8_t *)part->weights.data + s->offset;
}

/* New bytes: constants beside the tables, weights behind the code. What a weights file beside the
 * bundle lacks is a constant, so that weights are in one place. */
static hn_status put_bytes(joiner *j, const hnb_storage *s, const uint8_t *bytes, pool_entry *out) {
    const bool is_weight = s->where != HNB_STORAGE_BLOB && (j->embed_weights || !j->weights);
    *out = (pool_entry){.bytes = bytes,
                        .len = s->bytes,
                        .where = is_weight ? HNB_STORAGE_WEIGHTS : HNB_STORAGE_BLOB};
    return hn_bundle_writer_piece(&j->file, is_weight ? &j->file.weights : &j->file.blob, bytes,
                                  s->bytes, &out->offset);
}

/* Where the bytes of a storage are in the file, if it has bytes there. */
static hn_status place_storage(joiner *j, const hn_join_part *part, hnb_storage *s) {
    if (s->where == HNB_STORAGE_MADE || s->where == HNB_STORAGE_COMPUTED) return NULL;
    const uint8_t *bytes = bytes_of(part, s);
    pool_entry entry = {.bytes = bytes, .len = s->bytes, .offset = s->offset, .where = s->where};
    if (!bytes) return HN_ERROR(HN_CORRUPT, "a storage lies beyond the end of the weights file");
    const uint64_t hash = hash_of(bytes, s->bytes);
    if (stays(j, part, s)) return pool_add(j, hash, entry);
    const pool_entry *known = pool_find(j, hash, bytes, s->bytes);
    if (known) entry = *known;
    else HN_TRY(put_bytes(j, s, bytes, &entry));
    s->where = entry.where, s->offset = entry.offset;
    return known ? NULL : pool_add(j, hash, entry);
}

static hn_status place_storages(joiner *j, const hn_join_part *part, hn_bundle_writer *w) {
    for (uint32_t k = 1; k < w->storages.count; k++)
        HN_TRY(place_storage(j, part, &w->storages.items[k]));
    return NULL;
}

/* ---- programs ---- */

/* Every section whose elements are one struct, storages as they are there. */
static hn_status take_arrays(joiner *j, const hn_bundle *b, hn_bundle_writer *w) {
#define TAKE(member)                                                                               \
    HN_NEW(&j->arena, w->member.items, (size_t)b->member##_count + 1);                             \
    w->member.count = w->member.cap = b->member##_count;                                           \
    if (b->member##_count)                                                                         \
        memcpy(w->member.items, b->member, b->member##_count * sizeof *b->member);
    TAKE(nodes)
    TAKE(symbols)
    TAKE(guards)
    TAKE(inputs)
    TAKE(outputs)
    TAKE(dims)
    TAKE(buffers)
    TAKE(steps)
    TAKE(operands)
    TAKE(params)
    TAKE(kernels)
    TAKE(objects)
    TAKE(storages)
    TAKE(origins)
    TAKE(step_origins)
    TAKE(features)
    TAKE(targets)
    TAKE(codes)
    TAKE(args)
    TAKE(launches)
    TAKE(tensors)
    TAKE(workspaces)
    TAKE(pieces)
    TAKE(piece_dims)
    TAKE(records)
    TAKE(weights_program)
    TAKE(weights_sources)
    TAKE(choices)
    TAKE(variants)
    TAKE(boxes)
#undef TAKE
    return NULL;
}

/* Everything of a bundle but its weights. */
static hn_status take_tables(joiner *j, const hn_bundle *b, hn_bundle_writer *w) {
    HN_TRY(take_arrays(j, b, w));
    uint64_t offset;
    w->info = *b->info;
    memset(w->info.weights_digest, 0, sizeof w->info.weights_digest);
    w->key = (hn_str){b->key, (size_t)b->key_bytes};
    w->tuning = (hn_str){b->tuning, (size_t)b->tuning_bytes};
    hn_strbuf_append(&w->strings, b->strings, b->strings_bytes);
    HN_TRY(hn_strbuf_status(&w->strings));
    if (!b->header->code_bytes) return NULL;
    return hn_bundle_writer_piece(w, &w->code, b->code, b->header->code_bytes, &offset);
}

/* The image of a program that is not the first. Its bytes live as long as the joiner. */
static hn_status make_inner(joiner *j, const hn_join_part *part, hn_str *out) {
    hn_bundle_writer w;
    hn_strbuf image;
    char *bytes = NULL;
    HN_TRY(hn_bundle_writer_init(&w, &j->arena));
    w.is_inner = true;
    hn_strbuf_init(&image);
    hn_status status = take_tables(j, &part->bundle, &w);
    if (!status) status = place_storages(j, part, &w);
    if (!status) status = hn_bundle_writer_finish(&w, &image);
    if (!status && !(bytes = hn_arena_strndup(&j->arena, image.ptr, image.len)))
        status = HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a program of %zu bytes", image.len);
    *out = (hn_str){bytes, image.len};
    hn_bundle_writer_deinit(&w);
    hn_strbuf_deinit(&image);
    return status;
}

static hn_status add_program(joiner *j, const hn_join_part *part, uint32_t first_object) {
    hnb_program record = {.device = hn_bundle_program_device(&part->bundle, 0),
                          .first_object = first_object};
    hn_str image;
    for (uint32_t k = 0; k < j->file.programs.count; k++)
        if (j->file.programs.items[k].device == record.device)
            return HN_ERROR(HN_INVALID_ARGUMENT, "two programs for one device");
    if (part != j->parts) {
        HN_TRY(make_inner(j, part, &image));
        record.len = image.len;
        memcpy(record.digest, ((const hnb_header *)(const void *)image.ptr)->digest,
               sizeof record.digest);
        HN_TRY(
            hn_bundle_writer_piece(&j->file, &j->file.code, image.ptr, image.len, &record.offset));
    }
    HN_PUSH(&j->arena, &j->file.programs, record);
    return NULL;
}

/* With room for another path: see hn_bundle_weight_file_set. */
static hn_status put_weight_file(joiner *j) {
    if (!j->weights || j->embed_weights) return NULL;
    const hn_bundle *b = &j->weights->bundle;
    hnb_weight_file record = b->weight_files[0];
    const uint32_t len = record.path.len, room = len < HNB_PATH_ROOM ? HNB_PATH_ROOM - 1 : len;
    char *path;
    HN_NEW(&j->arena, path, (size_t)room + 1);
    memcpy(path, hn_bundle_text(b, record.path), len);
    HN_TRY(hn_bundle_writer_str(&j->file, (hn_str){path, room}, &record.path));
    record.path.len = len;
    HN_PUSH(&j->arena, &j->file.weight_files, record);
    return NULL;
}

static hn_status join(joiner *j) {
    uint32_t objects = 0;
    for (uint32_t k = 0; k < j->count && !j->weights; k++)
        if (j->parts[k].bundle.weight_files_count) j->weights = &j->parts[k];
    HN_TRY(take_tables(j, &j->parts[0].bundle, &j->file));
    HN_TRY(place_storages(j, &j->parts[0], &j->file));
    for (uint32_t k = 0; k < j->count; k++) {
        HN_TRY(add_program(j, &j->parts[k], objects));
        objects += j->parts[k].bundle.objects_count;
    }
    j->file.weights_digest = true;
    return put_weight_file(j);
}

hn_status hn_bundle_join(const hn_join_part *parts, uint32_t count, bool embed_weights,
                         hn_strbuf *out) {
    joiner j = {.parts = parts, .count = count, .embed_weights = embed_weights};
    hn_arena_init(&j.arena);
    hn_map_init(&j.heads, &j.arena);
    hn_status status = hn_bundle_writer_init(&j.file, &j.arena);
    if (!status) status = join(&j);
    if (!status) status = hn_bundle_writer_finish(&j.file, out);
    hn_bundle_writer_deinit(&j.file);
    hn_arena_deinit(&j.arena);
    return hn_status_annotate(status, "cannot join programs");
}
