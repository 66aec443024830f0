/* library.h: shared objects from memory or from an open file. hn_library_symbol and
 * hn_library_close are in henry/kernel.h. */
#ifndef HN_BASE_LIBRARY_H
#define HN_BASE_LIBRARY_H

#include "henry/kernel.h"

/* Loads a shared object from memory, or the one that starts at offset 0 of the open file `fd`
 * (which stays the caller's). `name` is for messages. Symbols are local to the library.
 * Errors: toolchain, with the loader's text. */
hn_status hn_library_load(const void *bytes, size_t len, const char *name,
                          hn_library **out) HN_MUST_USE;
hn_status hn_library_load_fd(int fd, const char *name, hn_library **out) HN_MUST_USE;

#endif
