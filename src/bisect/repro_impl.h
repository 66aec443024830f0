/* repro_impl.h: what the files of repro share: repro.c, repro_call.c. */
#ifndef HN_BISECT_REPRO_IMPL_H
#define HN_BISECT_REPRO_IMPL_H

#include "bisect/lines.h"
#include "bisect/repro.h"
#include "driver/project.h"
#include "interp/reference.h"

/* An operand at the first call of the step. */
typedef struct hn_repro_operand {
    hn_step_operand info;
    uint32_t same_as; /* the first operand that is the same buffer */
    uint8_t *before;
    hn_line_memory expected; /* shared by operands of one buffer */
} hn_repro_operand;

typedef struct hn_repro {
    hn_subject *s;
    hn_build *b;
    const hn_repro_options *options;
    hn_arena arena;
    hn_run_lines programs[HN_RUN_PROGRAMS_MAX];
    uint32_t program_count;
    const hn_run_lines *lines; /* of the program that has the step */
    const hn_line *line;       /* NULL: not met yet */
    hn_wlaunch launch;         /* of the variant that ran, and its kernel; of a call its operands */
    hn_wkernel kernel;
    uint32_t step, count;
    hn_repro_operand *operands;
    hn_project project;
    char source[32]; /* the name of the kernel's file */
} hn_repro;

/* The name is copied, the bytes are not. */
hn_status hn_repro_add_file(hn_repro *r, const char *name, const void *bytes,
                            size_t len) HN_MUST_USE;
hn_status hn_repro_add_text(hn_repro *r, const char *name, const hn_strbuf *text) HN_MUST_USE;

/* repro_call.c: of an operation that the CPU's library does: its part of repro.h; then its sources,
 * the program around it and the Makefile. */
void hn_repro_call_head(const hn_repro *r, hn_strbuf *out);
hn_status hn_repro_call_add(hn_repro *r) HN_MUST_USE;

#endif
