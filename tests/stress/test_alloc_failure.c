/* test_alloc_failure.c: import, passes, lowering, fusion and the text of loop IR of a small model, with the Nth request for
 * memory refused, for every N: each ends with out-of-memory or does without, and nothing is left behind (ASan tells). The
 * linker puts the functions below in front of malloc and of the arena's (CMakeLists.txt), so that it works under sanitizers.
 *
 *     stress_test_alloc_failure [STEP]     every STEPth N, default 1: all
 *
 * Models: the example's, and mlp of HENRY_TEST_MODELS when that is set. */
#include "driver/driver.h"
#include "front/pt2/pt2.h"
#include "lower/lower.h"

#include "unit/harness.h"

#include <stdlib.h>

static long requests_left = -1; /* until one fails; negative: none fails */
static bool has_failed;

static bool fails_now(void) {
    if (requests_left < 0 || requests_left-- > 0) return false;
    has_failed = true;
    return true; /* requests_left is negative now: one failure at a time */
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);
void *__real_hn_arena_alloc(hn_arena *arena, size_t bytes);
char *__real_hn_arena_strndup(hn_arena *arena, const char *text, size_t len);
hn_status __real_hn_arena_array(hn_arena *arena, size_t count, size_t elem_bytes, void *out);
hn_status __real_hn_arena_grow(hn_arena *arena, void *items, uint32_t *cap, uint32_t used, uint32_t need, size_t elem_bytes);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
char *__wrap_strdup(const char *text);
void *__wrap_hn_arena_alloc(hn_arena *arena, size_t bytes);
char *__wrap_hn_arena_strndup(hn_arena *arena, const char *text, size_t len);
hn_status __wrap_hn_arena_array(hn_arena *arena, size_t count, size_t elem_bytes, void *out);
hn_status __wrap_hn_arena_grow(hn_arena *arena, void *items, uint32_t *cap, uint32_t used, uint32_t need, size_t elem_bytes);

void *__wrap_malloc(size_t bytes) { return fails_now() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return fails_now() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *old, size_t bytes) { return fails_now() ? NULL : __real_realloc(old, bytes); }
char *__wrap_strdup(const char *text) { return fails_now() ? NULL : __real_strdup(text); }
void *__wrap_hn_arena_alloc(hn_arena *arena, size_t bytes) { return fails_now() ? NULL : __real_hn_arena_alloc(arena, bytes); }
char *__wrap_hn_arena_strndup(hn_arena *arena, const char *text, size_t len) {
    return fails_now() ? NULL : __real_hn_arena_strndup(arena, text, len);
}
hn_status __wrap_hn_arena_array(hn_arena *arena, size_t count, size_t elem_bytes, void *out) {
    return fails_now() ? HN_ERROR(HN_OUT_OF_MEMORY, "refused") : __real_hn_arena_array(arena, count, elem_bytes, out);
}
hn_status __wrap_hn_arena_grow(hn_arena *arena, void *items, uint32_t *cap, uint32_t used, uint32_t need, size_t elem_bytes) {
    return fails_now() ? HN_ERROR(HN_OUT_OF_MEMORY, "refused") : __real_hn_arena_grow(arena, items, cap, used, need, elem_bytes);
}

static hn_status print_and_schedule(hn_program *p, hn_arena *arena, hn_arena *scratch) {
    hn_schedule schedule;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_program_print(p, &text);
    hn_status status = hn_strbuf_status(&text);
    if (!status) status = hn_schedule_program(p, &(hn_sched_options){.threads = 1}, arena, scratch, &schedule);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status compile_graph(hn_graph *g, hn_arena *arena, hn_arena *scratch) {
    hn_program *p;
    for (uint32_t k = 0; hn_driver_pass_name(k); k++) HN_TRY(hn_driver_pass_run(g, hn_driver_pass_name(k), scratch));
    HN_TRY(hn_lower(g, arena, scratch, &p));
    HN_TRY(hn_program_verify(p));
    return print_and_schedule(p, arena, scratch);
}

static hn_status compile_file(const char *path) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_pt2 *file = NULL;
    hn_graph *g = NULL;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_pt2_open(path, &file);
    if (!status) status = hn_pt2_import(file, NULL, &arena, sym, &g);
    if (!status) status = compile_graph(g, &arena, &scratch);
    if (g) hn_graph_deinit(g);
    hn_pt2_close(file);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return status;
}

static long step = 1;

static void fail_each(const char *path) {
    EXPECT_OK(compile_file(path)); /* tables that are made once are made */
    long n = 0;
    for (;; n += step) {
        requests_left = n;
        has_failed = false;
        hn_status status = compile_file(path);
        requests_left = -1;
        if (!has_failed) {
            EXPECT_OK(status);
            break;
        }
        if (status && hn_status_code(status) != HN_OUT_OF_MEMORY)
            HN_TEST_FAIL("%s: request %ld refused: %s: %s", path, n, hn_code_name(hn_status_code(status)), hn_status_message(status));
        hn_status_free(status);
    }
    EXPECT(n > 300); /* else something is not counted */
    fprintf(stderr, "%s: %ld requests, every %ld. refused\n", path, n, step);
}

TEST(example) { fail_each("examples/data/digits/model.pt2"); }

TEST(mlp) {
    const char *models = getenv("HENRY_TEST_MODELS");
    char path[4096];
    if (!models) return;
    snprintf(path, sizeof path, "%s/models/mlp/model.pt2", models);
    fail_each(path);
}

int main(int argc, char **argv) {
    if (argc > 1) step = strtol(argv[1], NULL, 10);
    if (step < 1) step = 1;
    return hn_test_main(1, argv);
}
