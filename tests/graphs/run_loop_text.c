/* run_loop_text.c: loop IR as text: what lowering makes and what fusion makes of it is printed,
 * read and printed again, and the two texts must be one; the program that was read must verify and
 * schedule as the first one did. So are the kernel forms that are planned of it for an imaginary
 * GPU.
 *
 *     run_loop_text FROM COUNT            random graphs, two for each seed: one of each kind
 *     run_loop_text MODEL.pt2...
 *
 * Exit 0 when all agree. */
#include "tests/support/imaginary_gpu.h"
#include "tests/support/random_graph.h"

#include "driver/driver.h"
#include "front/importer.h"
#include "kernel/plan_gpu.h"
#include "lower/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where two texts part, as one line. */
static hn_status differs(const char *stage, hn_str first, hn_str second) {
    size_t at = 0, begin = 0;
    int line = 1;
    while (at < first.len && at < second.len && first.ptr[at] == second.ptr[at])
        if (first.ptr[at++] == '\n') line++, begin = at;
    return HN_ERROR(HN_INTERNAL, "%s: line %d is '%.*s', read and printed '%.*s'", stage, line,
                    (int)strcspn(first.ptr + begin, "\n"), first.ptr + begin,
                    (int)strcspn(second.ptr + begin, "\n"), second.ptr + begin);
}

static hn_status schedule(hn_program *p, hn_arena *arena, hn_strbuf *out_fused, hn_schedule *out) {
    hn_arena scratch;
    hn_sched_options options = {
        .threads = 2, .limits = hn_target_host().kind->limits, .fused = out_fused};
    *out = (hn_schedule){0};
    hn_arena_init(&scratch);
    hn_status status = hn_schedule_program(p, &options, arena, &scratch, out);
    hn_arena_deinit(&scratch);
    return status;
}

/* The program has symbols already when the form is read, as when somebody edits one form of
 * many. */
static hn_status check_form(const hn_program *p, const hn_form *f, hn_arena *arena) {
    hn_strbuf first, again;
    hn_form *read = NULL;
    hn_strbuf_init(&first);
    hn_strbuf_init(&again);
    hn_form_print(f, &first);
    hn_status status = hn_form_parse(p, arena, hn_strbuf_str(&first), &read);
    if (status) status = hn_status_annotate(status, "form");
    if (!status) hn_form_print(read, &again);
    if (!status && !hn_str_eq(hn_strbuf_str(&first), hn_strbuf_str(&again)))
        status = differs("form", hn_strbuf_str(&first), hn_strbuf_str(&again));
    if (status && getenv("LOOP_TEXT")) fputs(first.ptr ? first.ptr : "", stderr);
    hn_strbuf_deinit(&first);
    hn_strbuf_deinit(&again);
    return status;
}

/* The best forms for an imaginary processor. */
static hn_status check_forms(const hn_program *p, const hn_schedule *schedule, hn_arena *arena) {
    enum { MOST = 4 };
    hn_arena scratch;
    hn_status status = NULL;
    hn_arena_init(&scratch);
    for (uint32_t k = 0; k < schedule->steps.count && !status; k++) {
        hn_form *forms[MOST];
        uint32_t count = 0;
        const hn_step *step = &schedule->steps.items[k];
        if (step->kind != HN_STEP_KERNEL) continue;
        status =
            hn_form_plans_gpu(p, step->kernel, &hn_test_gpu, MOST, arena, &scratch, forms, &count);
        for (uint32_t j = 0; j < count && !status; j++) status = check_form(p, forms[j], arena);
    }
    hn_arena_deinit(&scratch);
    return status;
}

/* The text of `text`'s program, before fusion and after it. */
static hn_status read_and_print(const char *stage, hn_str text, hn_strbuf *out,
                                hn_strbuf *out_fused) {
    hn_arena arena;
    hn_sym *sym;
    hn_program *p = NULL;
    hn_schedule ignored;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, text, &p);
    if (!status) hn_program_print(p, out);
    if (!status && out_fused) status = schedule(p, &arena, out_fused, &ignored);
    hn_arena_deinit(&arena);
    return status ? hn_status_annotate(status, "%s", stage) : NULL;
}

static bool same(const hn_strbuf *a, const hn_strbuf *b) {
    return hn_str_eq(hn_strbuf_str(a), hn_strbuf_str(b));
}

static hn_status check_program(hn_program *p, hn_arena *arena) {
    hn_schedule planned;
    hn_strbuf first, again, fused, fused_again, read_fused;
    hn_strbuf *all[] = {&first, &again, &fused, &fused_again, &read_fused};
    for (int k = 0; k < 5; k++) hn_strbuf_init(all[k]);
    hn_program_print(p, &first);
    hn_status status = read_and_print("lowered", hn_strbuf_str(&first), &again, &read_fused);
    if (!status && !same(&first, &again))
        status = differs("lowered", hn_strbuf_str(&first), hn_strbuf_str(&again));
    if (!status) status = schedule(p, arena, &fused, &planned);
    if (!status) status = read_and_print("fused", hn_strbuf_str(&fused), &fused_again, NULL);
    if (!status && !same(&fused, &fused_again))
        status = differs("fused", hn_strbuf_str(&fused), hn_strbuf_str(&fused_again));
    if (!status && !same(&fused, &read_fused))
        status = differs("fused from text", hn_strbuf_str(&fused), hn_strbuf_str(&read_fused));
    if (!status) status = check_forms(p, &planned, arena);
    if (status && getenv("LOOP_TEXT")) fputs(first.ptr ? first.ptr : "", stderr);
    for (int k = 0; k < 5; k++) hn_strbuf_deinit(all[k]);
    return status;
}

static hn_status check_graph(hn_graph *g, hn_arena *arena) {
    hn_arena scratch;
    hn_program *p;
    hn_arena_init(&scratch);
    hn_status status = NULL;
    for (uint32_t k = 0; !status && hn_driver_pass_name(k); k++)
        status = hn_driver_pass_run(g, hn_driver_pass_name(k), &scratch);
    if (!status) status = hn_lower(g, NULL, arena, &scratch, &p);
    if (!status) status = hn_program_verify(p);
    hn_arena_deinit(&scratch);
    return status ? status : check_program(p, arena);
}

static hn_status check_file(const char *path, hn_arena *arena, hn_sym *sym, hn_graph **g) {
    hn_model_file *file;
    HN_TRY(hn_model_open(path, &file));
    hn_status status = file->importer->import(file, NULL, arena, sym, g);
    if (!status) status = check_graph(*g, arena);
    hn_model_close(file);
    return status;
}

/* Of the file, or of the seed when there is none. */
static bool check(const char *path, uint64_t seed, bool has_contractions) {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *g = NULL;
    double tolerance[HN_RANDOM_MAX_TENSORS];
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status && path) status = check_file(path, &arena, sym, &g);
    if (!status && !path) {
        status = hn_graph_create(&arena, sym, &g);
        if (!status)
            status = (has_contractions ? hn_random_contractions_add
                                       : hn_random_graph_add)(seed, g, tolerance);
        if (!status) status = check_graph(g, &arena);
    }
    if (status)
        fprintf(stderr, "%s %llu%s: ", path ? path : "seed", (unsigned long long)seed,
                has_contractions ? ", contractions" : "");
    if (status) fprintf(stderr, "%s\n", hn_status_message(status));
    bool good = !status;
    hn_status_free(status);
    if (g) hn_graph_deinit(g);
    hn_arena_deinit(&arena);
    return good;
}

int main(int argc, char **argv) {
    unsigned long long passed = 0, failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: %s FROM COUNT | MODEL.pt2...\n", argv[0]);
        return 2;
    }
    if (argc == 3 && argv[1][strspn(argv[1], "0123456789")] == 0) {
        uint64_t from = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
        for (uint64_t seed = from; seed < from + count; seed++)
            for (int kind = 0; kind < 2; kind++)
                *(check(NULL, seed, kind) ? &passed : &failed) += 1;
    } else {
        for (int k = 1; k < argc; k++) *(check(argv[k], 0, false) ? &passed : &failed) += 1;
    }
    printf("%llu passed, %llu failed\n", passed, failed);
    return failed != 0;
}
