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
 * Threads: many threads may use one module at the same time. Two exceptions: a run that writes to
 * inputs must not overlap with another use of the same memory; and runs that change buffers take
 * turns, unless each has a state of its own.
 * Errors: a NULL for a required parameter is refused with invalid-argument; the message names the
 * parameter.
 * Fork: a child may use its copies of modules that no thread was running at the time of the fork;
 * its runs use one thread. On another device than the CPU, runs and states of such a module fail
 * with HN_DEVICE, as does loading one for OpenCL or CUDA in the child of a process that has used it:
 * drivers have threads, which a child does not have. */
#ifndef HENRY_MODULE_H
#define HENRY_MODULE_H

#include "henry/allocator.h"
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

/* Zeros mean defaults. */
typedef struct hn_module_options {
    /* for each run, at most HN_THREADS_MAX; 0: those of `executor` or HENRY_THREADS, else
     * OMP_NUM_THREADS, else one per processor. Work is split into this many parts; see
     * henry/threads.h */
    int threads;
    /* where the file that the bundle refers to is now; NULL: its file name next to the bundle, else
     * at its recorded path */
    const char *weights_path;
    bool verify_weights; /* full digest of the weights instead of size, time and head */
    /* trust the bundle's bytes: no digest check (structure is always checked) */
    bool skip_digest;
    bool profile; /* time every step; see hn_module_profile */
    /* load every kernel now; otherwise a kernel is verified and loaded when a run first calls it */
    bool load_all;
    /* if any are given, only a bundle signed by one of them is loaded, and its weights are verified
     * too */
    const hn_public_key *trusted;
    uint32_t trusted_count;
    /* the caller's own thread pool, which executes the parts of a run; copied. NULL: the process's
     * workers */
    const hn_executor *executor;
    /* "cuda:1", or "cuda:GPU-8f2c" by the beginning of its UUID: which device runs the program,
     * of the kind that it was compiled for. Of a bundle with programs for several kinds of
     * device the one for this is taken. NULL: number 0 of the bundle's first program, the CPU's
     * if it has one */
    const char *device;
    /* which code of a bundle for several targets ("x86-64-v3"), and with that which program; NULL:
     * the best that this CPU, or the device, can run */
    const char *target;
    /* copied; its context must outlive the module and its outputs. NULL: malloc */
    const hn_allocator *allocator;
    /* how much memory of a CUDA device the module may take; beyond it, what needs memory fails with
     * out-of-memory. 0: all that there is */
    uint64_t device_memory_bytes;
    /* On CUDA: from the second run with the same sizes on, the steps are launched as one CUDA
     * graph, which gets other addresses when they change; of addresses that take turns, four have a
     * graph each. At most 32 graphs of a module, and 256 MiB by an estimate of 10 KiB for a step,
     * which `device_memory_bytes` limits, too. Sizes beyond that, and programs with steps that the
     * host decides or does, run as usual, as do runs with hooks. */
    bool device_graphs;
    /* a CUcontext of the device that runs the program, in which the module does all of its work;
     * NULL: the device's primary context, as of PyTorch and of CUDA's runtime. It stays the
     * caller's, who destroys it behind the module and its outputs. Memory and streams of the device
     * that the module is given are of this context */
    void *device_context;
    /* for memory of a CUDA device; copied; its context must outlive the module and its outputs.
     * NULL: a memory pool of the driver */
    const hn_device_allocator *device_allocator;
    /* What is printed, saved or checked of the tensors of a run: the text of henry/debug.h. NULL:
     * what HENRY_DEBUG_TENSORS says; "off": nothing */
    const char *debug_tensors;
    /* For finding reads of memory that was never written: "zero" or "nan" fills temporaries,
     * outputs and scratch memory before each run with zeros, or with bytes that are NaN as a float
     * of any type and -1 as a whole number; "once" fills those of a context with zeros when it gets
     * the memory. NULL: what HENRY_POOL_FILL says; "off": nothing. docs/debugging.md */
    const char *pool_fill;
} hn_module_options;

/* Loads a bundle file. The file is mapped: weights are shared with other processes and never
 * copied. It must not be truncated or rewritten in place while the module lives (replacing it by
 * rename is fine). What the program computes from weights alone is computed now, if the compiler
 * found that calls save time by it (hn_compile_options.computed_weights_bytes). Owns: one
 * reference. Errors: not-found, io, corrupt (does not verify), incompatible (another version, or a
 * CPU without the features that the kernels need), out-of-memory; as hn_module_run, of what is
 * computed from weights alone. */
HN_API hn_status hn_module_load_file(const char *path, const hn_module_options *options,
                                     hn_module **out_module) HN_MUST_USE;

/* The same from memory. The bytes are copied, except that weights of 64-byte aligned memory are
 * borrowed when `borrow` is true; then the memory must outlive the module. Errors: as
 * hn_module_load_file. */
HN_API hn_status hn_module_load_memory(const void *bytes, size_t len, bool borrow,
                                       const hn_module_options *options,
                                       hn_module **out_module) HN_MUST_USE;

HN_API hn_module *hn_module_retain(hn_module *module); /* NULL stays NULL */
HN_API void hn_module_release(hn_module *module);      /* NULL is allowed */

/* Runs the program. `inputs`: one tensor for each input of hn_module_input_count, in order. For a
 * Python scalar of the model's signature, pass NULL (the recorded value) or a rank 0 tensor, which
 * must hold the recorded value. If the scalar was exported as a symbol, a value is required: for an
 * integer a rank 0 tensor of any integer type, for a float or bool one of HN_F64 or HN_BOOL.
 * `outputs`: NULL entries are filled with new tensors (one reference each, owned by the caller), on
 * the CPU unless hn_run_options.device_outputs says otherwise. A tensor that the caller puts there
 * receives the result in its own memory; it must have the right type and sizes, and must not
 * overlap with inputs or each other. Scalar outputs are rank 0 tensors (NULL for None and strings).
 * If the sizes of an output depend on data, they are known only during the run, and a tensor given
 * for such an output is checked then. Inputs with a layout other than the recorded one are copied
 * first. Of a program for CUDA, inputs and given outputs may be tensors on the device that runs it
 * (hn_tensor_desc.device): kernels read and write them where they are. They need the recorded
 * layout, and an output an address that is a multiple of 64. An input that the program writes to
 * must not be read-only memory (hn_tensor_create_const), and no tensor in `outputs` may be.
 * Errors: invalid-argument (count, type, rank, sizes, ranges, guards: the message names the input,
 * the constraint and the value; failed assertions; a data-dependent number out of its range, which
 * the message names with its node; an index out of bounds in a kernel), out-of-memory, device (a
 * driver's call failed: the message names it), internal. After an error the array `outputs`, inputs
 * and buffers are unchanged; the content of tensors that the caller put into `outputs` is
 * undefined. If a device other than the CPU fails (device) while it writes to the buffers, their
 * content is undefined: reset the state. */
HN_API hn_status hn_module_run(hn_module *module, hn_tensor *const *inputs, uint32_t input_count,
                               hn_tensor **outputs, uint32_t output_count) HN_MUST_USE;

/* ---- runs with options ---- */

/* Asks runs to stop. One token may serve many runs, one after another or at the same time. */
typedef struct hn_cancel hn_cancel;

/* Makes a token that is not set. Owns: the caller, until hn_cancel_destroy. Errors:
 * invalid-argument (NULL), out-of-memory. */
HN_API hn_status hn_cancel_create(hn_cancel **out_cancel) HN_MUST_USE;
/* All current and later runs with this token end with HN_CANCELLED. Threads: any; a signal handler
 * may call it. */
HN_API void hn_cancel_set(hn_cancel *cancel);
/* Later runs with this token are not cancelled. Call it when no run uses the token. */
HN_API void hn_cancel_reset(hn_cancel *cancel);
HN_API bool hn_cancel_is_set(const hn_cancel *cancel);
/* No run may still use the token. NULL is allowed. */
HN_API void hn_cancel_destroy(hn_cancel *cancel);

/* One set of the buffers that a program changes, such as a cache of keys and values; make one for
 * each sequence. See "state" below. */
typedef struct hn_state hn_state;

/* Zeros mean defaults. */
typedef struct hn_run_options {
    /* at most this many for this run, never more than the module has; 0: as many as the module has.
     * The first run with another number costs as much as one with new sizes */
    int threads;
    /* checked before each step; if it is set, the run ends with HN_CANCELLED. NULL: not
     * cancellable */
    const hn_cancel *cancel;
    /* of this module, read and changed by the run; NULL: the module's own */
    hn_state *state;
    /* of programs for CUDA, a CUstream of the module's context: the run begins when the work that
     * is in it now is done, and work that is given to it behind hn_run_begin, or
     * hn_module_run_with, sees outputs in memory of the device, without the host waiting for them.
     * NULL and CU_STREAM_LEGACY are the default stream; CU_STREAM_PER_THREAD is that of the thread
     * which begins the run. Without it, inputs in memory of the device are to be complete before */
    bool has_stream;
    void *stream;
    /* New outputs are tensors in memory of the device that runs the program, and a later run
     * takes them as inputs without a copy (scalars are on the CPU). They have to be released
     * before `stream` is destroyed, and in the thread that has called if it is
     * CU_STREAM_PER_THREAD: their memory is used again when the work is done that the stream
     * has then. If the stream is being captured then, it is used again when the module is gone:
     * the graph may be launched until that. Without `stream`, work of the caller's that uses an
     * output is done before its release. */
    bool device_outputs;
    /* Inputs by their index whose memory the caller gives up, of those that the program was
     * compiled for (hn_compile_options.donated; hn_module_value_info.is_donated): temporaries
     * and outputs may lie there, also after an error, so the content is undefined from the
     * beginning of the run. An output that lies there holds a reference to the input's tensor;
     * if that borrows its memory, it must outlive the output. Of others, of tensors in another
     * layout than the recorded one, or at an address that is no multiple of 64, nothing is
     * taken; nor of a tensor on the CPU, if the program runs on another device: its copy there
     * is taken in any case. No other input and no given output may have the same memory:
     * invalid-argument. NULL and 0: none */
    const uint32_t *donated;
    uint32_t donated_count;
    /* To look at all of them: of each kernel that was compiled in several forms this one runs,
     * counted from 1, or its last one if it has fewer. The first run with another number costs as
     * much as one with new sizes. 0: the form that suits the sizes */
    uint32_t form;
} hn_run_options;

/* hn_module_run with options; `options` may be NULL. A cancelled run ends within one step; on
 * another device than the CPU, when what the device was given is done. Inputs and buffers are then
 * unchanged; the content of tensors that the caller put into `outputs` is undefined. Errors: as
 * hn_module_run; invalid-argument for options out of range; cancelled. */
HN_API hn_status hn_module_run_with(hn_module *module, const hn_run_options *options,
                                    hn_tensor *const *inputs, uint32_t input_count,
                                    hn_tensor **outputs, uint32_t output_count) HN_MUST_USE;

/* A run that was begun. */
typedef struct hn_run hn_run;

/* Begins a run, and gives its work to the device: hn_run_end waits for it and hands out the
 * results. On the CPU the run is over when hn_run_begin returns, as is what comes before the last
 * size or condition that depends on data. Until the end, inputs must not change, nor must memory in
 * `outputs` be used; `outputs` itself must stay. Several runs may be under way, of one thread or of
 * many; but of runs that change the same state only one: a thread that has begun one gets
 * invalid-argument for the next, other threads wait.
 * Owns: the run, with references to module and inputs, until hn_run_end. Errors: as
 * hn_module_run_with; then there is no run. */
HN_API hn_status hn_run_begin(hn_module *module, const hn_run_options *options,
                              hn_tensor *const *inputs, uint32_t input_count, hn_tensor **outputs,
                              uint32_t output_count, hn_run **out_run) HN_MUST_USE;
/* Waits for a run, sets `outputs` and frees the run, also after an error. NULL is allowed. Call it
 * in the thread that has begun the run: for one that changes buffers another thread gets
 * invalid-argument, and the run stays. Errors: as hn_module_run_with. */
HN_API hn_status hn_run_end(hn_run *run) HN_MUST_USE;

/* A size or stride: a number, or an expression over size symbols. */
typedef struct hn_module_dim {
    bool is_static;
    int64_t value;    /* when static */
    int64_t hint;     /* its value for the inputs of the export; -1: unknown */
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
    bool is_donated;     /* of inputs: a run may take its memory; see hn_run_options.donated */
    hn_scalar_type type; /* of TENSOR */
    uint32_t rank;
    const hn_module_dim *sizes, *strides;
} hn_module_value_info;

/* 0 for a NULL module, as all counts below. */
HN_API uint32_t hn_module_input_count(const hn_module *module);
HN_API uint32_t hn_module_output_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_input_info(const hn_module *module, uint32_t index,
                                      hn_module_value_info *out) HN_MUST_USE;
HN_API hn_status hn_module_output_info(const hn_module *module, uint32_t index,
                                       hn_module_value_info *out) HN_MUST_USE;

/* The index of the input or output with this name. Errors: not-found, with similar names;
 * invalid-argument if several have this name: use their indices. */
HN_API hn_status hn_module_input_find(const hn_module *module, const char *name,
                                      uint32_t *out_index) HN_MUST_USE;
HN_API hn_status hn_module_output_find(const hn_module *module, const char *name,
                                       uint32_t *out_index) HN_MUST_USE;

/* ---- sizes: which ones a program accepts, and those of its outputs, before a run ---- */

#define HN_DIM_VALUE UINT32_MAX /* in place of a dimension: the integer itself */

/* A size that can differ between runs. Strings are owned by the module. */
typedef struct hn_module_symbol_info {
    const char *name; /* "s0" */
    int64_t min, max; /* INT64_MIN, INT64_MAX: no bound */
    bool has_hint;
    int64_t hint; /* its value when the model was exported */
    /* it depends on data, so only a run knows it; `input` and `text` mean nothing then */
    bool is_data;
    /* the dimension (or HN_DIM_VALUE) of the input that determines its value */
    uint32_t input, dim;
    const char *text; /* that dimension as an expression: "s0" or "2*s0 + 1" */
} hn_module_symbol_info;
HN_API uint32_t hn_module_symbol_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_symbol_info_get(const hn_module *module, uint32_t index,
                                           hn_module_symbol_info *out) HN_MUST_USE;

/* A relation between sizes that every run checks. Strings are owned by the module. */
typedef struct hn_module_guard_info {
    const char *text;   /* "s0 != 13" */
    const char *reason; /* "" when there is none */
    bool is_data;       /* it involves sizes that only a run knows */
} hn_module_guard_info;
HN_API uint32_t hn_module_guard_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_guard_info_get(const hn_module *module, uint32_t index,
                                          hn_module_guard_info *out) HN_MUST_USE;

/* The sizes of an input of a later call. */
typedef struct hn_input_sizes {
    uint32_t rank;
    const int64_t *sizes;
    bool has_value; /* for an input that is an integer: `value` is set */
    int64_t value;
} hn_input_sizes;

/* The sizes of an output. */
typedef struct hn_output_sizes {
    uint32_t rank;                     /* 0 if it is not a tensor */
    int64_t sizes[HN_TENSOR_MAX_RANK]; /* -1: depends on data */
} hn_output_sizes;

/* Computes the sizes of the outputs for inputs of these sizes, without a run. One entry for each
 * input, in order (that of a Python scalar is not read unless the scalar was exported as a symbol),
 * and one for each output.
 * Errors: as hn_module_run for the same sizes (ranks, ranges, guards); invalid-argument for wrong
 * counts. */
HN_API hn_status hn_module_output_sizes(const hn_module *module, const hn_input_sizes *inputs,
                                        uint32_t input_count, hn_output_sizes *outputs,
                                        uint32_t output_count) HN_MUST_USE;

/* ---- state ---- */

/* State that the program changes: user inputs that it writes to, and buffers of the model, of which
 * the module has a private copy. */
typedef struct hn_module_mutation_info {
    const char *name;
    int32_t input; /* index of the user input, or -1 for a buffer */
} hn_module_mutation_info;
HN_API uint32_t hn_module_mutation_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_mutation_info_get(const hn_module *module, uint32_t index,
                                             hn_module_mutation_info *out) HN_MUST_USE;
/* The module's own state, for runs without a state in their options. Borrowed; lives as long as the
 * module. NULL for NULL. */
HN_API hn_state *hn_module_state(hn_module *module);

/* Makes a state with the initial values of the buffers from the weights. Runs with different states
 * can run in parallel; runs with the same state take turns. A state holds a reference to its
 * module. Owns: the caller, until hn_state_destroy. Errors: out-of-memory. */
HN_API hn_status hn_state_create(hn_module *module, hn_state **out_state) HN_MUST_USE;
/* Makes a state of the same module with the current content of `from`. Errors: out-of-memory. */
HN_API hn_status hn_state_copy(hn_state *from, hn_state **out_state) HN_MUST_USE;
/* Resets the buffers to the values in the weights. */
HN_API hn_status hn_state_reset(hn_state *state) HN_MUST_USE;
/* No run may still use the state. NULL is allowed; for the module's own state it does nothing. */
HN_API void hn_state_destroy(hn_state *state);

/* Reads a buffer into a new tensor; writes a tensor into a buffer. Both copy, and wait for a run
 * with this state to end. Errors: not-found if the program changes no buffer of this name (the
 * message lists similar names); unsupported if its shape depends on the inputs; invalid-argument if
 * type or sizes differ. */
HN_API hn_status hn_state_read(hn_state *state, const char *name,
                               hn_tensor **out_tensor) HN_MUST_USE;
HN_API hn_status hn_state_write(hn_state *state, const char *name,
                                const hn_tensor *tensor) HN_MUST_USE;
/* The same for the module's own state. */
HN_API hn_status hn_module_buffer_read(hn_module *module, const char *name,
                                       hn_tensor **out_tensor) HN_MUST_USE;
HN_API hn_status hn_module_buffer_write(hn_module *module, const char *name,
                                        const hn_tensor *tensor) HN_MUST_USE;

/* ---- weights ---- */

typedef enum hn_module_weight_kind {
    HN_WEIGHT_PARAMETER = 0,
    HN_WEIGHT_BUFFER = 1,
    HN_WEIGHT_CONSTANT = 2 /* a tensor constant in the model's code */
} hn_module_weight_kind;

/* A weight of the model. The name is owned by the module. */
typedef struct hn_module_weight_info {
    const char *name;
    hn_module_weight_kind kind;
    hn_scalar_type type;
    uint32_t rank;
    int64_t sizes[HN_TENSOR_MAX_RANK];
    uint64_t bytes; /* of its elements */
    bool is_used;   /* the program depends on it */
    bool is_folded; /* the compiler folded its values into the program, so it cannot be replaced */
    bool is_state;  /* the program changes it: these are the initial values of a state */
} hn_module_weight_info;
HN_API uint32_t hn_module_weight_count(const hn_module *module);
/* Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_module_weight_info_get(const hn_module *module, uint32_t index,
                                           hn_module_weight_info *out) HN_MUST_USE;
/* The index of the weight with this name. Errors: as hn_module_input_find. */
HN_API hn_status hn_module_weight_find(const hn_module *module, const char *name,
                                       uint32_t *out_index) HN_MUST_USE;

typedef struct hn_named_tensor {
    const char *name;
    hn_tensor *tensor;
} hn_named_tensor;

/* Replaces weights by name, all at once: a run uses either only old or only new values. Runs that
 * have begun continue with the old ones. Packed copies are made again when a run needs them, and
 * what depends on weights alone is computed before the call returns. After an error nothing has
 * changed. If `borrow` is false, the elements are copied; any strides are allowed. If it is true,
 * the module uses the tensors' memory and keeps a reference to them until no run needs it; the
 * memory must not change meanwhile. This requires that the weight shares its memory with no other,
 * that the tensor has the same order of elements, and that its address is a multiple of 8. For
 * buffers that the program changes (is_state), this sets the initial values: states take them when
 * created or reset. Errors: not-found, with similar names; invalid-argument (type, sizes, a name
 * given twice, two names for the same memory with different values); unsupported if the compiler
 * folded the weight's values into the program, or if it cannot be borrowed; as hn_module_run, of
 * what is computed. */
HN_API hn_status hn_module_weights_replace(hn_module *module, const hn_named_tensor *weights,
                                           uint32_t count, bool borrow) HN_MUST_USE;

/* Replaces all weights that the program depends on with those of a safetensors file, by name, as
 * hn_module_weights_replace does with copies. The file may be removed afterwards. Errors: also io
 * and corrupt; not-found if the file lacks a weight, or has one that the model does not have;
 * unsupported if the compiler folded the values of any weight into the program. */
HN_API hn_status hn_module_weights_load(hn_module *module, const char *path) HN_MUST_USE;

/* What the program computes from weights alone, as a module: to list its steps and to add hooks to.
 * It runs when the module is opened and when weights are exchanged, and cannot be run by itself.
 * NULL: there is no such thing. Owns: it is a part of `module`. */
HN_API hn_module *hn_module_weights_program(const hn_module *module);
/* Runs that program again, for its hooks; the weights stay as they are. Runs that have begun are
 * not disturbed. Without such a program it does nothing. Errors: as hn_module_weights_replace. */
HN_API hn_status hn_module_weights_recompute(hn_module *module) HN_MUST_USE;

/* ---- steps, one by one ----
 *
 * A hook is called before and after every step of a run: for profilers, checks and debuggers.
 * Without hooks, runs cost nothing more. This part of the API is young: it may change more than the
 * rest. */

typedef enum hn_module_step_kind {
    HN_MODULE_STEP_KERNEL = 1, /* compiled code of the bundle */
    HN_MODULE_STEP_EXTERN = 2, /* an operation of the library, such as a matrix product */
    HN_MODULE_STEP_COPY = 3,
    HN_MODULE_STEP_ASSERT = 4,
    /* a conditional: the steps of its branch run between its `before` and `after` */
    HN_MODULE_STEP_COND = 5,
    /* reads a size from the data; what depends on it is known in `after` */
    HN_MODULE_STEP_DEFINE = 6,
    HN_MODULE_STEP_WAIT = 7, /* the CPU waits for the device */
    /* a loop: the steps of its rounds run between its `before` and `after`, each once a round */
    HN_MODULE_STEP_LOOP = 8,
    HN_MODULE_STEP_ZERO = 9 /* scratch memory is filled with zeros for the step behind */
} hn_module_step_kind;

/* A step of a run. Strings are owned by the module, the rest is valid during the call of the
 * hook. */
typedef struct hn_step_info {
    /* below hn_module_step_count; steps in branches that are not taken do not run */
    uint32_t index;
    hn_module_step_kind kind;
    const char *name;    /* kernel name, "matmul", "copy", ... */
    const char *node;    /* node of the model; "" when there is none */
    const char *source;  /* its line in the model's code; "" when it is not known */
    uint32_t node_count; /* nodes that it does: several of a kernel that is made of them */
    uint32_t operand_count;
    bool has_failed;  /* in `after`: the step failed, or a hook that was called for it before */
    hn_device device; /* where the step runs */
    /* the driver's queue of that device, a cl_command_queue say; all work of it is done. NULL: it
     * has none, as the CPU */
    void *queue;
    /* in `after` of a module that is loaded with `profile`: time of the step on the device; 0:
     * unknown, as on the CPU */
    int64_t device_ns;
    const struct hn_step_run *run; /* the library's own, for hn_step_operand_get */
    uint64_t call; /* number of the run, from 1, among those of the module that had hooks */
    /* Of a kernel that was compiled in several forms, or a call of an operation that was tuned:
     * which one runs in this run, of how many, and its form: "rows", "gemm pass=512". Of others 0,
     * 1 and "". */
    uint32_t variant, variant_count;
    const char *form;
    /* "": the steps of the model. "weights": those of hn_module_weights_program, which have numbers
     * of their own, and so do its runs */
    const char *program;
} hn_step_info;

/* Memory that a step reads or writes, and the tensor in it. Units: sizes and strides in
 * elements. */
typedef struct hn_step_operand {
    uint32_t buffer;  /* its number in the program, from 1; 0: the step has no such operand, and
                           nothing else is set */
    const char *name; /* of the input, weight or output; "" for an intermediate result */
    bool is_written;  /* by the step, which otherwise only reads it */
    bool has_shape;   /* rank, sizes and strides are known */
    hn_scalar_type type;
    hn_device device;
    uint32_t rank;
    int64_t sizes[HN_TENSOR_MAX_RANK], strides[HN_TENSOR_MAX_RANK];
    /* address of element 0 of the tensor, on `device`; NULL when there is nothing to read: there
     * are no elements, or it is `after` of a HN_MODULE_STEP_COND or HN_MODULE_STEP_DEFINE, or the
     * step is a HN_MODULE_STEP_LOOP */
    void *data;
    int64_t bytes;        /* from element 0 to one past the last; 0 when the shape is not known */
    int64_t offset_bytes; /* where the step begins in it; not 0 for parts of a tensor */
    const char *node;     /* of the model, whose value it is; "" when it is of none */
    /* in `after`, of what the step has written: a later step writes another part of it, which has
     * no content yet. In `before`, of what it reads: the same. */
    bool is_partial;
} hn_step_operand;

/* Operand `operand` of the step, in the order of the kernel's arguments; of a copy number 0 is the
 * target. In `before`, what the step writes has its content of before. Read the memory, do not
 * write to it.
 * Errors: invalid-argument for an index out of range. */
HN_API hn_status hn_step_operand_get(const hn_step_info *step, uint32_t operand,
                                     hn_step_operand *out) HN_MUST_USE;
/* Node `k` of those that the step does, below node_count, in the order of the model, and its line
 * in the model's code, "" when it is not known. `out_source` may be NULL. Owns: strings are the
 * module's. Errors: invalid-argument for a number out of range. */
HN_API hn_status hn_step_node_get(const hn_step_info *step, uint32_t k, const char **out_node,
                                  const char **out_source) HN_MUST_USE;
/* Copies `bytes` bytes from element 0 of the operand's tensor on, wherever it is, to `out`, which
 * is the CPU's.
 * Errors: invalid-argument for an index out of range, for more bytes than the operand has, and when
 * there is nothing to read; device. */
HN_API hn_status hn_step_operand_read(const hn_step_info *step, uint32_t operand, void *out,
                                      size_t bytes) HN_MUST_USE;

/* What is called around steps. Either function may be NULL. `note`: a number that the hook may set
 * in `before`, 0 at first, and finds in `after` of the same step.
 * Errors: an error that the hook returns ends the run, which returns it with the step's node in
 * front. `after` is called for every step whose `before` returned NULL. If the step has failed, its
 * own error is returned and that of `after` is freed.
 * Threads: a run calls its hooks in the thread that called it; several runs call them at the same
 * time. A hook must not run the module, nor add or remove hooks. */
typedef struct hn_step_hook {
    hn_status (*before)(void *user, const hn_step_info *step, uint64_t *note);
    hn_status (*after)(void *user, const hn_step_info *step, uint64_t *note);
    void *user;
} hn_step_hook;

#define HN_MODULE_HOOKS_MAX 8

/* Adds a hook for runs that begin from now on; `hook` is copied. Of several, `before` of the last
 * added is called first, and its `after` last. Threads: any.
 * Errors: invalid-argument when the module has this hook already, or HN_MODULE_HOOKS_MAX of
 * them. */
HN_API hn_status hn_module_hook_add(hn_module *module, const hn_step_hook *hook) HN_MUST_USE;
/* Removes the hook that equals `hook`. Runs that have begun still call it. Errors: not-found. */
HN_API hn_status hn_module_hook_remove(hn_module *module, const hn_step_hook *hook) HN_MUST_USE;

typedef struct hn_module_stats {
    uint64_t runs;
    /* how often sizes were new, so that the steps were resolved again */
    uint64_t shapes_bound;
    uint32_t steps, kernels, objects; /* objects: of the target that is run */
    uint32_t objects_loaded;          /* so far: those with a kernel that a run has called */
    uint32_t contexts;                /* the largest number of simultaneous runs so far */
    uint64_t peak_workspace_bytes;    /* of one context: intermediates and scratch */
    uint64_t weights_mapped_bytes, weights_copied_bytes, weights_packed_bytes;
    uint64_t inputs_copied; /* inputs that had another layout and were copied */
    /* copied to the device that runs the kernels, if that is not the CPU */
    uint64_t weights_uploaded_bytes;
    /* operations that the CPU does in a program for another device */
    uint32_t host_steps;
    /* copied for runs between the CPU's memory and that of the device */
    uint64_t bytes_to_device, bytes_from_device;
    /* with device_graphs: how often a graph was made or brought up to date; runs that launched
     * one */
    uint64_t graphs_made, graph_runs;
    int64_t weights_upload_ns; /* of weights to the device: from the first copy to the last */
    /* Times of the host: opening the module; of that, opening the device (its driver and context);
     * loading kernels, loading libraries of the device, and resolving steps for new sizes, all so
     * far. Libraries are loaded while steps are resolved. 0 for what the CPU has not. */
    int64_t open_ns, device_open_ns, kernels_load_ns, libraries_load_ns, resolve_ns;
    /* Memory that the module has on the device which runs the kernels, if that is not the CPU: now,
     * at most so far, and of it weights and states. Libraries and the driver have more. */
    uint64_t device_bytes, device_peak_bytes, device_weights_bytes, device_states_bytes;
    /* Of the sizes of a run that has ended: memory on the device for temporaries, scratch memory of
     * libraries among them, inputs and outputs; what is alive of it at the same time at least; and
     * scratch memory apart from it, of kernels. 0: there was no run. */
    uint64_t plan_bytes, plan_least_bytes, scratch_bytes;
    /* Of resolving steps: the first question to each library, for which it loads what it has for
     * the device, and asking how other operations are done. Of runs: the first one of each
     * operation, for which the library loads its kernel. */
    int64_t libraries_start_ns, operations_choose_ns, operations_first_ns;
    /* Of what depends on weights alone: memory for the results, and the time that it took to
     * compute them, when the module was opened and in each exchange of weights. */
    uint64_t weights_computed_bytes;
    int64_t weights_compute_ns;
} hn_module_stats;
HN_API void hn_module_stats_get(hn_module *module, hn_module_stats *out);

/* The device that runs a module's kernels. The name is owned by the module. */
typedef struct hn_module_device_info {
    hn_device device;
    const char *name;      /* "cpu", or what the driver calls it */
    uint64_t memory_bytes; /* 0: unknown */
} hn_module_device_info;
/* Of NULL: the CPU, with the name "". */
HN_API void hn_module_device_get(const hn_module *module, hn_module_device_info *out);

/* Time spent in one step since the load, for modules loaded with `profile`. Strings are the
 * module's. */
typedef struct hn_module_step_profile {
    const char *name;   /* kernel name, "matmul", "copy", ... */
    const char *origin; /* node of the model */
    uint64_t calls;
    int64_t total_ns, min_ns;
    /* of a kernel in several forms: the one that ran last, whose name `name` is; else "" */
    const char *form;
} hn_module_step_profile;
HN_API uint32_t hn_module_step_count(const hn_module *module);
/* Errors: invalid-argument for a step out of range. */
HN_API hn_status hn_module_profile(hn_module *module, uint32_t step,
                                   hn_module_step_profile *out) HN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
