/* pages.h: memory straight from the system, by pages. */
#ifndef HN_BASE_PAGES_H
#define HN_BASE_PAGES_H

#include <stddef.h>

/* Zeros; NULL without memory, or of no bytes. A forked child does not have them: a driver may have
 * pinned them, and must not see copies. Owns: the caller, until hn_pages_unmap. */
void *hn_pages_map(size_t bytes);
/* Pages come when they are written to for the first time, one by one; now, all of them. Where the
 * system has no such call they come later. Threads: the memory may be used meanwhile. */
void hn_pages_make(void *pages, size_t bytes);
void hn_pages_unmap(void *pages, size_t bytes); /* NULL is allowed */

#endif
