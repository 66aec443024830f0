/* test_expect.c: how long jobs took is known to the next process, and to nobody's harm: which job starts first follows from it,
 * and nothing else does. */
#include "service/core.h"
#include "service/service.h"

#include "base/file.h"
#include "base/log.h"
#include "service_fixture.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[PATH_MAX - 256];

static hn_job *job_of(int number) {
    const hn_toolchain_row *row = NULL;
    const hn_digest key = hn_digest_of(&number, sizeof(number));
    EXPECT_OK(hn_toolchain_row_find(HN_STR("c"), &row));
    return hn_job_create(&key, row, "k");
}

static hn_core *core_of(hn_service *service) {
    hn_core *core = NULL;
    EXPECT_OK(hn_core_current(service, &core));
    return core;
}

static void note(hn_core *core, int number, int64_t ns) {
    pthread_mutex_lock(&core->lock);
    hn_job *job = job_of(number);
    hn_core_note_duration(core, job, ns);
    hn_job_release(job);
    pthread_mutex_unlock(&core->lock);
}

/* What `core` expects of a job whose record is empty: 0 when it knows nothing. */
static int64_t expected(hn_core *core, int number) {
    hn_core_learn_durations(core);
    pthread_mutex_lock(&core->lock);
    hn_job *job = job_of(number);
    int64_t ns = hn_core_expected_ns(core, job);
    hn_job_release(job);
    pthread_mutex_unlock(&core->lock);
    return ns;
}

/* In a process of its own: jobs [first, end) took as many microseconds as their numbers say. `ends`: it ends its service. */
static void run_process(int first, int end, bool ends) {
    int exit_status = -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
        for (int number = first; number < end; number++) note(core_of(service), number, number * 1000LL);
        if (!ends) exit(0);
        hn_service_destroy(service);
        _exit(0);
    }
    EXPECT(waitpid(pid, &exit_status, 0) == pid && exit_status == 0);
}

static void run_elsewhere(int first, int end) { run_process(first, end, true); }

/* The only file of the entry: its path; false when there is none. */
static bool find_entry(char out[PATH_MAX]) {
    hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    const hn_digest key = hn_digest_of("durations 1", sizeof("durations 1"));
    hn_store_entry_path(hn_service_store(service), HN_STORE_TOOLCHAIN, &key, out);
    hn_service_destroy(service);
    return hn_file_exists(out);
}

TEST(the_next_process_knows) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    run_elsewhere(1, 4);
    run_elsewhere(3, 6); /* which keeps what the first one knew */
    hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    hn_core *core = core_of(service);
    for (int number = 1; number < 6; number++) EXPECT_INT(expected(core, number), number * 1000);
    EXPECT_INT(expected(core, 6), 0);
    note(core, 2, 77); /* what was seen here is nearer */
    EXPECT_INT(expected(core, 2), 77);
    hn_service_destroy(service);
    service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    EXPECT_INT(expected(core_of(service), 2), 77);
    EXPECT_INT(expected(core_of(service), 3), 3000);
    hn_service_destroy(service);
    EXPECT_OK(hn_dir_remove(dir));
}

/* What the next process expects of job `number`. */
static int64_t expected_next(int number) {
    hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    int64_t ns = expected(core_of(service), number);
    hn_service_destroy(service);
    return ns;
}

TEST(a_process_that_does_not_end_its_service_tells_all_the_same) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    hn_service *ours = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    note(core_of(ours), 9, 9000); /* which is not for a child to keep */
    run_process(1, 3, false);
    EXPECT_INT(expected_next(2), 2000);
    EXPECT_INT(expected_next(9), 0);
    run_process(3, 5, false);
    EXPECT_INT(expected_next(2), 2000);
    EXPECT_INT(expected_next(4), 4000);
    hn_service_destroy(ours);
    EXPECT_INT(expected_next(9), 9000);
    EXPECT_OK(hn_dir_remove(dir));
}

/* A lock that is held by who ends the program, in a handler of a signal say, does not come free. */
TEST(an_exit_does_not_wait_for_a_lock) {
    int exit_status = -1;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
        note(core_of(service), 1, 1000);
        pthread_mutex_lock(&core_of(service)->lock);
        exit(0);
    }
    EXPECT(waitpid(pid, &exit_status, 0) == pid && exit_status == 0);
    EXPECT_INT(expected_next(1), 0);
    EXPECT_OK(hn_dir_remove(dir));
}

static uint64_t put_kernel(hn_store *store, int number) {
    static char bytes[30 << 10];
    const hn_digest key = hn_digest_of(&number, sizeof(number));
    hn_store_stats stats;
    EXPECT(hn_store_put(store, &(hn_store_put_args){.ns = HN_STORE_KERNEL, .key = &key, .bytes = bytes, .len = sizeof(bytes)}));
    hn_store_stats_get(store, &stats);
    return stats.evicted;
}

/* Nor does it take as long as a look through a cache that is full. */
TEST(an_exit_evicts_nothing) {
    hn_store_stats stats;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1, .cache_max_bytes = 70 << 10});
    hn_store *store = hn_service_store(service);
    EXPECT_INT(put_kernel(store, 1), 0);
    EXPECT_INT(put_kernel(store, 2), 0);
    for (int number = 1; number < 900; number++) note(core_of(service), number, 5);
    hn_core_keep_durations(core_of(service), true);
    hn_store_stats_get(store, &stats);
    EXPECT(stats.puts == 3 && stats.evicted == 0);
    EXPECT(put_kernel(store, 3) > 0);
    hn_service_destroy(service);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(the_longest_of_another_process_starts_first) {
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    run_elsewhere(1, 4);
    hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    hn_core *core = core_of(service);
    hn_core_learn_durations(core);
    pthread_mutex_lock(&core->lock);
    hn_core_enqueue(core, job_of(1), false);
    hn_core_enqueue(core, job_of(3), false);
    hn_core_enqueue(core, job_of(2), false);
    for (int number = 3; number > 0; number--) {
        const hn_digest key = hn_digest_of(&number, sizeof(number));
        hn_job *job = hn_core_start_next(core, false);
        EXPECT(job && memcmp(&job->key, &key, sizeof(key)) == 0);
        if (!job) break;
        hn_job_release(job);
        hn_job_release(job);
    }
    pthread_mutex_unlock(&core->lock);
    hn_service_destroy(service);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(it_stays_small) {
    struct stat info;
    char path[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    run_elsewhere(1, 8 * HN_DURATIONS);
    EXPECT(find_entry(path) && stat(path, &info) == 0);
    EXPECT(info.st_size > HN_DURATIONS / 2 * 40 && info.st_size < HN_DURATIONS * 40 + 512);
    EXPECT_OK(hn_dir_remove(dir));
}

/* Damage, numbers that cannot be, a length that is none of it: no more is known than before, and nothing fails. */
TEST(what_does_not_verify_is_not_believed) {
    char path[PATH_MAX];
    hn_strbuf file;
    hn_strbuf_init(&file);
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    run_elsewhere(1, 3);
    EXPECT(find_entry(path));
    EXPECT_OK(hn_file_read(path, &file));
    if (file.len) file.ptr[7] ^= 1;
    EXPECT_OK(hn_file_write_atomic(path, file.ptr, file.len, false));
    hn_log_configure("error");
    hn_service *service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    EXPECT_INT(expected(core_of(service), 1), 0);
    const hn_digest key = hn_digest_of("durations 1", sizeof("durations 1"));
    int one = 1, two = 2;
    const hn_duration odd[2] = {{hn_digest_of(&one, sizeof(one)), -5}, {hn_digest_of(&two, sizeof(two)), INT64_MAX}};
    EXPECT(hn_store_put(hn_service_store(service), &(hn_store_put_args){.ns = HN_STORE_TOOLCHAIN, .key = &key, .bytes = odd, .len = sizeof(odd) - 3}));
    hn_service_destroy(service);
    service = service_open((hn_service_options){.cache_dir = dir, .threads = 1});
    EXPECT_INT(expected(core_of(service), 1), 0);
    EXPECT_INT(expected(core_of(service), 2), 0);
    hn_service_destroy(service);
    hn_log_configure(NULL);
    hn_strbuf_deinit(&file);
    EXPECT_OK(hn_dir_remove(dir));
}

TEST(without_a_disk_a_process_knows_its_own) {
    hn_service *service = service_open((hn_service_options){.threads = 1});
    EXPECT_INT(expected(core_of(service), 1), 0);
    note(core_of(service), 1, 5);
    EXPECT_INT(expected(core_of(service), 1), 5);
    hn_core_keep_durations(core_of(service), true);
    hn_service_destroy(service);
}

TEST_MAIN
