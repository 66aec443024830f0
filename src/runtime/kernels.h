/* kernels.h: the compiled code of a module. Internal to src/runtime. */
#ifndef HN_RUNTIME_KERNELS_H
#define HN_RUNTIME_KERNELS_H

#include "runtime/load.h"
#include "runtime/module_impl.h"

/* programs.c: the program of a file for the device that is wanted, or the one that has the named
 * target (NULL: any); else the first. Errors: invalid-argument, with what the file has; corrupt. */
hn_status hn_program_choose(const hn_module *m, const hn_bundle *file, const char *target,
                            hn_bundle *out) HN_MUST_USE;

/* Chooses the target, by name or the best that this machine runs, and makes room. Nothing is loaded
 * yet; with a host hn_kernels_load_all must follow.
 * Errors: incompatible, naming the feature that is missing; invalid-argument for a name that the
 * bundle does not have. */
hn_status hn_kernels_init(hn_module *m, const char *wanted_target, bool has_host) HN_MUST_USE;
void hn_kernels_deinit(hn_module *m);

/* A kernel, as the device knows it; the first call for an object verifies and loads it. Threads:
 * any.
 * Errors: corrupt (digest), toolchain (the loader's), not-found, out-of-memory. */
hn_status hn_kernels_get(hn_module *m, uint32_t kernel, void **out) HN_MUST_USE;
/* Whether the walk calls the step's kernel itself, once it is loaded. `chunks` is known. */
bool hn_kernel_is_direct(const hn_module *m, const hn_run_step *step);
/* Gives a step its kernel, with the function that the walk calls where the device has one; NULL:
 * not loaded. */
void hn_kernel_set(const hn_module *m, hn_run_step *step, void *kernel);
/* All of them now; `host` may be NULL. */
hn_status hn_kernels_load_all(hn_module *m, const hn_module_host *host) HN_MUST_USE;

#endif
