/* fuzz_safetensors.c: any bytes as a safetensors file. What is accepted lies inside the file and
 * has names that end. */
#include "bundle/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const hn_safetensor *t, const uint8_t *file, size_t size) {
    const uint8_t *bytes = t->bytes;
    if (bytes < file || (size_t)(bytes - file) > size || t->len > size - (size_t)(bytes - file))
        abort();
    if (strlen(t->name.ptr) != t->name.len || t->rank > HN_TENSOR_MAX_RANK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_arena arena;
    hn_safetensor *tensors = NULL;
    uint32_t count = 0;
    uint8_t *file = malloc(size ? size : 1); /* of the exact size */
    if (!file) return 0;
    if (size) memcpy(file, data, size);
    hn_arena_init(&arena);
    hn_status status = hn_safetensors_read(file, size, &arena, &tensors, &count);
    for (uint32_t k = 0; !status && k < count; k++) check(&tensors[k], file, size);
    hn_status_free(status);
    hn_arena_deinit(&arena);
    free(file);
    return 0;
}
