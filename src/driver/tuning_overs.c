/* tuning_overs.c: which results of kernels lie over what the kernels read. Only the lines of the
 * program tell, so they are made once more than otherwise, with the forms that the model of costs
 * puts in front. */
#include "driver/tuning.h"

#include "wrapper/reuse.h"

/* ---- the lines ---- */

static hn_status make_lines(hn_driver *d, hn_wrapper **out) {
    HN_TRY(hn_driver_print_planned(d));
    HN_TRY(hn_driver_wrapper(d, out));
    return hn_driver_reuse(d, *out);
}

/* The line that a REUSE line speaks of. */
static const hn_line *user_of(const hn_wrapper *w, uint32_t at) {
    for (uint32_t k = at + 1; k < w->lines.count; k++)
        if (w->lines.items[k].kind == HN_LINE_KERNEL) return &w->lines.items[k];
    return NULL;
}

/* The kernel's name for a buffer; 0: the line does not have it. */
static hn_buf buffer_of(const hn_line *line, hn_wbuf b, bool is_written) {
    for (uint32_t k = 0; k < line->operand_count; k++)
        if (line->operands[k].buffer == b && line->operands[k].written == is_written)
            return line->meaning->buffers[k];
    return 0;
}

/* ---- kernels ---- */

static hn_status add(hn_driver *d, hn_tune_kernel *kernel, hn_forms_over over) {
    HN_PUSH(&d->arena, &kernel->overs, over);
    return NULL;
}

/* Of equal kernels the one that is timed. */
static hn_status add_to_kernel(hn_driver *d, hn_tune_jobs *jobs, const hn_line *line,
                               hn_forms_over over) {
    for (uint32_t k = 0; k < jobs->count; k++) {
        hn_tune_kernel *kernel = jobs->items[k]->kernel;
        if (!jobs->items[k]->sample && kernel->t.of.kernel == line->meaning->kernel)
            HN_TRY(add(d, kernel, over));
    }
    return NULL;
}

hn_status hn_tune_overs_find(hn_driver *d, hn_tune_jobs *jobs) {
    hn_wrapper *w;
    HN_TRY(make_lines(d, &w));
    for (uint32_t k = 0; k < w->lines.count; k++) {
        const hn_line *reuse = &w->lines.items[k], *line;
        if (reuse->kind != HN_LINE_REUSE || !(line = user_of(w, k)) || !line->meaning) continue;
        const hn_forms_over over = {.result = buffer_of(line, reuse->buffer, true),
                                    .over = buffer_of(line, reuse->from, false)};
        if (over.result && over.over) HN_TRY(add_to_kernel(d, jobs, line, over));
    }
    hn_arena_reset(&d->scratch);
    return NULL;
}
