/* test_store_kill.c: processes that write the cache are killed at random moments, over and over,
 * while another reads it. No reader may ever see a wrong byte, and the next sweep leaves nothing of
 * the dead.
 *
 * A round: three writers are forked; each takes the lease of a key, publishes an entry and gives
 * the lease back, for ever; one of them on a bound so small that it evicts all the time. The parent
 * reads until a random moment, kills all of them with SIGKILL, and reads on. */
#include "cache/cache.h"

#include "stress/stress.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WRITERS = 3,
    KEYS = 64,
    BIG_BYTES = 300 << 10, /* entries of this size are mapped, smaller ones read */
    BOUND_BYTES = 1 << 20,
    LATEST_US = 900,
    READS_AFTER = 4,
    SWEEP_EVERY = 500,
};

typedef struct kill_test {
    char dir[PATH_MAX - 64];
    hn_store *store, *small; /* the same folder */
    uint64_t random;
    long hits, wrong, lookups, swept, orphans, bad;
} kill_test;

/* Sizes follow from the key, contents from key and version. */
static size_t size_of(uint64_t key) { return key % 16 == 0 ? BIG_BYTES : 100 + key * 499; }

static hn_digest digest_of(uint64_t key) { return hn_digest_of(&key, sizeof(key)); }

static void write_for_ever(hn_store *store, uint64_t seed) {
    static uint8_t bytes[BIG_BYTES];
    hn_leases *leases;
    if (hn_leases_create(store, NULL, &leases)) _exit(1);
    for (;;) {
        uint64_t number = stress_next(&seed), key = number % KEYS;
        hn_digest digest = digest_of(key);
        hn_lease lease;
        if (hn_lease_try(leases, HN_STORE_KERNEL, &digest, false, &lease) != HN_LEASE_MINE)
            continue;
        stress_fill(bytes, size_of(key), number / KEYS * KEYS + key);
        hn_store_put(store, &(hn_store_put_args){.ns = HN_STORE_KERNEL,
                                                 .key = &digest,
                                                 .bytes = bytes,
                                                 .len = size_of(key),
                                                 .record = HN_STR("")});
        hn_lease_release(leases, lease);
    }
}

static void read_one(kill_test *t) {
    static uint8_t expected[BIG_BYTES];
    uint64_t key = stress_below(&t->random, KEYS), number;
    hn_digest digest = digest_of(key);
    hn_store_entry entry;
    t->lookups++;
    if (!hn_store_get(t->store, HN_STORE_KERNEL, &digest, &entry)) return;
    t->hits++;
    bool ok = entry.len == size_of(key);
    if (ok) {
        memcpy(&number, entry.bytes, sizeof(number));
        stress_fill(expected, entry.len, number);
        ok = number % KEYS == key && memcmp(entry.bytes, expected, entry.len) == 0;
    }
    t->wrong += !ok;
    hn_store_entry_deinit(&entry);
}

static void run_round(kill_test *t) {
    pid_t pids[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        uint64_t seed = stress_next(&t->random);
        pids[i] = fork();
        if (pids[i] == 0) write_for_ever(i ? t->store : t->small, seed);
        EXPECT(pids[i] > 0);
    }
    int64_t until_ns = hn_now_ns() + (int64_t)stress_below(&t->random, LATEST_US) * 1000;
    do {
        read_one(t);
    } while (hn_now_ns() < until_ns);
    for (int i = 0; i < WRITERS; i++) kill(pids[i], SIGKILL);
    for (int i = 0; i < WRITERS; i++) {
        int how = 0;
        EXPECT(waitpid(pids[i], &how, 0) == pids[i] && WIFSIGNALED(how) &&
               WTERMSIG(how) == SIGKILL);
    }
    for (int i = 0; i < READS_AFTER; i++) read_one(t);
}

/* What the next gc leaves of dead writers: nothing. */
static void sweep(kill_test *t) {
    uint64_t removed;
    hn_store_verify_report report;
    t->swept += stress_count_files(t->dir, "tmp") + stress_count_files(t->dir, "lease");
    EXPECT_OK(hn_store_gc(t->store, 0, &removed));
    t->orphans += stress_count_files(t->dir, "tmp") + stress_count_files(t->dir, "lease");
    EXPECT_OK(hn_store_verify(t->store, &report));
    t->bad += (long)report.bad + stress_count_files(t->dir, "quarantine");
}

TEST(killed_writers_leave_nothing_wrong) {
    kill_test t = {.random = stress.seed};
    long rounds = stress_rounds(100000, 1000);
    EXPECT_OK(hn_dir_temp(t.dir, sizeof(t.dir)));
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = t.dir}, &t.store));
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = t.dir, .max_bytes = BOUND_BYTES}, &t.small));
    stress_begin();
    for (long round = 0; round < rounds && !hn_test_failures; round++) {
        run_round(&t);
        if (round % SWEEP_EVERY == SWEEP_EVERY - 1 || round == rounds - 1) sweep(&t);
    }
    EXPECT_INT(t.wrong, 0);
    EXPECT_INT(t.orphans, 0);
    EXPECT_INT(t.bad, 0);
    EXPECT(t.hits > rounds && t.swept > 0); /* else nothing was tested */
    stress_row("SIGKILL at random moments of processes that write the cache",
               "100,000 rounds, 0 corrupt reads, no orphan after the next gc",
               "%ld rounds of %d writers, %ld corrupt of %ld reads (%ld lookups), %ld orphans left "
               "of %ld swept, %ld bad entries",
               rounds, WRITERS, t.wrong, t.hits, t.lookups, t.orphans, t.swept, t.bad);
    hn_store_close(t.store);
    hn_store_close(t.small);
    EXPECT_OK(hn_dir_remove(t.dir));
}

int main(int argc, char **argv) { return stress_main(argc, argv); }
