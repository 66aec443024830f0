/* service_fixture.h: services and scopes of the tests, whose workers are the test program
 * itself. */
#ifndef HN_TEST_SERVICE_FIXTURE_H
#define HN_TEST_SERVICE_FIXTURE_H

#include "henry/kernel.h"
#include "unit/harness.h"

#include <stdlib.h>
#include <string.h>

/* Unless the options say otherwise: two workers, nothing kept on disk or elsewhere, and all cores
 * are its own, whoever else compiles on this machine. Owns: the caller destroys it. */
static inline hn_service *service_open(hn_service_options options) {
    hn_service *service = NULL;
    setenv("HENRY_CORES_FILE", "/dev/null", 0);
    if (!options.worker_path) options.worker_path = "/proc/self/exe";
    if (!options.cache_dir) options.cache_dir = "";
    if (!options.remote_url) options.remote_url = "";
    if (!options.threads) options.threads = 2;
    EXPECT_OK(hn_service_create(&options, &service));
    return service;
}

static inline hn_scope *scope_open(hn_service *service) {
    hn_scope *scope = NULL;
    EXPECT_OK(hn_scope_create(service, &scope));
    return scope;
}

/* A kernel "k" in C. */
static inline hn_future *submit_c(hn_scope *scope, const char *text) {
    static const char *const flags[] = {"-O2"};
    hn_future *future = NULL;
    const hn_source source = {.name = "k",
                              .language = "c",
                              .text = text,
                              .text_len = strlen(text),
                              .flags = flags,
                              .flag_count = 1};
    EXPECT_OK(hn_compile_submit(scope, &source, &future));
    return future;
}

#endif
