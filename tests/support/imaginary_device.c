/* imaginary_device.c: see imaginary_device.h. */
#include "tests/support/imaginary_device.h"

#include "base/library.h"
#include "henry/abi/kernel_abi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The table of devices with this row in it, in place of the library's. */
#define HN_DEVICE_ROWS_OF_TESTS &imaginary_device,
#include "runtime/device/devices.c"

enum { ALIGN = 256, MEMORIES_MAX = 4096, ARGS_MAX = 64 };
#define RANGE_BYTES ((size_t)1 << 32) /* addresses cost nothing */

imaginary_state imaginary;

void imaginary_reset(void) {
    atomic_store(&imaginary.calls, 0);
    atomic_store(&imaginary.fail_at, 0);
    atomic_store(&imaginary.is_lost, false);
    atomic_store(&imaginary.stays_lost, false);
    atomic_store(&imaginary.memory_max, 0);
    atomic_store(&imaginary.launches, 0);
    atomic_store(&imaginary.finishes, 0);
    atomic_store(&imaginary.operation_runs, 0);
    atomic_store(&imaginary.kinds, 0);
    atomic_store(&imaginary.scratch, 0);
    atomic_store(&imaginary.refuses, false);
    atomic_store(&imaginary.fail_copies, false);
}

/* Whether this call is to fail. */
static bool fails(void) {
    const unsigned call = atomic_fetch_add(&imaginary.calls, 1) + 1;
    if (atomic_load(&imaginary.is_lost)) return true;
    if (call != atomic_load(&imaginary.fail_at)) return false;
    if (atomic_load(&imaginary.stays_lost)) atomic_store(&imaginary.is_lost, true);
    return true;
}

static hn_status failure(const char *call) {
    return HN_ERROR(HN_DEVICE, "the imaginary device fails in '%s'", call);
}

/* ---- memory: addresses that fault, and what stands behind them ---- */

typedef struct memory {
    uint8_t *address, *bytes;
    size_t size; /* of the range of addresses */
} memory;

static struct {
    pthread_mutex_t lock;
    uint8_t *range; /* of addresses */
    size_t used;
    memory items[MEMORIES_MAX];
    uint32_t count;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where the bytes of an address are. A test ends if they are nowhere. */
static uint8_t *bytes_at(const void *address, size_t size) {
    const uint8_t *at = address;
    uint8_t *found = NULL;
    pthread_mutex_lock(&heap.lock);
    for (uint32_t k = 0; k < heap.count && !found; k++) {
        const memory *m = &heap.items[k];
        if (at >= m->address && at + size <= m->address + m->size)
            found = m->bytes + (at - m->address);
    }
    pthread_mutex_unlock(&heap.lock);
    if (!found) {
        fprintf(stderr, "imaginary device: %p is no memory of it\n", (void *)(uintptr_t)address);
        abort();
    }
    return found;
}

/* With the lock held. */
static memory *new_memory(size_t size) {
    if (!heap.range)
        heap.range =
            mmap(NULL, RANGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (heap.range == MAP_FAILED || heap.count == MEMORIES_MAX ||
        size > RANGE_BYTES - heap.used - ALIGN)
        return NULL;
    memory *m = &heap.items[heap.count];
    *m = (memory){
        .address = heap.range + heap.used, .bytes = aligned_alloc(ALIGN, size), .size = size};
    if (!m->bytes) return NULL;
    heap.used += size + ALIGN; /* never given out again: old addresses stay wrong */
    heap.count++;
    return m;
}

static void *imaginary_alloc(hn_dev *dev, size_t bytes) {
    (void)dev;
    if (fails() || bytes > SIZE_MAX / 2) return NULL;
    const size_t size = (bytes + ALIGN) / ALIGN * ALIGN, max = atomic_load(&imaginary.memory_max);
    if (max && atomic_load(&imaginary.memory) + size > max) return NULL;
    pthread_mutex_lock(&heap.lock);
    memory *m = new_memory(size);
    void *address = m ? m->address : NULL;
    pthread_mutex_unlock(&heap.lock);
    if (address) atomic_fetch_add(&imaginary.memory, size);
    return address;
}

static void imaginary_free(hn_dev *dev, void *address) {
    (void)dev;
    if (!address) return;
    (void)bytes_at(address, 1);
    pthread_mutex_lock(&heap.lock);
    uint32_t k = 0;
    while (heap.items[k].address != address) k++;
    atomic_fetch_sub(&imaginary.memory, heap.items[k].size);
    free(heap.items[k].bytes);
    heap.items[k] = heap.items[--heap.count];
    pthread_mutex_unlock(&heap.lock);
}

/* ---- the device and its code ---- */

static const char *imaginary_target(const char *wanted) {
    return strcmp(wanted, "imaginary") == 0 ? "imaginary" : NULL;
}

static int imaginary_fitness(const hn_device_code *code, uint32_t number, hn_strbuf *why) {
    (void)code, (void)number, (void)why;
    return 0;
}

static hn_status imaginary_open(const hn_device_options *options, hn_dev **out) {
    if (fails()) return failure("open");
    if (options->number > 1)
        return HN_ERROR(HN_NOT_FOUND, "there is no device opencl:%u", options->number);
    hn_dev *dev = calloc(1, sizeof *dev);
    if (!dev) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a device");
    dev->ops = &imaginary_device;
    dev->number = options->number;
    dev->facts = (hn_device_facts){.name = "imaginary", .align = ALIGN, .has_addresses = true};
    atomic_fetch_add(&imaginary.open, 1);
    *out = dev;
    return NULL;
}

static void imaginary_close(hn_dev *dev) {
    atomic_fetch_sub(&imaginary.open, 1);
    free(dev);
}

static hn_status imaginary_load(hn_dev *dev, const void *code, size_t len, const char *name,
                                hn_device_program **out) {
    hn_library *library;
    (void)dev;
    if (fails()) return HN_ERROR(HN_TOOLCHAIN, "the imaginary device cannot load '%s'", name);
    HN_TRY(hn_library_load(code, len, name, &library));
    atomic_fetch_add(&imaginary.programs, 1);
    *out = (hn_device_program *)library;
    return NULL;
}

static void imaginary_unload(hn_device_program *program) {
    if (!program) return;
    atomic_fetch_sub(&imaginary.programs, 1);
    hn_library_close((hn_library *)program);
}

static hn_status imaginary_find(hn_device_program *program, const char *symbol, void **out_kernel) {
    if (fails()) return failure("find");
    return hn_library_symbol((hn_library *)program, symbol, out_kernel);
}

/* ---- work, which waits until the host waits for it ---- */

typedef enum work_kind { COPY_IN, COPY_OUT, COPY, FILL, LAUNCH, OPERATION } work_kind;

typedef struct work {
    struct work *next;
    work_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    uint8_t byte; /* of FILL */
    hn_device_launch launch;
    hn_device_operation *operation; /* `to`: scratch memory, `bytes` of it */
    uint32_t step;
    void *args[ARGS_MAX];
    long long params[ARGS_MAX];
} work;

typedef struct imaginary_queue {
    hn_queue base;
    work *first, **end;
    hn_device_fault fault;
    uint32_t step_count;
    int64_t clock_ns;
} imaginary_queue;

struct hn_event {
    imaginary_queue *queue;
    int64_t ns;
};

static hn_status imaginary_queue_create(hn_dev *dev, const hn_queue_options *options,
                                        hn_queue **out) {
    if (fails()) return failure("queue_create");
    imaginary_queue *q = calloc(1, sizeof *q);
    if (!q) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a queue");
    q->base.dev = dev;
    q->end = &q->first;
    q->step_count = options->step_count;
    atomic_fetch_add(&imaginary.queues, 1);
    *out = &q->base;
    return NULL;
}

static void imaginary_queue_destroy(hn_queue *queue) {
    imaginary_queue *q = (imaginary_queue *)queue;
    if (!q) return;
    if (q->first) {
        fprintf(stderr, "imaginary device: a queue is destroyed that was not finished\n");
        abort();
    }
    atomic_fetch_sub(&imaginary.queues, 1);
    free(q);
}

/* Kernels of groups are told their number as the extent. */
static void run_launch(imaginary_queue *q, const work *w) {
    void *args[ARGS_MAX];
    hn_kernel_fn fn;
    const hn_device_launch *l = &w->launch;
    for (uint32_t k = 0; k < l->arg_count; k++)
        args[k] = w->args[k] ? bytes_at(w->args[k], 0) : NULL;
    memcpy(&fn, &l->kernel, sizeof fn);
    const int rc = fn(args, w->params, 0, l->extent,
                      l->scratch ? bytes_at(l->scratch, l->scratch_stride) : NULL);
    q->clock_ns += 1000;
    if (rc && !q->fault.is_set) q->fault = (hn_device_fault){.is_set = true, .step = l->step};
}

struct hn_device_operation {
    hn_ext_call call;
    size_t more_scratch; /* bytes, behind what the call wants */
    uint32_t waiting;    /* runs that were not done yet */
};

static void run_operation(imaginary_queue *q, const work *w) {
    hn_ext_call *call = &w->operation->call;
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (call->dtypes[k]) call->operands[k] = bytes_at(w->args[k], 0);
    uint8_t *scratch = w->bytes ? bytes_at(w->to, w->bytes) : NULL;
    if (scratch) memset(scratch, 0xee, w->bytes);
    hn_status status = hn_ext_run(call, scratch);
    if (scratch) memset(scratch, 0xee, w->bytes);
    q->clock_ns += 1000;
    if (status && !q->fault.is_set) q->fault = (hn_device_fault){.is_set = true, .step = w->step};
    hn_status_free(status);
}

static void do_work(imaginary_queue *q, const work *w) {
    q->clock_ns += 10;
    switch (w->kind) {
    case COPY_IN: memcpy(bytes_at(w->to, w->bytes), w->from, w->bytes); break;
    case COPY_OUT: memcpy(w->to, bytes_at(w->from, w->bytes), w->bytes); break;
    case COPY: memmove(bytes_at(w->to, w->bytes), bytes_at(w->from, w->bytes), w->bytes); break;
    case FILL: memset(bytes_at(w->to, w->bytes), w->byte, w->bytes); break;
    case LAUNCH: run_launch(q, w); break;
    case OPERATION: run_operation(q, w); break;
    }
}

static void do_all(imaginary_queue *q, bool is_lost) {
    while (q->first) {
        work *w = q->first;
        q->first = w->next;
        if (!is_lost) do_work(q, w);
        if (w->operation) w->operation->waiting--;
        free(w);
    }
    q->end = &q->first;
}

static hn_status give(hn_queue *queue, work w) {
    imaginary_queue *q = (imaginary_queue *)queue;
    work *own = malloc(sizeof *own);
    if (!own) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for work");
    *own = w;
    own->next = NULL;
    *q->end = own;
    q->end = &own->next;
    return NULL;
}

static hn_status imaginary_copy_in(hn_queue *queue, void *to, const void *from, size_t bytes) {
    if (fails() || atomic_load(&imaginary.fail_copies)) return failure("copy_in");
    return bytes ? give(queue, (work){.kind = COPY_IN, .to = to, .from = from, .bytes = bytes})
                 : NULL;
}

static hn_status imaginary_copy_out(hn_queue *queue, void *to, const void *from, size_t bytes) {
    if (fails()) return failure("copy_out");
    return bytes ? give(queue, (work){.kind = COPY_OUT, .to = to, .from = from, .bytes = bytes})
                 : NULL;
}

static hn_status imaginary_copy(hn_queue *queue, void *to, const void *from, size_t bytes) {
    if (fails()) return failure("copy");
    return bytes ? give(queue, (work){.kind = COPY, .to = to, .from = from, .bytes = bytes}) : NULL;
}

static hn_status imaginary_fill(hn_queue *queue, void *to, uint8_t byte, size_t bytes) {
    if (fails()) return failure("fill");
    return bytes ? give(queue, (work){.kind = FILL, .to = to, .byte = byte, .bytes = bytes}) : NULL;
}

static hn_status imaginary_read(hn_queue *queue, void *to, const void *from, size_t bytes) {
    if (fails()) return failure("read");
    do_all((imaginary_queue *)queue, false);
    memcpy(to, bytes_at(from, bytes), bytes);
    return NULL;
}

static hn_status imaginary_launch(hn_queue *queue, const hn_device_launch *l,
                                  hn_device_fault *out) {
    imaginary_queue *q = (imaginary_queue *)queue;
    work w = {.kind = LAUNCH, .launch = *l};
    *out = (hn_device_fault){.is_set = false};
    if (fails()) return failure("launch");
    if (l->step >= q->step_count || l->arg_count > ARGS_MAX || l->param_count > ARGS_MAX ||
        !l->threads[0])
        return HN_ERROR(HN_INTERNAL, "a launch that cannot be");
    memcpy(w.args, l->args, l->arg_count * sizeof *l->args);
    memcpy(w.params, l->params, l->param_count * sizeof *l->params);
    atomic_fetch_add(&imaginary.launches, 1);
    return give(queue, w);
}

static hn_status imaginary_record(hn_queue *queue, hn_event **out) {
    imaginary_queue *q = (imaginary_queue *)queue;
    if (fails()) return failure("record");
    hn_event *event = malloc(sizeof *event);
    if (!event) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an event");
    do_all(q, false); /* the simplest that is right: nothing before it is left */
    *event = (hn_event){.queue = q, .ns = q->clock_ns};
    atomic_fetch_add(&imaginary.events, 1);
    *out = event;
    return NULL;
}

static hn_status imaginary_wait(hn_queue *queue, hn_event *event) {
    (void)queue, (void)event;
    return fails() ? failure("wait") : NULL;
}

static void imaginary_event_free(hn_event *event) {
    if (event) atomic_fetch_sub(&imaginary.events, 1);
    free(event);
}

static hn_status imaginary_event_time(hn_event *event, int64_t *out_ns) {
    if (fails()) return failure("event_time");
    *out_ns = event->ns;
    return NULL;
}

static void *imaginary_handle(hn_queue *queue) { return queue; }

static hn_status imaginary_finish(hn_queue *queue, hn_device_fault *out) {
    imaginary_queue *q = (imaginary_queue *)queue;
    const bool failed = fails();
    do_all(q, failed);
    *out = q->fault;
    q->fault = (hn_device_fault){.is_set = false};
    atomic_fetch_add(&imaginary.finishes, 1);
    return failed ? failure("finish") : NULL;
}

/* ---- operations: those of the host, which see the bytes behind the addresses ---- */

static void operation_free(hn_device_operation *o) {
    hn_ext_release(&o->call);
    hn_ext_shared_destroy(o->call.shared);
    free(o);
}

/* The bytes of constants are not the device's before a run: nothing of them is packed. */
static hn_status operation_prepare(hn_dev *dev, const hn_ext_call *call,
                                   hn_device_operation **out) {
    (void)dev;
    if (fails()) return failure("operation_prepare");
    if (atomic_load(&imaginary.refuses))
        return HN_ERROR(HN_UNSUPPORTED, "the imaginary device refuses operations");
    hn_device_operation *o = calloc(1, sizeof *o);
    if (!o) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an operation");
    o->call = *call;
    o->call.form = NULL;
    atomic_store(&imaginary.candidate, call->form ? call->form->candidate : -1);
    o->more_scratch = atomic_load(&imaginary.scratch);
    o->call.threads = 1;
    o->call.team = NULL;
    o->call.shared = NULL;
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++) {
        o->call.is_constant[k] = false;
        o->call.operands[k] = NULL;
    }
    hn_status status = hn_ext_shared_create(&o->call.shared);
    if (!status) status = hn_ext_prepare(&o->call);
    if (status) {
        operation_free(o);
        return status;
    }
    atomic_fetch_add(&imaginary.operations, 1);
    *out = o;
    return NULL;
}

static size_t operation_scratch_bytes(const hn_device_operation *o) {
    return o->call.scratch_bytes + o->more_scratch;
}

static hn_status operation_run(hn_queue *queue, hn_device_operation *o, uint32_t step,
                               void *const *args, void *scratch, hn_device_fault *out) {
    imaginary_queue *q = (imaginary_queue *)queue;
    work w = {.kind = OPERATION,
              .operation = o,
              .step = step,
              .to = scratch,
              .bytes = operation_scratch_bytes(o)};
    *out = (hn_device_fault){.is_set = false};
    if (fails()) return failure("operation_run");
    if (step >= q->step_count || (w.bytes && (uintptr_t)scratch % ALIGN))
        return HN_ERROR(HN_INTERNAL, "an operation that cannot be");
    for (uint32_t k = 0; k < HN_EXT_MAX_OPERANDS; k++)
        if (o->call.dtypes[k]) w.args[k] = args[k];
    HN_TRY(give(queue, w));
    o->waiting++;
    atomic_fetch_add(&imaginary.operation_runs, 1);
    return NULL;
}

static void operation_release(hn_device_operation *o) {
    if (!o) return;
    if (o->waiting) {
        fprintf(stderr, "imaginary device: an operation is released that is still to be done\n");
        abort();
    }
    operation_free(o);
    atomic_fetch_sub(&imaginary.operations, 1);
}

static void load_early(uint32_t kinds) { atomic_fetch_or(&imaginary.kinds, kinds); }

static const hn_device_operations operations = {
    .load_early = load_early,
    .prepare = operation_prepare,
    .scratch_bytes = operation_scratch_bytes,
    .run = operation_run,
    .release = operation_release,
};

const hn_device_ops imaginary_device = {
    .kind = HN_DEVICE_OPENCL,
    .target_named = imaginary_target,
    .fitness = imaginary_fitness,
    .open = imaginary_open,
    .close = imaginary_close,
    .alloc = imaginary_alloc,
    .free = imaginary_free,
    .load = imaginary_load,
    .unload = imaginary_unload,
    .find = imaginary_find,
    .queue_create = imaginary_queue_create,
    .queue_destroy = imaginary_queue_destroy,
    .copy_in = imaginary_copy_in,
    .copy_out = imaginary_copy_out,
    .copy = imaginary_copy,
    .fill = imaginary_fill,
    .read = imaginary_read,
    .launch = imaginary_launch,
    .record = imaginary_record,
    .wait = imaginary_wait,
    .event_free = imaginary_event_free,
    .event_time = imaginary_event_time,
    .handle = imaginary_handle,
    .finish = imaginary_finish,
    .operations = &operations,
};
