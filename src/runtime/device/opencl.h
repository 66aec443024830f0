/* opencl.h: the parts of the row of OpenCL. For this folder, and for tests, which put functions
 * that fail into the table.
 *
 *   opencl.c         devices, events, and the row
 *   opencl_memory.c  addresses: each allocation has a range of numbers, and a memory object
 *   opencl_code.c    programs and kernels
 *   opencl_queue.c   copies, launches, status words, waiting */
#ifndef HN_RUNTIME_DEVICE_OPENCL_H
#define HN_RUNTIME_DEVICE_OPENCL_H

#include "base/opencl.h"
#include "runtime/device/device.h"

#include <pthread.h>

/* An allocation. */
typedef struct opencl_range {
    uintptr_t begin;
    size_t bytes;
    cl_mem object;
} opencl_range;

typedef struct opencl_dev {
    hn_dev base;
    hn_opencl cl;
    cl_device_id device;
    cl_context context;
    hn_strbuf identity;    /* of the driver: which binaries are for it */
    cl_mem nothing;        /* what kernels get for NULL, which stands for memory of no bytes */
    pthread_rwlock_t lock; /* of what follows */
    opencl_range *ranges;  /* by `begin` */
    uint32_t range_count, range_cap;
    uint64_t memory_bytes, peak_bytes; /* in all ranges: now, and the most so far */
    uintptr_t next;                    /* the next range begins here; numbers do not come again */
} opencl_dev;

typedef struct opencl_kernel {
    struct opencl_kernel *next; /* of the program */
    opencl_dev *dev;
    char *name;
    cl_kernel kernel;
    cl_uint arg_count;
    pthread_mutex_t
        lock; /* from the first argument to the launch: arguments belong to the kernel */
} opencl_kernel;

typedef struct opencl_code {
    opencl_dev *dev;
    char *name; /* for messages */
    cl_program program;
    pthread_mutex_t lock; /* of `kernels` */
    opencl_kernel *kernels;
} opencl_code;

/* The row's `open`, with functions of the caller's. */
hn_status hn_opencl_dev_open(const hn_opencl *cl, const hn_device_options *options,
                             hn_dev **out) HN_MUST_USE;

/* ---- opencl_memory.c ---- */

void *hn_opencl_alloc(hn_dev *dev, size_t bytes);
void hn_opencl_free(hn_dev *dev, void *memory);
void hn_opencl_usage(hn_dev *dev, hn_device_usage *out);
/* A place in a memory object. Of NULL: in `nothing`. Errors: internal for what is no address of the
 * device. */
typedef struct opencl_place {
    cl_mem object;
    size_t offset; /* bytes */
} opencl_place;
hn_status hn_opencl_find(opencl_dev *dev, const void *address, opencl_place *out) HN_MUST_USE;

/* ---- opencl_code.c ---- */

hn_status hn_opencl_load_code(hn_dev *dev, const void *code, size_t len, const char *name,
                              hn_device_program **out) HN_MUST_USE;
extern const char hn_opencl_words[]; /* in front of the texts of: */
hn_status hn_opencl_load_text(hn_dev *dev, const char *text, const char *name,
                              hn_device_program **out) HN_MUST_USE;
void hn_opencl_unload_code(hn_device_program *program);
hn_status hn_opencl_find_kernel(hn_device_program *program, const char *symbol,
                                void **out_kernel) HN_MUST_USE;

/* ---- opencl_queue.c ---- */

/* Status words: an int for each step, in one memory object. A kernel sets its own when an index is
 * out of bounds. */
typedef struct opencl_queue {
    hn_queue base;
    cl_command_queue queue;
    uint32_t step_count;
    cl_mem words;
    cl_int *copy;          /* of the words, while the queue is finished */
    uint32_t first, until; /* steps that were launched since then */
    bool is_unclean;       /* clear the words before the next launch: some may be set */
} opencl_queue;

hn_status hn_opencl_queue_create(hn_dev *dev, const hn_queue_options *options,
                                 hn_queue **out) HN_MUST_USE;
void hn_opencl_queue_destroy(hn_queue *queue);
hn_status hn_opencl_copy_in(hn_queue *queue, void *to, const void *from_host,
                            size_t bytes) HN_MUST_USE;
hn_status hn_opencl_copy_out(hn_queue *queue, void *to_host, const void *from,
                             size_t bytes) HN_MUST_USE;
hn_status hn_opencl_copy(hn_queue *queue, void *to, const void *from, size_t bytes) HN_MUST_USE;
hn_status hn_opencl_fill(hn_queue *queue, void *to, uint8_t byte, size_t bytes) HN_MUST_USE;
hn_status hn_opencl_read(hn_queue *queue, void *to_host, const void *from,
                         size_t bytes) HN_MUST_USE;
hn_status hn_opencl_launch(hn_queue *queue, const hn_device_launch *launch,
                           hn_device_fault *out) HN_MUST_USE;
hn_status hn_opencl_finish(hn_queue *queue, hn_device_fault *out) HN_MUST_USE;

#endif
