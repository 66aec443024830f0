/* require.h: what public functions do with a NULL that they cannot take. */
#ifndef HN_BASE_REQUIRE_H
#define HN_BASE_REQUIRE_H

#include "base/compiler.h"
#include "henry/status.h"

/* Returns an error that names the function and its parameter when `pointer` is NULL. */
#define HN_REQUIRE(pointer, name)                                                                  \
    do {                                                                                           \
        if (HN_UNLIKELY(!(pointer)))                                                               \
            return HN_ERROR(HN_INVALID_ARGUMENT, "%s: '%s' is NULL; it must be given", __func__,   \
                            (name));                                                               \
    } while (0)

#endif
