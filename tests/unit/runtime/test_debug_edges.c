/* test_debug_edges.c: the tensor debugger where things go wrong or are unusual: files that cannot be
 * written, many threads, tensors of all types, loops; on every device. */
#include "unit/runtime/debug_fixture.h"

#include "base/npy.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

/* ---- files ---- */

TEST(tensors_in_files) {
    char root[PATH_MAX], dir[PATH_MAX + 8], path[PATH_MAX + 64];
    hn_module *m = load_text(scaled, NULL);
    hn_debug *d = NULL;
    hn_strbuf manifest;
    hn_file_map map;
    hn_npy npy;
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (!m) return;
    EXPECT_OK(hn_dir_temp(root, sizeof root));
    snprintf(dir, sizeof dir, "%s/a/b", root);
    const hn_debug_options options = {.level = HN_DEBUG_SAVE, .kernels = any_kernel, .path = dir};
    EXPECT_OK(hn_debug_attach(m, &options, &d));
    EXPECT_ERROR(hn_debug_attach(m, &options, &d), HN_INVALID_ARGUMENT, "is not empty");
    EXPECT_OK(run_scaled(m, x));
    EXPECT_INT(count_files(dir, ".npy"), 3); /* what is read again is not saved again */
    hn_strbuf_init(&manifest);
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    EXPECT_OK(hn_file_read(path, &manifest));
    EXPECT_INT(count_in(manifest.ptr, "\"call\": 1"), 4);
    EXPECT(strstr(manifest.ptr,
                  "\"when\": \"after\", \"kernel\": \"exps\", \"kernel_node\": "
                  "\"node_one\", \"source\": \"model.py:12\", \"operand\": \"b3\", "
                  "\"name\": \"y\", \"node\": \"\", \"dtype\": \"f32\", \"shape\": [2, 4], "
                  "\"strides\": [4, 1], \"complete\": true, \"file\": \"000003_y.npy\"}"));
    EXPECT_STR(manifest.ptr + manifest.len - 3, "]}\n");
    snprintf(path, sizeof path, "%s/000002_b2.npy", dir);
    EXPECT_OK(hn_file_map_init(&map, path));
    EXPECT_OK(hn_npy_parse(map.data, map.size_bytes, &npy));
    EXPECT(npy.rank == 2 && npy.sizes[0] == 2 && npy.sizes[1] == 4);
    float got[8];
    hn_npy_copy(&npy, got);
    for (int k = 0; k < 8; k++) EXPECT(got[k] == 2 * x[k]);
    hn_file_map_deinit(&map);
    hn_strbuf_deinit(&manifest);
    EXPECT_ERROR(hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_SAVE}, &d),
                 HN_INVALID_ARGUMENT, "needs a folder");
    hn_module_release(m);
    EXPECT_OK(hn_dir_remove(root));
}

/* A file that cannot be written is said, and neither the run nor the rest ends. */
TEST(what_cannot_be_saved) {
    char root[PATH_MAX], dir[PATH_MAX + 8];
    hn_module *m = load_text(scaled, NULL);
    heard h = {.lines = 0};
    float x[8] = {0};
    if (!m) return;
    EXPECT_OK(hn_dir_temp(root, sizeof root));
    snprintf(dir, sizeof dir, "%s/a", root);
    listen(m, (hn_debug_options){.level = HN_DEBUG_SAVE, .kernels = any_kernel, .path = dir}, &h);
    EXPECT_OK(hn_dir_remove(dir));
    EXPECT_OK(run_scaled(m, x));
    EXPECT_INT(h.lines, 4);
    hn_strbuf_deinit(&h.text);
    hn_module_release(m);
    EXPECT_OK(hn_dir_remove(root));
}

typedef struct runner {
    hn_module *m;
    pthread_t thread;
} runner;

enum { RUNS = 20, RUNNERS = 4 };

static void *run_many(void *context) {
    runner *r = context;
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int k = 0; k < RUNS; k++) EXPECT_OK(run_scaled(r->m, x));
    return NULL;
}

TEST(several_threads) {
    char root[PATH_MAX], dir[PATH_MAX + 8], lines[PATH_MAX + 8];
    hn_module *m = load_text(scaled, NULL);
    hn_debug *d;
    runner runners[RUNNERS];
    hn_strbuf text;
    if (!m) return;
    EXPECT_OK(hn_dir_temp(root, sizeof root));
    snprintf(dir, sizeof dir, "%s/saved", root);
    snprintf(lines, sizeof lines, "%s/lines", root);
    EXPECT_OK(hn_debug_attach(
        m, &(hn_debug_options){.level = HN_DEBUG_SAVE, .kernels = any_kernel, .path = dir}, &d));
    EXPECT_OK(hn_debug_attach(
        m, &(hn_debug_options){.level = HN_DEBUG_STATS, .kernels = any_kernel, .path = lines}, &d));
    for (int k = 0; k < RUNNERS; k++) {
        runners[k].m = m;
        EXPECT_INT(pthread_create(&runners[k].thread, NULL, run_many, &runners[k]), 0);
    }
    for (int k = 0; k < RUNNERS; k++) pthread_join(runners[k].thread, NULL);
    EXPECT_INT(count_files(dir, ".npy"), 3 * RUNS * RUNNERS);
    hn_strbuf_init(&text);
    EXPECT_OK(hn_file_read(lines, &text));
    EXPECT_INT(count_in(text.ptr, "\n"), 4 * RUNS * RUNNERS);
    for (const char *line = text.ptr; *line; line = strchr(line, '\n') + 1)
        EXPECT(strncmp(line, "call ", 5) == 0 && strstr(line, " std ") &&
               strstr(line, " std ") < strchr(line, '\n'));
    hn_strbuf_deinit(&text);
    hn_module_release(m);
    EXPECT_OK(hn_dir_remove(root));
}

/* ---- folders that are of no use ---- */

TEST(folders_of_no_use) {
    char root[PATH_MAX], file[PATH_MAX + 8], below[PATH_MAX + 16];
    hn_module *m = load_text(scaled, NULL);
    hn_debug *d = NULL;
    float x[8] = {0};
    if (!m) return;
    EXPECT_OK(hn_dir_temp(root, sizeof root));
    snprintf(file, sizeof file, "%s/file", root);
    snprintf(below, sizeof below, "%s/below", file);
    EXPECT_OK(hn_file_write_atomic(file, "x", 1, false));
    const char *const paths[] = {file, below, "/proc/nowhere/saved"};
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
        hn_status status =
            hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_SAVE, .path = paths[k]}, &d);
        EXPECT(hn_status_code(status) == HN_IO || hn_status_code(status) == HN_NOT_FOUND);
        EXPECT(strstr(hn_status_message(status), k < 2 ? file : "/proc/nowhere"));
        hn_status_free(status);
    }
    EXPECT_ERROR(
        hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_STATS, .path = below}, &d),
        HN_NOT_FOUND, below);
    EXPECT_OK(run_scaled(m, x)); /* none of them is there */
    hn_module_release(m);
    EXPECT_OK(hn_dir_remove(root));
}

/* A disk that is full: no file may have more bytes. What does not fit is said, and the manifest stays
 * whole. */
TEST(a_full_disk) {
    char root[PATH_MAX], path[PATH_MAX + 16];
    struct rlimit old, small;
    hn_module *m = load_text(scaled, NULL);
    heard h = {.lines = 0};
    hn_strbuf manifest;
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (!m) return;
    EXPECT_OK(run_scaled(m, x)); /* drivers write files of their own */
    EXPECT_OK(hn_dir_temp(root, sizeof root));
    listen(m, (hn_debug_options){.level = HN_DEBUG_SAVE, .kernels = any_kernel, .path = root}, &h);
    signal(SIGXFSZ, SIG_IGN);
    EXPECT(getrlimit(RLIMIT_FSIZE, &old) == 0);
    small = (struct rlimit){700, old.rlim_max};
    EXPECT(setrlimit(RLIMIT_FSIZE, &small) == 0);
    EXPECT_OK(run_scaled(m, x));
    EXPECT(setrlimit(RLIMIT_FSIZE, &old) == 0);
    EXPECT_INT(h.lines, 4);
    snprintf(path, sizeof path, "%s/manifest.json", root);
    hn_strbuf_init(&manifest);
    EXPECT_OK(hn_file_read(path, &manifest));
    EXPECT(manifest.len < 700 && count_in(manifest.ptr, "\"call\": 1") >= 1);
    EXPECT_STR(manifest.ptr + manifest.len - 4, "\n]}\n");
    EXPECT_OK(run_scaled(m, x)); /* there is room again */
    hn_strbuf_reset(&manifest);
    EXPECT_OK(hn_file_read(path, &manifest));
    EXPECT_INT(count_in(manifest.ptr, "\"call\": 2"), 4);
    EXPECT_INT(count_in(manifest.ptr, "\"call\""), count_in(manifest.ptr, "\"file\""));
    EXPECT_INT(h.lines, 8);
    hn_strbuf_deinit(&manifest);
    hn_strbuf_deinit(&h.text);
    hn_module_release(m);
    EXPECT_OK(hn_dir_remove(root));
}

/* ---- threads and weights ---- */

static void *run_one_input(void *context) {
    runner *r = context;
    float x[4] = {0};
    hn_tensor *in[1] = {F32(x, 4)};
    for (int k = 0; k < RUNS; k++) EXPECT_OK(run_with(r->m, in, 1));
    hn_tensor_release(in[0]);
    return NULL;
}

/* A weight is looked at once, whichever thread comes first; each run has its number. */
TEST(threads_share_weights) {
    const float w[4] = {1, 2, 3, 4};
    const fixture_weight weights[] = {{"w", HN_INPUT_PARAMETER, HN_DTYPE_F32, 4, w}};
    for (int level = HN_DEBUG_STATS; level <= HN_DEBUG_SAVE; level++) {
        char root[PATH_MAX], call[40];
        hn_module *m = load_weights(
            "buffer b1 : input f32[4] source 0 name \"x\" buffer b2 : constant f32[4] source 1 name \"w\" "
            "buffer b3 : output f32[4] bytes(16) " KERNELS "input \"x\" : f32[4] strides [1] in b1 "
            "call k1(b1 f32, b2 f32, out b3 f32) extent(4) output tensor \"y\" : f32[4] strides [1] in b3",
            weights, 1, NULL);
        heard h = {.lines = 0};
        runner runners[RUNNERS];
        if (!m) return;
        EXPECT_OK(hn_dir_temp(root, sizeof root));
        listen(m,
               (hn_debug_options){.level = (hn_debug_level)level,
                                  .kernels = any_kernel,
                                  .path = level == HN_DEBUG_SAVE ? root : NULL},
               &h);
        for (int k = 0; k < RUNNERS; k++) {
            runners[k].m = m;
            EXPECT_INT(pthread_create(&runners[k].thread, NULL, run_one_input, &runners[k]), 0);
        }
        for (int k = 0; k < RUNNERS; k++) pthread_join(runners[k].thread, NULL);
        EXPECT_INT(count_in(h.text.ptr, " add w "), 1);
        EXPECT_INT(h.lines, 2 * RUNS * RUNNERS + 1);
        for (int k = 1; k <= RUNS * RUNNERS; k++) {
            snprintf(call, sizeof call, "%d after add y ", k);
            EXPECT_INT(count_in(h.text.ptr, call) >= 1, 1);
        }
        hn_strbuf_deinit(&h.text);
        hn_module_release(m);
        EXPECT_OK(hn_dir_remove(root));
    }
}

/* ---- all types ---- */

/* An input of a type is saved as it is, bit by bit, and its statistics are right: no step reads it. */
static void look_at_type(hn_scalar_type type, const char *name, uint32_t rank, const int64_t *sizes,
                         const void *data, size_t bytes, const char *expected) {
    char text[1024], root[PATH_MAX], path[PATH_MAX + 32], dims[64] = "";
    hn_debug *d;
    heard h = {.lines = 0};
    hn_strbuf file;
    float x[4] = {0};
    for (uint32_t k = 0; k < rank; k++)
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%lld", k ? ", " : "",
                 (long long)sizes[k]);
    snprintf(text, sizeof text,
             "buffer b1 : input f32[4] source 0 name \"x\" buffer b2 : output f32[4] bytes(16) "
             "buffer b3 : input %s[%s] source 1 name \"z\" " KERNELS
             "input \"x\" : f32[4] strides [1] in b1 input \"z\" : %s[%s] strides [%s] in b3 "
             "call k4(b1 f32, out b2 f32) extent(4) output tensor \"y\" : f32[4] strides [1] in b2",
             name, dims, name, dims, rank ? "1" : "");
    hn_module *m = load_text(text, NULL);
    if (!m) return;
    EXPECT_OK(hn_dir_temp(root, sizeof root));
    listen(m, (hn_debug_options){.level = HN_DEBUG_STATS, .arguments = "z"}, &h);
    EXPECT_OK(hn_debug_attach(
        m, &(hn_debug_options){.level = HN_DEBUG_SAVE, .arguments = "z", .path = root}, &d));
    hn_tensor *in[2] = {F32(x, 4), tensor_of(type, rank, sizes, NULL, (void *)(uintptr_t)data)};
    EXPECT_OK(run_with(m, in, 2));
    EXPECT(strstr(h.text.ptr, expected) == h.text.ptr);
    if (strstr(h.text.ptr, expected) != h.text.ptr)
        HN_TEST_FAIL("got \"%s\", expected \"%s\"", h.text.ptr, expected);
    snprintf(path, sizeof path, "%s/000001_z.npy", root);
    hn_strbuf_init(&file);
    EXPECT_OK(hn_file_read(path, &file));
    if (type != HN_BF16)
        EXPECT(file.len >= bytes && memcmp(file.ptr + file.len - bytes, data, bytes) == 0);
    else
        for (size_t k = 0; k < bytes / 2; k++) { /* f32, whose upper half it is */
            const char *at = file.ptr + file.len - bytes * 2 + 4 * k;
            EXPECT(memcmp(at, "\0", 2) == 0 && memcmp(at + 2, (const char *)data + 2 * k, 2) == 0);
        }
    hn_strbuf_deinit(&file);
    hn_strbuf_deinit(&h.text);
    hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
    EXPECT_OK(hn_dir_remove(root));
}

TEST(every_type_of_tensor) {
    static const uint32_t payloads[] = {0x7fa12345u, 0xffc00001u, 0x80000000u, 1};
    static const uint16_t halves[] = {0x7e01, 0xfc00, 0x8000, 1}, brains[] = {0x7fc1, 0x3f80};
    static const int64_t whole[] = {INT64_MIN, INT64_MAX}, number = 7;
    static const double wide[] = {0x1p-1074, -1.5};
    static const uint8_t flags[] = {1, 0, 1}, bytes[] = {0, 255};
    static const int8_t small[] = {-128, 127};
    static const int64_t two[] = {2}, three[] = {3}, four[] = {4}, none[] = {0};
    look_at_type(HN_F32, "f32", 1, four, payloads, 16, "1 input z f32 4: -0 to 1.4013e-45\n");
    look_at_type(HN_F16, "f16", 1, four, halves, 8, "1 input z f16 4: -0 to 5.96046e-08\n");
    look_at_type(HN_BF16, "bf16", 1, two, brains, 4, "1 input z bf16 2: 1 to 1\n");
    look_at_type(HN_F64, "f64", 1, two, wide, 16, "1 input z f64 2: -1.5 to 4.94066e-324\n");
    look_at_type(HN_I64, "i64", 1, two, whole, 16,
                 "1 input z i64 2: -9.22337e+18 to 9.22337e+18\n");
    look_at_type(HN_I64, "i64", 0, NULL, &number, 8, "1 input z i64 1: 7 to 7\n");
    look_at_type(HN_BOOL, "bool", 1, three, flags, 3, "1 input z bool 3: 0 to 1\n");
    look_at_type(HN_U8, "u8", 1, two, bytes, 2, "1 input z u8 2: 0 to 255\n");
    look_at_type(HN_I8, "i8", 1, two, small, 2, "1 input z i8 2: -128 to 127\n");
    look_at_type(HN_F32, "f32", 1, none, payloads, 0, "1 input z f32 0: nan to nan\n");
}

/* ---- loops ---- */

/* Each round is looked at, and has the number of the run. */
TEST(rounds_of_a_loop) {
    hn_module *m =
        load_text("buffer b1 : input f32[2] source 0 name \"x\" buffer b2 : temp f32[2] bytes(8) "
                  "buffer b3 : output f32[2] bytes(8) " KERNELS
                  "input \"x\" : f32[2] strides [1] in b1 copy b3 from b1 "
                  "loop rounds(3) { call k4(b3 f32, out b2 f32) extent(2) copy b3 from b2 } "
                  "output tensor \"y\" : f32[2] strides [1] in b3",
                  NULL);
    heard h = {.lines = 0};
    hn_debug *d;
    float x[2] = {1, 2}, large[2] = {1, 1e38f};
    if (!m) return;
    hn_tensor *in[1] = {F32(x, 2)}, *bad[1] = {F32(large, 2)};
    d = listen(m,
               (hn_debug_options){
                   .level = HN_DEBUG_STATS, .kernels = "scale2", .first_call = 2, .last_call = 3},
               &h);
    EXPECT_OK(run_with(m, in, 1));
    expect_heard(&h, "");
    EXPECT_OK(run_with(m, in, 1));
    expect_heard(&h, "2 before scale2 y f32 2: 1 to 2\n2 after scale2 - f32 2: 2 to 4\n"
                     "2 before scale2 y f32 2: 2 to 4\n2 after scale2 - f32 2: 4 to 8\n"
                     "2 before scale2 y f32 2: 4 to 8\n2 after scale2 - f32 2: 8 to 16\n");
    EXPECT_OK(run_with(m, in, 1));
    EXPECT_INT(count_in(h.text.ptr, "3 after scale2"), 3);
    hn_strbuf_reset(&h.text);
    EXPECT_OK(run_with(m, in, 1));
    EXPECT_INT(h.text.len, 0);
    hn_debug_detach(d);
    EXPECT_OK(hn_debug_attach(m, &(hn_debug_options){.level = HN_DEBUG_CHECK}, &d));
    EXPECT_ERROR(run_with(m, bad, 1), HN_INVALID_ARGUMENT, "'scale2' (step ");
    EXPECT_OK(run_with(m, in, 1));
    hn_strbuf_deinit(&h.text);
    hn_tensor_release(in[0]), hn_tensor_release(bad[0]);
    hn_module_release(m);
}

/* ---- patterns ---- */

TEST(unusual_patterns) {
    static const struct {
        const char *pattern;
        int lines;
    } cases[] = {{"", 0},          {"|", 0},
                 {"[a-z]*", 0},    {"**", 2},
                 {"*|*", 2},       {"?cale?", 2},
                 {"scale2*?", 0},  {"\\*", 0},
                 {"|||scale2", 2}, {"*a*a*a*a*a*a*a*a*a*a*a*a*b", 0}};
    float x[8] = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hn_module *m = load_text(scaled, NULL);
        heard h = {.lines = 0};
        if (!m) return;
        listen(m,
               (hn_debug_options){
                   .level = HN_DEBUG_STATS, .kernels = cases[c].pattern, .arguments = "x|b2"},
               &h);
        EXPECT_OK(run_scaled(m, x));
        const uint32_t told = count_in(hn_strbuf_str(&h.text).ptr, "scale2");
        if ((int)told != cases[c].lines)
            HN_TEST_FAIL("'%s': %u lines, expected %d", cases[c].pattern, told, cases[c].lines);
        hn_strbuf_deinit(&h.text);
        hn_module_release(m);
    }
}

TEST_MAIN
