/* test_compile_faults.c: the system calls of a whole compilation, from the model to the bundle on
 * the disk, x {killed before it, killed after it, ENOSPC, EIO, EINTR, ENOSPC and EIO from there on,
 * fewer bytes than asked for}: each call of one with everything in the cache, each third of one
 * that finds the kernels only, each 37th of one that finds nothing and runs the compiler.
 *
 * Afterwards: who said that the bundle is written has written it, the same but for the record of
 * the cache key, which may be missing; who ended with an error has left the old bundle or the new
 * one, and no other file; who was killed the same but for an unfinished file that says what it is.
 * The cache holds nothing wrong: the next compilation makes the same bundle. */
#include "henry/program.h"

#include "base/log.h"
#include "bundle/view.h"
#include "cache/store.h"
#include "stress/stress.h"
#include "stress/syscall_faults.h"

#define MODEL "examples/data/digits/model.pt2"

typedef struct scene {
    const char *name;
    const char *forget; /* what of the cache is removed before: a folder, "": nothing, NULL: all */
    bool has_old;       /* a bundle is there already */
    long step, quick_step;
} scene;

static const scene scenes[] = {
    {"everything in the cache", "", true, 1, 53},
    {"the kernels in the cache", "graph", false, 3, 101},
    {"nothing in the cache", NULL, true, 37, 1009},
};
enum { SCENE_COUNT = sizeof(scenes) / sizeof(scenes[0]) };

static char dir[PATH_MAX - 64], cache[PATH_MAX - 32], model[PATH_MAX - 32], bundle[PATH_MAX - 32];
static hn_strbuf reference, old;

static hn_status compile_and_save(void) {
    hn_compiled *compiled = NULL;
    const hn_compile_options options = {.cache_dir = cache,
                                        .remote_url = "",
                                        .compile_threads = 1,
                                        .threads = 1,
                                        .embed_weights = true};
    hn_status status = hn_compile_file(model, &options, &compiled);
    if (!status) status = hn_compiled_save(compiled, bundle);
    hn_compiled_release(compiled);
    return status;
}

/* In the child. */
static int child_body(void *context) {
    (void)context;
    fault_mark();
    hn_status status = compile_and_save();
    fault_mark();
    int code = status ? 1 : 0;
    if (getenv("HN_STRESS_SHOW") && status) fprintf(stderr, "%s\n", hn_status_message(status));
    hn_status_free(status);
    return code;
}

static void prepare(const scene *s) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", cache, s->forget ? s->forget : "");
    if (!s->forget || s->forget[0]) EXPECT_OK(hn_dir_remove(path));
    remove(bundle);
    if (s->has_old) EXPECT_OK(hn_file_write_atomic(bundle, old.ptr, old.len, false));
}

static const hnb_section *find_section(const hn_strbuf *image, uint32_t kind) {
    const hnb_header *header = (const void *)image->ptr;
    const hnb_section *table = (const void *)(image->ptr + sizeof *header);
    for (uint32_t k = 0; k < header->section_count; k++)
        if (table[k].kind == kind) return &table[k];
    return NULL;
}

static bool same_bytes(const hn_strbuf *a, uint64_t a_at, const hn_strbuf *b, uint64_t b_at,
                       uint64_t len) {
    return a_at + len <= a->len && b_at + len <= b->len &&
           memcmp(a->ptr + a_at, b->ptr + b_at, len) == 0;
}

/* The same program: the images may differ in what they record of the cache key, for people, which
 * is missing when a call fails with which the key is made. Both are images that open. */
static bool same_program(const hn_strbuf *a, const hn_strbuf *b) {
    const hnb_header *x = (const void *)a->ptr, *y = (const void *)b->ptr;
    if (x->code_bytes != y->code_bytes || x->weights_bytes != y->weights_bytes) return false;
    if (!same_bytes(a, x->code_offset, b, y->code_offset, x->code_bytes)) return false;
    if (!same_bytes(a, x->weights_offset, b, y->weights_offset, x->weights_bytes)) return false;
    for (uint32_t kind = 1; kind < HNB_SECTION_KIND_COUNT; kind++) {
        const hnb_section *s = find_section(a, kind), *t = find_section(b, kind);
        if (kind == HNB_KEY || (!s && !t)) continue;
        if (!s || !t || s->count != t->count ||
            !same_bytes(a, s->offset, b, t->offset, s->count * s->elem_bytes))
            return false;
    }
    return true;
}

static bool bundle_is(const hn_strbuf *expected) {
    hn_strbuf now;
    hn_bundle view;
    hn_strbuf_init(&now);
    hn_status status = hn_file_read(bundle, &now);
    bool same = !status && now.len == expected->len && memcmp(now.ptr, expected->ptr, now.len) == 0;
    if (!status && !same) {
        status = hn_bundle_open(now.ptr, now.len, true, &view);
        same = !status && same_program(&now, expected);
    }
    hn_status_free(status);
    hn_strbuf_deinit(&now);
    return same;
}

/* Files beside the model, the cache and the bundle; unfinished ones are removed. */
static long count_strays(bool may_be_unfinished) {
    DIR *list = opendir(dir);
    long count = 0;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        const char *name = entry->d_name;
        char path[PATH_MAX + 256];
        bool is_known = name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
        is_known |=
            !strcmp(name, "model.pt2") || !strcmp(name, "cache") || !strcmp(name, "out.hnb");
        if (is_known) continue;
        snprintf(path, sizeof(path), "%s/%s", dir, name);
        hn_status_free(hn_dir_remove(path));
        remove(path);
        if (may_be_unfinished && strstr(name, "henry-")) continue;
        fprintf(stderr, "'%s' is left\n", name);
        count++;
    }
    if (list) closedir(list);
    return count;
}

typedef struct tally {
    long runs, calls, skipped, done, refused;
} tally;

static void check_after(const scene *s, const fault_run *run, tally *sum) {
    int before = hn_test_failures;
    bool is_kill = run->what.kind == FAULT_KILL_BEFORE || run->what.kind == FAULT_KILL_AFTER;
    bool killed = WIFSIGNALED(run->status) && WTERMSIG(run->status) == SIGKILL;
    bool done = WIFEXITED(run->status) && WEXITSTATUS(run->status) == 0;
    bool refused = WIFEXITED(run->status) && WEXITSTATUS(run->status) == 1;
    EXPECT(!run->is_late);
    EXPECT(is_kill ? killed : done || refused);
    if (done) EXPECT(bundle_is(&reference));
    else EXPECT(bundle_is(&reference) || (s->has_old ? bundle_is(&old) : !hn_file_exists(bundle)));
    /* Removing may be what is refused. */
    EXPECT_INT(count_strays(is_kill || run->what.kind == FAULT_ERROR_FROM ||
                            run->number == SYS_unlink || run->number == SYS_unlinkat ||
                            run->number == SYS_rmdir),
               0);
    sum->done += done;
    sum->refused += refused;
    EXPECT_OK(compile_and_save());
    EXPECT(bundle_is(&reference));
    if (hn_test_failures != before)
        fprintf(stderr, "  in: %s; call %ld (number %ld) %s; wait status %#x\n", s->name, run->at,
                run->number, run->what.name, (unsigned)run->status);
}

static long run_once(const scene *s, const fault *what, long at, tally *sum) {
    prepare(s);
    fault_run run = {.what = *what, .at = at};
    fault_trace(&run, child_body, (void *)s);
    if (what->kind == FAULT_NONE) {
        EXPECT(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0 && run.calls > 20);
        EXPECT(bundle_is(&reference));
    } else if (run.was_harmed) {
        check_after(s, &run, sum);
        sum->runs++;
    } else {
        sum->skipped++;
    }
    return run.calls;
}

static void begin(void) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_init(&old);
    hn_strbuf_init(&reference);
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    snprintf(cache, sizeof(cache), "%s/cache", dir);
    snprintf(model, sizeof(model), "%s/model.pt2", dir);
    snprintf(bundle, sizeof(bundle), "%s/out.hnb", dir);
    EXPECT_OK(hn_file_read(MODEL, &text));
    EXPECT_OK(hn_file_write_atomic(model, text.ptr, text.len, false));
    EXPECT_OK(compile_and_save());
    EXPECT_OK(hn_file_read(bundle, &reference));
    for (int i = 0; i < 10000; i++) hn_strbuf_puts(&old, "an older bundle\n");
    hn_strbuf_deinit(&text);
    setenv("TMPDIR", dir, 1);
}

TEST(every_call_of_a_compilation) {
    tally sum = {0};
    const char *only = getenv("HN_STRESS_SCENE"), *call = getenv("HN_STRESS_CALL");
    char text[512] = "";
    if (!fault_can_trace()) {
        stress_row("every system call of a compilation", "all pass",
                   "skipped: no process may be traced here");
        return;
    }
    hn_log_configure("off");
    begin();
    stress_begin();
    for (int i = 0; i < SCENE_COUNT; i++) {
        const scene *s = &scenes[i];
        if (only && strcmp(only, s->name) != 0) continue;
        long calls = run_once(s, &(fault){FAULT_NONE, 0, ""}, 0, &sum),
             step = stress.is_quick ? s->quick_step : s->step;
        sum.calls += calls;
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %ld", i ? ", " : "",
                 s->name, calls);
        for (int f = 0; f < FAULT_COUNT; f++)
            for (long at = call ? atol(call) : f % step; at < (call ? atol(call) + 1 : calls);
                 at += step)
                run_once(s, &fault_table[f], at, &sum);
    }
    EXPECT(only || (sum.done > 5 && sum.refused > 5));
    stress_row(
        "system calls of a compilation x {kill, ENOSPC, EIO, EINTR, short write}",
        "the right bundle or a clean error, nothing half-written, the cache sound",
        "%ld calls of %d compilations x %d faults, sampled: %ld runs, %d failed; %ld made the bundle "
        "all the same, %ld clean errors",
        sum.calls, SCENE_COUNT, FAULT_COUNT, sum.runs, hn_test_failures, sum.done, sum.refused);
    fprintf(stderr, "system calls of: %s\n", text);
    hn_log_configure(NULL);
    unsetenv("TMPDIR");
    EXPECT_OK(hn_dir_remove(dir));
    hn_strbuf_deinit(&reference);
    hn_strbuf_deinit(&old);
}

int main(int argc, char **argv) { return stress_main(argc, argv); }
