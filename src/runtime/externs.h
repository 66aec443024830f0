/* externs.h: calls of operations, bound to one set of sizes. Internal to src/runtime. */
#ifndef HN_RUNTIME_EXTERNS_H
#define HN_RUNTIME_EXTERNS_H

#include "runtime/module_impl.h"

/* `dev`, and of `call` what hn_ext_prepare asks for, are set. hn_extern_release must follow. Errors:
 * those of hn_ext_prepare or of the device. */
hn_status hn_extern_prepare(hn_run_extern *x) HN_MUST_USE;
bool hn_extern_is_prepared(const hn_run_extern *x);
/* Memory of its device that a run wants. */
size_t hn_extern_scratch_bytes(const hn_run_extern *x);
/* One that was not prepared is allowed. */
void hn_extern_release(hn_run_extern *x);
/* A step that calls it. A device may find later what is wrong with the data. */
hn_status hn_extern_run(const hn_context *c, const hn_run_step *s,
                        hn_device_fault *out) HN_MUST_USE;

#endif
