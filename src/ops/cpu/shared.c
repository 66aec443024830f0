/* shared.c: what the extern calls of a module share: packed weights and the like, found by key.
 *
 * A maker runs without the lock, so that different entries are made at the same time and a maker
 * may ask for other entries. Until it is done the entry stands in the table as "being made", and
 * who wants it waits. A maker that fails takes its entry out again; each of those that waited then
 * tries for itself. */
#include "ops/cpu/ext.h"

#include "base/hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUCKET_COUNT = 256, FILE_COUNT = 2 };

typedef struct slot {
    struct slot *next;  /* in the bucket */
    struct slot *older; /* made before this one */
    hn_ext_entry entry;
    bool ready;
    uint64_t hash;
    size_t key_bytes;
    unsigned char key[];
} slot;

struct hn_ext_shared {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a slot became ready or went away */
    slot *buckets[BUCKET_COUNT];
    slot *newest; /* of the ready ones */
    size_t bytes;
    struct {
        uintptr_t begin, end;
        int fd;
    } files[FILE_COUNT];
    uint32_t file_count;
};

hn_status hn_ext_shared_create(hn_ext_shared **out) {
    hn_ext_shared *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot allocate the shared state of a module");
    if (pthread_mutex_init(&s->lock, NULL)) goto no_lock;
    if (pthread_cond_init(&s->changed, NULL)) goto no_cond;
    *out = s;
    return NULL;
no_cond:
    pthread_mutex_destroy(&s->lock);
no_lock:
    free(s);
    return HN_ERROR(HN_OUT_OF_MEMORY, "cannot make the lock of a module's shared state");
}

/* Newest first: an entry may use older ones that its maker asked for. */
void hn_ext_shared_destroy(hn_ext_shared *shared) {
    if (!shared) return;
    for (slot *s = shared->newest, *older; s; s = older) {
        older = s->older;
        if (s->entry.free_value) s->entry.free_value(s->entry.value);
        free(s);
    }
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

static slot **bucket_of(hn_ext_shared *shared, uint64_t hash) {
    return &shared->buckets[hash % BUCKET_COUNT];
}

static slot *find(hn_ext_shared *shared, uint64_t hash, const void *key, size_t key_bytes) {
    slot *s = *bucket_of(shared, hash);
    while (s &&
           (s->hash != hash || s->key_bytes != key_bytes || memcmp(s->key, key, key_bytes) != 0))
        s = s->next;
    return s;
}

static slot *add(hn_ext_shared *shared, uint64_t hash, const void *key, size_t key_bytes) {
    slot *s = key_bytes <= SIZE_MAX - sizeof *s ? calloc(1, sizeof *s + key_bytes) : NULL;
    if (!s) return NULL;
    slot **bucket = bucket_of(shared, hash);
    *s = (slot){.next = *bucket, .hash = hash, .key_bytes = key_bytes};
    memcpy(s->key, key, key_bytes);
    return *bucket = s;
}

static void take_out(hn_ext_shared *shared, slot *gone) {
    slot **link = bucket_of(shared, gone->hash);
    while (*link != gone) link = &(*link)->next;
    *link = gone->next;
    free(gone);
}

/* Called with the lock held, which it gives up while `make` runs. */
static hn_status make_entry(hn_ext_shared *shared, slot *s,
                            hn_status (*make)(void *user, hn_ext_entry *out), void *user,
                            void **out_value) {
    hn_ext_entry made = {0};
    pthread_mutex_unlock(&shared->lock);
    hn_status status = make(user, &made);
    pthread_mutex_lock(&shared->lock);
    if (status) {
        take_out(shared, s);
    } else {
        s->entry = made;
        s->ready = true;
        s->older = shared->newest;
        shared->newest = s;
        shared->bytes += made.bytes;
        *out_value = made.value;
    }
    pthread_cond_broadcast(&shared->changed);
    return status;
}

hn_status hn_ext_shared_get(hn_ext_shared *shared, const void *key, size_t key_bytes,
                            hn_status (*make)(void *user, hn_ext_entry *out), void *user,
                            void **out_value) {
    const uint64_t hash = hn_hash64(key, key_bytes, 0);
    hn_status status = NULL;
    *out_value = NULL;
    pthread_mutex_lock(&shared->lock);
    slot *s = find(shared, hash, key, key_bytes);
    for (; s && !s->ready; s = find(shared, hash, key, key_bytes))
        pthread_cond_wait(&shared->changed, &shared->lock);
    if (s) *out_value = s->entry.value;
    else if ((s = add(shared, hash, key, key_bytes)))
        status = make_entry(shared, s, make, user, out_value);
    else
        status = HN_ERROR(HN_OUT_OF_MEMORY, "cannot remember an entry with a key of %zu bytes",
                          key_bytes);
    pthread_mutex_unlock(&shared->lock);
    return status;
}

size_t hn_ext_shared_bytes(hn_ext_shared *shared) {
    pthread_mutex_lock(&shared->lock);
    size_t bytes = shared->bytes;
    pthread_mutex_unlock(&shared->lock);
    return bytes;
}

void hn_ext_shared_add_file(hn_ext_shared *shared, const hn_file_map *map) {
    if (!map->size_bytes || shared->file_count == FILE_COUNT) return;
    shared->files[shared->file_count].begin = (uintptr_t)map->data;
    shared->files[shared->file_count].end = (uintptr_t)map->data + map->size_bytes;
    shared->files[shared->file_count++].fd = map->fd;
}

static bool read_at(int fd, uint8_t *out, size_t len, size_t offset) {
    while (len) {
        ssize_t got = pread(fd, out, len, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        out += got, len -= (size_t)got, offset += (size_t)got;
    }
    return true;
}

const void *hn_ext_shared_read(const hn_ext_shared *shared, const void *bytes, size_t len,
                               void *buffer) {
    const uintptr_t begin = (uintptr_t)bytes;
    for (uint32_t i = 0; i < shared->file_count; i++) {
        const uintptr_t first = shared->files[i].begin, end = shared->files[i].end;
        if (begin < first || begin > end || len > end - begin) continue;
        return read_at(shared->files[i].fd, buffer, len, begin - first) ? buffer : bytes;
    }
    return bytes;
}

void hn_ext_shared_drop(const hn_ext_shared *shared, const void *bytes, size_t len) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)bytes,
                    end = begin + len;
    for (uint32_t i = 0; i < shared->file_count; i++) {
        if (begin < shared->files[i].begin || end > shared->files[i].end) continue;
        const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
        /* Only advice: when it is refused the pages stay. */
        if (first < last) (void)madvise((void *)first, last - first, MADV_DONTNEED);
    }
}
