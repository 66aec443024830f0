/* test_alloc_failure.c: the kth request for memory is refused, for every k: each time there is a
 * clean error or the same result, and nothing is left behind (ASan tells). The linker puts the
 * functions below in front of malloc and of the arena's (CMakeLists.txt), so that it works under
 * sanitizers.
 *
 * Import, passes, lowering, fusion and the text of loop IR of small models, in this process; and
 * all of a compilation of gpt2_tiny with loading, with its kernels in the cache, in two processes,
 * each with a cache of its own. --quick takes every 97th k of the latter. Models: the example's,
 * and mlp and gpt2_tiny of HENRY_TEST_MODELS when that is set. */
#include "driver/driver.h"
#include "front/importer.h"
#include "lower/lower.h"

#include "base/log.h"
#include "stress/stress.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_long requests_left = -1; /* until one fails; negative: none fails */
static atomic_bool has_failed;

/* One failure at a time: afterwards the number is negative. */
static bool fails_now(void) {
    if (requests_left < 0 || atomic_fetch_sub(&requests_left, 1) != 0) return false;
    has_failed = true;
    return true;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
void *__real_aligned_alloc(size_t align, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__real_hn_arena_alloc(hn_arena *arena, size_t bytes);
char *__real_hn_arena_strndup(hn_arena *arena, const char *text, size_t len);
hn_status __real_hn_arena_array(hn_arena *arena, size_t count, size_t elem_bytes, void *out);
hn_status __real_hn_arena_grow(hn_arena *arena, void *items, uint32_t *cap, uint32_t used,
                               uint32_t need, size_t elem_bytes);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_hn_arena_alloc(hn_arena *arena, size_t bytes);
char *__wrap_hn_arena_strndup(hn_arena *arena, const char *text, size_t len);
hn_status __wrap_hn_arena_array(hn_arena *arena, size_t count, size_t elem_bytes, void *out);
hn_status __wrap_hn_arena_grow(hn_arena *arena, void *items, uint32_t *cap, uint32_t used,
                               uint32_t need, size_t elem_bytes);

void *__wrap_malloc(size_t bytes) { return fails_now() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) {
    return fails_now() ? NULL : __real_calloc(count, bytes);
}
void *__wrap_realloc(void *old, size_t bytes) {
    return fails_now() ? NULL : __real_realloc(old, bytes);
}
char *__wrap_strdup(const char *text) { return fails_now() ? NULL : __real_strdup(text); }
char *__wrap_strndup(const char *text, size_t len) {
    return fails_now() ? NULL : __real_strndup(text, len);
}
void *__wrap_aligned_alloc(size_t align, size_t bytes) {
    return fails_now() ? NULL : __real_aligned_alloc(align, bytes);
}
int __wrap_posix_memalign(void **out, size_t align, size_t bytes) {
    return fails_now() ? ENOMEM : __real_posix_memalign(out, align, bytes);
}
void *__wrap_hn_arena_alloc(hn_arena *arena, size_t bytes) {
    return fails_now() ? NULL : __real_hn_arena_alloc(arena, bytes);
}
char *__wrap_hn_arena_strndup(hn_arena *arena, const char *text, size_t len) {
    return fails_now() ? NULL : __real_hn_arena_strndup(arena, text, len);
}
hn_status __wrap_hn_arena_array(hn_arena *arena, size_t count, size_t elem_bytes, void *out) {
    return fails_now() ? HN_ERROR(HN_OUT_OF_MEMORY, "refused")
                       : __real_hn_arena_array(arena, count, elem_bytes, out);
}
hn_status __wrap_hn_arena_grow(hn_arena *arena, void *items, uint32_t *cap, uint32_t used,
                               uint32_t need, size_t elem_bytes) {
    return fails_now() ? HN_ERROR(HN_OUT_OF_MEMORY, "refused")
                       : __real_hn_arena_grow(arena, items, cap, used, need, elem_bytes);
}

static hn_status print_and_schedule(hn_program *p, hn_arena *arena, hn_arena *scratch) {
    hn_schedule schedule;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_program_print(p, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status)
        status = hn_schedule_program(
            p, &(hn_sched_options){.threads = 1, .limits = hn_target_host().kind->limits}, arena,
            scratch, &schedule);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status compile_graph(hn_graph *g, hn_arena *arena, hn_arena *scratch) {
    hn_program *p;
    for (uint32_t k = 0; hn_driver_pass_name(k); k++)
        HN_TRY(hn_driver_pass_run(g, hn_driver_pass_name(k), scratch));
    HN_TRY(hn_lower(g, NULL, arena, scratch, &p));
    HN_TRY(hn_program_verify(p));
    return print_and_schedule(p, arena, scratch);
}

static hn_status compile_file(const char *path) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_model_file *file = NULL;
    hn_graph *g = NULL;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_model_open(path, &file);
    if (!status) status = file->importer->import(file, NULL, &arena, sym, &g);
    if (!status) status = compile_graph(g, &arena, &scratch);
    if (g) hn_graph_deinit(g);
    hn_model_close(file);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return status;
}

static void fail_each(const char *path) {
    EXPECT_OK(compile_file(path)); /* tables that are made once are made */
    long n = 0;
    for (;; n++) {
        requests_left = n;
        has_failed = false;
        hn_status status = compile_file(path);
        requests_left = -1;
        if (!has_failed) {
            EXPECT_OK(status);
            break;
        }
        if (status && hn_status_code(status) != HN_OUT_OF_MEMORY)
            HN_TEST_FAIL("%s: request %ld refused: %s: %s", path, n,
                         hn_code_name(hn_status_code(status)), hn_status_message(status));
        hn_status_free(status);
    }
    EXPECT(n > 300); /* else something is not counted */
    fprintf(stderr, "%s: %ld requests, each refused\n", path, n);
}

TEST(example) { fail_each("examples/data/digits/model.pt2"); }

/* False without the models. */
static bool model_path(const char *name, char path[PATH_MAX]) {
    const char *models = getenv("HENRY_TEST_MODELS");
    if (models) snprintf(path, PATH_MAX, "%s/models/%s/model.pt2", models, name);
    return models && hn_file_exists(path);
}

TEST(mlp) {
    char path[PATH_MAX];
    if (model_path("mlp", path)) fail_each(path);
}

/* ---- the whole of a compilation ---- */

enum { PROCESSES = 2, CRASHES_MAX = 5, QUICK_STEP = 97, LIMIT_S = 120 };

/* In memory that the processes share. */
typedef struct progress {
    atomic_long next, last; /* k; and the number of requests, once it is known */
    atomic_long runs, refused, same, wrong, crashes;
    atomic_long current[PROCESSES];
} progress;

static progress *all;
static char gpt2_path[PATH_MAX];

/* Compiles and loads; `*out` is the image, of the caller. */
static hn_status compile_and_load(const char *cache, char **out, size_t *len) {
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    *out = NULL;
    hn_status status = hn_compile_file(
        gpt2_path,
        &(hn_compile_options){
            .cache_dir = cache, .remote_url = "", .compile_threads = 1, .threads = 1},
        &compiled);
    if (!status)
        status = hn_compiled_load(compiled, &(hn_module_options){.threads = 1, .load_all = true},
                                  &module);
    if (!status) {
        const void *image = hn_compiled_image(compiled, len);
        *out = __real_malloc(*len);
        memcpy(*out, image, *len);
    }
    hn_module_release(module);
    hn_compiled_release(compiled);
    return status;
}

static void forget_program(const char *cache) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/graph", cache);
    hn_status_free(hn_dir_remove(path));
}

/* The kth request refused; false when there are fewer. */
static bool refuse(const char *cache, long k, const char *reference, size_t reference_len) {
    char *image;
    size_t len = 0;
    forget_program(cache);
    has_failed = false;
    requests_left = k;
    hn_status status = compile_and_load(cache, &image, &len);
    requests_left = -1;
    bool ok = status ? hn_status_code(status) == HN_OUT_OF_MEMORY && has_failed
                     : len == reference_len && memcmp(image, reference, len) == 0;
    if (!ok)
        fprintf(stderr, "request %ld refused: %s: %s\n", k,
                status ? hn_code_name(hn_status_code(status)) : "another image",
                hn_status_message(status));
    all->wrong += !ok;
    all->refused += status != NULL;
    all->same += !status;
    all->runs++;
    hn_status_free(status);
    free(image);
    return has_failed;
}

static int refuse_many(int process, long step) {
    char cache[PATH_MAX], *reference;
    size_t len;
    hn_log_configure("off");
    if (hn_dir_temp(cache, sizeof(cache))) return 2;
    hn_status status = compile_and_load(cache, &reference, &len);
    if (status) fprintf(stderr, "%s\n", hn_status_message(status));
    for (bool more = !status; more;) {
        long k = atomic_fetch_add(&all->next, step);
        all->current[process] = k;
        alarm(LIMIT_S);
        more = refuse(cache, k, reference, len);
        if (!more) all->last = k;
    }
    alarm(0);
    free(reference);
    hn_status_free(hn_dir_remove(cache));
    hn_log_configure(NULL);
    return status != NULL;
}

/* HN_STRESS_SCENE=K: that one alone, in this process, for a debugger. */
static void refuse_one(long k) {
    char cache[PATH_MAX], *reference = NULL;
    size_t len = 0;
    EXPECT_OK(hn_dir_temp(cache, sizeof(cache)));
    EXPECT_OK(compile_and_load(cache, &reference, &len));
    EXPECT(refuse(cache, k, reference, len) && !all->wrong);
    free(reference);
    EXPECT_OK(hn_dir_remove(cache));
}

static pid_t start(int process, long step) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) exit(refuse_many(process, step)); /* not _exit: the leak check comes at the end */
    return pid;
}

TEST(gpt2_tiny) {
    pid_t pids[PROCESSES];
    long step = stress.is_quick ? QUICK_STEP : stress_rounds(1, 1); /* --rounds N: every Nth */
    if (!model_path("gpt2_tiny", gpt2_path)) {
        printf("row|the kth allocation fails|every k over a compile of gpt2_tiny, clean error each "
               "time, ASan clean|skipped: no models|0|0\n");
        return;
    }
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(all != MAP_FAILED);
    if (getenv("HN_STRESS_SCENE")) {
        refuse_one(strtol(getenv("HN_STRESS_SCENE"), NULL, 10));
        return;
    }
    stress_begin();
    int live = PROCESSES;
    for (int i = 0; i < PROCESSES; i++) pids[i] = start(i, step);
    while (live > 0) {
        int how, i = 0;
        pid_t pid = waitpid(-1, &how, 0);
        while (i < PROCESSES && pids[i] != pid) i++;
        if (i == PROCESSES) continue;
        if (WIFEXITED(how) && WEXITSTATUS(how) == 0) {
            live--;
            continue;
        }
        HN_TEST_FAIL("request %ld refused: wait status %#x", (long)all->current[i], (unsigned)how);
        if (WIFSIGNALED(how) && ++all->crashes < CRASHES_MAX) pids[i] = start(i, step);
        else live--;
    }
    EXPECT_INT(all->wrong, 0);
    EXPECT(all->refused > 100 / step);
    stress_row("the kth allocation fails",
               "every k over a compile of gpt2_tiny, clean error each time, ASan clean",
               "k from 0 to %ld, every %ld.: %ld runs, %ld clean errors, %ld the same result all "
               "the same, %ld wrong, %ld crashes",
               all->last, step, all->runs, all->refused, all->same, all->wrong, all->crashes);
    munmap(all, sizeof(*all));
}

int main(int argc, char **argv) { return stress_main(argc, argv); }
