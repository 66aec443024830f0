/* headers.h: what a compilation read besides its text, so that its result can be kept.
 *
 * The compiler names the files afterwards (-MD). A list of them, with what identifies each, is the
 * "headers" of a result. A later job with the same record may have the result if the files on the
 * list are unchanged and no file has come into being that an #include would now find first.
 *
 * Known limit: a header that asks for the presence of another one with __has_include is not noticed
 * when that other one appears. (A text that asks so itself is never kept.) */
#ifndef HN_TOOLCHAIN_HEADERS_H
#define HN_TOOLCHAIN_HEADERS_H

#include "base/hash.h"
#include "base/str.h"
#include "henry/status.h"

#include <stdint.h>

/* Adds the files of a Make rule ("kernel.o: kernel.c /usr/include/x.h") to the list `paths`, each
 * once; those with a relative path, which are the job's own, are left out. */
void hn_headers_parse_rule(hn_str rule, hn_strbuf *paths);

/* Appends what identifies the files of the list `paths`. `dirs`: the list of directories that flags
 * add to the search path. `begin_ns`: when the compilation began (CLOCK_REALTIME); a file that
 * changed since, or just before, may not be what the compiler read: then nothing is appended, and
 * the result is not to be kept.
 */
hn_status hn_headers_note(hn_str paths, hn_str dirs, int64_t begin_ns, hn_strbuf *out) HN_MUST_USE;

/* Whether the files are still what they were: size, times and inode of each, or else its
 * content. */
bool hn_headers_unchanged(hn_str headers);

/* The key of the result: of the job and of what it read. */
hn_digest hn_headers_key(const hn_digest *job, hn_str headers);
/* The key under which the headers of a job are found. */
hn_digest hn_headers_list_key(const hn_digest *job);

#endif
