/* fuzz_pickle.c: any bytes as a pickled state dict. */
#include "front/pt2/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hn_arena arena;
    hn_pickle_tensors tensors = {0};
    hn_arena_init(&arena);
    hn_status status = hn_pickle_read(&arena, (hn_str){(const char *)data, size}, &tensors);
    hn_status_free(status);
    hn_arena_deinit(&arena);
    return 0;
}
