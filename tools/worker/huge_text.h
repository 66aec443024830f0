/* huge_text.h: see huge_text.c. */
#ifndef HN_WORKER_HUGE_TEXT_H
#define HN_WORKER_HUGE_TEXT_H

/* Moves the program's own code and constants, as far as they fill large pages, to large pages of memory. Whatever stands
 * in the way leaves the program as it was. For a process with one thread; not from the program's own code. */
__attribute__((visibility("hidden"))) void hn_huge_text(void);

#endif
