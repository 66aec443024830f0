/* text.h: words of the text form, one list for printing and for reading; internal to src/kernel. */
#ifndef HN_KERNEL_TEXT_H
#define HN_KERNEL_TEXT_H

/* Indexed by hn_space. */
extern const char *const hn_space_names[];

#endif
