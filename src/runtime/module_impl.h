/* module_impl.h: what the files of src/runtime share: the module, the execution contexts that run
 * it, and what a context has worked out for the sizes of one set of inputs ("bound").
 *
 *   hn_module   what was loaded; read-only after the load but for the list of contexts, the
 *               counters, `weights` and the hooks
 *   hn_weights  where the bytes of weights are, and what is packed of them; a run keeps the set
 *               that it began with
 *   hn_state    a copy of the buffers that the program changes
 *   hn_context  memory for one run at a time: workspaces, scratch, and a few bounds, most recently
 *               used first
 *   hn_bound    every expression evaluated, every step resolved to a function, addresses and
 *               numbers
 *
 * A run with known sizes compares sizes, patches the addresses of inputs and outputs and walks the
 * steps.
 *
 * A program has memory in one place, that of the host, or in two: that of the device which runs its
 * kernels, and that of the host. What the host cannot read and write is called remote. */
#ifndef HN_RUNTIME_MODULE_IMPL_H
#define HN_RUNTIME_MODULE_IMPL_H

#include "base/arena.h"
#include "base/file.h"
#include "base/team.h"
#include "bundle/view.h"
#include "henry/abi/kernel_abi.h"
#include "henry/module.h"
#include "ops/cpu/ext.h"
#include "runtime/device/device.h"
#include "runtime/memory.h"

#include <pthread.h>
#include <stdatomic.h>

enum { HN_WEIGHT_ALIGN = 8 };   /* bytes: the widest element */
enum { HN_CONTEXT_BOUNDS = 8 }; /* sets of sizes that a context remembers */

/* Where a program has memory. In a program for the host both are one, and only the first is
 * used. */
typedef enum hn_place {
    HN_PLACE_KERNELS = 0, /* the device that runs the kernels */
    HN_PLACE_HOST = 1,
    HN_PLACE_COUNT
} hn_place;

/* Hooks around steps: the caller's, and two of the runtime's own (profile.c). The first is called
 * nearest to the step. */
typedef struct hn_hook_list {
    uint32_t count;
    /* of these, so many want nothing to be at work behind a step; others look at what is queued */
    uint32_t waiting;
    hn_step_hook items[HN_MODULE_HOOKS_MAX + 2];
    bool waits[HN_MODULE_HOOKS_MAX + 2];
} hn_hook_list;

/* Which steps write to a buffer (writers.c): steps[first[buffer] .. first[buffer + 1]), in order.
 * `parents`: per step the innermost conditional that it is in, plus 1; 0: none. */
typedef struct hn_writers {
    uint32_t *first, *steps, *parents;
} hn_writers;

/* Items of one kind by stage (stages.c): of[item], and items[first[stage] .. first[stage + 1]). All
 * NULL in a program without stages. */
typedef struct hn_stage_list {
    uint32_t *of, *first, *items;
} hn_stage_list;

typedef struct hn_stages {
    uint32_t count;        /* symbols that steps define; 0 for most programs */
    uint32_t first_symbol; /* the first of them */
    uint32_t slot_count;
    hn_stage_list nodes, guards, buffers, outputs, steps;
} hn_stages;

static inline uint32_t hn_stage_of(const hn_stage_list *list, uint32_t item) {
    return list->of ? list->of[item] : 0;
}

/* How a step may be done on the module's target, worked out when that is known (kernels.c). */
typedef struct hn_step_ways {
    const hnb_choice *choice; /* of a step with variants; NULL: there is one way */
    uint32_t most_args;       /* arguments of the variant that has the most, or all operands */
    uint32_t most_entries;    /* the same with parameters */
} hn_step_ways;

/* A function of the table of devices: copy_in, copy_out or copy. */
typedef hn_status (*hn_copy_fn)(hn_queue *queue, void *to, const void *from, size_t bytes);

/* A call of an operation for one set of sizes (externs.h). */
typedef struct hn_run_extern {
    hn_dev *dev; /* that does it */
    hn_ext_call call;
    hn_ext_form form;         /* that the program asks for, if it does */
    hn_device_operation *own; /* what a device that is not the host has prepared */
    bool has_kernel;          /* the device does not do the call: the step's kernel is launched */
} hn_run_extern;

/* One resolved step. */
typedef struct hn_run_step {
    uint32_t kind;  /* hnb_step_kind */
    uint32_t index; /* in the bundle, for messages and profiles */
    /* of KERNEL and EXTERN: which of its variants runs for these sizes, and of KERNEL, and of
     * EXTERN with a kernel, how; the first until these are known */
    uint32_t variant, kernel, arg_count;
    const hnb_launch *called;
    /* of KERNEL: parts of the range that may run at the same time; 1: on the calling thread */
    uint32_t chunks;
    /* of COND: steps of the first branch, of LOOP: steps of the test, which follow it ... */
    uint32_t then_count;
    uint32_t body_count; /* ... and of both bodies; 0 for other steps */
    int64_t rounds;      /* of LOOP; < 0: the test tells */
    /* hn_place, of EXTERN, COPY, ZERO, ASSERT, COND, LOOP and DEFINE: whose queue is asked */
    uint32_t place;
    /* of KERNEL: what the walk calls itself; NULL: the table launches the kernel, or it is direct
     * (kernels.h) and not loaded yet */
    hn_kernel_fn fn;
    void **args;             /* operand addresses; COPY: [to, from]; ASSERT, COND, LOOP:
                              * [predicate] */
    const long long *params; /* of KERNEL */
    long long extent;
    union {
        /* of KERNEL, unless it is direct, and of EXTERN with a kernel: what the table launches, but
         * for the scratch memory of ranges; its kernel is NULL until the first run of the step
         * loads it */
        hn_device_launch *launch;
        hn_copy_fn copy; /* of COPY */
    };
    size_t bytes;       /* of COPY and ZERO */
    hn_run_extern *ext; /* of EXTERN */
    /* of EXTERN: scratch memory that it wants, and where in the workspace it has it; < 0: it is the
     * context's own */
    size_t scratch_bytes;
    int64_t scratch_at;
} hn_run_step;

/* An operand address that is not fixed: *slot = base + offset. */
typedef struct hn_run_patch {
    void **slot;
    /* base: index into the context's `io` addresses; of temporaries the place of the workspace */
    uint32_t io;
    int64_t offset_bytes;
} hn_run_patch;

typedef struct hn_patch_list {
    hn_run_patch *items;
    uint32_t count, cap;
} hn_patch_list;

enum { HN_UPLOAD_THREADS = 8 };

/* Memory of the host that copies to a device go through: a map of its own. */
typedef struct hn_copy_memory {
    uint8_t *at; /* NULL: there is none */
    size_t bytes;
} hn_copy_memory;

/* One of the threads that copy a set of weights, with a queue of its own. */
typedef struct hn_upload_thread {
    struct hn_weights *weights;
    pthread_t thread;
    hn_event *behind; /* its copies, when all were given to the device */
} hn_upload_thread;

/* The way of a set of weights to the device (upload.c). */
typedef struct hn_upload {
    pthread_mutex_t lock; /* of what follows, but for the two atomics */
    pthread_cond_t changed;
    bool is_placed; /* there is memory for all */
    bool is_busy;   /* somebody copies ... */
    bool is_given;  /* ... threads, which have given all copies to the device */
    bool has_failed;
    uint32_t given, working;      /* threads that have given theirs, and that have not ended */
    uint32_t storage;             /* the next copy is from here on ... */
    uint64_t offset;              /* ... bytes */
    uint64_t bytes;               /* of all copies so far */
    int64_t begin_ns;             /* of the first copy */
    int64_t place_ns, prepare_ns; /* for memory of the device; for a queue, the longest */
    hn_module *m;
    hn_upload_thread threads[HN_UPLOAD_THREADS];
    uint32_t thread_count;
    size_t part_bytes; /* of a copy, at most */
    hn_copy_memory memory;
    atomic_bool is_done, is_stopped;
} hn_upload;

/* The bytes of all weights, in one consistent set. Exchanging weights makes another; this one lives
 * as long as a context has it. */
typedef struct hn_weights {
    atomic_uint refs;
    uint64_t id; /* no other set of this process has it */
    uint32_t count;
    /* per storage: on the host; of those that the program changes: what a new state begins with;
     * NULL: it is made of others, and only the device reads it */
    uint8_t **storages;
    hn_tensor **owners; /* per storage: keeps the bytes; NULL: the module does */
    /* per storage: memory on the device that runs the kernels, when these read it; and whether it
     * has its content. With the lock of `upload` held, until this is done */
    hn_block **copies;
    bool *is_filled;
    hn_upload upload;
    hn_ext_shared *shared; /* packed copies of these bytes */
} hn_weights;

struct hn_state {
    hn_module *m;
    bool is_own; /* the module's: it holds no reference */
    uint64_t id; /* of all states of the module; addresses alone may come back */
    /* per storage that the program changes: the content, where the program has it; others NULL */
    uint8_t **storages;
    hn_queue *queue; /* for copies of remote storages, with `turn` held; NULL: there are none */
    pthread_mutex_t turn; /* held by a run, and by whoever reads or writes */
};

/* An output or mutation with its sizes. */
typedef struct hn_bound_output {
    int64_t *sizes, *strides;
    int64_t *target_strides; /* of a mutation of a buffer */
    int64_t offset_bytes;    /* from the start of its buffer */
    int64_t extent_bytes;    /* from its first element to one past the last */
    int64_t target_offset_bytes;
} hn_bound_output;

/* The steps of a bound, recorded (recordings.c), and what for: memory of the context, and the
 * addresses of `io_patches`. */
typedef struct hn_recorded {
    hn_recording *of_device;
    uint64_t workspaces_id, state_id;
    const void *scratch;
    void **addresses;
} hn_recorded;

enum { HN_BOUND_RECORDINGS = 4 };

typedef struct hn_bound_recordings {
    hn_recorded items[HN_BOUND_RECORDINGS]; /* most recently used first */
    uint32_t count;
    bool is_refused;      /* there will be none */
    bool has_moved;       /* addresses have been others once */
    bool is_full;         /* the device has no memory for one more */
    uint32_t runs;        /* of the bound, until it was recorded */
    atomic_uint *counted; /* the module's number of recordings */
} hn_bound_recordings;

typedef struct hn_bound {
    hn_arena arena; /* of everything below */
    int threads;    /* that steps are shared out to: of the calls that it serves, */
    uint32_t form;  /* as is this: hn_run_options.form */
    int64_t *key;   /* sizes of all inputs and values of integer scalars, one after another */
    int64_t *symbols, *values;
    uint8_t *bad;             /* per node: the value is undefined */
    uint8_t *stage_done;      /* per stage: worked out in this call; NULL without stages */
    int64_t **input_strides;  /* per input; NULL for scalars */
    int64_t *input_bytes;     /* per input: extent in the recorded layout */
    hn_bound_output *outputs; /* per output of the bundle */
    int64_t *block_bytes;     /* per output buffer of the module */
    size_t made_bytes;        /* of the outputs that a call made, the most so far */
    hn_run_step *steps;
    hn_patch_list io_patches, temp_patches, state_patches; /* `io` of the last: a storage */
    bool has_stale_layouts; /* of launches: an address has become NULL, or is NULL no longer */
    uint64_t workspaces_id; /* what temp_patches were applied for; 0: nothing yet */
    uint64_t state_id;      /* what state_patches were applied for; 0: nothing yet */
    hn_bound_recordings recordings;
    hn_run_extern *exts;
    uint32_t ext_count;
    void **args;         /* what the steps' args point into */
    long long *params;   /* of all kernel steps, by the bundle's index */
    int64_t *ext_params; /* of all extern steps */
    size_t workspace_bytes[HN_PLACE_COUNT], scratch_bytes[HN_PLACE_COUNT];
    size_t scratch_stride; /* of kernels that run ranges: from one thread's scratch to the next */
    size_t ext_scratch[HN_PLACE_COUNT]; /* the most that an operation wants, in each place */
} hn_bound;

typedef struct hn_device_stats hn_device_stats; /* device_stats.c */

struct hn_cancel {
    atomic_bool is_set;
};

/* Memory that grows and is kept. */
typedef struct hn_kept {
    uint8_t *memory;
    size_t cap;
} hn_kept;

/* What a context has in one place. */
typedef struct hn_context_place {
    hn_queue *queue;
    hn_kept workspace, scratch;
} hn_context_place;

/* Memory, and the device that it is given back to. */
typedef struct hn_device_memory {
    hn_dev *dev;
    uint8_t *memory;
} hn_device_memory;

/* Memory and bounds for one run at a time. A module keeps a list of idle ones. */
typedef struct hn_context {
    struct hn_context *next;
    hn_bound *bounds[HN_CONTEXT_BOUNDS]; /* most recently used first */
    int64_t *key;                        /* of the call */
    hn_context_place places[HN_PLACE_COUNT];
    uint64_t workspaces_id; /* another one each time a workspace moves; 0: there is none yet */
    void **io;         /* base addresses: inputs, then output buffers, then inputs on the device */
    hn_kept *laid_out; /* per input: for a copy in the recorded layout */
    /* per output buffer, then per input on the device: what `io` points to there */
    hn_kept *remote;
    hn_block **blocks;  /* per output buffer, during a call */
    hn_tensor **owners; /* the same: the input whose memory it lies in; NULL: none. Borrowed */
    bool *is_donated;   /* per input: the caller of the call gives its memory up */
    /* per output buffer that is remote: where the host gets its content, during a call */
    void **homes;
    /* per output buffer that is remote: memory of the caller's on the device, which takes the place
     * of `remote`; NULL: none. During a call */
    void **given;
    /* with `device_outputs`, during a call: per output buffer, then per output of the bundle, the
     * memory of a new tensor on the device */
    hn_block **device_output_blocks;
    hn_tensor **made;  /* per output of the module, during a call */
    size_t made_bytes; /* of memory for outputs in the call, on the host and on the device */
    hn_kept *slots;    /* per slot */
    /* slots and scratch memory of before, until the call ends: steps may have their addresses */
    hn_device_memory *outgrown;
    uint32_t outgrown_count, outgrown_cap;
    hn_tensor *const *inputs; /* the caller's, during a call */
    hn_tensor **outputs;
    const hn_cancel *cancel; /* of the call; NULL: nobody cancels */
    bool has_stream;         /* the caller has a queue of the driver's: */
    void *stream;
    bool device_outputs; /* of the call: new outputs are on the device, which is not the host */
    int threads;         /* of the call: 1 to those of the module */
    uint32_t form;       /* of the call: hn_run_options.form */
    hn_weights *weights; /* that the bounds were made for; one reference */
    hn_state *state;     /* of the call */
    /* per output of the bundle: its content, taken aside or fetched, during a call */
    hn_device_memory *staged;
    hn_team team;                     /* runs the tasks of a call */
    hn_hook_list hooks;               /* of the call */
    uint64_t call;                    /* its number; 0: it has no hooks */
    struct hn_debug_pending *pending; /* of each debugger that looks later */
    bool names_step;                  /* an error of a hook names the step that it is about */
    uint64_t bytes_in, bytes_out;     /* copied between host and device in the call */
    uint32_t graphs_made, graph_runs; /* in the call */
} hn_context;

/* What memory is filled with: fill.c. */
typedef enum hn_fill {
    HN_FILL_OFF,
    HN_FILL_ONCE, /* zeros, when a context gets it */
    HN_FILL_ZERO, /* zeros, before each run */
    HN_FILL_NAN   /* bytes 0xff, likewise */
} hn_fill;

struct hn_module {
    atomic_uint refs;
    hn_bundle view;
    void *own_bytes; /* aligned copy of the image; NULL when borrowed or mapped */
    hn_file_map map; /* of the bundle file */
    hn_file_map weights_file;
    uint8_t **private_copies; /* per storage: NULL unless it was misaligned */
    hn_weights *weights;      /* the present set. With `lock` held */
    /* the program of weights, as a module of its own, which runs when a set is made; NULL: there is
     * none. With `exchange` held, but in a load */
    hn_module *computer;
    bool computes_weights;    /* it is such a program */
    pthread_mutex_t exchange; /* held by whoever makes another set */
    hn_state *state;          /* of runs that bring none */
    uint64_t state_ids;       /* given so far. With `lock` held */
    atomic_uint state_count;  /* that there are */
    uint32_t target;          /* of the bundle's, whose code is run */
    hn_step_ways *ways;       /* per step */
    hn_device wanted;         /* by the caller, if they say: */
    bool has_wanted;
    /* Per kind of device; NULL: the program does not use it. The CPU is always there. */
    hn_dev *devices[HN_DEVICE_KIND_COUNT];
    hn_dev *host;                 /* of these, the one whose memory is the host's */
    hn_dev *device;               /* and the one that runs the kernels */
    uint32_t place_count;         /* 1: they are one */
    hn_device_program **programs; /* per object; NULL: not loaded yet. With `loading` held */
    /* per kernel; NULL: not loaded yet. Read and written atomically: kernels.c */
    void **kernels;
    hn_device_stats *device_stats;
    hn_block_pool *blocks;               /* of outputs, on the host */
    hn_block_pool *device_blocks;        /* of copies of weights on the device */
    hn_block_pool *device_output_blocks; /* of outputs on the device */
    hn_stages stages;
    int threads;          /* into how many tasks the work of a step is cut */
    hn_executor executor; /* the caller's own; `run` is NULL without one */
    bool skip_digest;
    hn_fill fill;                /* what is in memory before a run */
    bool has_profile;            /* queues have times */
    bool records;                /* its steps can be recorded, and the caller wants it */
    atomic_uint recording_count; /* of all bounds */
    bool has_state;              /* writes to its own buffers: runs take turns */
    bool changes_inputs;
    uint32_t key_count; /* of hn_bound.key */
    uint32_t io_count;  /* inputs, output buffers, inputs on the device */
    uint32_t output_buffer_count, output_count, extern_count;
    uint32_t *io_of;           /* per buffer: its place in `io`, of INPUT and OUTPUT buffers */
    uint32_t *output_buffers;  /* per output buffer: its buffer; pools are among them, and first */
    uint32_t *output_pools;    /* per output buffer: 1 + the one that it lies in, a pool; 0: none */
    uint32_t *output_users;    /* per output buffer: how many output tensors look into it */
    uint32_t upload_count;     /* inputs that kernels of a device read */
    uint32_t *uploads;         /* the inputs */
    bool *input_is_hosts;      /* per input: the host reads or writes it, too */
    uint32_t *slot_places;     /* per slot: hn_place */
    bool *output_comes_home;   /* per output buffer: the host needs its content ... */
    bool *mutation_comes_home; /* ... for what the program changes */
    uint32_t *output_number;   /* per output of the bundle: its place among the caller's */
    bool *storage_is_remote;   /* per storage: kernels of a device read it */
    pthread_mutex_t loading;   /* held while code is loaded; `lock` may be taken then */
    pthread_mutex_t lock;      /* of `idle` and the counters */
    hn_context *idle;
    hn_module_stats stats;
    hn_module_step_profile *profiles; /* per step: its name, and what profile.c counts */
    hn_hook_list hooks;               /* of runs that begin now. With `lock` held */
    uint32_t own_hook_count;          /* the first of them are the runtime's own */
    uint64_t hooked_calls;            /* so far. With `lock` held */
    hn_writers writers;               /* there are none before a hook was added */
    struct hn_debug *debuggers;       /* all that were attached. With `lock` held */
    hn_module_value_info *input_infos, *output_infos;
    hn_module_dim *dims;                      /* of the infos */
    const char **symbol_texts, **guard_texts; /* per symbol: what its dimension is; per guard */
    char *texts;                              /* of the infos */
    /* for records of steps: made when one is asked for. With `lock` held until it is there */
    struct hn_record_sizes *record_sizes;
};

/* ---- places ---- */

static inline hn_place hn_place_of(const hn_module *m, uint32_t device) {
    return device == (uint32_t)m->device->ops->kind ? HN_PLACE_KERNELS : HN_PLACE_HOST;
}
static inline hn_place hn_place_of_host(const hn_module *m) {
    return m->place_count == 1 ? HN_PLACE_KERNELS : HN_PLACE_HOST;
}
static inline hn_dev *hn_place_dev(const hn_module *m, hn_place place) {
    return place == HN_PLACE_KERNELS ? m->device : m->host;
}
/* Whether the host cannot read and write the memory of a buffer. */
static inline bool hn_buffer_is_remote(const hn_module *m, uint32_t buffer) {
    return m->place_count > 1 && m->view.buffers[buffer].device != (uint32_t)m->host->ops->kind;
}

/* load.c: that a public function can take this number of threads. */
hn_status hn_threads_check(int threads) HN_MUST_USE;

/* info.c */
hn_status hn_module_info_init(hn_module *m) HN_MUST_USE;
hn_status hn_out_of_range(const char *what, uint32_t index, uint32_t count) HN_MUST_USE;

/* tensor.c */
enum { HN_DEVICE_TEXT_BYTES = 24 };
bool hn_tensor_is_on_host(const hn_tensor *tensor);
/* Whether it is on the device that runs the module's kernels, in memory that these can use. */
bool hn_tensor_is_on_device(const hn_module *m, const hn_tensor *tensor);
/* Whether memory of the caller's on a device is aligned as kernels expect it of the runtime's. */
static inline bool hn_device_memory_fits(const void *data) { return (uintptr_t)data % 64 == 0; }
/* "opencl:0" */
void hn_tensor_device_print(const hn_tensor *tensor, char out[HN_DEVICE_TEXT_BYTES]);
/* That the host may read the tensor, and that it has this type and shape. `what`, `name`: of the
 * weight or buffer, for the message. */
hn_status hn_tensor_check(const char *what, const char *name, const hn_tensor *tensor,
                          hn_scalar_type type, uint32_t rank, const int64_t *sizes) HN_MUST_USE;

/* find.c: the one item with this name. For messages: `missing` "the model has no input", `what`
 * "input". */
hn_status hn_name_find(const char *missing, const char *what, const char *name, uint32_t count,
                       const char *(*name_at)(const void *user, uint32_t k), const void *user,
                       uint32_t *out_index) HN_MUST_USE;

/* stages.c */
hn_status hn_stages_init(hn_module *m) HN_MUST_USE;
void hn_stages_deinit(hn_stages *stages);

/* inputs.c: count, types, ranks, scalars; writes the key. */
hn_status hn_inputs_check(const hn_module *m, hn_tensor *const *inputs, uint32_t input_count,
                          int64_t *out_key) HN_MUST_USE;
/* Solves symbols, evaluates all expressions of stage 0, checks sizes, ranges and guards. Fills
 * symbols, values and bad. */
hn_status hn_inputs_bind(const hn_module *m, hn_bound *bound) HN_MUST_USE;
void hn_guard_print(const hn_bundle *b, const hnb_guard *g, hn_strbuf *out); /* "s0 != 13" */
hn_status hn_guards_check(const hn_module *m, const hn_bound *bound, uint32_t stage) HN_MUST_USE;
const char *hn_input_name(const hn_bundle *b, uint32_t input);

/* bound.c */
/* For the sizes in c->key, the number of threads and the weights of the context, which it is
 * for. */
hn_status hn_bound_create(hn_module *m, hn_context *c, hn_bound **out) HN_MUST_USE;
void hn_bound_destroy(hn_bound *bound); /* NULL is allowed */
/* Before a call: nothing of the stages behind 0 is known. */
void hn_bound_forget(const hn_module *m, hn_bound *bound);
/* Before each run of the test or the body of a loop, and behind the loop: nothing is known of the
 * stages that its steps, [first, end), define. */
void hn_bound_forget_range(const hn_module *m, hn_bound *bound, uint32_t first, uint32_t end);
/* Gives the symbol of a step its value and works out its stage. Errors: invalid-argument when the
 * value is out of the symbol's range or breaks a guard. */
hn_status hn_bound_define(hn_module *m, hn_context *c, uint32_t symbol, int64_t value) HN_MUST_USE;
/* Sets an address of a step. */
void hn_bound_patch(hn_bound *bound, const hn_run_patch *patch, void *address);
/* Before the steps: launches are laid out anew. */
void hn_bound_renew_layouts(const hn_module *m, hn_bound *bound);
static inline int64_t hn_bound_value(const hn_bound *bound, uint32_t node) {
    return node ? bound->values[node] : 0;
}

/* records.c */
void hn_record_sizes_destroy(struct hn_record_sizes *sizes); /* NULL is allowed */

/* weights.c */
/* A set without storages. One reference. */
hn_status hn_weights_create(const hn_module *m, hn_weights **out) HN_MUST_USE;
/* Other memory for a storage, of undefined content; a set owns it. */
hn_status hn_weights_own_storage(const hn_module *m, hn_weights *weights,
                                 uint32_t storage) HN_MUST_USE;
hn_weights *hn_weights_take(hn_module *m);    /* the present set, with a reference */
void hn_weights_release(hn_weights *weights); /* NULL is allowed */

/* computed.c: storages that the program of weights has as outputs. */
/* Those that a set does not have. The others, which they are computed of, are there. Errors: as
 * hn_module_run. */
hn_status hn_weights_compute(hn_module *m, hn_weights *weights) HN_MUST_USE;
/* Marks them when one that they are computed of was touched. */
void hn_computed_touch(const hn_module *m, uint32_t *touched);

/* made.c: storages that are made of others: joined weights, or weights in another layout. */
/* A part of one, from byte `offset` on. */
typedef struct hn_made_part {
    const hn_module *m;
    const hn_weights *weights;
    uint32_t storage;
    uint64_t offset;
} hn_made_part;
/* As hn_device_maker.make; `part`: hn_made_part. */
void hn_made_part_write(const void *part, size_t offset, size_t bytes, void *to);
/* Those of a set that the host reads, too, and that are not there: in memory of the set's own. */
hn_status hn_made_fill(const hn_module *m, hn_weights *weights) HN_MUST_USE;
/* Marks those that are made of storages that were touched. */
void hn_made_touch(const hn_module *m, uint32_t *touched);

/* upload.c */
void hn_upload_init(hn_upload *upload);
void hn_upload_deinit(hn_upload *upload); /* waits for its threads */
/* Memory on the device for the storages that kernels read there. */
hn_status hn_weights_place(const hn_module *m, hn_weights *weights) HN_MUST_USE;
/* The same, and threads begin to copy them, through `memory`, which is theirs then. Before anybody
 * else has the set. */
hn_status hn_weights_upload_begin(hn_module *m, hn_weights *weights,
                                  hn_copy_memory memory) HN_MUST_USE;
/* How much of it they would want for weights of so many bytes. */
size_t hn_upload_memory_bytes(const hn_module *m, uint64_t weights_bytes);
void hn_copy_memory_free(hn_copy_memory *memory); /* early.c */
static inline bool hn_weights_are_there(const hn_weights *weights) {
    return atomic_load_explicit(&weights->upload.is_done, memory_order_acquire);
}
/* What is given to the queue from now on finds them. They are placed. `team`: the calling thread's,
 * which copies what nobody has. */
hn_status hn_weights_upload_wait(hn_module *m, hn_weights *weights, hn_team *team,
                                 hn_queue *queue) HN_MUST_USE;
/* If its copies are all under way, waits until they are there, and the counters right. */
void hn_weights_upload_settle(hn_weights *weights);
/* A new set has the copies of those storages that it shares with an old one: that are not
 * touched. */
void hn_weights_share_copies(hn_weights *weights, hn_weights *old, const uint32_t *touched);

/* state.c */
/* the module's own, when its weights are there */
hn_status hn_state_init_own(hn_module *m) HN_MUST_USE;
void hn_state_deinit_own(hn_module *m);
/* Waits until nobody else uses the state; unlock `turn` behind it. Errors: invalid-argument when
 * the thread has it already, by a run that it has begun. */
hn_status hn_state_take_turn(hn_state *state) HN_MUST_USE;
/* Where a buffer of the kind CONSTANT finds its storage: in the state when the program changes it,
 * else among the weights. */
static inline uint8_t *hn_storage_at(const hn_module *m, const hn_weights *weights,
                                     const hn_state *state, uint32_t buffer) {
    const uint32_t storage = m->view.buffers[buffer].source;
    uint8_t *own = state->storages[storage];
    if (own) return own;
    return hn_buffer_is_remote(m, buffer) ? hn_block_data(weights->copies[storage])
                                          : weights->storages[storage];
}

/* Whether an output is a mutation of a storage on the device. */
static inline bool hn_mutation_is_remote(const hn_module *m, const hnb_output *o) {
    return o->is_mutation && o->target_input < 0 && m->storage_is_remote[o->target_storage];
}

/* places.c: what of a program is where. In this order, as parts of a load. The first reads which
 * device the caller wants. */
hn_status hn_places_choose(hn_module *m, const hn_module_options *options) HN_MUST_USE;
hn_status hn_places_open(hn_module *m, const hn_module_options *options) HN_MUST_USE;
hn_status hn_places_find_storages(hn_module *m) HN_MUST_USE;
hn_status hn_places_number(hn_module *m) HN_MUST_USE;
/* The number of the wanted device among those of a kind; 0 if the caller does not say. */
uint32_t hn_places_number_of(const hn_module *m, uint32_t kind);
void hn_places_deinit(hn_module *m);
void hn_places_close(hn_module *m);

/* context.c */
hn_status hn_context_take(hn_module *m, hn_context **out) HN_MUST_USE;
void hn_context_give(hn_module *m, hn_context *c);
void hn_context_destroy(const hn_module *m, hn_context *c);
/* Idle contexts give up their bounds and their set of weights. */
void hn_contexts_forget(hn_module *m);
/* Behind a call that made more outputs than those before with its sizes: as much memory may be
 * kept. */
void hn_context_count_made(hn_module *m, hn_context *c);
/* The bound for these inputs, first in c->bounds, with workspace and scratch large enough and
 * addresses right. */
hn_status hn_context_bind(hn_module *m, hn_context *c, hn_tensor *const *inputs,
                          uint32_t input_count) HN_MUST_USE;

/* Memory of at least this size, of a context; the content is not kept. */
hn_status hn_kept_grow(const hn_module *m, const hn_context *c, hn_dev *dev, hn_kept *kept,
                       size_t bytes) HN_MUST_USE;
/* In a call, at whose end the memory of before goes: scratch memory for what the bound has worked
 * out so far. */
hn_status hn_context_grow_scratch(const hn_module *m, hn_context *c) HN_MUST_USE;
/* The same for a slot. */
hn_status hn_context_grow_slot(const hn_module *m, hn_context *c, uint32_t slot,
                               size_t bytes) HN_MUST_USE;

/* device_memory.c */
/* That the device has no memory for `what`, who has it, what is wanted for the sizes of a bound
 * (NULL: they are unknown), and what to do. Errors: out-of-memory. */
hn_status hn_device_memory_error(const hn_module *m, const hn_bound *bound, const char *what,
                                 uint64_t bytes) HN_MUST_USE;
void hn_device_memory_stats(const hn_module *m, hn_module_stats *out);
/* Of the sizes of an idle context; nothing if there is none. Without the module's lock. */
void hn_device_plan_stats(hn_module *m, hn_module_stats *out);

/* buffers.c */

/* Bytes from the first element to one past the last; strides may have any sign only when the block
 * is empty. */
hn_status hn_extent_bytes(uint32_t rank, const int64_t *sizes, const int64_t *strides,
                          uint32_t elem_bytes, int64_t *out) HN_MUST_USE;

/* A buffer of the program and the tensor in it, whose first element is at the beginning of the
 * memory. */
typedef struct hn_bound_buffer {
    uint32_t buffer;  /* of the bundle */
    const char *name; /* "" when it has none; lives as long as the module */
    hnb_buffer_kind kind;
    hn_device_kind device;
    hn_scalar_type dtype;
    uint32_t rank;
    bool is_known; /* the tensor lies inside the memory; false: sizes depend on data that is not
                      there yet, say */
    int64_t bytes; /* of its memory */
    int64_t sizes[HNB_MAX_RANK], strides[HNB_MAX_RANK]; /* elements */
    /* of the argument of a step only: */
    bool is_written;
    int64_t offset_bytes; /* where in the memory it begins */
} hn_bound_buffer;

void hn_bound_buffer_get(const hn_module *m, const hn_bound *bound, uint32_t buffer,
                         hn_bound_buffer *out);
/* How many arguments a step has, also those that are absent: of a KERNEL step those of the variant
 * that runs, and none before its sizes are known. */
uint32_t hn_bound_arg_count(const hn_module *m, const hn_bound *bound, uint32_t step);
/* The operand that is argument `arg` of a step; its buffer is 0 when there is none. */
hnb_operand hn_bound_operand(const hn_module *m, const hn_bound *bound, uint32_t step,
                             uint32_t arg);
/* The operands that a step has in any variant, in no order that means anything. */
uint32_t hn_step_operand_count(const hnb_step *step);
hnb_operand hn_step_operand_at(const hn_module *m, const hnb_step *step, uint32_t k);
/* The same for the memory that a step takes as argument `arg`, in the order of hn_run_step.args.
 * False: it has none there. */
bool hn_bound_arg_get(const hn_module *m, const hn_bound *bound, uint32_t step, uint32_t arg,
                      hn_bound_buffer *out);
/* Errors: corrupt when a tensor of known sizes reaches beyond its memory. */
hn_status hn_bound_buffer_check(const hn_module *m, const hn_bound *bound,
                                uint32_t buffer) HN_MUST_USE;

/* outputs.c: the life of outputs in one call. */
hn_status hn_outputs_begin(hn_module *m, hn_context *c) HN_MUST_USE; /* fills io, blocks */
/* the same for a later stage */
hn_status hn_outputs_place(hn_module *m, hn_context *c, uint32_t stage) HN_MUST_USE;
/* Behind the last step: checks what has become known, and begins copies of what the host needs. */
hn_status hn_outputs_fetch(hn_module *m, hn_context *c) HN_MUST_USE;
/* When all is done: makes the outputs, and writes what the program changes. */
hn_status hn_outputs_end(hn_module *m, hn_context *c) HN_MUST_USE;
void hn_outputs_reset(hn_module *m, hn_context *c);
/* Whether the content of an output is in memory that the host cannot read, as the steps left it,
 * and where that is. */
bool hn_output_is_remote(const hn_module *m, const hnb_output *o);
uint8_t *hn_output_content(const hn_module *m, const hn_context *c, uint32_t output);

/* fill.c */
/* NULL: HENRY_POOL_FILL. Errors: invalid-argument, listing the words. */
hn_status hn_fill_init(hn_module *m, const char *text) HN_MUST_USE;
/* Memory that a context has got. */
hn_status hn_fill_made(const hn_module *m, const hn_context *c, hn_dev *dev,
                       hn_kept *kept) HN_MUST_USE;
/* What begins in this stage: 0, before the first step; others, when their sizes are known. */
hn_status hn_fill_stage(const hn_module *m, const hn_context *c, uint32_t stage) HN_MUST_USE;

/* pools.c: memory in which several outputs lie. */
/* Notes the inputs that the caller gives up. Errors: invalid-argument. */
hn_status hn_donations_take(const hn_module *m, hn_context *c, const hn_run_options *options,
                            uint32_t input_count) HN_MUST_USE;
/* Before the steps: memory for the pool `s`. Errors: invalid-argument when the memory of an input
 * that is given up is that of another tensor, too. */
hn_status hn_pool_place(hn_module *m, hn_context *c, uint32_t s) HN_MUST_USE;
/* Of output buffer `s` in a pool. */
hn_status hn_pool_share(const hn_module *m, hn_context *c, uint32_t s, void **home) HN_MUST_USE;
void hn_pool_release_input(void *tensor); /* for outputs that hold one */
/* tensor.c: the block of a run whose memory it has; NULL: it is somebody else's. */
hn_block *hn_tensor_block(const hn_tensor *t);
/* Nobody else may use the memory of input `k`, which is given up. Errors: invalid-argument. */
hn_status hn_donation_check(const hn_module *m, const hn_context *c, uint32_t k) HN_MUST_USE;

/* device_pools.c: the same in memory of the device that runs the kernels. */
hn_status hn_device_pool_place(hn_module *m, hn_context *c, uint32_t s) HN_MUST_USE;
hn_status hn_device_pool_share(const hn_module *m, hn_context *c, uint32_t s) HN_MUST_USE;

/* device_outputs.c: outputs that are made on the device. */
/* Whether output `k` of the bundle is one. */
static inline bool hn_output_stays(const hn_module *m, const hn_context *c, uint32_t k) {
    const hnb_output *o = &m->view.outputs[k];
    return c->device_outputs && o->kind == HNB_VALUE_TENSOR && !o->is_mutation &&
           !c->outputs[m->output_number[k]];
}
/* Before the steps: memory for buffer `s`, if an output in it stays, in `*out`; and whether the
 * host needs its content. */
hn_status hn_device_output_place(hn_module *m, hn_context *c, uint32_t s, void **out) HN_MUST_USE;
bool hn_device_output_comes_home(const hn_module *m, const hn_context *c, uint32_t s);
/* Whether an output in it stays; a block of memory for such. */
bool hn_device_output_stays(const hn_module *m, const hn_context *c, uint32_t s);
hn_status hn_device_block_make(hn_module *m, hn_context *c, int64_t bytes,
                               hn_block **out) HN_MUST_USE;
/* Behind the steps: copies of outputs that are no buffers of their own. */
hn_status hn_device_outputs_copy(hn_module *m, hn_context *c) HN_MUST_USE;
hn_status hn_device_output_make(const hn_module *m, hn_context *c, uint32_t k,
                                hn_tensor **out) HN_MUST_USE;

/* writers.c. With m->lock held: makes the list, if it is not there yet. */
hn_status hn_writers_init(hn_module *m) HN_MUST_USE;
void hn_writers_deinit(hn_writers *writers);
/* How many steps write to a buffer; 0: it is not known. */
uint32_t hn_writers_count(const hn_module *m, uint32_t buffer);
/* Whether a run in which `step` has run may come to another step that writes a part of the buffer;
 * copies write all of it. */
bool hn_writers_follow(const hn_module *m, uint32_t buffer, uint32_t step);

/* debug.c. Behind the steps of a run: what was not looked at yet. */
hn_status hn_debug_end(hn_context *c) HN_MUST_USE;
void hn_debug_pending_destroy(hn_context *c);
/* What a module that is loaded with this text looks at; NULL: HENRY_DEBUG_TENSORS. */
hn_status hn_debug_attach_text(hn_module *m, const char *text) HN_MUST_USE;
void hn_debug_destroy_all(hn_module *m);

/* hooks.c: what is called around one step. */
typedef struct hn_step_run {
    hn_module *m;
    hn_context *c;
    const hn_run_step *s;
    hn_step_info info;
    uint32_t first; /* of the hooks that were called before */
    bool is_after;
    uint64_t notes[HN_MODULE_HOOKS_MAX + 2];
} hn_step_run;

void hn_hooks_take(hn_module *m, hn_context *c); /* when a call begins */
/* hn_module_hook_add for one that does not want the run to wait for the device behind each step. */
hn_status hn_hooks_add_patient(hn_module *m, const hn_step_hook *hook) HN_MUST_USE;
/* hn_hooks_after must follow, also after an error. */
hn_status hn_hooks_before(hn_module *m, hn_context *c, const hn_run_step *s,
                          hn_step_run *run) HN_MUST_USE;
hn_status hn_hooks_after(hn_step_run *run, bool has_failed) HN_MUST_USE;

/* profile.c: names of steps; with `profile` also the hooks that time them. */
/* Of the first variant, where there are several. */
const char *hn_step_first_name(const hn_module *m, uint32_t step);
/* The name of the variant that runs, and its form; "": the step has no variants. */
const char *hn_run_step_name(const hn_module *m, const hn_run_step *step);
const char *hn_run_step_form(const hn_module *m, const hn_run_step *step);
hn_status hn_profiles_init(hn_module *m, bool profile) HN_MUST_USE;

/* steps.c: the walk. A device may be at work when it returns; hn_steps_finish waits for it, and
 * must follow in any case. It gives `status`, or what went wrong before that. */
hn_status hn_steps_run(hn_module *m, hn_context *c) HN_MUST_USE;
/* Loads the kernels that the walk is sure to come to. Errors: as the walk would tell them. */
hn_status hn_steps_load(hn_module *m, const hn_context *c) HN_MUST_USE;
/* The error, of that step. */
hn_status hn_steps_blame(const hn_module *m, const hn_context *c, uint32_t step,
                         hn_status status) HN_MUST_USE;
hn_status hn_steps_finish(const hn_module *m, const hn_context *c, hn_status status) HN_MUST_USE;

/* recordings.c. Whether the steps of the program can be recorded at all. */
bool hn_recordings_can(const hn_module *m);
void hn_recordings_drop(hn_bound_recordings *recordings);
/* Gives the steps to the device: `walk` does it one by one, which is done, recorded, or replaced by
 * a recording. */
hn_status hn_recordings_run(hn_module *m, hn_context *c,
                            hn_status (*walk)(hn_module *m, hn_context *c)) HN_MUST_USE;

#endif
