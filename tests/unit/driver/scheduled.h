/* scheduled.h: a model as text, up to its schedule, for tests of what comes behind: which forms its
 * kernels have. And a clock that is the test's. */
#ifndef HN_UNIT_DRIVER_SCHEDULED_H
#define HN_UNIT_DRIVER_SCHEDULED_H

#include "driver/driver.h"
#include "unit/harness.h"

typedef struct scheduled {
    hn_arena arena;
    hn_graph *graph;
    hn_driver d;
    hn_service *service;
} scheduled;

static inline int64_t ticks(void *user) { return ++*(int64_t *)user; }
static inline uint64_t nobody(void *user) {
    (void)user;
    return 0;
}

static inline void scheduled_begin(scheduled *x, const char *statements,
                                   const hn_compile_options *options) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    *x = (scheduled){.graph = NULL};
    hn_arena_init(&x->arena);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements);
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &x->service));
    hn_driver_init(&x->d, options, x->service);
    EXPECT_OK(hn_scope_create(x->service, &x->d.scope));
    EXPECT_OK(hn_sym_create(&x->arena, &x->d.sym));
    EXPECT_OK(hn_graph_parse(&x->arena, x->d.sym, hn_strbuf_str(&text), &x->graph));
    x->d.graph = x->graph;
    EXPECT_OK(hn_driver_targets(&x->d));
    EXPECT_OK(hn_driver_passes(&x->d));
    EXPECT_OK(hn_driver_kernels(&x->d));
    hn_strbuf_deinit(&text);
}

static inline void scheduled_end(scheduled *x) {
    hn_driver_deinit(&x->d);
    hn_service_destroy(x->service);
    hn_graph_deinit(x->graph);
    hn_arena_deinit(&x->arena);
}

#endif
