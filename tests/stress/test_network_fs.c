/* test_network_fs.c: a cache on a network file system: no file can be mapped, none locked, no
 * links, no files without a name. Kernels are compiled, found, loaded and called, a large entry is
 * read back, a program is compiled, found whole, and run: in this process and with workers. Once
 * the system says what kind of file system it is: then nobody tries to map a file of the cache,
 * which could end in SIGBUS. Once it does not: then a refusal is met by reading. */
#include "henry/module.h"
#include "henry/program.h"
#include "henry/tensor.h"
#include "service/worker.h"

#include "base/hash.h"
#include "cache/store.h"
#include "stress/network_fs.h"
#include "stress/one_kernel.h"

#define MODEL "examples/data/digits/model.pt2"

enum { KERNELS = 3, LARGE_BYTES = 300 << 10, PIXELS = 64, CLASSES = 10 };

static char dir[PATH_MAX - 64], cache[PATH_MAX], plain[PATH_MAX];
static float reference[CLASSES];

static int fail(const char *what, hn_status status) {
    fprintf(stderr, "# %s: %s\n", what, status ? hn_status_message(status) : "not as it should be");
    hn_status_free(status);
    return 1;
}

/* ---- kernels ---- */

static int kernels(int threads, int first, uint64_t expected_hits) {
    hn_service *service = NULL;
    hn_scope *scope = NULL;
    hn_service_stats stats;
    const hn_service_options options = {
        .threads = threads, .worker_path = "/proc/self/exe", .cache_dir = cache, .remote_url = ""};
    hn_status status = hn_service_create(&options, &service);
    if (!status) status = hn_scope_create(service, &scope);
    for (int i = 0; !status && i < KERNELS; i++) {
        bool right = false;
        status = one_kernel(scope, "kernel", first + i, &right);
        if (!status && !right)
            status = hn_status_make(HN_INTERNAL, __FILE__, __LINE__, "wrong result");
    }
    if (status) return fail("kernels", status);
    hn_service_stats_get(service, &stats);
    hn_scope_destroy(scope);
    hn_service_destroy(service);
    return stats.hits[HN_HIT_DISK] == expected_hits ? 0 : fail("hits of kernels", NULL);
}

/* ---- an entry that is mapped where that is possible ---- */

static int large_entry(void) {
    static uint8_t bytes[LARGE_BYTES];
    hn_store *store = NULL;
    hn_store_entry entry;
    hn_store_verify_report report;
    const hn_digest key = hn_digest_of("large", 5);
    stress_fill(bytes, sizeof(bytes), 7);
    hn_status status = hn_store_open(&(hn_store_options){.dir = cache}, &store);
    if (status) return fail("the store", status);
    if (!hn_store_put(
            store, &(hn_store_put_args){
                       .ns = HN_STORE_KERNEL, .key = &key, .bytes = bytes, .len = sizeof(bytes)}))
        return fail("storing", NULL);
    if (!hn_store_get(store, HN_STORE_KERNEL, &key, &entry)) return fail("finding", NULL);
    if (entry.len != sizeof(bytes) || memcmp(entry.bytes, bytes, sizeof(bytes)) != 0)
        return fail("reading", NULL);
    hn_store_entry_deinit(&entry);
    status = hn_store_verify(store, &report);
    if (status || report.bad || !report.good) return fail("verifying", status);
    uint64_t removed;
    status = hn_store_gc(store, 0, &removed);
    if (status) return fail("evicting", status);
    hn_store_close(store);
    return 0;
}

/* ---- a program ---- */

static hn_status run_module(hn_module *module, float *out) {
    static float image[PIXELS];
    const int64_t sizes[] = {1, 1, 8, 8};
    hn_tensor *input = NULL, *output = NULL;
    for (int k = 0; k < 8; k++) image[8 * k + 4] = 1;
    HN_TRY(hn_tensor_create(
        &(hn_tensor_desc){.type = HN_F32, .rank = 4, .sizes = sizes, .data = image}, &input));
    hn_status status = hn_module_run(module, &input, 1, &output, 1);
    if (!status) hn_tensor_copy_out(output, out);
    hn_tensor_release(input);
    hn_tensor_release(output);
    return status;
}

static hn_status compile_and_run(const char *cache_dir, int threads, float *out,
                                 hn_compile_stats *out_stats) {
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    const hn_compile_options options = {
        .cache_dir = cache_dir, .remote_url = "", .compile_threads = threads, .threads = 1};
    HN_TRY(hn_compile_file(MODEL, &options, &compiled));
    hn_compiled_stats_get(compiled, out_stats);
    hn_status status = hn_compiled_load(compiled, NULL, &module);
    hn_compiled_release(compiled);
    if (!status) status = run_module(module, out);
    hn_module_release(module);
    return status;
}

static int program(int threads, hn_cache_state expected) {
    hn_compile_stats stats;
    float out[CLASSES] = {0};
    hn_status status = compile_and_run(cache, threads, out, &stats);
    if (status) return fail("the program", status);
    if (memcmp(out, reference, sizeof(out)) != 0) return fail("what the program says", NULL);
    return stats.graph_cache == expected ? 0 : fail("the program in the cache", NULL);
}

static int all_of_it(void) {
    hn_compile_stats stats;
    hn_status status = compile_and_run(plain, 1, reference, &stats);
    if (status) return fail("the program without such a cache", status);
    for (int threads = 1; threads <= 2; threads++) {
        if (kernels(threads, 10 * threads, 0) || kernels(threads, 10 * threads, KERNELS)) return 1;
        if (program(threads, threads == 1 ? HN_CACHE_MISS : HN_CACHE_HIT) ||
            program(threads, HN_CACHE_HIT))
            return 1;
    }
    return large_entry() || stress_count_files(cache, "tmp") ||
           stress_count_files(cache, "quarantine");
}

/* False: skipped. */
static bool run_scene(netfs *n) {
    char real[PATH_MAX];
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(plain, sizeof(plain), "%s/plain", dir);
    snprintf(cache, sizeof(cache), "%s/cache", dir);
    EXPECT(realpath(dir, real) != NULL);
    strncat(real, "/cache", sizeof(real) - strlen(real) - 1);
    n->dir = real;
    n->body = all_of_it;
    bool ran = netfs_run(n);
    if (ran && n->status != 0) HN_TEST_FAIL("wait status %#x", (unsigned)n->status);
    EXPECT_OK(hn_dir_remove(dir));
    return ran;
}

TEST(a_cache_that_cannot_be_mapped) {
    netfs told = {.is_told = true}, untold = {.is_told = false};
    stress_begin();
    if (!run_scene(&told) || !run_scene(&untold)) {
        stress_row("a cache on a network file system", "right results, no map",
                   "skipped: no filters of system calls here");
        return;
    }
    EXPECT(told.asked > 0 && untold.asked > 0);
    EXPECT(told.locks > 0 && untold.locks > 0);
    EXPECT_INT(told.maps, 0);
    EXPECT(untold.maps > KERNELS); /* else nothing was refused, and nothing shown */
    EXPECT_INT(told.others, 1);    /* the marker of a new cache, which is renamed then */
    EXPECT_INT(untold.others, 1);
    stress_row("a cache on a network file system (no maps, locks or links)",
               "right results, hits; where the system tells the kind, no map is tried",
               "%d failed; told: %ld maps tried, %ld locks; not told: %ld maps, %ld locks",
               hn_test_failures, told.maps, told.locks, untold.maps, untold.locks);
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--worker") == 0) return hn_worker_main(argc, argv);
    return stress_main(argc, argv);
}
