/* symbols.h: which functions an ELF file has: a shared object or a cubin. Not for other folders. */
#ifndef HN_TOOLCHAIN_SYMBOLS_H
#define HN_TOOLCHAIN_SYMBOLS_H

#include "toolchain/toolchain.h"

/* Whether the 64-bit ELF file defines `name`. When it does not, `out_mangled` (may be NULL) tells
 * whether it has a C++ function of that name without C linkage. Errors: toolchain when the bytes
 * are no such file. */
hn_status hn_symbols_find(hn_str object, const char *name, bool *out_found,
                          bool *out_mangled) HN_MUST_USE;

/* A toolchain error that names an entry that the result lacks. `linkage`: how a C++ function gets a
 * plain name. */
hn_status hn_symbols_missing(const char *name, bool is_mangled, const char *linkage) HN_MUST_USE;

/* Checks that the bytes of `result` have the functions of the list `entries`: that they have not is
 * a failure that is sure to come again. */
hn_status hn_symbols_check(hn_toolchain_result *result, hn_str entries,
                           const char *linkage) HN_MUST_USE;

#endif
