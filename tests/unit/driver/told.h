/* told.h: a timer that says how long each form takes (driver/tuning.h), and a clock that passes as
 * if it did; a graph that is compiled and tuned by it. */
#ifndef HN_UNIT_DRIVER_TOLD_H
#define HN_UNIT_DRIVER_TOLD_H

#include "driver/tuning.h"
#include "unit/harness.h"

enum { TOLD_FORMS_MAX = 64, TOLD_ASKED_NS = 1000 };

typedef struct told told;
struct told {
    /* ns of a call of the form that was asked for as number `form`; 0: it fails */
    double (*ns)(const told *t, uint32_t form, const hn_timed_form *what);
    uint32_t chosen; /* for `ns` */
    /* what was asked for: each form once, in the order in which it was */
    char forms[TOLD_FORMS_MAX][160];
    uint32_t form_count;
    uint64_t asked;
    int64_t now;
};

static inline int64_t told_now(void *user) { return ((told *)user)->now += TOLD_ASKED_NS; }

static inline uint32_t told_number(told *t, const hn_form_name *form) {
    char name[sizeof *t->forms];
    uint32_t k = 0;
    snprintf(name, sizeof name, HN_STR_FMT " " HN_STR_FMT, HN_STR_ARG(form->name),
             HN_STR_ARG(form->parameters));
    while (k < t->form_count && strcmp(t->forms[k], name) != 0) k++;
    EXPECT(k < TOLD_FORMS_MAX);
    if (k == t->form_count) snprintf(t->forms[t->form_count++], sizeof *t->forms, "%s", name);
    return k;
}

static inline hn_status told_call(void *user, const hn_timed_form *what, double *out_ns) {
    told *t = user;
    t->asked++;
    *out_ns = t->ns(t, told_number(t, what->form), what);
    t->now += (int64_t)*out_ns;
    return *out_ns > 0 ? NULL : HN_ERROR(HN_DEVICE, "the form does not launch");
}

static inline hn_tune_timer told_timer(told *t) {
    return (hn_tune_timer){.now_ns = told_now, .call_ns = told_call, .user = t};
}

typedef struct told_graph {
    hn_arena arena;
    hn_graph *graph;
    hn_sym *sym;
    hn_service *service;
    hn_driver d; /* once it is tuned */
    hn_tune_timer timer;
} told_graph;

static inline void told_graph_begin(told_graph *x, const char *statements, const char *cache_dir) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    memset(x, 0, sizeof *x);
    hn_arena_init(&x->arena);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements);
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = cache_dir},
                                &x->service));
    EXPECT_OK(hn_sym_create(&x->arena, &x->sym));
    EXPECT_OK(hn_graph_parse(&x->arena, x->sym, hn_strbuf_str(&text), &x->graph));
    hn_strbuf_deinit(&text);
}

/* By the times of `t`. */
static inline hn_status told_graph_tune(told_graph *x, const hn_compile_options *options, told *t) {
    hn_driver_init(&x->d, options, x->service);
    x->timer = told_timer(t);
    x->d.timer = &x->timer;
    x->d.sym = x->sym;
    x->d.graph = x->graph;
    EXPECT_OK(hn_driver_targets(&x->d));
    EXPECT_OK(hn_driver_passes(&x->d));
    return hn_driver_kernels(&x->d);
}

static inline void told_graph_end(told_graph *x) {
    hn_driver_deinit(&x->d);
    hn_graph_deinit(x->graph);
    hn_service_destroy(x->service);
    hn_arena_deinit(&x->arena);
}

#endif
