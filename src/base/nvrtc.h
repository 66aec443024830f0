/* nvrtc.h: the run-time compiler of CUDA, loaded when it is there. */
#ifndef HN_BASE_NVRTC_H
#define HN_BASE_NVRTC_H

#include "henry/status.h"

#include <limits.h>
#include <stddef.h>

typedef struct hn_nvrtc_program_s *hn_nvrtc_program;

/* Results of the library; it has more. */
enum {
    HN_NVRTC_OK = 0,
    HN_NVRTC_OUT_OF_MEMORY = 1,
    HN_NVRTC_INVALID_OPTION = 5,
    HN_NVRTC_COMPILATION = 6
};

/* Its functions, under the names of its own header without the prefix. */
typedef struct hn_nvrtc {
    void *handle;
    int (*version)(int *major, int *minor);
    const char *(*error_string)(int result);
    int (*create_program)(hn_nvrtc_program *out, const char *text, const char *name,
                          int header_count, const char *const *headers, const char *const *names);
    int (*destroy_program)(hn_nvrtc_program *program);
    int (*compile_program)(hn_nvrtc_program program, int option_count, const char *const *options);
    int (*add_name_expression)(hn_nvrtc_program program, const char *expression);
    int (*get_lowered_name)(hn_nvrtc_program program, const char *expression, const char **out);
    int (*get_log_size)(hn_nvrtc_program program, size_t *out);
    int (*get_log)(hn_nvrtc_program program, char *out);
    int (*get_ptx_size)(hn_nvrtc_program program, size_t *out);
    int (*get_ptx)(hn_nvrtc_program program, char *out);
    int (*get_cubin_size)(hn_nvrtc_program program, size_t *out); /* from 11.1 on */
    int (*get_cubin)(hn_nvrtc_program program, char *out);
    /* May be NULL in older ones. */
    int (*get_arch_count)(int *out);
    int (*get_archs)(int *out);
    int (*set_flow_callback)(hn_nvrtc_program program,
                             int (*callback)(void *payload, void *reserved), void *payload);
} hn_nvrtc;

/* Loads the library. It stays in the process also when it is closed: loading it is what the first
 * job waits for, and some of its memory is never given back. Errors: toolchain with the loader's
 * text. */
hn_status hn_nvrtc_open(const char *path, hn_nvrtc *out) HN_MUST_USE;
void hn_nvrtc_close(hn_nvrtc *nvrtc);

/* Where the library is: HENRY_NVRTC, LD_LIBRARY_PATH, CUDA_HOME, CUDA_PATH, `cuda` beside the
 * program, /usr/local/cuda, the loader. Errors: toolchain, telling where it was looked for. */
hn_status hn_nvrtc_find(char out[PATH_MAX]) HN_MUST_USE;

#endif
