/* cuda.h: the parts of the row of CUDA. For this folder, and for tests.
 *
 *   cuda.c         the device, its context, events, and the row
 *   cuda_memory.c  memory of the device
 *   cuda_code.c    modules and kernels
 *   cuda_text.c    modules from texts, by NVRTC
 *   cuda_stage.c   pinned memory that copies go through
 *   cuda_queue.c   copies, launches, status words, waiting
 *   cuda_graph.c   recordings
 *   cuda_patch.c   other addresses in recordings
 *   cuda_operations.c   operations, by cuBLASLt and cuDNN
 *
 * Every function of the row that calls the driver stands between hn_cuda_enter and hn_cuda_leave:
 * the driver wants the context to be the calling thread's current one, and the host may have
 * another one there, which it gets back. */
#ifndef HN_RUNTIME_DEVICE_CUDA_H
#define HN_RUNTIME_DEVICE_CUDA_H

#include "base/compiler.h"
#include "base/cuda.h"
#include "runtime/device/device.h"

#include <pthread.h>

/* Room behind each allocation: a failed check of an index reads element 0 also of memory without
 * elements, and such memory may begin at the end. */
enum { HN_CUDA_ROOM_BYTES = 64 };

/* Memory that was given out. */
typedef struct cuda_range {
    hn_cuda_address begin;
    size_t bytes;
} cuda_range;

/* Memory that goes back when work of the caller's is done. */
typedef struct cuda_leftover {
    void *memory;
    hn_cuda_event behind;
} cuda_leftover;

typedef struct cuda_libraries cuda_libraries; /* cuda_operations.c */

typedef struct cuda_dev {
    hn_dev base;
    hn_cuda cuda;
    int device;              /* the driver's */
    hn_cuda_context context; /* the primary one, retained, or the caller's */
    bool is_primary;
    hn_device_allocator callers; /* of memory; zeros: the driver's */
    hn_cuda_pool pool;           /* NULL: the device has no pools, or the caller allocates */
    /* the order of allocations, of a pool or of the caller's; NULL: there are neither */
    hn_cuda_stream pool_work;
    hn_cuda_address nothing; /* what kernels get for NULL, which stands for memory of no bytes */
    size_t shared_max;       /* bytes that a group may have */
    size_t memory_limit;     /* bytes */
    pthread_mutex_t lock;    /* of what follows */
    cuda_range *ranges;
    uint32_t range_count, range_cap;
    cuda_leftover *leftovers;
    uint32_t leftover_count, leftover_cap;
    size_t memory_bytes;       /* in all ranges ... */
    size_t peak_bytes;         /* ... and the most so far */
    size_t graph_bytes;        /* that recordings take, as far as that is known (cuda_graph.c) */
    int64_t libraries_ns;      /* that loading them took, ... */
    int64_t start_ns;          /* ... the first question to each, ... */
    int64_t choose_ns;         /* ... the others, ... */
    int64_t first_ns;          /* ... and the first run of each operation */
    cuda_libraries *libraries; /* NULL: nobody has asked for an operation */
    atomic_bool is_lost;       /* the context is of no use any more ... */
    char lost_by[400];         /* ... because of this. With `lock` held */
    bool is_loss_named;        /* it tells the kernels that were under way. With `lock` held */
} cuda_dev;

/* ---- cuda.c ---- */

/* Makes the context current; `out_pushed` is for hn_cuda_leave. Errors: device, also when the
 * context is lost. */
hn_status hn_cuda_enter(cuda_dev *dev, bool *out_pushed) HN_MUST_USE;
void hn_cuda_leave(const cuda_dev *dev, bool pushed);
/* hn_cuda_status of a call; an error after which the context is of no use is remembered. */
hn_status hn_cuda_check(cuda_dev *dev, hn_cuda_result code, const char *call) HN_MUST_USE;
/* The context was lost, which this status tells with the kernels that were under way: later errors
 * repeat the first status that does. */
void hn_cuda_name_loss(cuda_dev *dev, hn_status status);
bool hn_cuda_loss_is_named(cuda_dev *dev);

/* ---- cuda_memory.c ---- */

hn_status hn_cuda_memory_init(cuda_dev *dev) HN_MUST_USE;
void hn_cuda_memory_deinit(cuda_dev *dev);
void *hn_cuda_alloc(hn_dev *dev, size_t bytes);
void hn_cuda_free(hn_dev *dev, void *memory);
/* The same when the event, which this takes, is reached. Nobody waits for that, unless there is no
 * memory otherwise. The context is current. */
void hn_cuda_free_behind(cuda_dev *dev, void *memory, hn_cuda_event behind);
void hn_cuda_usage(hn_dev *dev, hn_device_usage *out);

/* ---- cuda_code.c ---- */

typedef struct cuda_kernel {
    struct cuda_kernel *next; /* of the program */
    cuda_dev *dev;
    char *name;
    hn_cuda_function function;
    uint32_t arg_count;      /* UINT32_MAX: the driver does not tell */
    size_t static_shared;    /* bytes that the code declares itself */
    atomic_size_t shared_ok; /* dynamic ones that launches may have so far */
    pthread_mutex_t lock;    /* held while they become more */
} cuda_kernel;

hn_status hn_cuda_load_code(hn_dev *dev, const void *code, size_t len, const char *name,
                            hn_device_program **out) HN_MUST_USE;
void hn_cuda_unload_code(hn_device_program *program);
hn_status hn_cuda_find_kernel(hn_device_program *program, const char *symbol,
                              void **out_kernel) HN_MUST_USE;
/* Lets launches of the kernel have so much dynamic shared memory. */
hn_status hn_cuda_allow_shared(cuda_kernel *kernel, size_t bytes) HN_MUST_USE;
/* A launch that the driver refuses because groups want more than there is: what they want and what
 * there is. `status` when that is not the reason. */
hn_status hn_cuda_explain(const cuda_kernel *kernel, const hn_device_launch *launch,
                          hn_status status) HN_MUST_USE;

/* ---- cuda_text.c ---- */

extern const char hn_cuda_words[]; /* in front of the texts of: */
hn_status hn_cuda_load_text(hn_dev *dev, const char *text, const char *name,
                            hn_device_program **out) HN_MUST_USE;

/* ---- cuda_stage.c ---- */

/* Pinned memory of a queue: the driver copies from and to it while the host goes on. Two pieces for
 * what goes to the device, which take turns; and memory for what comes from it until the queue is
 * finished. Both become as large as the copies of a run want: pieces that of its largest copy, up
 * to 8 MiB each, the rest that of all copies to the host together, up to 64 MiB. */
enum { HN_CUDA_STAGE_PIECES = 2 };

/* Pinned memory; `mapped`: bytes of a map of the queue's own, 0: it is the driver's. */
typedef struct cuda_pinned {
    uint8_t *at;
    size_t mapped;
} cuda_pinned;

typedef struct cuda_stage_piece {
    cuda_pinned own; /* NULL: its memory is the caller's */
    uint8_t *memory;
    size_t used;
    hn_cuda_event left; /* behind the last copy from it, when another piece has taken its place */
    bool is_left;
} cuda_stage_piece;

/* A copy to the host that is in pinned memory until the queue is finished. */
typedef struct cuda_landing {
    void *to_host;
    const uint8_t *from;
    size_t bytes;
} cuda_landing;

/* What large copies to the device have taken so far, for the log. */
typedef struct cuda_stage_times {
    uint64_t bytes;
    int64_t pin_ns, read_ns, give_ns, wait_ns; /* wait: for a piece to be free again */
} cuda_stage_times;

typedef struct cuda_stage {
    cuda_stage_piece pieces[HN_CUDA_STAGE_PIECES];
    size_t piece_bytes;
    void *registered;      /* the caller's memory that the pieces are; NULL: they are the queue's */
    uint32_t piece;        /* that is filled */
    cuda_pinned *landings; /* blocks of memory */
    size_t landing_cap;    /* of the last block */
    size_t landing_used, landing_bytes; /* in the last block; in all of them */
    uint32_t landing_count, landing_room;
    cuda_landing *copies;
    uint32_t copy_count, copy_cap;
    cuda_stage_times times;
} cuda_stage;

typedef struct cuda_queue cuda_queue;

/* Pieces for copies to the device (copy_bytes, copy_memory), before there is one. */
hn_status hn_cuda_stage_open(cuda_queue *q, const hn_queue_options *options) HN_MUST_USE;
/* Of bytes that `maker` writes, into pinned memory. */
hn_status hn_cuda_stage_made(cuda_queue *q, hn_cuda_address to, const hn_device_maker *maker,
                             size_t bytes) HN_MUST_USE;
hn_status hn_cuda_stage_in(cuda_queue *q, hn_cuda_address to, const void *from_host,
                           size_t bytes) HN_MUST_USE;
hn_status hn_cuda_stage_out(cuda_queue *q, void *to_host, hn_cuda_address from,
                            size_t bytes) HN_MUST_USE;
/* The queue has no work: what has landed goes to its place, or nowhere after an error. */
void hn_cuda_stage_finish(cuda_queue *q, bool is_good);
void hn_cuda_stage_deinit(cuda_queue *q);

/* ---- cuda_queue.c ---- */

/* A point of time, of which other events tell how far they are behind. */
typedef struct cuda_clock {
    atomic_uint refs;
    const cuda_dev *dev;
    hn_cuda_event event;
    int64_t ns;      /* at the event, from the first clock of the queue on */
    int64_t host_ns; /* when it was made */
} cuda_clock;

/* Launches behind each other: which steps, and for messages which kernels, and how many operations
 * are among them. */
typedef struct cuda_launches {
    uint32_t count, operations;
    uint32_t first, until; /* steps */
    const cuda_kernel *first_kernel, *last_kernel;
} cuda_launches;

typedef struct cuda_calls cuda_calls; /* cuda_patch.c */

/* Status words: an int for each step, in pinned memory that kernels write to. A kernel sets its own
 * when an index is out of bounds. */
struct cuda_queue {
    hn_queue base;
    hn_cuda_stream stream;
    uint8_t *pinned; /* room for a number that is read, then the words */
    int *words;
    hn_cuda_address words_at; /* on the device */
    uint32_t step_count;
    cuda_launches launches, before; /* since the last `finish`; before a recording was begun */
    void **params;                  /* of a launch: addresses of its arguments */
    uint32_t param_cap;
    /* Between the begin and the end of a recording or of a patch: the calls of it. NULL: there is
     * none. */
    cuda_calls *calls;
    bool is_idle;        /* nothing was given to it since the last `finish` */
    bool is_entered;     /* between `enter` and `leave`: the context is current ... */
    bool has_pushed;     /* ... because `enter` has pushed it */
    hn_cuda_event order; /* between it and streams of the caller's; NULL: there was none yet */
    bool has_times;
    cuda_clock *clock; /* of its events; NULL: there was none yet */
    hn_team *team;     /* for copies of the host; NULL: none */
    int threads;
    const hn_ext_shared *files; /* host memory that is read from files; NULL: none */
    cuda_stage stage;
};

/* As hn_cuda_enter; the driver is not asked where `enter` has done that. */
static inline hn_status hn_cuda_enter_queue(cuda_queue *q, bool *out_pushed) {
    cuda_dev *d = (cuda_dev *)q->base.dev;
    *out_pushed = false;
    if (HN_LIKELY(q->is_entered && !atomic_load_explicit(&d->is_lost, memory_order_acquire)))
        return NULL;
    return hn_cuda_enter(d, out_pushed);
}

hn_status hn_cuda_queue_create(hn_dev *dev, const hn_queue_options *options,
                               hn_queue **out) HN_MUST_USE;
void hn_cuda_queue_destroy(hn_queue *queue);
hn_status hn_cuda_make_in(hn_queue *queue, void *to, const hn_device_maker *maker,
                          size_t bytes) HN_MUST_USE;
hn_status hn_cuda_copy_in(hn_queue *queue, void *to, const void *from_host,
                          size_t bytes) HN_MUST_USE;
hn_status hn_cuda_copy_out(hn_queue *queue, void *to_host, const void *from,
                           size_t bytes) HN_MUST_USE;
hn_status hn_cuda_copy(hn_queue *queue, void *to, const void *from, size_t bytes) HN_MUST_USE;
hn_status hn_cuda_fill(hn_queue *queue, void *to, uint8_t byte, size_t bytes) HN_MUST_USE;
hn_status hn_cuda_read(hn_queue *queue, void *to_host, const void *from, size_t bytes) HN_MUST_USE;
hn_status hn_cuda_launch(hn_queue *queue, const hn_device_launch *launch,
                         hn_device_fault *out) HN_MUST_USE;
hn_status hn_cuda_finish(hn_queue *queue, hn_device_fault *out) HN_MUST_USE;
void hn_cuda_note_launches(cuda_queue *q, const cuda_launches *more);
/* An error of a call behind these launches: if the context was lost, they may be the reason. */
hn_status hn_cuda_name_late(cuda_queue *q, hn_status status) HN_MUST_USE;
void hn_cuda_clock_release(cuda_clock *clock); /* NULL is allowed */

/* ---- cuda_operations.c ---- */

extern const hn_device_operations hn_cuda_operations;
void hn_cuda_operations_deinit(cuda_dev *dev); /* the context is current */

/* ---- cuda_patch.c: the calls that a recording holds, and the addresses in them ---- */

typedef enum cuda_call_kind { CUDA_LAUNCH, CUDA_COPY, CUDA_FILL, CUDA_OPERATION } cuda_call_kind;

/* What a call gives to the stream. */
typedef struct cuda_call {
    cuda_call_kind kind;
    const void *of; /* a hn_device_operation; NULL: other kinds need none */
    union {
        hn_cuda_kernel_node launch; /* without arguments */
        struct {
            size_t bytes; /* of a copy and of a fill */
            uint8_t byte; /* of a fill */
        };
    };
    /* where addresses and numbers are, 8 bytes each: arguments of a kernel; [to, from]; [to];
     * operands */
    void *const *values;
    uint32_t value_count;
} cuda_call;

/* NULL: the driver cannot exchange addresses, or there is no memory. */
cuda_calls *hn_cuda_calls_begin(const cuda_dev *dev);
cuda_calls *hn_cuda_calls_retain(cuda_calls *calls);
/* Owns the graph, which it destroys with the last reference. The context is current. NULL is
 * allowed. */
void hn_cuda_calls_release(const cuda_dev *dev, cuda_calls *calls);
/* A capture has ended with this graph, whose nodes are those of the calls; it is the calls' now. */
void hn_cuda_calls_take(cuda_calls *calls, hn_cuda_graph graph);
hn_cuda_graph hn_cuda_calls_graph(const cuda_calls *calls);
/* The values of all calls, as they were captured; and how many. They stay until the release. */
const uint64_t *hn_cuda_calls_values(const cuda_calls *calls, uint32_t *out_count);
/* Whether two captures gave the same calls, but for values. */
bool hn_cuda_calls_are_alike(const cuda_calls *a, const cuda_calls *b);

/* What is done with a call while the queue has `calls`. True: it is compared, and not to be made.
 * False: hn_cuda_call_note follows when it has been made. */
bool hn_cuda_call_compare(cuda_queue *q, const cuda_call *call);
void hn_cuda_call_note(cuda_queue *q, const cuda_call *call);

void hn_cuda_calls_compare_begin(cuda_calls *calls);
/* Whether all calls came again. */
bool hn_cuda_calls_compare_end(cuda_calls *calls);
/* Whether `values` can become those of the last comparison; operations have no other addresses. */
bool hn_cuda_calls_can_patch(const cuda_calls *calls, const uint64_t *values);
/* Makes them so, in a graph that was made of that of the calls. False: the driver has refused, and
 * some are the new ones. */
bool hn_cuda_calls_patch(cuda_dev *dev, const cuda_calls *calls, hn_cuda_graph_exec exec,
                         uint64_t *values);

/* ---- cuda_graph.c ---- */

hn_status hn_cuda_recording_begin(hn_queue *queue) HN_MUST_USE;
hn_status hn_cuda_recording_end(hn_queue *queue, bool is_good,
                                hn_recording **recording) HN_MUST_USE;
bool hn_cuda_patch_begin(hn_queue *queue, hn_recording *recording);
bool hn_cuda_patch_end(hn_queue *queue, bool is_good, bool is_apart, hn_recording **recording);
hn_status hn_cuda_replay(hn_queue *queue, hn_recording *recording) HN_MUST_USE;
void hn_cuda_recording_free(hn_recording *recording);

static inline hn_cuda_address hn_cuda_at(const void *address) { return (uintptr_t)address; }

#endif
