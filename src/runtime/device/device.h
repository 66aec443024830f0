/* device.h: what the runtime asks of a device, as one table of functions. A kind of device is a
 * row: cpu.c is the first. What is outside of this folder knows devices through this table only.
 *
 *   hn_dev             an open device; counted, because outputs may outlive the module that opened
 *                      it
 *   hn_queue           work in order, for one run at a time; a context has one
 *   hn_device_program  loaded code; kernels are found in it by name
 *   hn_event           a point in the work of a queue
 *
 * Addresses. Memory of a device is an address, and an address plus an offset inside of the memory
 * is one, too. The host reads and writes through it only if `facts.is_host`. A device whose memory
 * has handles instead reserves a range of addresses for each allocation, and finds the handle by
 * the address.
 *
 * Order. Work of one queue happens in the order in which it was given, and may go on when a
 * function has returned; `read` and `finish` wait for it. Before `finish` the host keeps the memory
 * that copies read.
 *
 * Errors. A status is a fault of the device or driver (device, out-of-memory). What a kernel finds
 * wrong, an index out of bounds, is a hn_device_fault: `launch` tells it at once if it can; other
 * devices write it to a status word of the launch's step, and `finish` looks at these words.
 *
 * Threads: functions of a device and of programs may be called by any thread at any time, those of
 * a queue by one thread at a time.
 *
 * Fork: drivers have threads, which a forked child does not have. It may use a device of its parent
 * only if the device is the host (hn_dev_check); of others it gives nothing back. */
#ifndef HN_RUNTIME_DEVICE_DEVICE_H
#define HN_RUNTIME_DEVICE_DEVICE_H

#include "base/str.h"
#include "base/team.h"
#include "henry/abi/kernel_abi.h"
#include "henry/allocator.h"
#include "henry/tensor.h"
#include "ops/cpu/ext.h"

#include <stdatomic.h>
#include <sys/types.h>

typedef struct hn_device_ops hn_device_ops;
typedef struct hn_device_program hn_device_program;     /* the row's own */
typedef struct hn_event hn_event;                       /* the row's own */
typedef struct hn_device_operation hn_device_operation; /* the row's own */

typedef struct hn_device_facts {
    char name[64];         /* "cpu", or what the driver calls it */
    char driver[160];      /* what tells drivers apart: "CUDA 13.0"; "" for the host */
    uint64_t memory_bytes; /* 0: unknown */
    uint64_t cache_bytes;  /* of the cache that all of it share; 0: unknown */
    size_t align;          /* bytes, a power of two: of allocations */
    /* its memory is the host's: addresses may be read and written, once the work that uses them is
     * done */
    bool is_host;
    /* its addresses are those that its driver gives to everybody: callers may bring memory of it */
    bool has_addresses;
} hn_device_facts;

/* What machine code is for, as a bundle says it. */
typedef struct hn_device_code {
    const char *name;            /* "sm_90"; of CPUs "x86-64-v3" */
    uint32_t machine;            /* of CPUs: ELF's number of the instruction set */
    const char *const *features; /* of CPUs: what the code needs */
    uint32_t feature_count;
} hn_device_code;

typedef struct hn_device_options {
    uint32_t number; /* which device of the kind */
    /* of memory that the device has; more is refused as if there were none. 0: all that it has.
     * Devices that are the host do not use it */
    uint64_t memory_limit;
    /* of host memory, zeros: malloc; devices of other memory do not use it */
    hn_allocator allocator;
    /* the caller's own, for rows with `takes_callers`; NULL and zeros: the row's own */
    void *context;
    hn_device_allocator memory;
} hn_device_options;

/* A row's own struct begins with this. `open` sets everything but `refs` and `process`. */
typedef struct hn_dev {
    const hn_device_ops *ops;
    uint32_t number;
    hn_device_facts facts;
    atomic_uint refs; /* devices.c */
    int64_t process;  /* that opened it (devices.c) */
} hn_dev;

typedef struct hn_queue_options {
    uint32_t step_count; /* steps are below this: status words */
    /* the threads of the run, and how many they are at most, for what the host does itself: the
     * work of a device that is the host, copies to memory of a driver; outlives the queue. NULL:
     * the calling thread alone */
    hn_team *team;
    int threads;
    bool profile; /* events of the queue have times */
    /* whose files `copy_in` may read in place of the maps of them; outlives the queue. NULL:
     * none */
    const hn_ext_shared *files;
    /* the queue is for `copy_in` of so many bytes each, mostly, and for no steps: what they go
     * through is there at once. 0: it comes when it is needed */
    size_t copy_bytes;
    /* memory of the host that they may go through, twice as much, by pages; outlives the queue. For
     * rows with `pins_copy_memory`. NULL: the queue's own */
    uint8_t *copy_memory;
} hn_queue_options;

/* A row's own struct begins with this. */
typedef struct hn_queue {
    hn_dev *dev;
} hn_queue;

/* Memory of the device that an open one has given out, in bytes, and what else it counts. */
typedef struct hn_device_usage {
    uint64_t bytes, peak_bytes;
    uint64_t limit_bytes; /* 0: none */
    uint64_t free_bytes;  /* that the whole device has left; 0: unknown */
    int64_t libraries_ns; /* time of loading its libraries so far ... */
    int64_t start_ns;  /* ... of the first question to each, for which it loads what it has ... */
    int64_t choose_ns; /* ... of asking them how other operations are done ... */
    int64_t first_ns;  /* ... and of the host in the first run of each operation */
} hn_device_usage;

/* Steps of a run that were recorded, to be given to the device again as one piece of work. A row's
 * own struct begins with this. */
typedef struct hn_recording {
    hn_dev *dev;
} hn_recording;

typedef struct hn_device_fault {
    bool is_set;
    uint32_t step; /* the first step that found something wrong */
} hn_device_fault;

/* Of a launch that is given again and again: what the row makes of it is kept here. Addresses in
 * `args` and scratch memory may change; when one becomes NULL, or is NULL no longer, `ready_for` is
 * set to NULL. Other things stay. */
typedef struct hn_device_layout {
    void **entries; /* arg_count + param_count + 2 of them, the row's own; as is `word` */
    uint64_t word;
    const void *ready_for; /* the kernel that it was made for; NULL: not yet */
} hn_device_layout;

/* Bytes that are written when they are copied. */
typedef struct hn_device_maker {
    /* Those from `offset` on. Threads: several may write other parts at the same time. */
    void (*make)(const void *user, size_t offset, size_t bytes, void *to);
    const void *user;
} hn_device_maker;

/* One call of a kernel. Addresses and numbers are read before `launch` returns. */
typedef struct hn_device_launch {
    void *kernel;      /* from `find` */
    uint32_t step;     /* for faults */
    void *const *args; /* addresses on this device */
    uint32_t arg_count;
    const long long *params; /* whole numbers behind them */
    uint32_t param_count;
    long long extent;      /* iterations, 1 or more; of groups: what their number was made from */
    uint32_t parts;        /* of ranges: how many may run at the same time, 1 or more */
    int64_t groups[3];     /* of devices with groups of threads; 0 for others */
    uint32_t threads[3];   /* of a group */
    int64_t shared_bytes;  /* of a group */
    void *scratch;         /* memory of this device, for all parts or groups ... */
    size_t scratch_stride; /* ... and bytes from one of them to the next */
    hn_device_layout *layout; /* of rows with `keeps_layouts`; NULL: the launch is given once */
} hn_device_launch;

/* The operations of henry/abi/extern_abi.h that a device has. A program calls one on the device if
 * its target says so (hn_operation in ir/loop.h). */
typedef struct hn_device_operations {
    /* The versions of its libraries, "cuBLASLt 130200 cuDNN 91002"; empty: there are none. Threads:
     * any. NULL: it has no libraries. */
    void (*identify)(char *out, size_t size);
    /* Loads what operations of these kinds want (1 << hn_extern_kind), as far as that needs no
     * open device: it takes long, and so does opening one. Threads: any. NULL: there is no such
     * thing. */
    void (*load_early)(uint32_t kinds);
    /* Once for each context and bound shape. The call was checked (hn_ext_check); it stays where it
     * is until `release`. Its constant operands have addresses of this device. Errors: unsupported,
     * naming what cannot be done; device; out-of-memory. */
    hn_status (*prepare)(hn_dev *dev, const hn_ext_call *call, hn_device_operation **out);
    /* Memory of the device that `run` wants, aligned to 256 bytes and of undefined content; 0:
     * none. The work of a queue shares it, one after the other. */
    size_t (*scratch_bytes)(const hn_device_operation *operation);
    /* As a launch. `args`: the operands' addresses, NULL for absent ones, which are read before it
     * returns. `step` is for faults: what the data of the operands makes impossible. */
    hn_status (*run)(hn_queue *queue, hn_device_operation *operation, uint32_t step,
                     void *const *args, void *scratch, hn_device_fault *out);
    /* No queue is at work with it. NULL is allowed. */
    void (*release)(hn_device_operation *operation);
} hn_device_operations;

struct hn_device_ops {
    hn_device_kind kind;   /* of buffers, tensors and code */
    bool takes_callers;    /* a context and an allocator of the caller's */
    bool keeps_layouts;    /* launches that are given again have one */
    bool pins_copy_memory; /* hn_queue_options.copy_memory is used */
    /* DLPack's numbers of its memory, and of memory of the host that its driver has pinned; 0: it
     * has none */
    int32_t dlpack_type, dlpack_pinned_type;

    /* The name that a bundle gives to the target that users call so; NULL: none of this kind. */
    const char *(*target_named)(const char *wanted);
    /* The number of the device that users call so, behind the colon: "GPU-8f2c". NULL: devices of
     * this kind have numbers only. Errors: as `open`; invalid-argument. */
    hn_status (*number_of)(const char *name, uint32_t *out);
    /* How well the device of this number runs code for the row's kind: 0, or more when it is better
     * than others; -1: not at all. Then `why` gets what is missing: "needs 'avx512f', which this
     * CPU lacks". */
    int (*fitness)(const hn_device_code *code, uint32_t number, hn_strbuf *why);

    /* Errors: not-found without such a device; device; out-of-memory. */
    hn_status (*open)(const hn_device_options *options, hn_dev **out);
    void (*close)(hn_dev *dev); /* queues, programs and memory are gone */

    /* Memory, aligned to facts.align; at least one byte. NULL without memory. */
    void *(*alloc)(hn_dev *dev, size_t bytes);
    void (*free)(hn_dev *dev, void *memory); /* no queue uses it any more; NULL is allowed */
    /* NULL: the device is the host, or does not count */
    void (*usage)(hn_dev *dev, hn_device_usage *out);

    /* From the bytes of an object, which stay until `unload`. `name` is for messages. Errors:
     * toolchain. */
    hn_status (*load)(hn_dev *dev, const void *code, size_t len, const char *name,
                      hn_device_program **out);
    /* The same from a text that is compiled here, which any row understands that has this: the row
     * puts words of its language in front.
     *
     *   i64 u64 u32 u16 u8   integers          AS_F64(u64) AS_U64(double)   the same bits
     *   FN       in front of a function        KERNEL   in front of `void name(MEMORY(a), ...,
     *            MEMORY(status), i64 b, ...)`: memories and numbers in the order of a launch
     *   BEGIN(a) where the memory begins       GLOBAL LOCAL   of pointers: to memory of the device,
     *            to that of a group            SHARED   in front of an array of a group
     *   GROUP THREAD BARRIER   numbers of the two in one dimension; waits for all of a group
     *
     * NULL: the row has no compiler. Errors: toolchain, also when there is no compiler here; and as
     * `load`. Threads: any. */
    hn_status (*load_text)(hn_dev *dev, const char *text, const char *name,
                           hn_device_program **out);
    /* these words, for who compiles such a text elsewhere; NULL: as load_text */
    const char *text_words;
    void (*unload)(hn_device_program *program); /* NULL is allowed */
    /* A kernel, which lives as long as its program. Errors: not-found. */
    hn_status (*find)(hn_device_program *program, const char *symbol, void **out_kernel);
    /* The function of a kernel that the host may call itself, in place of a launch of one part.
     * NULL: this device has no such kernels. */
    hn_kernel_fn (*direct)(void *kernel);

    hn_status (*queue_create)(hn_dev *dev, const hn_queue_options *options, hn_queue **out);
    void (*queue_destroy)(hn_queue *queue); /* finished; NULL is allowed */

    /* Around several calls for one queue, by its thread: what they would otherwise do and undo
     * each, such as making a context of the driver current. Nothing of the caller's runs between.
     * NULL: there is nothing of the kind. */
    void (*enter)(hn_queue *queue);
    void (*leave)(hn_queue *queue);

    /* Copies; the two sides do not overlap, but for `copy`. */
    hn_status (*copy_in)(hn_queue *queue, void *to, const void *from_host, size_t bytes);
    /* The same of bytes that a function writes, which is not called any more when this returns.
     * NULL: the device has no memory of its own for it. */
    hn_status (*make_in)(hn_queue *queue, void *to, const hn_device_maker *maker, size_t bytes);
    hn_status (*copy_out)(hn_queue *queue, void *to_host, const void *from, size_t bytes);
    hn_status (*copy)(hn_queue *queue, void *to, const void *from, size_t bytes);
    hn_status (*fill)(hn_queue *queue, void *to, uint8_t byte, size_t bytes);
    /* Waits for the work before, and copies to the host: scalars that decide what comes next. */
    hn_status (*read)(hn_queue *queue, void *to_host, const void *from, size_t bytes);

    hn_status (*launch)(hn_queue *queue, const hn_device_launch *launch, hn_device_fault *out);

    /* The point behind all work so far. Another queue of the same device waits for it, without the
     * host. */
    hn_status (*record)(hn_queue *queue, hn_event **out);
    hn_status (*wait)(hn_queue *queue, hn_event *event);
    void (*event_free)(hn_event *event); /* NULL is allowed */
    /* When the device came to this point, in ns from some point of its own. The queue has times and
     * was finished. NULL: the device has no clock but the host's. */
    hn_status (*event_time)(hn_event *event, int64_t *out_ns);
    /* What the driver calls the queue: for hooks that give it work of their own. NULL: there is no
     * such thing. */
    void *(*handle)(hn_queue *queue);
    /* Order between the queue and one of the driver's that is the caller's (as `handle` has them),
     * without the host: the queue waits for what the other has so far; the other waits for what the
     * queue has. NULL: there is no such thing. */
    hn_status (*wait_for_caller)(hn_queue *queue, void *other);
    hn_status (*let_caller_wait)(hn_queue *queue, void *other);
    /* The point behind what the caller's queue has so far; an event without a time. Errors:
     * unsupported while that queue is recorded, which this does not disturb; device. */
    hn_status (*record_caller)(hn_dev *dev, void *other, hn_event **out);
    /* As `free`, and as `event_free`, when the point was reached; the host does not wait. */
    void (*free_behind)(hn_dev *dev, void *memory, hn_event *event);

    /* What is launched, copied on the device and done by operations between the two is recorded and
     * not done. `recording_end` follows in any case; with `is_good` it makes a recording, or brings
     * `*recording`, of the same steps with other addresses, up to date. If it fails, `*recording`
     * is NULL, and the work can be given as usual. NULL: the device has no such thing. Errors:
     * unsupported for what cannot be recorded; device; out-of-memory, also when recordings would
     * take more than they may. */
    hn_status (*recording_begin)(hn_queue *queue);
    hn_status (*recording_end)(hn_queue *queue, bool is_good, hn_recording **recording);
    /* Other addresses in a recording, without recording the steps again: what is given between the
     * two is not done but compared with what the recording holds. False: that is not known, and
     * `patch_end` does not follow. */
    bool (*patch_begin)(hn_queue *queue, hn_recording *recording);
    /* Whether the addresses of the steps that were given are in `*recording` now; with `is_apart`
     * they are in a new one, and the one of before stays as it is. It fails without `is_good`, when
     * the steps are others, and when an operation of a library has another address. Then
     * `*recording` is as before, or NULL if the driver has refused a part of the change. */
    bool (*patch_end)(hn_queue *queue, bool is_good, bool is_apart, hn_recording **recording);
    /* Gives it to the queue. One queue uses a recording: faults are told to the steps of it. */
    hn_status (*replay)(hn_queue *queue, hn_recording *recording);
    void (*recording_free)(hn_recording *recording); /* no queue is at work with it */

    /* Waits until all is done, and tells the first fault since the last `finish`, of launches that
     * did not tell it themselves. After an error the queue has no work, either. */
    hn_status (*finish)(hn_queue *queue, hn_device_fault *out);

    const hn_device_operations *operations; /* NULL: it has none of its own */
};

/* ---- devices.c ---- */

/* The row of a kind; NULL: this library has none. */
const hn_device_ops *hn_device_ops_of(uint32_t kind);
/* The row of the host itself, which every library has. */
const hn_device_ops *hn_device_ops_of_host(void);
/* The name that bundles give to the target that users call so; `wanted` itself when no row knows
 * it. */
const char *hn_device_target_named(const char *wanted);
/* "cpu": the kinds that have a row, for messages. */
void hn_device_kinds_print(hn_strbuf *out);

/* One reference. Errors: as `open`. */
hn_status hn_dev_open(const hn_device_ops *ops, const hn_device_options *options,
                      hn_dev **out) HN_MUST_USE;
hn_dev *hn_dev_retain(hn_dev *dev);
void hn_dev_release(hn_dev *dev); /* NULL is allowed */

static inline void *hn_dev_alloc(hn_dev *dev, size_t bytes) { return dev->ops->alloc(dev, bytes); }

/* Whether this process may use the device: it has opened it, or the device is the host. */
bool hn_dev_is_here(const hn_dev *dev);
/* The same as a status. Errors: device. */
hn_status hn_dev_check(const hn_dev *dev) HN_MUST_USE;

/* Functions of the row, but nothing in a forked child. NULL is allowed. */
void hn_dev_free(hn_dev *dev, void *memory);
/* `event`: work that uses the memory; NULL: none does any more. */
void hn_dev_free_behind(hn_dev *dev, void *memory, hn_event *event);
void hn_dev_unload(hn_dev *dev, hn_device_program *program);
void hn_dev_operation_release(hn_dev *dev, hn_device_operation *operation);
void hn_queue_destroy(hn_queue *queue);
void hn_recording_free(hn_recording *recording);

/* Functions of the row, if it has them. */
static inline void hn_queue_enter(hn_queue *queue) {
    if (queue->dev->ops->enter) queue->dev->ops->enter(queue);
}
static inline void hn_queue_leave(hn_queue *queue) {
    if (queue->dev->ops->leave) queue->dev->ops->leave(queue);
}

#endif
