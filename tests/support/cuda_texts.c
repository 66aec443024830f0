/* cuda_texts.c: see cuda_texts.h. */
#include "support/cuda_texts.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *cuda_texts_load(const char *path);
EXPORT uint32_t cuda_texts_arguments(void *text, const char *kernel);
EXPORT const unsigned *cuda_texts_alignments(void *text, const char *kernel);
EXPORT void cuda_texts_call(void *text, const char *kernel, void **arguments, size_t groups,
                            size_t threads, size_t shared_bytes);
EXPORT void cuda_texts_free(void *text);

static opencl_host *host;

static void check(hn_status status, const char *what) {
    if (!status) return;
    fprintf(stderr, "cuda texts: %s: %s\n", what, hn_status_message(status));
    abort();
}

EXPORT void *cuda_texts_load(const char *path) {
    opencl_program *program = NULL;
    hn_file_map map;
    if (!host) check(opencl_host_open(&host), "the host");
    check(hn_file_map_init(&map, path), path);
    char *text = strndup((const char *)map.data, map.size_bytes);
    if (!text) abort();
    check(opencl_program_build(host, text, map.size_bytes, "", &program), path);
    hn_file_map_deinit(&map);
    free(text);
    return program;
}

EXPORT uint32_t cuda_texts_arguments(void *text, const char *kernel) {
    return cuda_program_arguments(text, kernel);
}

EXPORT const unsigned *cuda_texts_alignments(void *text, const char *kernel) {
    return cuda_program_alignments(text, kernel);
}

EXPORT void cuda_texts_call(void *text, const char *kernel, void **arguments, size_t groups,
                            size_t threads, size_t shared_bytes) {
    const opencl_launch launch = {
        .kernel = kernel, .groups = groups, .threads = threads, .shared_bytes = shared_bytes};
    check(cuda_program_call(text, &launch, arguments), kernel);
}

EXPORT void cuda_texts_free(void *text) { opencl_program_free(text); }
