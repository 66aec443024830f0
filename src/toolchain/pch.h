/* pch.h: the #include lines that a C++ text begins with, compiled once for all texts that begin
 * with them.
 *
 * The lines are a header of their own, which gcc precompiles. It lies in a folder named by the
 * lines, the compiler and the flags, with a record of the headers that were read and of itself; it
 * is used while all of them are unchanged. Whatever goes wrong with it, the text is compiled as a
 * whole. Making one takes longer than compiling one text, so the second text with the same lines
 * makes it. Not for other folders. */
#ifndef HN_TOOLCHAIN_PCH_H
#define HN_TOOLCHAIN_PCH_H

#include "base/hash.h"
#include "toolchain/driver.h"

#define HN_PCH_HEADER                                                                              \
    "pch.h" /* in its folder; the compiler looks for the precompiled one beside it */

/* The length of the lines at the beginning of the text that end with its last leading #include:
 * blank lines, comments, #define and
 * #include. 0: there is no #include among them. */
size_t hn_pch_length(hn_str text);

typedef struct hn_pch {
    const char *root; /* for the folders of all; borrowed */
    hn_str lines;     /* borrowed */
    char dir[PATH_MAX - 64];
} hn_pch;

/* `subject`: all besides the lines that the precompiled header depends on. False: the path is too
 * long, or there is no folder. */
bool hn_pch_init(hn_pch *pch, const char *root, hn_str lines, const hn_digest *subject);
/* Whether the header is there and right. */
bool hn_pch_is_ready(const hn_pch *pch);
/* Whether it is to be made now: by nobody else, and not for the first text. `*out_lock` is to be
 * closed, also by the caller's death, when it was. */
bool hn_pch_is_wanted(const hn_pch *pch, int *out_lock);
/* The header for option -include. */
bool hn_pch_header(const hn_pch *pch, char out[PATH_MAX]);
/* Makes it by a compiler that is called with `args` (the compiler and its flags) in the driver's
 * directory. False: it failed, or one of the headers asks where it is included. */
bool hn_pch_make(const hn_pch *pch, hn_driver *driver, const hn_tool_args *args, hn_str dirs);

#endif
