/* kernels_of.h: how many kernels a program in text form becomes, and how many loops each holds. */
#ifndef HN_TESTS_UNIT_SCHED_KERNELS_OF_H
#define HN_TESTS_UNIT_SCHED_KERNELS_OF_H

#include "codegen/codegen.h"

#include "unit/harness.h"

/* The kernels in their order, each by how many loops it holds; a bracket of a conditional is
 * "-". */
static inline const char *kernels_of(const char *statements, char out[64]) {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_program *program = NULL;
    hn_schedule schedule = {.steps.count = 0};
    hn_strbuf text;
    hn_arena_init(&arena);
    hn_arena_init(&scratch);
    hn_strbuf_init(&text);
    hn_strbuf_printf(&text, "program {\n%s}\n", statements);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = hn_program_parse(&arena, sym, hn_strbuf_str(&text), &program);
    if (!status)
        status = hn_schedule_program(
            program, &(hn_sched_options){.threads = 2, .limits = hn_target_host().kind->limits},
            &arena, &scratch, &schedule);
    EXPECT_OK(status);
    size_t at = 0;
    out[0] = 0;
    for (uint32_t k = 0; k < schedule.steps.count && at < 48; k++) {
        const hn_kernel *kernel = schedule.steps.items[k].kernel;
        at +=
            (size_t)(kernel ? snprintf(out + at, 64 - at, "%s%u", k ? " " : "", kernel->loop_count)
                            : snprintf(out + at, 64 - at, "%s-", k ? " " : ""));
    }
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&scratch);
    hn_arena_deinit(&arena);
    return out;
}

#define EXPECT_KERNELS(statements, expected)                                                       \
    do {                                                                                           \
        char kernels[64];                                                                          \
        EXPECT_STR(kernels_of(statements, kernels), expected);                                     \
    } while (0)

#endif
