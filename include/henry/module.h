/* henry/module.h: a compiled program, loaded and ready to run.
 *
 *     hn_module *module;
 *     HN_TRY(hn_module_load_file("model.hnb", NULL, &module));
 *     hn_tensor *outputs[1] = {NULL};
 *     HN_TRY(hn_module_run(module, inputs, 1, outputs, 1));
 *     ...
 *     hn_tensor_release(outputs[0]);
 *     hn_module_release(module);
 *
 * Threads: every function is safe from many threads on one module, except that a run that writes to inputs
 * must not overlap with another use of the same memory; runs that change buffers take turns unless each has a state of its own.
 * Errors: a NULL where something must be given is refused with invalid-argument, whose message names the parameter.
 * Fork: a child may go on with its copies of modules that no thread runs at that moment; its
 * runs have one thread. */
#ifndef HENRY_MODULE_H
#define HENRY_MODULE_H

#include "henry/bundle.h"
#include "henry/status.h"
#include "henry/tensor.h"
#include "henry/threads.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hn_module hn_module;

/* Where a module gets its large memory: outputs, intermediates, scratch, states, laid out inputs and replaced weights. Descriptions,
 * tables and packed weights come from malloc. Both functions are called from the threads that call the module or release its
 * outputs, several at a time. */
typedef struct hn_allocator {
    void *context;
    /* Units: bytes; `alignment` is a power of two, 64 at least. `bytes` is at least 1. NULL: there is no memory, and the call of the
     * module fails with out-of-memory. */
    void *(*alloc)(void *context, size_t bytes, size_t alignment);
    void (*free)(void *context, void *memory);
} hn_allocator;

/* Zeros mean defaults. */
typedef struct hn_module_options {
    int threads;              /* for each run, HN_THREADS_MAX at most; 0: those of `executor` or HENRY_THREADS, else OMP_NUM_THREADS,
                                 else one for each processor. Into so many parts work is cut: henry/threads.h says who does them */
    const char *weights_path; /* where the file that the bundle refers to is now; NULL: beside the bundle under its last name,
                                 else at its recorded path */
    bool verify_weights;      /* full digest of the weights instead of size, time and head */
    bool skip_digest;         /* trust the bundle's bytes: no digest check (structure is always checked) */
    bool profile;             /* time every step; see hn_module_profile */
    bool load_all;            /* load every kernel now; otherwise a kernel is verified and loaded when a run first calls it */
    const hn_public_key *trusted; /* when there are any: only a bundle that one of them signed, whose weights are compared too */
    uint32_t trusted_count;
    const hn_executor *executor; /* runs the parts of a run's work on threads of the caller's; copied. NULL: the process's workers do */
    const char *target;       /* which code of a bundle for several CPUs ("x86-64-v3"); NULL: the best that this one runs */
    const hn_allocator *allocator; /* copied; its context must outlive the module and its outputs. NULL: malloc */
} hn_module_options;

/* Loads a bundle file. The file is mapped: weights are shared with other processes and never copied. It must
 * not be truncated or rewritten in place while the module lives (replacing it by rename is fine).
 * Owns: one reference. Errors: not-found, io, corrupt (does not verify), incompatible (another version, or
 * a CPU without the features that the kernels need), out-of-memory. */
HN_API hn_status hn_module_load_file(const char *path, const hn_module_options *options, hn_module **out_module) HN_MUST_USE;

/* The same from memory. The bytes are copied, except that weights of 64-byte aligned memory are borrowed when
 * `borrow` is true; then the memory must outlive the module. Errors: as hn_module_load_file. */
HN_API hn_status hn_module_load_memory(const void *bytes, size_t len, bool borrow, const hn_module_options *options,
                                       hn_module **out_module) HN_MUST_USE;

HN_API hn_module *hn_module_retain(hn_module *module); /* NULL stays NULL */
HN_API void hn_module_release(hn_module *module); /* NULL is allowed */

/* Runs the program.
 * `inputs`: one tensor for each input of hn_module_input_count, in order. An input that is a Python scalar in
 * the model's signature may be NULL (taken as recorded) or a rank 0 tensor, which must hold the recorded value. A whole
 * number that the model was exported with as a symbol must be given, as a rank 0 tensor of any integer type; a Python
 * float or bool that was, as one of HN_F64 or HN_BOOL.
 * `outputs`: NULL entries are filled with new tensors (one reference each, the caller's); a tensor put there by
 * the caller receives the result in its own memory and must have the right type, sizes and no overlap with inputs.
 * Scalar outputs come as rank 0 tensors (NULL for None and strings). The sizes of an output may depend on data: they are
 * known when the run is over, so tensors given for such outputs are checked while it runs.
 * Inputs in another layout than the recorded one are copied first. An input that the program writes to must not be read-only
 * memory (hn_tensor_create_const), and no tensor in `outputs` may be.
 * Errors: invalid-argument (count, type, rank, sizes, ranges, guards: the message names the input, the
 * constraint and the value; failed assertions; a number that depends on data and is out of its range, which the message
 * names with its node; an index out of bounds in a kernel), out-of-memory, internal.
 * After an error `outputs` is as it was, inputs and buffers are unchanged; the content of tensors that the caller put
 * into `outputs` is undefined. */
HN_API hn_status hn_module_run(hn_module *module, hn_tensor *const *inputs, uint32_t input_count, hn_tensor **outputs,
                               uint32_t output_count) HN_MUST_USE;

/* ---- runs with options ---- */

/* Asks runs to stop. One token may serve many runs, one after another or at the same time. */
typedef struct hn_cancel hn_cancel;

/* Makes a token that is not set. Owns: the caller, until hn_cancel_destroy. Errors: invalid-argument (NULL), out-of-memory. */
HN_API hn_status hn_cancel_create(hn_cancel **out_cancel) HN_MUST_USE;
/* Every run that has the token, now or later, ends with HN_CANCELLED. Threads: any; a signal handler may call it. */
HN_API void hn_cancel_set(hn_cancel *cancel);
/* Runs that start from now on are not cancelled. Call it when no run has the token. */
HN_API void hn_cancel_reset(hn_cancel *cancel);
HN_API bool hn_cancel_is_set(const hn_cancel *cancel);
/* No run may have the token any more. NULL is allowed. */
HN_API void hn_cancel_destroy(hn_cancel *cancel);

/* The buffers that a program changes, such as a cache of keys and values: one set of them for each sequence. See "state" below. */
typedef struct hn_state hn_state;

/* Zeros mean defaults. */
typedef struct hn_run_options {
    int threads;             /* at most this many for this run, never more than the module has; 0: as many as the module has. Runs with
                                the same sizes and another number are bound once more, as if the sizes were new */
    const hn_cancel *cancel; /* asked before each step; the run that finds it set ends with HN_CANCELLED. NULL: nobody cancels */
    hn_state *state;         /* of this module, read and changed by the run; NULL: the module's own */
} hn_run_options;

/* hn_module_run with options; `options` may be NULL.
 * A run that is cancelled ends within one step. It has changed neither inputs nor buffers; the content of tensors that the
 * caller put into `outputs` is undefined. Errors: as hn_module_run; invalid-argument for options out of range; cancelled. */
HN_API hn_status hn_module_run_with(hn_module *module, const hn_run_options *options, hn_tensor *const *inputs,
                                    uint32_t input_count, hn_tensor **outputs, uint32_t output_count) HN_MUST_USE;

/* A size or stride: a number, or an expression over size symbols. */
typedef struct hn_module_dim {
    bool is_static;
    int64_t value;    /* when static */
    int64_t hint;     /* its value for the inputs that the model was exported with; -1: unknown */
    const char *text; /* "128" or "2*s0"; owned by the module */
} hn_module_dim;

typedef enum hn_module_value_kind {
    HN_VALUE_KIND_TENSOR = 0,
    HN_VALUE_KIND_INT = 1,
    HN_VALUE_KIND_FLOAT = 2,
    HN_VALUE_KIND_BOOL = 3,
    HN_VALUE_KIND_STRING = 4,
    HN_VALUE_KIND_NONE = 5
} hn_module_value_kind;

/* An input or output. Everything is owned by the module. */
typedef struct hn_module_value_info {
    const char *name; /* "" when the model has none */
    hn_module_value_kind kind;
    bool is_changed;     /* of inputs: a run writes to the tensor */
    hn_scalar_type type; /* of TENSOR */
    uint32_t rank;
    const hn_module_dim *sizes, *strides;
} hn_module_value_info;

/* Counts of a NULL module are 0. */
HN_API uint32_t hn_module_input_count(const hn_module *module);
HN_API uint32_t hn_module_output_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_input_info(const hn_module *module, uint32_t index, hn_module_value_info *out) HN_MUST_USE;
HN_API hn_status hn_module_output_info(const hn_module *module, uint32_t index, hn_module_value_info *out) HN_MUST_USE;

/* The index of the input or output with this name. Errors: not-found, with names near to it; invalid-argument when several have
 * the name: those are taken by index only. */
HN_API hn_status hn_module_input_find(const hn_module *module, const char *name, uint32_t *out_index) HN_MUST_USE;
HN_API hn_status hn_module_output_find(const hn_module *module, const char *name, uint32_t *out_index) HN_MUST_USE;

/* ---- sizes: what a program takes and gives, known before a run ---- */

#define HN_DIM_VALUE UINT32_MAX /* in place of a dimension: the whole number itself */

/* A size that the model leaves open. Strings are the module's. */
typedef struct hn_module_symbol_info {
    const char *name;     /* "s0" */
    int64_t min, max;     /* INT64_MIN, INT64_MAX: no bound */
    bool has_hint;
    int64_t hint;         /* its value when the model was exported */
    bool is_data;         /* only a run knows it: it comes from data, not from an input's size. `input` and `text` mean nothing then */
    uint32_t input, dim;  /* the dimension (or HN_DIM_VALUE) of the input that gives it its value */
    const char *text;     /* what that dimension is: "s0" or "2*s0 + 1" */
} hn_module_symbol_info;
HN_API uint32_t hn_module_symbol_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_symbol_info_get(const hn_module *module, uint32_t index, hn_module_symbol_info *out) HN_MUST_USE;

/* A relation between sizes that every run checks. Strings are the module's. */
typedef struct hn_module_guard_info {
    const char *text;   /* "s0 != 13" */
    const char *reason; /* "" when there is none */
    bool is_data;       /* it is about sizes that only a run knows */
} hn_module_guard_info;
HN_API uint32_t hn_module_guard_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_guard_info_get(const hn_module *module, uint32_t index, hn_module_guard_info *out) HN_MUST_USE;

/* The sizes of an input of a coming call. */
typedef struct hn_input_sizes {
    uint32_t rank;
    const int64_t *sizes;
    bool has_value; /* a whole number among the inputs: its value */
    int64_t value;
} hn_input_sizes;

/* The sizes of an output. */
typedef struct hn_output_sizes {
    uint32_t rank;                      /* 0 for what is no tensor */
    int64_t sizes[HN_TENSOR_MAX_RANK];  /* -1: only the data tells */
} hn_output_sizes;

/* What the outputs of a run with inputs of these sizes would be, without running: one entry for each input, in order (a Python
 * scalar's is not read unless the model was exported with it as a symbol), and one for each output.
 * Errors: as hn_module_run for the same sizes (ranks, ranges, guards); counts that do not fit. */
HN_API hn_status hn_module_output_sizes(const hn_module *module, const hn_input_sizes *inputs, uint32_t input_count,
                                        hn_output_sizes *outputs, uint32_t output_count) HN_MUST_USE;

/* ---- state ---- */

/* State that the program changes: user inputs that it writes to, and buffers of the model, of which the module
 * has a private copy. */
typedef struct hn_module_mutation_info {
    const char *name;
    int32_t input;    /* index of the user input, or -1 for a buffer */
} hn_module_mutation_info;
HN_API uint32_t hn_module_mutation_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_mutation_info_get(const hn_module *module, uint32_t index, hn_module_mutation_info *out) HN_MUST_USE;
/* The module's own state: that of runs that bring none. Borrowed; lives as long as the module. NULL for NULL. */
HN_API hn_state *hn_module_state(hn_module *module);

/* Another state, with the values that the buffers have in the weights. Runs with different states go in parallel; runs with one
 * state take turns. A state keeps its module. Owns: the caller, until hn_state_destroy. Errors: out-of-memory. */
HN_API hn_status hn_state_create(hn_module *module, hn_state **out_state) HN_MUST_USE;
/* Another state of the same module with the present content of `from`. Errors: out-of-memory. */
HN_API hn_status hn_state_copy(hn_state *from, hn_state **out_state) HN_MUST_USE;
/* Back to the values in the weights. */
HN_API hn_status hn_state_reset(hn_state *state) HN_MUST_USE;
/* No run may use the state any more. NULL is allowed, the module's own is left alone. */
HN_API void hn_state_destroy(hn_state *state);

/* The present content of a buffer, as a new tensor that copies it; and the reverse, which copies the tensor. Both wait for a run
 * with this state. Errors: not-found when no buffer that the program changes has this name (names near to it are listed); unsupported
 * when its shape depends on the inputs; invalid-argument when type or sizes differ. */
HN_API hn_status hn_state_read(hn_state *state, const char *name, hn_tensor **out_tensor) HN_MUST_USE;
HN_API hn_status hn_state_write(hn_state *state, const char *name, const hn_tensor *tensor) HN_MUST_USE;
/* The same for the module's own state. */
HN_API hn_status hn_module_buffer_read(hn_module *module, const char *name, hn_tensor **out_tensor) HN_MUST_USE;
HN_API hn_status hn_module_buffer_write(hn_module *module, const char *name, const hn_tensor *tensor) HN_MUST_USE;

/* ---- weights ---- */

typedef enum hn_module_weight_kind {
    HN_WEIGHT_PARAMETER = 0,
    HN_WEIGHT_BUFFER = 1,
    HN_WEIGHT_CONSTANT = 2 /* a tensor that the model's code holds */
} hn_module_weight_kind;

/* A weight as the model has it. The name is the module's. */
typedef struct hn_module_weight_info {
    const char *name;
    hn_module_weight_kind kind;
    hn_scalar_type type;
    uint32_t rank;
    int64_t sizes[HN_TENSOR_MAX_RANK];
    uint64_t bytes;  /* of its elements */
    bool is_used;    /* the program depends on it */
    bool is_folded;  /* the compiler computed with its values: it cannot be replaced */
    bool is_state;   /* the program changes it: these are the values that a state begins with */
} hn_module_weight_info;
HN_API uint32_t hn_module_weight_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_weight_info_get(const hn_module *module, uint32_t index, hn_module_weight_info *out) HN_MUST_USE;
/* The index of the weight with this name. Errors: as hn_module_input_find. */
HN_API hn_status hn_module_weight_find(const hn_module *module, const char *name, uint32_t *out_index) HN_MUST_USE;

typedef struct hn_named_tensor {
    const char *name;
    hn_tensor *tensor;
} hn_named_tensor;

/* Replaces weights by name, all of them at once: a run sees all old or all new values, never some of each; runs that have begun
 * go on with the old ones. Packed copies are made again when runs want them. After an error nothing has changed.
 * `borrow` false: the elements are copied, whatever the strides. True: the module uses the tensors' memory and keeps a reference
 * to them until no run needs it any more; the memory must not change meanwhile. That wants a weight that is alone in its memory, a
 * tensor in the same order of elements, and an address that is a multiple of 8.
 * What the program changes (is_state) gets new values to begin with: states take them at their creation or reset.
 * Errors: not-found, with names near to it; invalid-argument (type, sizes, a name given twice, two names for the same memory with
 * different values); unsupported when the compiler computed with the values of the weight, or when it cannot be borrowed. */
HN_API hn_status hn_module_weights_replace(hn_module *module, const hn_named_tensor *weights, uint32_t count, bool borrow) HN_MUST_USE;

/* Replaces all weights that the program depends on with those of a safetensors file, by name, as hn_module_weights_replace does with
 * copies. The file may be removed afterwards. Errors: also io and corrupt; not-found when the file lacks a weight or has one that the
 * model does not; unsupported when the compiler computed with the values of any weight. */
HN_API hn_status hn_module_weights_load(hn_module *module, const char *path) HN_MUST_USE;

typedef struct hn_module_stats {
    uint64_t runs;
    uint64_t shapes_bound;         /* how often sizes were new and the steps were bound again */
    uint32_t steps, kernels, objects; /* objects: of the target that is run */
    uint32_t objects_loaded;       /* so far: those that a run has called into */
    uint32_t contexts;             /* the most runs at one time so far */
    uint64_t peak_workspace_bytes; /* of one context: intermediates and scratch */
    uint64_t weights_mapped_bytes, weights_copied_bytes, weights_packed_bytes;
    uint64_t inputs_copied;        /* inputs that came in another layout */
} hn_module_stats;
HN_API void hn_module_stats_get(hn_module *module, hn_module_stats *out);

/* Time spent in one step since the load, for modules loaded with `profile`. Strings are the module's. */
typedef struct hn_module_step_profile {
    const char *name;   /* kernel name, "matmul", "copy", ... */
    const char *origin; /* node of the model */
    uint64_t calls;
    int64_t total_ns, min_ns;
} hn_module_step_profile;
HN_API uint32_t hn_module_step_count(const hn_module *module);
/* Errors: invalid-argument for a step out of range. */
HN_API hn_status hn_module_profile(hn_module *module, uint32_t step, hn_module_step_profile *out) HN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
