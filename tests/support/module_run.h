/* module_run.h: a loaded module on reference tensors, so that compiled programs and the interpreter
 * can be compared. */
#ifndef HN_TESTS_MODULE_RUN_H
#define HN_TESTS_MODULE_RUN_H

#include "henry/module.h"
#include "ir/interp.h"

/* A tensor of the module's with the elements of `from`, laid out as the module's input `index`
 * records when that is known. */
hn_status hn_test_tensor_make(hn_arena *arena, const hn_module *module, uint32_t index,
                              const hn_ref_tensor *from, hn_tensor **out) HN_MUST_USE;
/* The reverse. */
hn_status hn_test_tensor_read(hn_arena *arena, const hn_tensor *from,
                              hn_ref_tensor *out) HN_MUST_USE;

/* Runs the module once, and checks each of its steps (step_check.h). `out_outputs`: one tensor for
 * each output, then one for each mutation in the module's order; outputs that are no tensors get
 * dtype NONE. `out_count` of them at most. */
hn_status hn_test_module_run(hn_arena *arena, hn_module *module, const hn_ref_tensor *inputs,
                             uint32_t input_count, hn_ref_tensor *out_outputs,
                             uint32_t out_count) HN_MUST_USE;

#endif
