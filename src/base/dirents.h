/* dirents.h: entries of a directory as getdents64(2) gives them, for code that may run in a signal
 * handler, where readdir may not. */
#ifndef HN_BASE_DIRENTS_H
#define HN_BASE_DIRENTS_H

#include <stdint.h>

typedef struct hn_dirent {
    uint64_t ino;
    int64_t offset;
    unsigned short len; /* to the next one */
    unsigned char type;
    char name[];
} hn_dirent;

#endif
