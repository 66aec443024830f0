/* test_shared_cache.c: 64 processes on one cache whose bound is so small that it evicts all the
 * time. Most look an entry up, elect one of them to make it, and store it; eight compile C kernels
 * with a service of their own, load and call them. No process may see a wrong byte, get a wrong
 * result or die. Entries that two made at the same time are counted: the lease saves work and
 * nothing depends on it. */
#include "cache/cache.h"

#include "base/log.h"
#include "stress/one_kernel.h"
#include "stress/stress.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROCESSES = 64,
    COMPILING = 8, /* of these, with a service */
    KEYS = 240,
    BIG_BYTES = 300 << 10, /* mapped; the others are read */
    BOUND_BYTES = 2 << 20,
    KERNELS = 40,
    PATIENCE = 200, /* looks at what somebody else makes */
    JOBS_OF_A_SERVICE = 8,
};

/* In memory that all share. */
typedef struct counts {
    atomic_bool is_over;
    atomic_long lookups, hits, wrong, made, twice, waited, impatient, compiled, called, failed;
    atomic_int making[KEYS];
} counts;

static counts *all;
static char dir[PATH_MAX - 64];

static size_t size_of(uint64_t k) { return k % 60 == 0 ? BIG_BYTES : 200 + k * 150; }

static bool look(hn_cache *cache, uint64_t k, const hn_digest *key, bool again) {
    static uint8_t expected[BIG_BYTES];
    hn_store_entry entry;
    hn_cache_level level = again ? hn_cache_look_again(cache, HN_STORE_KERNEL, key, &entry)
                                 : hn_cache_get(cache, HN_STORE_KERNEL, key, &entry);
    all->lookups++;
    if (level == HN_LEVEL_NONE) return false;
    stress_fill(expected, size_of(k), k);
    if (entry.len != size_of(k) || memcmp(entry.bytes, expected, entry.len) != 0) all->wrong++;
    all->hits++;
    hn_store_entry_deinit(&entry);
    return true;
}

/* What takes a compiler its time is a short sleep here. */
static void make(hn_cache *cache, uint64_t k, const hn_digest *key, uint64_t *random) {
    static uint8_t bytes[BIG_BYTES];
    if (atomic_fetch_add(&all->making[k], 1) > 0) all->twice++;
    stress_sleep_us(100 + (int64_t)stress_below(random, 900));
    stress_fill(bytes, size_of(k), k);
    hn_cache_put(cache, &(hn_store_put_args){.ns = HN_STORE_KERNEL,
                                             .key = key,
                                             .bytes = bytes,
                                             .len = size_of(k),
                                             .record = HN_STR("")});
    all->made++;
    all->making[k]--;
}

static void want(hn_cache *cache, uint64_t *random) {
    uint64_t k =
        stress_below(random, 1 + stress_below(random, KEYS)); /* some are wanted more often */
    hn_digest key = hn_digest_of(&k, sizeof(k));
    if (look(cache, k, &key, false)) return;
    for (int i = 0; i < PATIENCE; i++) {
        hn_lease lease;
        if (hn_lease_try(cache->leases, HN_STORE_KERNEL, &key, false, &lease) == HN_LEASE_MINE) {
            if (!look(cache, k, &key, true)) make(cache, k, &key, random);
            hn_lease_release(cache->leases, lease);
            return;
        }
        all->waited += i == 0;
        stress_sleep_us(1000);
        if (look(cache, k, &key, true)) return;
    }
    all->impatient++;
    make(cache, k, &key, random);
}

static int use_cache(uint64_t seed) {
    hn_store *store = NULL;
    hn_cache cache;
    hn_status status =
        hn_store_open(&(hn_store_options){.dir = dir, .max_bytes = BOUND_BYTES}, &store);
    if (!status) status = hn_cache_init(store, "", &cache);
    if (status) return 1;
    while (!all->is_over) want(&cache, &seed);
    hn_cache_deinit(&cache);
    hn_store_close(store);
    return 0;
}

/* ---- with a compiler ---- */

static void compile_one(hn_scope *scope, int number) {
    char name[32];
    bool right;
    snprintf(name, sizeof(name), "kernel_%d", number);
    hn_status status = one_kernel(scope, name, number, &right);
    if (status) {
        fprintf(stderr, "%s: %s\n", name, hn_status_message(status));
        all->failed++;
    } else if (!right) {
        all->wrong++;
    }
    all->called++;
    hn_status_free(status);
}

/* A service remembers its results, so it is made anew now and then. */
static int use_service(uint64_t seed) {
    while (!all->is_over) {
        hn_service *service = NULL;
        hn_scope *scope = NULL;
        hn_service_stats stats;
        hn_status status = hn_service_create(
            &(hn_service_options){
                .threads = 1, .cache_dir = dir, .remote_url = "", .cache_max_bytes = BOUND_BYTES},
            &service);
        if (!status) status = hn_scope_create(service, &scope);
        if (status) return 1;
        for (int i = 0; i < JOBS_OF_A_SERVICE && !all->is_over; i++)
            compile_one(scope, (int)stress_below(&seed, KERNELS));
        hn_service_stats_get(service, &stats);
        all->compiled += (long)stats.compiled;
        hn_scope_destroy(scope);
        hn_service_destroy(service);
    }
    return 0;
}

static void check_rest(long *orphans, uint64_t *bytes) {
    hn_store *store = NULL;
    hn_store_usage usage;
    hn_store_verify_report report;
    uint64_t removed;
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = dir, .max_bytes = BOUND_BYTES}, &store));
    EXPECT_OK(hn_store_usage_get(store, &usage));
    *bytes = usage.total_bytes;
    EXPECT_INT(usage.quarantined, 0);
    EXPECT(usage.total_bytes < BOUND_BYTES * 3 / 2); /* 64 may each be about to store one more */
    EXPECT_OK(hn_store_gc(store, 0, &removed));
    EXPECT_OK(hn_store_verify(store, &report));
    EXPECT_INT(report.bad, 0);
    *orphans = stress_count_files(dir, "tmp") + stress_count_files(dir, "lease");
    EXPECT_INT(*orphans, 0);
    hn_store_close(store);
}

TEST(many_processes_on_a_small_cache) {
    pid_t pids[PROCESSES];
    long crashes = 0, orphans, seconds = stress_seconds(120, 3);
    uint64_t bytes;
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(all != MAP_FAILED);
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    stress_begin();
    for (int i = 0; i < PROCESSES; i++) {
        uint64_t seed = stress.seed * PROCESSES + (uint64_t)i;
        pids[i] = fork();
        if (pids[i] == 0) _exit(i < COMPILING ? use_service(seed) : use_cache(seed));
        EXPECT(pids[i] > 0);
    }
    stress_sleep_us(seconds * 1000000);
    all->is_over = true;
    for (int i = 0; i < PROCESSES; i++) {
        int how = 0;
        waitpid(pids[i], &how, 0);
        crashes += !WIFEXITED(how) || WEXITSTATUS(how) != 0;
    }
    check_rest(&orphans, &bytes);
    EXPECT_INT(crashes, 0);
    EXPECT_INT(all->wrong, 0);
    EXPECT_INT(all->failed, 0);
    EXPECT(all->hits > 0 && all->made > 0 && all->compiled > 0);
    stress_row("64 processes on one cache with a tiny bound", "two minutes, 0 wrong, 0 crashes",
               "%ld s: %ld wrong of %ld hits and %ld calls, %ld crashes; %ld lookups, %ld made and "
               "%ld compiled, %ld made twice at once, %ld waits, %ld impatient; "
               "%.1f MB of a bound of %.1f MB at the end, %ld orphans",
               seconds, all->wrong, all->hits, all->called, crashes, all->lookups, all->made,
               all->compiled, all->twice, all->waited, all->impatient, (double)bytes / 1e6,
               BOUND_BYTES / 1e6, orphans);
    munmap(all, sizeof(*all));
    EXPECT_OK(hn_dir_remove(dir));
}

int main(int argc, char **argv) { return stress_main(argc, argv); }
