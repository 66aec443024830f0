/* driver_leaks.h: to be included by tests that load compilers and drivers of devices: these keep
 * some memory for themselves, which is no leak of ours. */
#ifndef HN_TESTS_DRIVER_LEAKS_H
#define HN_TESTS_DRIVER_LEAKS_H

#include "henry/status.h"

#if defined(__SANITIZE_ADDRESS__)
HN_API const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libnvrtc\nleak:libpocl\nleak:libLLVM\nleak:libOpenCL\n";
}
/* The list of what was found of them would stand behind the counts of a test. */
HN_API const char *__lsan_default_options(void);
const char *__lsan_default_options(void) { return "print_suppressions=0"; }
#endif

#endif
