/* verify.c: the checksums of what imports hand on unread, on threads beside the rest of a
 * compilation.
 *
 * Threads take record by record, the longest first; the caller of verify_end takes what is left.
 * Pages are given back as they are read: they stay in the system's cache, but the process does not
 * seem to hold all weights. */
#include "front/pt2/archive.h"

#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    MAX_THREADS = 4, /* that many read memory as fast as it goes */
    PAGE_BYTES = 4096,
    /* Less than this takes less time than a thread. */
    INLINE_BYTES = 1 << 20
};
static const uint64_t PIECE_BYTES = 8u << 20;

struct hn_pt2_verifier {
    const hn_pt2 *file;
    hn_pt2_unread *records;
    uint32_t count;
    atomic_uint next;
    pthread_mutex_t lock; /* of `status` */
    hn_status status;     /* the first error */
    pthread_t threads[MAX_THREADS];
    uint32_t thread_count;
};

/* Pages that lie in [begin, end) of the mapped file as a whole. */
static void give_back(const hn_pt2 *file, const uint8_t *begin, const uint8_t *end) {
    const hn_file_map *map = &file->base.map;
    if (!map->data || begin < map->data || end > map->data + map->size_bytes) return;
    uintptr_t first = ((uintptr_t)begin + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1),
              last = (uintptr_t)end & ~(uintptr_t)(PAGE_BYTES - 1);
    /* at worst they stay */
    if (first < last) (void)madvise((void *)first, last - first, MADV_DONTNEED);
}

static hn_status record_check(const hn_pt2 *file, const hn_pt2_unread *record) {
    uint64_t size = record->entry->size_bytes;
    uint32_t crc = 0;
    if (!record->zip->has_checksums) return NULL;
    for (uint64_t at = 0; at < size; at += PIECE_BYTES) {
        uint64_t len = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        crc = hn_zip_crc(crc, record->bytes + at, len);
        give_back(file, record->bytes + at, record->bytes + at + len);
    }
    return hn_zip_crc_status(record->zip, record->entry, crc);
}

static void work(hn_pt2_verifier *v) {
    for (;;) {
        uint32_t k = atomic_fetch_add(&v->next, 1);
        if (k >= v->count) return;
        hn_status status = record_check(v->file, &v->records[k]);
        if (!status) continue;
        pthread_mutex_lock(&v->lock);
        if (v->status) hn_status_free(status);
        else v->status = status;
        pthread_mutex_unlock(&v->lock);
        atomic_store(&v->next, v->count); /* one error is enough */
    }
}

static void *thread_main(void *context) {
    work(context);
    return NULL;
}

static int longest_first(const void *a, const void *b) {
    const hn_pt2_unread *x = a, *y = b;
    if (x->entry->size_bytes != y->entry->size_bytes)
        return x->entry->size_bytes < y->entry->size_bytes ? 1 : -1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void threads_start(hn_pt2_verifier *v, uint32_t threads) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < v->count; k++) bytes += v->records[k].entry->size_bytes;
    if (bytes < INLINE_BYTES) return;
    uint32_t want = threads < 1 ? 1 : threads < MAX_THREADS ? threads : MAX_THREADS;
    while (v->thread_count < want && v->thread_count < v->count &&
           hn_thread_start(&v->threads[v->thread_count], NULL, thread_main, v) == 0)
        v->thread_count++;
}

void hn_pt2_forget_reads(hn_model_file *file) { hn_pt2_of(file)->unread.count = 0; }

hn_status hn_pt2_verify_begin(hn_model_file *base, uint32_t threads) {
    hn_pt2 *file = hn_pt2_of(base);
    hn_pt2_verifier *v = calloc(1, sizeof *v);
    uint32_t count = file->unread.count;
    if (v) v->records = malloc((count ? count : 1) * sizeof *v->records);
    if (!v || !v->records) {
        free(v);
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to verify %u records", count);
    }
    v->file = file;
    v->count = count;
    if (count) memcpy(v->records, file->unread.items, count * sizeof *v->records);
    if (count) qsort(v->records, count, sizeof *v->records, longest_first);
    pthread_mutex_init(&v->lock, NULL);
    threads_start(v, threads);
    file->verifier = v;
    return NULL;
}

hn_status hn_pt2_verify_end(hn_model_file *base) {
    hn_pt2 *file = hn_pt2_of(base);
    hn_pt2_verifier *v = file->verifier;
    file->verifier = NULL;
    work(v);
    for (uint32_t k = 0; k < v->thread_count; k++) pthread_join(v->threads[k], NULL);
    hn_status status = v->status;
    pthread_mutex_destroy(&v->lock);
    free(v->records);
    free(v);
    return status;
}

hn_status hn_pt2_verify_all(hn_model_file *base, uint32_t threads) {
    hn_pt2 *file = hn_pt2_of(base);
    if (!file->zip.has_checksums)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "the archive was written without checksums: there is nothing to verify");
    file->unread.count = 0;
    for (uint32_t k = 0; k < file->zip.entries.count; k++) {
        hn_zip_entry *entry = &file->zip.entries.items[k];
        hn_str bytes;
        HN_TRY(hn_zip_read(&file->zip, entry, HN_ZIP_TRUST, &bytes, NULL));
        HN_PUSH(&file->arena, &file->unread,
                ((hn_pt2_unread){&file->zip, entry, (const uint8_t *)bytes.ptr, NULL, false}));
    }
    HN_TRY(hn_pt2_verify_begin(base, threads));
    return hn_pt2_verify_end(base);
}
