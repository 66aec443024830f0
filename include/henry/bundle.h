/* henry/bundle.h: looking at bundle files without running them. Running is henry/module.h. */
#ifndef HENRY_BUNDLE_H
#define HENRY_BUNDLE_H

#include "henry/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checks structure and digest; with `weights` also those of the weights, embedded or referred to.
 * Errors: as hn_module_load_file. */
HN_API hn_status hn_bundle_verify_file(const char *path, bool weights) HN_MUST_USE;

typedef enum hn_bundle_format { HN_BUNDLE_TEXT = 0, HN_BUNDLE_JSON = 1 } hn_bundle_format;

/* Describes a bundle: inputs, outputs, symbols, guards, steps, kernels, extern calls, objects, weights.
 * Owns: `*out_text` is NUL-terminated and freed with hn_bundle_text_free. Errors: as hn_module_load_file. */
HN_API hn_status hn_bundle_describe_file(const char *path, hn_bundle_format format, char **out_text, size_t *out_len) HN_MUST_USE;
HN_API void hn_bundle_text_free(char *text);

/* Writes compiled object number `index` (from 0) of a bundle, for a disassembler.
 * Errors: also invalid-argument for an index out of range or an object that the bundle only refers to. */
HN_API hn_status hn_bundle_object_extract(const char *path, unsigned index, const char *out_path) HN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
