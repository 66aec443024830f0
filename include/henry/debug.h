/* henry/debug.h: looking at the tensors of a run, before and after each step: to find the kernel
 * that crashes, that makes a NaN, or that differs from another run. docs/debugging.md shows how.
 *
 * Without a program of your own, the same is had by `henry run --debug-tensors TEXT`, by the
 * environment variable HENRY_DEBUG_TENSORS and by hn_module_options.debug_tensors. The text is a
 * level and what restricts it, separated by commas:
 *
 *     stats,kernel=*softmax*,node=layers_3_*,arg=b12|x,calls=2-5,to=FILE,inf=ok,nan=bad
 *
 * kernel, node and arg are patterns of hn_debug_options; several are separated by '|'.
 *
 * The debugger is a hook (hn_module_hook_add): a run waits for the device behind each step, but for
 * HN_DEBUG_CHECK alone, and device_graphs has no effect. A module without a debugger runs as if
 * there were none.
 * This part of the API is young: it may change more than the rest. */
#ifndef HENRY_DEBUG_H
#define HENRY_DEBUG_H

#include "henry/module.h"
#include "henry/status.h"
#include "henry/tensor.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The statistics of an operand's tensor, wherever it lies; to be called by a hook. An empty tensor
 * has a count of 0.
 * Errors: invalid-argument for an index out of range and when there is nothing to read, as in
 * hn_step_operand_read; out-of-memory; device. */
HN_API hn_status hn_step_operand_stats(const hn_step_info *step, uint32_t operand,
                                       hn_tensor_stats *out) HN_MUST_USE;

typedef enum hn_debug_level {
    HN_DEBUG_OFF = 0,
    HN_DEBUG_NAMES =
        1, /* a line for each step before it runs: of a crash, the last one is guilty */
    /* a line for each tensor: inputs of the model, what steps read, what they have written */
    HN_DEBUG_STATS = 2,
    HN_DEBUG_SAVE = 3, /* a file for each of these tensors, and manifest.json */
    /* the first NaN or infinity ends the run with an error; on a device when the host reads what
     * that has found, at the end of the run at the latest */
    HN_DEBUG_CHECK = 4,
    HN_DEBUG_LEVEL_COUNT
} hn_debug_level;

/* "stats"; "off" for an unknown level. Never NULL. */
HN_API const char *hn_debug_level_name(hn_debug_level level);

typedef enum hn_debug_when {
    HN_DEBUG_INPUT = 0, /* an input of the model, before the first step */
    HN_DEBUG_BEFORE = 1,
    HN_DEBUG_AFTER = 2
} hn_debug_when;

/* Something that the debugger has to say. Everything is valid during the call of the sink. */
typedef struct hn_debug_event {
    uint64_t call; /* number of the run, from 1: hn_step_info.call */
    hn_debug_when when;
    const hn_step_info *step;
    /* the tensor; NULL in the line of HN_DEBUG_NAMES, and of inputs that are no tensors */
    const hn_step_operand *tensor;
    const hn_tensor_stats *stats; /* of HN_DEBUG_STATS and HN_DEBUG_CHECK; NULL: there are none */
    const char *file;             /* of HN_DEBUG_SAVE: its name in the folder; else NULL */
    const char *line;             /* all that as text, without a line end */
} hn_debug_event;

/* Zeros mean defaults. Strings are copied. */
typedef struct hn_debug_options {
    hn_debug_level level;
    /* What is looked at: patterns with '*' and '?'. Several are separated by '|'. NULL: everything.
     * `kernels`: the step's name, as in a line of HN_DEBUG_NAMES. `nodes`: nodes of the model that
     * the step or the tensor belongs to. `arguments`: the tensor's name, its node, or "b12" by the
     * number of its buffer */
    const char *kernels, *nodes, *arguments;
    uint64_t first_call, last_call; /* runs by number, from 1; 0: no bound */
    bool ignore_inf;                /* infinities, as in masks, are no fault: only NaN is */
    bool ignore_nan; /* NaN is no fault: only infinities are. Of the two, one is looked for */
    /* HN_DEBUG_SAVE: the folder, which must be given; it is made, or is empty. Else a file that
     * lines are added to; NULL: standard error, unless there is a sink */
    const char *path;
    /* Gets what would be printed. An error that it returns ends the run.
     * Threads: runs of several threads call it one at a time. */
    hn_status (*sink)(void *user, const hn_debug_event *event);
    void *user;
} hn_debug_options;

typedef struct hn_debug hn_debug;

/* Looks at runs of the module that begin from now on. Weights are looked at once, and again when
 * they were exchanged. What cannot be looked at is said in a line, and the run goes on.
 * Owns: the module; a debugger is valid until hn_debug_detach, or until the module is gone.
 * Errors: invalid-argument (an unknown level, a folder that is missing or not empty, too many
 * hooks), io, out-of-memory. */
HN_API hn_status hn_debug_attach(hn_module *module, const hn_debug_options *options,
                                 hn_debug **out_debug) HN_MUST_USE;
/* Runs that begin from now on are not looked at. NULL is allowed. */
HN_API void hn_debug_detach(hn_debug *debug);

#ifdef __cplusplus
}
#endif
#endif
