/* pages.c: see pages.h. */
#include "base/pages.h"

#include <sys/mman.h>

void *hn_pages_map(size_t bytes) {
    void *at = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : MAP_FAILED;
    if (at == MAP_FAILED) return NULL;
    (void)madvise(at, bytes, MADV_DONTFORK);
    return at;
}

void hn_pages_make(void *pages, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    (void)madvise(pages, bytes, MADV_POPULATE_WRITE);
#else
    (void)pages, (void)bytes;
#endif
}

void hn_pages_unmap(void *pages, size_t bytes) {
    if (pages) (void)munmap(pages, bytes);
}
