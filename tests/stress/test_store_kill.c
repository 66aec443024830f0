/* test_store_kill.c: writers of the store are killed at random moments, over and over. No reader may ever see
 * a wrong byte, and what dead writers leave is swept. HN_STRESS_ROUNDS sets the number of rounds (default
 * 100, about 2 s). */
#include "cache/store.h"

#include "base/file.h"
#include "unit/harness.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WRITERS = 2, KEYS = 32, ENTRY_BYTES = 64 << 10, DEFAULT_ROUNDS = 100 };

static int rounds(void) {
    const char *text = getenv("HN_STRESS_ROUNDS");
    return text ? atoi(text) : DEFAULT_ROUNDS;
}

/* The bytes of an entry follow from its key and a version that is written in front. */
static void fill(uint8_t *bytes, int key, unsigned version) {
    unsigned state = version * 2654435761u + (unsigned)key;
    memcpy(bytes, &version, sizeof(version));
    for (size_t i = sizeof(version); i < ENTRY_BYTES; i++) {
        state = state * 1103515245u + 12345u;
        bytes[i] = (uint8_t)(state >> 16);
    }
}

static void write_for_ever(hn_store *store, unsigned seed) {
    static uint8_t bytes[ENTRY_BYTES];
    for (unsigned version = seed;; version += WRITERS) {
        int n = (int)(version % KEYS);
        hn_digest key = hn_digest_of(&n, sizeof(n));
        fill(bytes, n, version);
        hn_store_put(store, &(hn_store_put_args){.ns = HN_STORE_KERNEL,
                                                 .key = &key,
                                                 .bytes = bytes,
                                                 .len = ENTRY_BYTES,
                                                 .record = HN_STR("")});
    }
}

/* Reads everything; counts hits, and wrong bytes. */
static void read_all(hn_store *store, long *hits, long *wrong) {
    static uint8_t expected[ENTRY_BYTES];
    for (int n = 0; n < KEYS; n++) {
        hn_digest key = hn_digest_of(&n, sizeof(n));
        hn_store_entry entry;
        if (!hn_store_get(store, HN_STORE_KERNEL, &key, &entry)) continue;
        unsigned version;
        memcpy(&version, entry.bytes, sizeof(version));
        fill(expected, n, version);
        ++*hits;
        *wrong += entry.len != ENTRY_BYTES || memcmp(entry.bytes, expected, ENTRY_BYTES) != 0;
        hn_store_entry_deinit(&entry);
    }
}

TEST(killed_writers_leave_nothing_wrong) {
    char dir[PATH_MAX];
    hn_store *store = NULL;
    long hits = 0, wrong = 0;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = dir}, &store));
    for (int round = 0; round < rounds(); round++) {
        pid_t pids[WRITERS];
        for (int i = 0; i < WRITERS; i++) {
            pids[i] = fork();
            if (pids[i] == 0) write_for_ever(store, (unsigned)(round * 1000 + i));
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000 + rand() % 8000000}, NULL);
        for (int i = 0; i < WRITERS; i++) EXPECT(kill(pids[i], SIGKILL) == 0);
        for (int i = 0; i < WRITERS; i++) EXPECT(waitpid(pids[i], NULL, 0) == pids[i]);
        read_all(store, &hits, &wrong);
    }
    EXPECT_INT(wrong, 0);
    EXPECT(hits > 0);
    hn_store_stats stats;
    hn_store_stats_get(store, &stats);
    EXPECT_INT(stats.quarantined, 0);
    hn_store_verify_report report;
    EXPECT_OK(hn_store_verify(store, &report));
    EXPECT_INT(report.bad, 0);
    hn_store_usage usage;
    EXPECT_OK(hn_store_usage_get(store, &usage));
    fprintf(stderr, "note: %d rounds, %ld reads, %ld wrong, %lld bytes of leftovers\n", rounds(), hits, wrong,
            (long long)usage.total_bytes - (long long)usage.bytes[HN_STORE_KERNEL]);
    hn_store_close(store);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST_MAIN
