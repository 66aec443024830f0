/* lease.c: see lease.h. Remote leases are renewed by a thread that starts with the first of them,
 * so that they can be short and a dead holder is replaced soon. */
#include "cache/lease.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/trace.h"
#include "cache/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
    LEASES_MAX = 512,  /* at once in one process: more work goes without */
    LOCK_ATTEMPTS = 3, /* a file that was just unlinked by its last holder is opened again */
    RENEW_PART = 3,    /* a lease is renewed after this part of its life */
};

typedef struct slot {
    bool is_used, is_remote;
    atomic_int fd; /* of the locked file; -1: none. Atomic for hn_leases_abandon. */
    hn_store_ns ns;
    hn_digest key;
    hn_remote_token token;
    int64_t renew_ns;
} slot;

struct hn_leases {
    hn_store *store;
    hn_remote *remote;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    slot slots[LEASES_MAX];
    bool has_thread, is_stopping;
    pthread_t thread;
};

hn_status hn_leases_create(hn_store *store, hn_remote *remote, hn_leases **out_leases) {
    hn_leases *leases = calloc(1, sizeof(*leases));
    pthread_condattr_t attr;
    if (!leases || pthread_condattr_init(&attr)) {
        free(leases);
        return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for leases");
    }
    leases->store = store;
    leases->remote = remote;
    for (int i = 0; i < LEASES_MAX; i++) atomic_init(&leases->slots[i].fd, -1);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&leases->lock, NULL);
    pthread_cond_init(&leases->changed, &attr);
    pthread_condattr_destroy(&attr);
    *out_leases = leases;
    return NULL;
}

void hn_leases_abandon(hn_leases *leases) {
    for (int i = 0; i < LEASES_MAX; i++) {
        int fd = atomic_exchange(&leases->slots[i].fd, -1);
        if (fd >= 0) close(fd);
    }
}

/* ---- the lock on a file ---- */

static void lock_name(hn_store_ns ns, const hn_digest *key, char out[HN_STORE_NAME_BYTES]) {
    char hex[HN_DIGEST_HEX_BYTES];
    hn_digest_hex(key, hex);
    snprintf(out, HN_STORE_NAME_BYTES, "lease/%s-%s", hn_store_ns_name(ns), hex);
}

static int open_lock(const hn_store *store, const char *name) {
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(store->dir_fd, name, flags, 0600);
    if (fd >= 0 || errno != ENOENT) return fd;
    mkdirat(store->dir_fd, "lease", 0700);
    return openat(store->dir_fd, name, flags, 0600);
}

/* `*out_fd` is -1 when there is nothing to lock. */
static hn_lease_answer lock_file(const hn_store *store, const char *name, int *out_fd) {
    *out_fd = -1;
    if (store->dir_fd < 0 || !store->is_writable) return HN_LEASE_MINE;
    for (int i = 0; i < LOCK_ATTEMPTS; i++) {
        int fd = open_lock(store, name);
        if (fd < 0) return HN_LEASE_MINE; /* a full disk, say */
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            bool theirs = errno == EWOULDBLOCK; /* else a file system without locks */
            close(fd);
            return theirs ? HN_LEASE_THEIRS : HN_LEASE_MINE;
        }
        /* The last holder unlinks the file; a lock on what it left would exclude nobody. */
        struct stat info;
        if (fstat(fd, &info) == 0 && info.st_nlink > 0) {
            *out_fd = fd;
            return HN_LEASE_MINE;
        }
        close(fd);
    }
    return HN_LEASE_MINE;
}

static void unlock_file(const hn_store *store, const char *name, int fd) {
    if (fd < 0) return;
    unlinkat(store->dir_fd, name, 0);
    close(fd);
}

/* ---- renewing ---- */

/* With the lock held: the slot that is due first. */
static slot *next_due(hn_leases *leases) {
    slot *first = NULL;
    for (int i = 0; i < LEASES_MAX; i++) {
        slot *s = &leases->slots[i];
        if (s->is_used && s->is_remote && (!first || s->renew_ns < first->renew_ns)) first = s;
    }
    return first;
}

/* With the lock held, which is given up meanwhile. A lease that was lost goes on as if it were
 * held: the work is under way, and its result will be the same as the other holder's. */
static void renew(hn_leases *leases, slot *s) {
    slot copy = {.ns = s->ns, .key = s->key, .token = s->token};
    s->renew_ns = hn_now_ns() + hn_remote_lease_ms(leases->remote) * 1000000 / RENEW_PART;
    hn_unlock(&leases->lock);
    if (hn_remote_renew(leases->remote, copy.ns, &copy.key, &copy.token) == HN_REMOTE_NO)
        hn_log("cache", HN_LOG_DEBUG,
               "a lease in the remote cache was lost, or has just been given back");
    hn_lock(&leases->lock);
}

static void *renew_main(void *argument) {
    hn_leases *leases = argument;
    hn_lock(&leases->lock);
    while (!leases->is_stopping) {
        slot *s = next_due(leases);
        if (!s) {
            pthread_cond_wait(&leases->changed, &leases->lock);
        } else if (s->renew_ns <= hn_now_ns()) {
            renew(leases, s);
        } else {
            struct timespec until = {.tv_sec = s->renew_ns / 1000000000,
                                     .tv_nsec = s->renew_ns % 1000000000};
            pthread_cond_timedwait(&leases->changed, &leases->lock, &until);
        }
    }
    hn_unlock(&leases->lock);
    return NULL;
}

/* With the lock held. Without the thread a lease ends after its first life, which costs double work
 * at most. */
static void start_thread(hn_leases *leases) {
    if (leases->has_thread) return;
    leases->has_thread = hn_thread_start(&leases->thread, NULL, renew_main, leases) == 0;
}

/* ---- taking and giving back ---- */

static slot *reserve(hn_leases *leases) {
    slot *s = NULL;
    hn_lock(&leases->lock);
    for (int i = 0; i < LEASES_MAX && !s; i++)
        if (!leases->slots[i].is_used) s = &leases->slots[i];
    if (s) s->is_used = true;
    hn_unlock(&leases->lock);
    return s;
}

static void free_slot(hn_leases *leases, slot *s) {
    hn_lock(&leases->lock);
    s->is_remote = false;
    s->is_used = false;
    hn_unlock(&leases->lock);
}

static void note_remote(hn_leases *leases, slot *s, const hn_remote_token *token) {
    hn_lock(&leases->lock);
    s->token = *token;
    s->is_remote = true;
    s->renew_ns = hn_now_ns() + hn_remote_lease_ms(leases->remote) * 1000000 / RENEW_PART;
    start_thread(leases);
    pthread_cond_signal(&leases->changed);
    hn_unlock(&leases->lock);
}

hn_lease_answer hn_lease_try(hn_leases *leases, hn_store_ns ns, const hn_digest *key,
                             bool is_shared, hn_lease *out_lease) {
    char name[HN_STORE_NAME_BYTES];
    hn_remote_token token;
    int fd;
    *out_lease = 0;
    lock_name(ns, key, name);
    if (lock_file(leases->store, name, &fd) == HN_LEASE_THEIRS) return HN_LEASE_THEIRS;
    hn_remote_answer answer = HN_REMOTE_AWAY;
    if (is_shared && leases->remote) answer = hn_remote_lease(leases->remote, ns, key, &token);
    slot *s = fd >= 0 || answer == HN_REMOTE_YES ? reserve(leases) : NULL;
    if (answer == HN_REMOTE_NO || !s) {
        if (answer == HN_REMOTE_YES) hn_remote_release(leases->remote, ns, key, &token);
        unlock_file(leases->store, name, fd);
        if (s) free_slot(leases, s);
        return answer == HN_REMOTE_NO ? HN_LEASE_THEIRS : HN_LEASE_MINE;
    }
    s->ns = ns;
    s->key = *key;
    atomic_store(&s->fd, fd);
    if (answer == HN_REMOTE_YES) note_remote(leases, s, &token);
    *out_lease = (hn_lease)(s - leases->slots) + 1;
    return HN_LEASE_MINE;
}

void hn_lease_release(hn_leases *leases, hn_lease lease) {
    if (lease <= 0 || lease > LEASES_MAX) return;
    slot *s = &leases->slots[lease - 1];
    char name[HN_STORE_NAME_BYTES];
    hn_lock(&leases->lock);
    bool is_remote = s->is_remote;
    s->is_remote = false; /* no more renewals */
    hn_unlock(&leases->lock);
    /* The remote one first: who gets the file then finds the other one free. */
    if (is_remote) hn_remote_release(leases->remote, s->ns, &s->key, &s->token);
    lock_name(s->ns, &s->key, name);
    unlock_file(leases->store, name, atomic_exchange(&s->fd, -1));
    free_slot(leases, s);
}

uint32_t hn_leases_held(hn_leases *leases) {
    uint32_t count = 0;
    hn_lock(&leases->lock);
    for (int i = 0; i < LEASES_MAX; i++) count += leases->slots[i].is_used;
    hn_unlock(&leases->lock);
    return count;
}

void hn_leases_destroy(hn_leases *leases) {
    if (!leases) return;
    hn_lock(&leases->lock);
    leases->is_stopping = true;
    bool has_thread = leases->has_thread;
    pthread_cond_signal(&leases->changed);
    hn_unlock(&leases->lock);
    if (has_thread) pthread_join(leases->thread, NULL);
    for (int i = 0; i < LEASES_MAX; i++)
        if (leases->slots[i].is_used) hn_lease_release(leases, i + 1);
    pthread_cond_destroy(&leases->changed);
    pthread_mutex_destroy(&leases->lock);
    free(leases);
}
