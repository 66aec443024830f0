/* fuzz_npy.c: any bytes as an .npy file. What is accepted is copied out: both must stay within
 * memory. */
#include "base/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_npy npy;
    hn_status status = hn_npy_parse(data, size, &npy);
    if (!status) {
        void *copy = malloc(npy.numel * npy.elem_bytes + 1);
        if (copy) hn_npy_copy(&npy, copy);
        free(copy);
    }
    hn_status_free(status);
    return 0;
}
