/* subject.h: what bisect and repro share: a model that is compiled, loaded, and has its inputs. */
#ifndef HENRY_TOOL_SUBJECT_H
#define HENRY_TOOL_SUBJECT_H

#include "bisect/subject.h"
#include "compare.h"
#include "tool.h"

typedef struct tool_subject {
    const tool_options *options;
    hn_compile_options compile;
    hn_module_options load;
    hn_subject subject;
    hn_build whole; /* as it is compiled usually */
    bool has_subject, has_build;
    hn_arena arena;
    hn_tensor **inputs;
    uint32_t input_count;
    tool_compare *saved; /* --compare; NULL: not given */
} tool_subject;

/* The model, --input and --expect of the command line. deinit also after an error. */
hn_status tool_subject_open(const tool_options *options, tool_subject *out) HN_MUST_USE;
void tool_subject_deinit(tool_subject *subject);
/* Errors: invalid-argument for a bundle, which has no graph. */
hn_status tool_refuse_bundle(const tool_options *options) HN_MUST_USE;

#endif
