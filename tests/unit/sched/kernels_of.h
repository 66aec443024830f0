/* kernels_of.h: how many kernels a program in text form becomes, and how many loops each holds. */
#ifndef HN_TESTS_UNIT_SCHED_KERNELS_OF_H
#define HN_TESTS_UNIT_SCHED_KERNELS_OF_H

#include "codegen/codegen.h"

#include "unit/harness.h"

static inline uint32_t kernels_others(const hn_schedule *schedule, uint32_t from) {
    uint32_t count = 0;
    while (from + count < schedule->steps.count && !schedule->steps.items[from + count].kernel)
        count++;
    return count;
}

/* The steps in their order: a kernel is how many loops it holds, and anything else, a call or a
 * bracket of a conditional, "-"; more than three of these, one behind the other, are "-4" or so. */
static inline void kernels_print(const hn_schedule *schedule, char out[64]) {
    size_t at = 0;
    uint32_t step;
    out[0] = 0;
    for (uint32_t k = 0; k < schedule->steps.count && at < 48; k += step) {
        const uint32_t others = kernels_others(schedule, k);
        const char *space = k ? " " : "";
        step = others > 3 ? others : 1;
        at += (size_t)(others > 3 ? snprintf(out + at, 64 - at, "%s-%u", space, others)
                       : others   ? snprintf(out + at, 64 - at, "%s-", space)
                                  : snprintf(out + at, 64 - at, "%s%u", space,
                                             schedule->steps.items[k].kernel->loop_count));
    }
}

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
    kernels_print(&schedule, out);
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
