/* cuda_standin_find.c: the stand-in, as a program sees it that has loaded it. */
#include "support/cuda_standin.h"

#include <dlfcn.h>
#include <string.h>

cuda_standin *cuda_standin_find(void) {
    cuda_standin_get_fn get;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *address = library ? dlsym(library, "cuda_standin_get") : NULL;
    if (!address) return NULL;
    memcpy(&get, &address, sizeof get); /* ISO C has no cast from data to code */
    return get();
}

void cuda_standin_reset(cuda_standin *s) {
    s->fail_at = 0;
    s->is_lost = false;
    s->fails = NULL;
    s->failed = NULL;
    s->calls = 0;
    s->logged = 0;
    s->launches = s->waits = s->copies = s->pageable = 0;
    s->graph_launches = s->captures = s->instantiations = s->updates = s->patches = 0;
    s->memory_max = 0;
}
