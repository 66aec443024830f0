/* store.c: opening the store; reading, verifying and publishing entries. */
#include "cache/store_internal.h"

#include "base/log.h"
#include "base/oserror.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    /* smaller entries are read: a map costs two system calls and page faults */
    MAP_FROM_BYTES = 256 << 10,
    TOUCH_EVERY_S = 60, /* how exact the order of eviction is */
    BLOCK_BYTES = 4096, /* what a file takes on the disk is a multiple */
    TEMP_ATTEMPTS = 8,  /* at a file that no sweep takes away before it is locked */
};
#define DEFAULT_MAX_BYTES ((uint64_t)2 << 30)

const char *hn_store_ns_name(hn_store_ns ns) {
    static const char *const names[HN_STORE_NS_COUNT] = {"kernel", "graph", "toolchain", "tuning",
                                                         "index"};
    return ns < HN_STORE_NS_COUNT ? names[ns] : "";
}

/* Without a directory that can be used: an error, or a warning and a store without a disk. */
static hn_status open_dir(hn_store *store, const hn_store_options *options) {
    hn_status status = hn_store_dir_open(store, options);
    if (!status || options->is_required) return status;
    hn_warn_once("cache", "store-open", "compiling without a cache on disk: %s",
                 hn_status_message(status));
    hn_status_free(status);
    store->dir[0] = 0;
    return NULL;
}

hn_status hn_store_open(const hn_store_options *options, hn_store **out_store) {
    *out_store = NULL;
    hn_store *store = calloc(1, sizeof(*store));
    if (!store) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for the store");
    store->dir_fd = -1;
    store->max_bytes = options->max_bytes ? options->max_bytes : DEFAULT_MAX_BYTES;
    store->sync = options->sync;
    store->is_off = options->dir && !options->dir[0];
    hn_status status = NULL;
    if (!options->dir || options->dir[0]) status = open_dir(store, options);
    else if (options->is_required)
        status = HN_ERROR(HN_INVALID_ARGUMENT, "the name of the cache directory is empty");
    if (status) {
        free(store);
        return status;
    }
    *out_store = store;
    return NULL;
}

void hn_store_close(hn_store *store) {
    if (!store) return;
    if (store->dir_fd >= 0) close(store->dir_fd);
    free(store);
}

hn_cache_bypass hn_store_bypass(const hn_store *store) {
    if (store->dir_fd < 0) return store->is_off ? HN_BYPASS_OFF : HN_BYPASS_NO_FOLDER;
    return store->is_writable ? HN_BYPASS_NONE : HN_BYPASS_READ_ONLY;
}

const char *hn_store_dir(const hn_store *store) { return store->dir; }

bool hn_store_is_mappable(const hn_store *store) { return store->is_mappable; }

void hn_store_entry_name(hn_store_ns ns, const hn_digest *key, char out[HN_STORE_NAME_BYTES]) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(key, hex);
    snprintf(out, HN_STORE_NAME_BYTES, "%s/%.2s/%s", hn_store_ns_name(ns), hex, hex + 2);
}

void hn_store_entry_path(const hn_store *store, hn_store_ns ns, const hn_digest *key,
                         char *out_path) {
    char name[HN_STORE_NAME_BYTES];
    hn_store_entry_name(ns, key, name);
    out_path[0] = 0;
    if (store->dir_fd >= 0 && snprintf(out_path, PATH_MAX, "%s/%s", store->dir, name) >= PATH_MAX)
        out_path[0] = 0;
}

void hn_store_remove(hn_store *store, hn_store_ns ns, const hn_digest *key) {
    char name[HN_STORE_NAME_BYTES];
    hn_store_entry_name(ns, key, name);
    if (store->dir_fd >= 0) unlinkat(store->dir_fd, name, 0);
}

bool hn_store_key_parse(const char *digits, hn_digest *out_key) {
    if (strspn(digits, "0123456789abcdef") != 2 * sizeof(out_key->bytes) ||
        strlen(digits) != 2 * sizeof(out_key->bytes))
        return false;
    for (size_t i = 0; i < sizeof(out_key->bytes); i++) {
        const char pair[3] = {digits[2 * i], digits[2 * i + 1], 0};
        out_key->bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

void hn_store_random_name(char out[17]) {
    uint64_t number;
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        const uint64_t seed[3] = {(uint64_t)getpid(), (uint64_t)now.tv_nsec,
                                  (uint64_t)(uintptr_t)&now};
        number = hn_hash64(seed, sizeof(seed), 0);
    }
    snprintf(out, 17, "%016llx", (unsigned long long)number);
}

/* ---- reading ---- */

int hn_store_entry_open(const hn_store *store, const char *name, struct stat *out_info) {
    int fd = openat(store->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return -1;
    if (fstat(fd, out_info) != 0) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

/* A hard link elsewhere could change the bytes after they were verified; a foreign file was
 * planted. */
static hn_status check_file(const struct stat *info) {
    if (!S_ISREG(info->st_mode)) return HN_ERROR(HN_CORRUPT, "entry is not a regular file");
    if (info->st_nlink > 1)
        return HN_ERROR(HN_CORRUPT, "entry has %u hard links", (unsigned)info->st_nlink);
    if (info->st_uid != geteuid() && info->st_uid != 0)
        return HN_ERROR(HN_CORRUPT, "entry belongs to another user (%u)", (unsigned)info->st_uid);
    if ((uint64_t)info->st_size < sizeof(hn_entry_footer))
        return HN_ERROR(HN_CORRUPT, "entry is cut short");
    return NULL;
}

static hn_status read_all(int fd, uint8_t *bytes, size_t len) {
    for (size_t at = 0; at < len;) {
        ssize_t got = pread(fd, bytes + at, len - at, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return HN_OS_ERROR(errno, "cannot read entry");
        if (got == 0) return HN_ERROR(HN_CORRUPT, "entry is cut short");
        at += (size_t)got;
    }
    return NULL;
}

static hn_status load_file(const hn_store *store, int fd, size_t len, hn_store_entry *entry) {
    if (store->is_mappable && len >= MAP_FROM_BYTES) {
        void *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            entry->storage = map;
            entry->mapped_bytes = len;
            return NULL;
        }
    }
    entry->storage = malloc(len);
    if (!entry->storage)
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an entry of %zu bytes", len);
    return read_all(fd, entry->storage, len);
}

hn_status hn_store_entry_read(hn_store *store, int fd, const struct stat *info, hn_store_ns ns,
                              const hn_digest *key, hn_store_entry *out_entry,
                              hn_entry_footer *out_footer) {
    *out_entry = (hn_store_entry){.fd = -1};
    HN_TRY(check_file(info));
    size_t len = (size_t)info->st_size;
    hn_status status = load_file(store, fd, len, out_entry);
    if (!status) status = hn_entry_verify(out_entry->storage, len, ns, key, out_footer);
    if (status) {
        hn_store_entry_deinit(out_entry);
        return status;
    }
    hn_store_entry loaded = *out_entry;
    hn_entry_view(loaded.storage, out_footer, out_entry);
    out_entry->storage = loaded.storage;
    out_entry->mapped_bytes = loaded.mapped_bytes;
    out_entry->fd = fd;
    return NULL;
}

void hn_store_entry_deinit(hn_store_entry *entry) {
    if (entry->mapped_bytes) munmap(entry->storage, entry->mapped_bytes);
    else free(entry->storage);
    if (entry->fd >= 0) close(entry->fd);
    *entry = (hn_store_entry){.fd = -1};
}

void hn_store_quarantine(hn_store *store, const char *name) {
    char unique[17], target[64];
    hn_store_random_name(unique);
    snprintf(target, sizeof(target), "quarantine/%s", unique);
    if (renameat(store->dir_fd, name, store->dir_fd, target) != 0 && errno == ENOENT) {
        mkdirat(store->dir_fd, "quarantine", 0700);
        /* ENOENT again: another process moved it first, which is as good. */
        if (renameat(store->dir_fd, name, store->dir_fd, target) != 0 && errno == ENOENT) return;
    }
    atomic_fetch_add(&store->quarantined, 1);
}

/* The modification time is the store's own stamp of last use: many file systems do not keep access
 * times. */
static void touch(const hn_store *store, int fd, const struct stat *info) {
    if (!store->is_writable || time(NULL) - info->st_mtime < TOUCH_EVERY_S) return;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    futimens(fd, times);
}

static void report_bad(hn_store *store, const char *name, hn_status status) {
    if (hn_status_code(status) == HN_CORRUPT) {
        hn_log("cache", HN_LOG_WARN, "entry '%s' moved to quarantine: %s", name,
               hn_status_message(status));
        hn_store_quarantine(store, name);
    } else {
        hn_log("cache", HN_LOG_DEBUG, "entry '%s' not used: %s", name, hn_status_message(status));
    }
    hn_status_free(status);
}

static bool get_verified(hn_store *store, hn_store_ns ns, const hn_digest *key,
                         hn_store_entry *out_entry) {
    char name[HN_STORE_NAME_BYTES];
    hn_store_entry_name(ns, key, name);
    struct stat info;
    int fd = hn_store_entry_open(store, name, &info);
    if (fd < 0) {
        if (errno == ELOOP) hn_store_quarantine(store, name); /* a symbolic link was planted */
        return false;
    }
    hn_entry_footer footer;
    hn_status status = hn_store_entry_read(store, fd, &info, ns, key, out_entry, &footer);
    if (status) {
        close(fd);
        report_bad(store, name, status);
        return false;
    }
    if (hn_entry_is_expired(&footer)) {
        hn_store_entry_deinit(out_entry);
        unlinkat(store->dir_fd, name, 0);
        return false;
    }
    touch(store, fd, &info);
    return true;
}

bool hn_store_peek(hn_store *store, hn_store_ns ns, const hn_digest *key,
                   hn_store_entry *out_entry) {
    return store->dir_fd >= 0 && ns < HN_STORE_NS_COUNT && get_verified(store, ns, key, out_entry);
}

bool hn_store_get(hn_store *store, hn_store_ns ns, const hn_digest *key,
                  hn_store_entry *out_entry) {
    bool hit = hn_store_peek(store, ns, key, out_entry);
    atomic_fetch_add(hit ? &store->hits : &store->misses, 1);
    if (hit) atomic_fetch_add(&store->read_bytes, out_entry->len);
    return hit;
}

/* ---- publishing ---- */

/* A write beyond RLIMIT_FSIZE raises SIGXFSZ, which would kill the host. It is raised for the
 * writing thread, so it is blocked here and taken away again if it came. */
static bool write_all(int fd, struct iovec *parts, int count) {
    sigset_t mask, old, pending;
    sigemptyset(&mask);
    sigaddset(&mask, SIGXFSZ);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &mask, &old);
    int err = 0;
    for (int at = 0; at < count && !err;) {
        ssize_t done = writev(fd, parts + at, count - at);
        if (done < 0 && errno != EINTR) err = errno;
        for (; done > 0 && at < count; at++) {
            size_t step = (size_t)done < parts[at].iov_len ? (size_t)done : parts[at].iov_len;
            parts[at].iov_base = (char *)parts[at].iov_base + step;
            parts[at].iov_len -= step;
            done -= (ssize_t)step;
            if (parts[at].iov_len) break;
        }
        while (at < count && parts[at].iov_len == 0) at++;
    }
    const struct timespec none = {0, 0};
    if (err == EFBIG && !was_pending) sigtimedwait(&mask, NULL, &none);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = err;
    return err == 0;
}

static int create_temp(const hn_store *store, char name[64]) {
    char unique[17];
    hn_store_random_name(unique);
    snprintf(name, 64, "tmp/%s", unique);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(store->dir_fd, name, flags, 0600);
    if (fd < 0 && errno == ENOENT) {
        mkdirat(store->dir_fd, "tmp", 0700);
        fd = openat(store->dir_fd, name, flags, 0600);
    }
    return fd;
}

/* An unfinished file is locked as long as its writer lives: that is how the sweep knows those of
 * dead ones. It may see a file before it is locked; the writer then finds it gone, or the sweep at
 * it, and takes another. */
static int open_temp(const hn_store *store, char name[64]) {
    for (int i = 0; i < TEMP_ATTEMPTS; i++) {
        int fd = create_temp(store, name);
        if (fd < 0) return -1;
        struct stat info;
        bool is_lost = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!is_lost && fstat(fd, &info) == 0 && info.st_nlink > 0) return fd;
        close(fd);
        unlinkat(store->dir_fd, name, 0);
    }
    errno = EAGAIN;
    return -1;
}

/* A network file system may tell of a full disk on closing only, and the lock must last until the
 * rename. */
static bool flush_by_closing(const hn_store *store, int fd) {
    if (store->is_mappable) return true;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy >= 0 && close(copy) == 0;
}

/* The descriptor of the written file, which keeps it locked; -1 with errno. */
static int write_temp(const hn_store *store, struct iovec *parts, int count, char name[64]) {
    int fd = open_temp(store, name);
    if (fd < 0) return -1;
    bool ok = write_all(fd, parts, count) && (!store->sync || fdatasync(fd) == 0) &&
              flush_by_closing(store, fd);
    if (ok) return fd;
    int err = errno;
    unlinkat(store->dir_fd, name, 0);
    close(fd);
    errno = err;
    return -1;
}

/* Makes the directories on the way to `name`, which are at most two. */
static void make_parents(const hn_store *store, const char *name) {
    char path[HN_STORE_NAME_BYTES];
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(path, sizeof(path), "%.*s", (int)(slash - name), name);
        mkdirat(store->dir_fd, path, 0700);
    }
}

static bool publish(const hn_store *store, struct iovec *parts, int count, const char *name) {
    char temp[64];
    int fd = write_temp(store, parts, count, temp);
    if (fd < 0) return false;
    int rc = renameat(store->dir_fd, temp, store->dir_fd, name);
    if (rc != 0 && errno == ENOENT) {
        make_parents(store, name);
        rc = renameat(store->dir_fd, temp, store->dir_fd, name);
    }
    int err = errno;
    if (rc != 0) unlinkat(store->dir_fd, temp, 0);
    close(fd);
    errno = err;
    return rc == 0;
}

bool hn_store_publish_new(const hn_store *store, const char *name, const void *bytes, size_t len) {
    char temp[64];
    struct iovec parts[1] = {{(void *)bytes, len}};
    int fd = write_temp(store, parts, 1, temp);
    if (fd < 0) return false;
    int rc = linkat(store->dir_fd, temp, store->dir_fd, name, 0);
    /* Some file systems have no hard links; there the last of several writers wins. */
    if (rc != 0 && errno != EEXIST) rc = renameat(store->dir_fd, temp, store->dir_fd, name);
    int err = rc ? errno : 0;
    unlinkat(store->dir_fd, temp, 0);
    close(fd);
    errno = err;
    return rc == 0;
}

/* The estimate only decides when to look: a lost update is repaired by the next scan. Adds `delta`
 * to the number that stands in the file, or puts the scan's `total` in its place, plus what was
 * added since it was `before`. */
static int64_t update_usage(const hn_store *store, int64_t delta, const int64_t *total,
                            int64_t before) {
    int64_t now = 0;
    int fd = openat(store->dir_fd, "usage", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return 0;
    struct stat info;
    /* not the store's */
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > (off_t)sizeof(now)) {
        close(fd);
        return 0;
    }
    flock(fd, LOCK_EX);
    if (pread(fd, &now, sizeof(now), 0) != sizeof(now) || now < 0) now = 0;
    if (total) delta = *total + (now > before ? now - before : 0) - now;
    if (__builtin_add_overflow(now, delta, &now) || now < 0) now = 0;
    if (delta && pwrite(fd, &now, sizeof(now), 0) != sizeof(now)) now = 0;
    close(fd);
    return now;
}

int64_t hn_store_usage_add(const hn_store *store, int64_t delta) {
    return update_usage(store, delta, NULL, 0);
}

void hn_store_usage_set(const hn_store *store, int64_t total, int64_t before) {
    update_usage(store, 0, &total, before);
}

static void grown(hn_store *store, size_t len) {
    int64_t total =
        hn_store_usage_add(store, (int64_t)((len + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES));
    if ((uint64_t)total <= store->max_bytes) return;
    uint64_t removed;
    hn_status status = hn_store_gc(store, 0, &removed);
    if (status)
        hn_warn_once("cache", "store-gc", "cannot shrink the cache: %s", hn_status_message(status));
    hn_status_free(status);
}

static hn_cache_bypass bypass_of(int err) {
    switch (err) {
    case EFBIG: return HN_BYPASS_TOO_LARGE;
    case ENOSPC:
    case EDQUOT: return HN_BYPASS_DISK_FULL;
    case EROFS:
    case EACCES: return HN_BYPASS_READ_ONLY;
    default: return HN_BYPASS_DISK_ERROR;
    }
}

/* Of other namespaces nobody misses anything: they say where results are. */
static bool is_result(hn_store_ns ns) { return ns == HN_STORE_KERNEL || ns == HN_STORE_GRAPH; }

static bool put_failed(hn_store *store, hn_store_ns ns, int err) {
    char text[128];
    atomic_fetch_add(&store->put_failures, 1);
    if (is_result(ns)) atomic_fetch_add(&store->bypasses[bypass_of(err)], 1);
    hn_warn_once("cache", "store-put", "cannot write to cache '%s': %s; going on without",
                 store->dir, strerror_r(err, text, sizeof(text)));
    return false;
}

static bool put_parts(hn_store *store, hn_store_ns ns, const hn_digest *key, struct iovec *parts,
                      int count) {
    if (store->dir_fd < 0 || !store->is_writable || ns >= HN_STORE_NS_COUNT) return false;
    size_t total = 0;
    for (int i = 0; i < count; i++) total += parts[i].iov_len;
    if (total > store->max_bytes) return put_failed(store, ns, EFBIG);
    char name[HN_STORE_NAME_BYTES];
    hn_store_entry_name(ns, key, name);
    if (!publish(store, parts, count, name)) return put_failed(store, ns, errno);
    atomic_fetch_add(&store->puts, 1);
    atomic_fetch_add(&store->written_bytes, total);
    grown(store, total);
    return true;
}

bool hn_store_put(hn_store *store, const hn_store_put_args *args) {
    if (store->dir_fd < 0 || !store->is_writable) return false;
    hn_strbuf summary;
    hn_entry_footer footer;
    hn_strbuf_init(&summary);
    hn_entry_summarise(args->record, &summary);
    hn_str record = hn_strbuf_str(&summary);
    hn_entry_seal(args, record, &footer);
    struct iovec parts[3] = {{(void *)args->bytes, args->len},
                             {(void *)record.ptr, record.len},
                             {&footer, sizeof(footer)}};
    bool ok = put_parts(store, args->ns, args->key, parts, 3);
    hn_strbuf_deinit(&summary);
    return ok;
}

bool hn_store_put_bytes(hn_store *store, hn_store_ns ns, const hn_digest *key, const void *bytes,
                        size_t len) {
    struct iovec parts[1] = {{(void *)bytes, len}};
    return put_parts(store, ns, key, parts, 1);
}

bool hn_store_put_failed_source(hn_store *store, const hn_digest *key, const char *suffix,
                                const void *bytes, size_t len) {
    if (store->dir_fd < 0 || !store->is_writable) return false;
    char path[HN_STORE_NAME_BYTES], hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(key, hex);
    snprintf(path, sizeof(path), "failed/%s%s", hex, suffix);
    struct iovec parts[1] = {{(void *)bytes, len}};
    return publish(store, parts, 1, path) || put_failed(store, HN_STORE_NS_COUNT, errno);
}

void hn_store_stats_get(const hn_store *store, hn_store_stats *out_stats) {
    *out_stats = (hn_store_stats){
        .hits = atomic_load(&store->hits),
        .misses = atomic_load(&store->misses),
        .puts = atomic_load(&store->puts),
        .put_failures = atomic_load(&store->put_failures),
        .quarantined = atomic_load(&store->quarantined),
        .evicted = atomic_load(&store->evicted),
        .read_bytes = atomic_load(&store->read_bytes),
        .written_bytes = atomic_load(&store->written_bytes),
    };
    for (int k = 0; k < HN_BYPASS_COUNT; k++)
        out_stats->bypasses[k] = atomic_load(&store->bypasses[k]);
}
