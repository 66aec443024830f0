/* cubin.h: what a kernel takes of an NVIDIA GPU, as its compiler wrote it into the machine code: a
 * file in ELF's format, with sections of NVIDIA's own. */
#ifndef HN_BASE_CUBIN_H
#define HN_BASE_CUBIN_H

#include "base/str.h"

typedef struct hn_cubin_use {
    uint32_t registers; /* of a thread */
    /* of a thread, in slow memory: registers that did not fit, and arrays of which an index is not
     * known */
    uint32_t stack_bytes;
    uint32_t shared_bytes; /* of a group, besides what its launch adds */
} hn_cubin_use;

/* Whether everything that the file says it has is in it: the driver is not told how long it is. */
bool hn_cubin_is_whole(hn_str cubin);
/* False when the file does not tell it of `kernel`, or is no such file. */
bool hn_cubin_use_find(hn_str cubin, const char *kernel, hn_cubin_use *out);

#endif
