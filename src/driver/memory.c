/* memory.c: which options the memory planner gets, and the parts of it in order. */
#include "driver/driver.h"

#include "base/compiler.h"
#include "base/trace.h"
#include "wrapper/donate.h"
#include "wrapper/order.h"
#include "wrapper/plan_print.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)HN_MEMORY_POOL_INTERMEDIATES == (int)HN_POOL_INTERMEDIATES &&
                   (int)HN_MEMORY_POOL_NONE == (int)HN_POOL_NONE &&
                   (int)HN_MEMORY_POOL_OUTPUTS == (int)HN_POOL_OUTPUTS &&
                   (int)HN_MEMORY_POOL_COMBINED == (int)HN_POOL_COMBINED,
               "the modes of the options are those of the planner");

/* By name, or by number. */
static hn_status find_input(const hn_wrapper *w, const char *name, uint32_t *out) {
    char *end;
    for (uint32_t k = 0; k < w->inputs.count; k++) {
        *out = k;
        if (hn_str_eq(w->inputs.items[k].name, hn_str_of(name))) return NULL;
    }
    const unsigned long number = strtoul(name, &end, 10);
    if (*name < '0' || *name > '9' || *end || number >= w->inputs.count)
        return HN_ERROR(HN_NOT_FOUND, "the model has no input '%s', whose memory is to be given up",
                        name);
    *out = (uint32_t)number;
    return NULL;
}

static hn_status donate(hn_driver *d, hn_wrapper *w) {
    const char *const *names = HN_OPT(&d->options, donated);
    for (uint32_t k = 0; k < HN_OPT(&d->options, donated_count); k++) {
        uint32_t input = 0;
        HN_TRY(find_input(w, names[k], &input));
        HN_TRY(hn_wrapper_donate(w, input));
    }
    return NULL;
}

/* Stages whose results are plans. */
static const struct {
    const char *stage;
    hn_memory_plan_form form;
} forms[] = {{"memory-svg", HN_MEMORY_PLAN_SVG},
             {"memory-json", HN_MEMORY_PLAN_JSON},
             {"plan", HN_MEMORY_PLAN_TEXT}};

static hn_status dump(hn_driver *d, const hn_wrapper *w, const hn_memory_plan *plan) {
    const char *stage = HN_OPT(&d->options, dump_after);
    hn_strbuf text;
    for (size_t k = 0; stage && k < HN_COUNT_OF(forms); k++) {
        if (strcmp(stage, forms[k].stage) != 0) continue;
        hn_strbuf_init(&text);
        hn_status status = hn_memory_plan_print(w, plan, forms[k].form, &text);
        if (!status && forms[k].form == HN_MEMORY_PLAN_TEXT) hn_wrapper_print(w, &text);
        if (!status) status = hn_strbuf_status(&text);
        if (!status) hn_driver_dump_text(d, stage, &text);
        else hn_strbuf_deinit(&text);
        return status;
    }
    return NULL;
}

static hn_plan_options options_of(const hn_driver *d) {
    return (hn_plan_options){.pool = (hn_pool_mode)HN_OPT(&d->options, memory_pool)};
}

hn_status hn_driver_reuse(hn_driver *d, hn_wrapper *w) {
    const hn_plan_options options = options_of(d);
    HN_TRY(donate(d, w));
    HN_TRY(hn_wrapper_order(w, &options));
    return options.pool != HN_POOL_NONE ? hn_wrapper_reuse(w) : NULL;
}

hn_status hn_driver_plan(hn_driver *d, hn_wrapper *w, hn_memory_plan *out) {
    const hn_plan_options options = options_of(d);
    int64_t mark = hn_now_ns();
    HN_TRY(hn_driver_reuse(d, w));
    HN_TRY(hn_wrapper_plan_with(w, &options, out));
    HN_TRY(hn_wrapper_verify(w));
    HN_TRY(hn_driver_tables_plan(d, w, out));
    hn_driver_lap(&mark, "memory plan");
    return dump(d, w, out);
}
