/* fresh_memory.c: memory of modules (runtime/memory.c) begins as NaN, and as bools that are neither
 * 0 nor 1, in programs that compare results: what is read before anybody wrote it differs then,
 * always and not by chance. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int posix_memalign(void **out, size_t align, size_t bytes) {
    if (bytes > SIZE_MAX - align) return ENOMEM;
    *out = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (!*out) return ENOMEM;
    memset(*out, 0xff, bytes);
    return 0;
}
