/* step_check.h: a hook that checks what a module tells of its steps, for tests that run
 * programs. */
#ifndef HN_TESTS_STEP_CHECK_H
#define HN_TESTS_STEP_CHECK_H

#include "henry/module.h"

/* From now on, runs of the module fail when an operand of a step is not described, or when memory
 * that a step only reads has changed behind it. */
hn_status hn_test_steps_check(hn_module *module) HN_MUST_USE;

#endif
