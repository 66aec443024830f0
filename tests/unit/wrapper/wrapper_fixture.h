/* wrapper_fixture.h: an empty program with one kernel, and random numbers. */
#ifndef HN_TESTS_UNIT_WRAPPER_FIXTURE_H
#define HN_TESTS_UNIT_WRAPPER_FIXTURE_H

#include "unit/harness.h"
#include "wrapper/wrapper.h"

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_wrapper *w;
    uint64_t seed;
    hn_wkernel kernel;
    hn_wbuf flag; /* that conditionals read */
    hn_woutput outputs[4];
} fixture;

static void setup(fixture *f, uint64_t seed) {
    *f = (fixture){.seed = seed * 0x9e3779b97f4a7c15ull + 1};
    hn_arena_init(&f->arena);
    EXPECT_OK(hn_sym_create(&f->arena, &f->sym));
    EXPECT_OK(hn_wrapper_create(&f->arena, f->sym, NULL, &f->w));
    EXPECT_OK(hn_wrapper_add_kernel(f->w, (hn_wkernel_info){.name = HN_STR("k")}, &f->kernel));
}
static void teardown(fixture *f) { hn_arena_deinit(&f->arena); }

static uint32_t draw(fixture *f, uint32_t limit) {
    f->seed = f->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(f->seed >> 33) % limit;
}

#endif
