/* one_kernel.h: kernel `number`, compiled, loaded and called. */
#ifndef HN_TESTS_STRESS_ONE_KERNEL_H
#define HN_TESTS_STRESS_ONE_KERNEL_H

#include "henry/kernel.h"

#include <stdio.h>
#include <string.h>

/* *out_right says whether it gave the right number, when the status is NULL. Owns: the caller frees
 * the status. */
static hn_status one_kernel(hn_scope *scope, const char *name, int number, bool *out_right) {
    char text[128];
    hn_future *future;
    hn_artifact *artifact = NULL;
    hn_library *library = NULL;
    int (*f)(int) = NULL;
    const char *entries[] = {"f"};
    snprintf(text, sizeof(text), "int f(int x); int f(int x) { return x * 3 + %d; }\n", number);
    const hn_source source = {.name = name,
                              .language = "c",
                              .text = text,
                              .text_len = strlen(text),
                              .entries = entries,
                              .entry_count = 1};
    hn_status status = hn_compile_submit(scope, &source, &future);
    if (!status) status = hn_future_wait(future, -1, &artifact);
    if (!status) status = hn_artifact_load(artifact, &library);
    if (!status) status = hn_library_symbol(library, "f", (void **)&f);
    *out_right = !status && f(14) == 42 + number;
    hn_library_close(library);
    hn_artifact_release(artifact);
    return status;
}

#endif
