/* lives.h: what is alive at each step in the workspace of the device that runs the kernels. */
#ifndef HN_RUNTIME_LIVES_H
#define HN_RUNTIME_LIVES_H

#include "runtime/module_impl.h"

/* A temporary, with the steps from the first to the last that mention it; or the scratch memory of a
 * step. */
typedef struct hn_life {
    int64_t begin, end; /* bytes of the workspace; equal: there is nothing */
    uint32_t first, last;
} hn_life;

/* Room for all of a module's; NULL without memory. Owns: the caller, by free. */
hn_life *hn_lives_allocate(const hn_module *m);
/* Those of a bound. */
void hn_lives_find(const hn_module *m, const hn_bound *bound, hn_life *lives);
/* The most bytes that are alive at a step. Sorts the lives. */
uint64_t hn_lives_most(const hn_module *m, hn_life *lives);

/* Gives the device's operations scratch memory in the workspace, where nothing else is alive then; the
 * workspace gets longer if it has to. A library's call may want some MiB: apart they would be there
 * all the time. Nothing for programs with stages, whose sizes come later: there the context has
 * memory for it. Errors: out-of-memory. */
hn_status hn_scratch_place(const hn_module *m, hn_bound *bound) HN_MUST_USE;

#endif
