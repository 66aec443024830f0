/* cuda_standin.c: see cuda_standin.h. Built as libcuda.so.1, with the names that the driver's
 * library has. It shares no declaration with base/cuda.h: both are written from the driver's. */
#include "tests/support/cuda_standin.h"

#include "tests/support/cuda_texts.h"
#include "tests/support/standin_stats.h"

#include <dlfcn.h>
#include <elf.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    OUT_OF_RESOURCES = 701,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    GRAPH_UPDATE_FAILURE = 910
};
enum { DEVICES_MAX = 8, ALIGN = 256, ARGS_MAX = 512, KERNELS_MAX = 64, DEPTH_MAX = 16 };
#define RANGE_BYTES ((size_t)1 << 36) /* addresses cost nothing, but ThreadSanitizer leaves few */

static cuda_standin standin = {.devices = 2, .arch = 90, .driver = 13000, .has_pools = true};

EXPORT cuda_standin *cuda_standin_get(void);
EXPORT cuda_standin *cuda_standin_get(void) { return &standin; }

static void die(const char *what, const void *at) {
    fprintf(stderr, "cuda stand-in: %s (%p)\n", what, at);
    abort();
}

/* ---- failures ---- */

static void note(const char *call) {
    const long at = atomic_fetch_add(&standin.logged, 1);
    if (at >= 0 && at < CUDA_STANDIN_LOG) standin.log[at] = call;
}

static bool fails(const char *call, int *out_code) {
    note(call);
    const char *named = standin.fails;
    if (named && strcmp(named, call) == 0) {
        standin.fails = NULL;
        standin.failed = call;
        *out_code = standin.code;
        return true;
    }
    const long number = atomic_fetch_add(&standin.calls, 1) + 1, at = standin.fail_at;
    if (!at || number < at || (number > at && !standin.is_lost)) return false;
    if (!standin.failed) standin.failed = call;
    *out_code = standin.code;
    return true;
}

#define MAY_FAIL                                                                                   \
    do {                                                                                           \
        int failure;                                                                               \
        if (fails(__func__, &failure)) return failure;                                             \
    } while (0)

/* ---- objects: they stay, so that one that is used too late is found ---- */

typedef enum object_kind {
    CONTEXT = 0x7001,
    STREAM,
    EVENT,
    MODULE,
    FUNCTION,
    POOL,
    GRAPH,
    EXEC,
    NODE
} object_kind;

typedef struct object {
    struct object *next;
    object_kind kind;
    bool is_gone;
} object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects;

static void *make(object_kind kind, size_t bytes) {
    object *o = calloc(1, bytes);
    if (!o) die("no memory", NULL);
    o->kind = kind;
    o->next = objects;
    objects = o;
    return o;
}

static void *check(void *given, object_kind kind, const char *what) {
    const object *o = objects;
    while (o && o != given) o = o->next;
    if (!o || o->kind != kind) die(what, given);
    if (o->is_gone) die("this object was destroyed", given);
    return given;
}

/* ---- contexts ---- */

typedef struct context {
    object o;
    int device, retained;
    int lost_code;        /* of all calls, once it is lost */
    struct stream *first; /* the default stream, once it was used */
} context;

static context *primary[DEVICES_MAX];
static __thread context *stack[DEPTH_MAX];
static __thread int depth;
static int initialised_pid;

static context *current(void) { return depth ? stack[depth - 1] : NULL; }

static int end(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

/* What most calls begin with, with the lock taken. */
static int begin(context **out) {
    context *c = current();
    pthread_mutex_lock(&lock);
    if (!c) return end(INVALID_CONTEXT);
    check(c, CONTEXT, "the current context is none");
    if (c->lost_code) {
        pthread_mutex_unlock(&lock);
        return c->lost_code;
    }
    if (out) *out = c;
    return SUCCESS;
}

#define BEGIN(c)                                                                                   \
    do {                                                                                           \
        const int lost_ = begin(c);                                                                \
        if (lost_) return lost_;                                                                   \
    } while (0)

static void tell(void) {
    fprintf(stderr, "cuda stand-in: %ld waits, %ld copies to the host of %zu bytes\n",
            (long)standin.waits, (long)standin.fetches, (size_t)standin.fetched_bytes);
}

static void read_settings(void) {
    const char *text = getenv("HENRY_CUDA_STANDIN");
    for (const char *at = text; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        long value = strchr(at, '=') ? strtol(strchr(at, '=') + 1, NULL, 10) : 0;
        if (strncmp(at, "devices=", 8) == 0) standin.devices = (int)value;
        if (strncmp(at, "arch=", 5) == 0) standin.arch = (int)value;
        if (strncmp(at, "driver=", 7) == 0) standin.driver = (int)value;
        if (strncmp(at, "pools=", 6) == 0) standin.has_pools = value != 0;
        if (strncmp(at, "memory=", 7) == 0) standin.memory_max = (size_t)value;
        if (strncmp(at, "fail=", 5) == 0) standin.fail_at = value;
        if (strncmp(at, "code=", 5) == 0) standin.code = (int)value;
        if (strncmp(at, "tell=", 5) == 0) atexit(tell);
    }
}

EXPORT int cuInit(unsigned flags);
EXPORT int cuInit(unsigned flags) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (flags) return INVALID_VALUE;
    pthread_once(&once, read_settings);
    MAY_FAIL;
    if (!initialised_pid) initialised_pid = (int)getpid();
    if (initialised_pid != (int)getpid()) return NOT_INITIALIZED;
    return standin.devices ? SUCCESS : NO_DEVICE;
}

/* NVRTC looks for it in a driver, and ends the program when it is not there. */
EXPORT int cuGetExportTable(const void **out, const void *id);
EXPORT int cuGetExportTable(const void **out, const void *id) {
    (void)id;
    *out = NULL;
    return NOT_FOUND;
}

EXPORT int cuDriverGetVersion(int *out);
EXPORT int cuDriverGetVersion(int *out) {
    MAY_FAIL;
    *out = standin.driver;
    return SUCCESS;
}

static const struct {
    int code;
    const char *name;
} error_names[] = {
    {SUCCESS, "CUDA_SUCCESS"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {999, "CUDA_ERROR_UNKNOWN"},
};

EXPORT int cuGetErrorName(int code, const char **out);
EXPORT int cuGetErrorName(int code, const char **out) {
    *out = NULL;
    for (size_t k = 0; k < sizeof error_names / sizeof *error_names; k++)
        if (error_names[k].code == code) *out = error_names[k].name;
    return *out ? SUCCESS : INVALID_VALUE;
}

/* ---- devices ---- */

EXPORT int cuDeviceGetCount(int *out);
EXPORT int cuDeviceGetCount(int *out) {
    MAY_FAIL;
    *out = standin.devices;
    return SUCCESS;
}

EXPORT int cuDeviceGet(int *out, int number);
EXPORT int cuDeviceGet(int *out, int number) {
    MAY_FAIL;
    if (number < 0 || number >= standin.devices) return 101;
    *out = number;
    return SUCCESS;
}

EXPORT int cuDeviceGetName(char *out, int bytes, int device);
EXPORT int cuDeviceGetName(char *out, int bytes, int device) {
    MAY_FAIL;
    (void)device;
    snprintf(out, (size_t)bytes, "NVIDIA Stand-In");
    return SUCCESS;
}

EXPORT int cuDeviceGetUuid_v2(unsigned char *out, int device);
EXPORT int cuDeviceGetUuid_v2(unsigned char *out, int device) {
    MAY_FAIL;
    for (int k = 0; k < 16; k++) out[k] = (unsigned char)(k * 17);
    out[0] = (unsigned char)(0xa0 + device);
    return SUCCESS;
}

EXPORT int cuDeviceTotalMem_v2(size_t *out, int device);
EXPORT int cuDeviceTotalMem_v2(size_t *out, int device) {
    MAY_FAIL;
    (void)device;
    *out = (size_t)8 << 30;
    return SUCCESS;
}

EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device);
EXPORT int cuDeviceGetAttribute(int *out, int attribute, int device) {
    MAY_FAIL;
    (void)device;
    switch (attribute) {
    case 1: *out = 1024; return SUCCESS;
    case 16: *out = 132; return SUCCESS;
    case 38: *out = 50 << 20; return SUCCESS;
    case 75: *out = standin.arch / 10; return SUCCESS;
    case 76: *out = standin.arch % 10; return SUCCESS;
    case 97: *out = 227 << 10; return SUCCESS;
    case 115: *out = standin.has_pools; return SUCCESS;
    default: return INVALID_VALUE;
    }
}

EXPORT int cuDevicePrimaryCtxRetain(context **out, int device);
EXPORT int cuDevicePrimaryCtxRetain(context **out, int device) {
    MAY_FAIL;
    pthread_mutex_lock(&lock);
    context *c = primary[device];
    if (!c || c->o.is_gone) {
        c = primary[device] = make(CONTEXT, sizeof *c);
        c->device = device;
        standin.contexts++;
    }
    c->retained++;
    *out = c;
    return end(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    note(__func__);
    pthread_mutex_lock(&lock);
    context *c = primary[device];
    if (!c || c->retained == 0) die("a context is released that nobody holds", c);
    if (--c->retained == 0) c->o.is_gone = true, standin.contexts--;
    return end(SUCCESS);
}

EXPORT int cuCtxGetCurrent(context **out);
EXPORT int cuCtxGetCurrent(context **out) {
    note(__func__);
    *out = current(); /* never fails once the driver is there, and is called too often to count */
    return SUCCESS;
}

EXPORT int cuCtxGetDevice(int *out);
EXPORT int cuCtxGetDevice(int *out) {
    MAY_FAIL;
    if (!current()) return INVALID_CONTEXT;
    *out = current()->device;
    return SUCCESS;
}

/* A context of the caller's, which is current then; nothing may be left in it when it goes. */
EXPORT int cuCtxCreate_v2(context **out, unsigned flags, int device);
EXPORT int cuCtxCreate_v2(context **out, unsigned flags, int device) {
    MAY_FAIL;
    if (flags || device < 0 || device >= standin.devices) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    context *c = make(CONTEXT, sizeof *c);
    c->device = device;
    standin.contexts++;
    if (depth == DEPTH_MAX) die("contexts are pushed and not popped", c);
    stack[depth++] = c;
    *out = c;
    return end(SUCCESS);
}

EXPORT int cuCtxPushCurrent_v2(context *c);
EXPORT int cuCtxPushCurrent_v2(context *c) {
    MAY_FAIL;
    pthread_mutex_lock(&lock);
    check(c, CONTEXT, "no context");
    if (depth == DEPTH_MAX) die("contexts are pushed and not popped", c);
    stack[depth++] = c;
    return end(SUCCESS);
}

EXPORT int cuCtxPopCurrent_v2(context **out);
EXPORT int cuCtxPopCurrent_v2(context **out) {
    note(__func__);
    if (!depth) die("no context to pop", NULL);
    *out = stack[--depth];
    return SUCCESS;
}

EXPORT int cuCtxSetCurrent(context *c);
EXPORT int cuCtxSetCurrent(context *c) {
    MAY_FAIL;
    if (!c) depth = depth ? depth - 1 : 0;
    else if (depth) stack[depth - 1] = c;
    else stack[depth++] = c;
    return SUCCESS;
}

/* ---- memory ---- */

typedef struct memory {
    uint8_t *address, *bytes; /* pinned: bytes are the host's address */
    size_t size;
    bool is_pinned, is_callers; /* the host's, but not the driver's to free */
    context *context;
} memory;

static struct {
    uint8_t *range; /* of addresses */
    size_t used;
    memory *items;
    size_t count, cap;
} heap;

static memory *find_memory(const void *address, size_t size) {
    const uint8_t *at = address;
    for (size_t k = 0; k < heap.count; k++) {
        memory *m = &heap.items[k];
        if (at >= m->address && at + size <= m->address + m->size) return m;
    }
    return NULL;
}

static bool is_address(uint64_t value) {
    return value >= (uintptr_t)heap.range && value < (uintptr_t)heap.range + heap.used;
}

static uint8_t *bytes_at(uint64_t address, size_t size) {
    const uint8_t *at = (const uint8_t *)(uintptr_t)address;
    memory *m = find_memory(at, size);
    if (!m) die("no memory of the device, or not any more", at);
    return m->bytes + (at - m->address);
}

/* Pinned memory that these bytes of the host are in. */
static memory *pinned_at(const void *host, size_t size) {
    const uint8_t *at = host;
    for (size_t k = 0; k < heap.count; k++) {
        memory *m = &heap.items[k];
        if (m->is_pinned && at >= m->bytes && at + size <= m->bytes + m->size) return m;
    }
    return NULL;
}

static memory *add_memory(size_t size, bool is_pinned) {
    if (!heap.range)
        heap.range =
            mmap(NULL, RANGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (heap.range == MAP_FAILED) die("no addresses", NULL);
    const size_t whole = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (!size || whole > RANGE_BYTES - heap.used - ALIGN) return NULL;
    if (heap.count == heap.cap) {
        heap.cap = 2 * heap.cap + 64;
        heap.items = realloc(heap.items, heap.cap * sizeof *heap.items);
        if (!heap.items) die("no memory", NULL);
    }
    uint8_t *bytes =
        whole > (size_t)64 << 30 ? NULL : aligned_alloc(4096, (whole + 4095) / 4096 * 4096);
    if (!bytes) return NULL;
    memset(bytes, 0xcd, whole < 1 << 16 ? whole : 1 << 16);
    memory *m = &heap.items[heap.count++];
    *m = (memory){.address = heap.range + heap.used,
                  .bytes = bytes,
                  .size = size,
                  .is_pinned = is_pinned,
                  .context = current()};
    heap.used += whole + ALIGN; /* never given out again: old addresses stay wrong */
    return m;
}

static void drop_memory(memory *m) {
    if (!m->is_callers) free(m->bytes);
    *m = heap.items[--heap.count];
}

static int allocate(uint64_t *out, size_t bytes) {
    if (standin.memory_max && standin.memory + bytes > standin.memory_max) return OUT_OF_MEMORY;
    memory *m = add_memory(bytes, false);
    if (!m) return bytes ? OUT_OF_MEMORY : INVALID_VALUE;
    standin.memories++;
    standin.memory += bytes;
    *out = (uintptr_t)m->address;
    return SUCCESS;
}

static int release_memory(uint64_t address) {
    memory *m = find_memory((const void *)(uintptr_t)address, 1);
    if (!m || m->is_pinned || (uintptr_t)m->address != address)
        die("freed, but no memory", (const void *)(uintptr_t)address);
    standin.memories--;
    standin.memory -= m->size;
    drop_memory(m);
    return SUCCESS;
}

/* ---- streams: what is to be done ---- */

typedef struct stream stream;
typedef struct event event;
typedef struct function function;

typedef enum work_kind { COPY_IN, COPY_OUT, COPY, FILL, LAUNCH, RECORD, WAIT, FOREIGN } work_kind;

typedef struct work {
    struct work *next;
    work_kind kind;
    uint64_t to, from; /* addresses on the device */
    void *host;        /* of copies; `owns_host`: a copy of it */
    bool owns_host;
    size_t bytes;
    event *event;
    uint64_t number; /* of the event's recording */
    stream *of;      /* that recorded it then; others may since */
    function *function;
    unsigned groups, threads, shared;
    cuda_standin_run_fn run; /* of FOREIGN; `args`: `bytes` of its user */
    uint64_t args[];         /* of a launch */
} work;

typedef struct graph {
    object o;
    work *first, **end;
    const struct graph *of; /* that an executable one was made of */
} graph;

struct stream {
    object o;
    context *context;
    work *first, **end;
    bool is_default;
    graph *capture; /* where work goes in place of that; NULL: nowhere */
    bool is_bad;    /* something came that cannot be captured */
};

struct event {
    object o;
    bool has_time, is_in_capture;
    uint64_t recorded, done; /* how often it was recorded; up to which it is done */
    stream *stream;
    int64_t ns;
};

static int64_t clock_ns;

static void run_launch(context *c, const work *w);
static void run_to(stream *s, const event *until, uint64_t number);

static void do_work(context *c, const work *w) {
    clock_ns += 1000;
    switch (w->kind) {
    case COPY_IN:
        if (!w->owns_host && !pinned_at(w->host, w->bytes))
            die("pinned memory was freed before it was copied", w->host);
        memcpy(bytes_at(w->to, w->bytes), w->host, w->bytes);
        break;
    case COPY_OUT:
        if (!pinned_at(w->host, w->bytes)) die("pinned memory was freed before a copy", w->host);
        memcpy(w->host, bytes_at(w->from, w->bytes), w->bytes);
        break;
    case COPY:
        if (w->to < w->from + w->bytes && w->from < w->to + w->bytes)
            die("a copy overlaps", (const void *)(uintptr_t)w->to);
        memcpy(bytes_at(w->to, w->bytes), bytes_at(w->from, w->bytes), w->bytes);
        break;
    case FILL: memset(bytes_at(w->to, w->bytes), (int)w->from, w->bytes); break;
    case LAUNCH: run_launch(c, w); break;
    case FOREIGN: w->run(w->args, bytes_at); break;
    case RECORD:
        if (w->event->done < w->number) w->event->done = w->number;
        w->event->ns = clock_ns;
        break;
    case WAIT:
        if (w->event->done < w->number) run_to(w->of, w->event, w->number);
        break;
    }
}

/* Up to a recording of an event; NULL: all. */
static void run_to(stream *s, const event *until, uint64_t number) {
    while (s->first && !(until && until->done >= number)) {
        work *w = s->first;
        s->first = w->next;
        if (!s->first) s->end = &s->first;
        const bool is_lost = s->context->lost_code || (standin.is_lost && standin.failed);
        if (!is_lost) do_work(s->context, w);
        else if (w->kind == RECORD) w->event->done = w->number;
        if (w->owns_host) free(w->host);
        free(w);
    }
}

static work *add(stream *s, work_kind kind, size_t args) {
    work *w = calloc(1, sizeof *w + args * sizeof w->args[0]);
    if (!w) die("no memory", NULL);
    w->kind = kind;
    work ***end = s->capture ? &s->capture->end : &s->end;
    **end = w;
    *end = &w->next;
    return w;
}

static void run_all(const context *c) {
    for (object *o = objects; o; o = o->next)
        if (o->kind == STREAM && !o->is_gone && ((stream *)o)->context == c)
            run_to((stream *)o, NULL, 0);
}

EXPORT int cuCtxDestroy_v2(context *c);
EXPORT int cuCtxDestroy_v2(context *c) {
    note(__func__);
    pthread_mutex_lock(&lock);
    check(c, CONTEXT, "no context");
    if (c->retained || c == primary[c->device]) die("a primary context is destroyed", c);
    if (current() == c) depth--;
    for (const object *o = objects; o; o = o->next)
        if (o->kind == STREAM && !o->is_gone && ((const stream *)o)->context == c &&
            !((const stream *)o)->is_default)
            die("a context is destroyed with a stream in it", o);
    for (size_t k = 0; k < heap.count; k++)
        if (heap.items[k].context == c)
            die("a context is destroyed with memory in it", heap.items[k].address);
    c->o.is_gone = true;
    standin.contexts--;
    return end(SUCCESS);
}

/* A default stream of the context. */
static stream *default_stream(context *c, stream **of) {
    if (*of && (*of)->context == c && !(*of)->o.is_gone) return *of;
    *of = make(STREAM, sizeof **of);
    (*of)->context = c;
    (*of)->end = &(*of)->first;
    (*of)->is_default = true;
    return *of;
}

/* NULL and 1 are the context's default stream, 2 that of the calling thread. */
static stream *stream_of(context *c, stream *given) {
    static __thread stream *of_thread;
    if ((uintptr_t)given <= 1) given = default_stream(c, &c->first);
    if ((uintptr_t)given == 2) given = default_stream(c, &of_thread);
    check(given, STREAM, "no stream");
    if (given->context != c) die("the stream is of another context than the current one", given);
    return given;
}

EXPORT int cuda_standin_give(void *given, cuda_standin_run_fn run, const void *user, size_t bytes);
EXPORT int cuda_standin_give(void *given, cuda_standin_run_fn run, const void *user, size_t bytes) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    work *w = add(stream_of(c, given), FOREIGN, (bytes + 7) / 8);
    w->run = run;
    w->bytes = bytes;
    memcpy(w->args, user, bytes);
    return end(SUCCESS);
}

EXPORT int cuStreamCreate(stream **out, unsigned flags);
EXPORT int cuStreamCreate(stream **out, unsigned flags) {
    context *c;
    MAY_FAIL;
    if (flags > 1) return INVALID_VALUE;
    BEGIN(&c);
    stream *s = make(STREAM, sizeof *s);
    s->context = c;
    s->end = &s->first;
    standin.streams++;
    *out = s;
    return end(SUCCESS);
}

EXPORT int cuStreamDestroy_v2(stream *s);
EXPORT int cuStreamDestroy_v2(stream *s) {
    note(__func__);
    pthread_mutex_lock(&lock);
    check(s, STREAM, "no stream");
    run_to(s, NULL, 0);
    s->o.is_gone = true;
    standin.streams--;
    return end(SUCCESS);
}

EXPORT int cuStreamSynchronize(stream *given);
EXPORT int cuStreamSynchronize(stream *given) {
    context *c;
    int failure = SUCCESS;
    const bool has_failed = fails(__func__, &failure);
    BEGIN(&c);
    standin.waits++;
    stream *s = stream_of(c, given);
    if (s->capture) {
        s->is_bad = true;
        return end(CAPTURE_UNSUPPORTED);
    }
    run_to(s, NULL, 0); /* also before a failure: the work is over then, too */
    return end(has_failed ? failure : c->lost_code);
}

EXPORT int cuStreamIsCapturing(stream *given, int *out);
EXPORT int cuStreamIsCapturing(stream *given, int *out) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    const stream *s = stream_of(c, given);
    *out = !s->capture ? 0 : s->is_bad ? 2 : 1;
    return end(SUCCESS);
}

/* An event that is a part of a graph is nothing that anybody else can wait for; who tries ends the
 * capture. */
static bool is_captured(const event *e) {
    if (e->is_in_capture && e->stream->capture) e->stream->is_bad = true;
    return e->is_in_capture;
}

EXPORT int cuStreamWaitEvent(stream *given, event *e, unsigned flags);
EXPORT int cuStreamWaitEvent(stream *given, event *e, unsigned flags) {
    context *c;
    MAY_FAIL;
    if (flags) return INVALID_VALUE;
    BEGIN(&c);
    check(e, EVENT, "no event");
    stream *s = stream_of(c, given);
    if (!s->capture && is_captured(e)) return end(CAPTURE_UNSUPPORTED);
    work *w = add(s, WAIT, 0);
    w->event = e;
    w->number = e->recorded;
    w->of = e->stream;
    return end(SUCCESS);
}

/* ---- events ---- */

EXPORT int cuEventCreate(event **out, unsigned flags);
EXPORT int cuEventCreate(event **out, unsigned flags) {
    MAY_FAIL;
    if (flags & ~3u) return INVALID_VALUE;
    BEGIN(NULL);
    event *e = make(EVENT, sizeof *e);
    e->has_time = !(flags & 2);
    standin.events++;
    *out = e;
    return end(SUCCESS);
}

EXPORT int cuEventDestroy_v2(event *e);
EXPORT int cuEventDestroy_v2(event *e) {
    note(__func__);
    pthread_mutex_lock(&lock);
    check(e, EVENT, "no event");
    if (e->done < e->recorded && !e->is_in_capture) run_to(e->stream, e, e->recorded);
    e->o.is_gone = true;
    standin.events--;
    return end(SUCCESS);
}

EXPORT int cuEventRecord(event *e, stream *given);
EXPORT int cuEventRecord(event *e, stream *given) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    check(e, EVENT, "no event");
    e->stream = stream_of(c, given);
    e->is_in_capture = e->stream->capture != NULL;
    work *w = add(e->stream, RECORD, 0);
    w->event = e;
    w->number = ++e->recorded;
    return end(SUCCESS);
}

EXPORT int cuEventSynchronize(event *e);
EXPORT int cuEventSynchronize(event *e) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    check(e, EVENT, "no event");
    standin.waits++;
    if (e->done < e->recorded) run_to(e->stream, e, e->recorded);
    return end(c->lost_code);
}

EXPORT int cuEventQuery(event *e);
EXPORT int cuEventQuery(event *e) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    check(e, EVENT, "no event");
    if (is_captured(e)) return end(CAPTURE_UNSUPPORTED);
    return end(c->lost_code ? c->lost_code : e->done < e->recorded ? NOT_READY : SUCCESS);
}

EXPORT int cuEventElapsedTime(float *out, event *a, event *b);
EXPORT int cuEventElapsedTime(float *out, event *a, event *b) {
    MAY_FAIL;
    BEGIN(NULL);
    check(a, EVENT, "no event"), check(b, EVENT, "no event");
    if (!a->has_time || !b->has_time) return end(400);
    if (!a->recorded || !b->recorded) return end(400);
    if (a->done < a->recorded || b->done < b->recorded) return end(600);
    *out = (float)((double)(b->ns - a->ns) / 1e6);
    return end(SUCCESS);
}

/* ---- allocations ---- */

EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes);
EXPORT int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
    MAY_FAIL;
    BEGIN(NULL);
    return end(allocate(out, bytes));
}

EXPORT int cuMemFree_v2(uint64_t address);
EXPORT int cuMemFree_v2(uint64_t address) {
    note(__func__);
    context *c;
    BEGIN(&c);
    run_all(c); /* it waits for the device */
    return end(release_memory(address));
}

typedef struct pool {
    object o;
} pool;

typedef struct pool_options {
    int type, handles, location_type, location;
    void *security;
    size_t max_bytes;
    unsigned short usage;
    unsigned char reserved[54];
} pool_options;

EXPORT int cuMemPoolCreate(pool **out, const pool_options *options);
EXPORT int cuMemPoolCreate(pool **out, const pool_options *options) {
    MAY_FAIL;
    if (options->type != 1 || options->handles || options->location_type != 1 ||
        options->location >= standin.devices || options->security || options->usage)
        return INVALID_VALUE;
    for (size_t k = 0; k < sizeof options->reserved; k++)
        if (options->reserved[k]) return INVALID_VALUE;
    BEGIN(NULL);
    *out = make(POOL, sizeof **out);
    standin.pools++;
    return end(SUCCESS);
}

EXPORT int cuMemPoolSetAttribute(pool *p, int attribute, void *value);
EXPORT int cuMemPoolSetAttribute(pool *p, int attribute, void *value) {
    MAY_FAIL;
    BEGIN(NULL);
    check(p, POOL, "no pool");
    return end(attribute == 4 && value ? SUCCESS : INVALID_VALUE);
}

EXPORT int cuMemPoolDestroy(pool *p);
EXPORT int cuMemPoolDestroy(pool *p) {
    note(__func__);
    pthread_mutex_lock(&lock);
    check(p, POOL, "no pool");
    p->o.is_gone = true;
    standin.pools--;
    return end(SUCCESS);
}

EXPORT int cuMemAllocFromPoolAsync(uint64_t *out, size_t bytes, pool *p, stream *s);
EXPORT int cuMemAllocFromPoolAsync(uint64_t *out, size_t bytes, pool *p, stream *s) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    check(p, POOL, "no pool"), stream_of(c, s);
    return end(allocate(out, bytes));
}

EXPORT int cuMemFreeAsync(uint64_t address, stream *s);
EXPORT int cuMemFreeAsync(uint64_t address, stream *s) {
    note(__func__);
    context *c;
    const int lost_code = begin(&c);
    if (lost_code) { /* a real driver keeps it until the context goes: what counts is that it was asked */
        pthread_mutex_lock(&lock);
        release_memory(address);
        return end(lost_code);
    }
    run_to(stream_of(c, s), NULL, 0);
    return end(release_memory(address));
}

/* Of a limit, if there is one; never fails, since nothing but messages depends on it. */
EXPORT int cuMemGetInfo_v2(size_t *out_free, size_t *out_all);
EXPORT int cuMemGetInfo_v2(size_t *out_free, size_t *out_all) {
    const size_t used = standin.memory;
    *out_all = standin.memory_max ? standin.memory_max : (size_t)8 << 30;
    *out_free = used < *out_all ? *out_all - used : 0;
    return SUCCESS;
}

EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    MAY_FAIL;
    if (flags & ~7u || !bytes) return INVALID_VALUE;
    BEGIN(NULL);
    memory *m = add_memory(bytes, true);
    if (!m) return end(OUT_OF_MEMORY);
    standin.pinned++;
    *out = m->bytes;
    return end(SUCCESS);
}

EXPORT int cuMemFreeHost(void *host);
EXPORT int cuMemFreeHost(void *host) {
    note(__func__);
    pthread_mutex_lock(&lock);
    memory *m = pinned_at(host, 1);
    if (!m || m->bytes != host) die("freed, but not pinned", host);
    standin.pinned--;
    drop_memory(m);
    return end(SUCCESS);
}

/* Memory of the caller's. */
EXPORT int cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags);
EXPORT int cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags) {
    MAY_FAIL;
    BEGIN(NULL);
    if (flags || !bytes || pinned_at(host, 1)) return end(INVALID_VALUE);
    memory *m = add_memory(bytes, true); /* for its addresses */
    if (!m) return end(OUT_OF_MEMORY);
    free(m->bytes);
    m->bytes = host;
    m->size = bytes;
    m->is_callers = true;
    return end(SUCCESS);
}

EXPORT int cuMemHostUnregister(void *host);
EXPORT int cuMemHostUnregister(void *host) {
    pthread_mutex_lock(&lock);
    memory *m = pinned_at(host, 1);
    if (!m || m->bytes != host || !m->is_callers) die("not registered", host);
    drop_memory(m);
    return end(SUCCESS);
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host, unsigned flags);
EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *out, void *host, unsigned flags) {
    MAY_FAIL;
    BEGIN(NULL);
    memory *m = flags ? NULL : pinned_at(host, 1);
    if (m) *out = (uintptr_t)m->address + (uintptr_t)((uint8_t *)host - m->bytes);
    return end(m ? SUCCESS : INVALID_VALUE);
}

EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **outs, uint64_t address);
EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **outs, uint64_t address) {
    note(__func__);
    const void *at = (const void *)(uintptr_t)address;
    unsigned kind = 0;
    BEGIN(NULL); /* a failure tells nothing: the memory is taken for memory of the host */
    if (count != 1 || attributes[0] != 2) return end(INVALID_VALUE);
    if (pinned_at(at, 1)) kind = 1;
    else if (find_memory(at, 1)) kind = 2;
    memcpy(outs[0], &kind, sizeof kind);
    return end(SUCCESS);
}

/* ---- copies ---- */

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, stream *given);
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, stream *given) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    (void)bytes_at(to, bytes);
    stream *s = stream_of(c, given);
    const bool is_pinned = pinned_at(from, bytes) != NULL;
    if (!is_pinned && pinned_at(from, 1)) return end(INVALID_VALUE); /* only a part of it is */
    work *w = add(s, COPY_IN, 0);
    w->to = to;
    w->bytes = bytes;
    w->host = (void *)(uintptr_t)from;
    standin.copies++;
    if (!is_pinned) {
        standin.pageable++;
        w->owns_host = true;
        w->host = malloc(bytes);
        if (!w->host) die("no memory", NULL);
        memcpy(w->host, from, bytes);
    }
    return end(SUCCESS);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, stream *given);
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, stream *given) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    (void)bytes_at(from, bytes);
    stream *s = stream_of(c, given);
    if (!pinned_at(to, bytes) && pinned_at(to, 1)) return end(INVALID_VALUE); /* as above */
    standin.copies++;
    standin.fetches++;
    standin.fetched_bytes += bytes;
    if (!pinned_at(to, bytes)) { /* the host waits */
        standin.pageable++;
        run_to(s, NULL, 0);
        if (!c->lost_code) memcpy(to, bytes_at(from, bytes), bytes);
        return end(c->lost_code);
    }
    work *w = add(s, COPY_OUT, 0);
    w->host = to;
    w->from = from;
    w->bytes = bytes;
    return end(SUCCESS);
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, stream *given);
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, stream *given) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    (void)bytes_at(from, bytes), (void)bytes_at(to, bytes);
    work *w = add(stream_of(c, given), COPY, 0);
    w->to = to;
    w->from = from;
    w->bytes = bytes;
    standin.copies++;
    return end(SUCCESS);
}

EXPORT int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, stream *given);
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, stream *given) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    (void)bytes_at(to, bytes);
    work *w = add(stream_of(c, given), FILL, 0);
    w->to = to;
    w->from = byte;
    w->bytes = bytes;
    return end(SUCCESS);
}

/* ---- modules ---- */

typedef struct module module;

struct function {
    object o;
    module *module;
    char name[128];
    uint32_t args;
    uint8_t aligns[ARGS_MAX]; /* of each argument, bytes; 0: it may be anything */
    bool is_secret;           /* how many there are */
    int static_shared, dynamic_shared, threads_max;
};

struct module {
    object o;
    context *context;
    function *functions[KERNELS_MAX];
    uint32_t count;
    bool is_cubin;
    void *text; /* of CUDA C++ that the CPU runs; NULL: it is no such module */
};

static function *add_function(module *m, const char *name) {
    if (m->count == KERNELS_MAX) die("too many kernels in a module", m);
    function *f = make(FUNCTION, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->module = m;
    f->threads_max = 1024;
    f->dynamic_shared = 48 << 10;
    m->functions[m->count++] = f;
    return f;
}

/* ---- texts that the CPU runs: see cuda_texts.h ---- */

static struct {
    cuda_texts_load_fn load;
    cuda_texts_arguments_fn arguments;
    cuda_texts_alignments_fn alignments;
    cuda_texts_call_fn call;
    cuda_texts_free_fn free;
} texts;

static void load_texts(void) {
    const char *path = getenv("HENRY_CUDA_TEXTS");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) die("HENRY_CUDA_TEXTS does not name the library cuda_texts", NULL);
    *(void **)&texts.load = dlsym(library, "cuda_texts_load");
    *(void **)&texts.arguments = dlsym(library, "cuda_texts_arguments");
    *(void **)&texts.alignments = dlsym(library, "cuda_texts_alignments");
    *(void **)&texts.call = dlsym(library, "cuda_texts_call");
    *(void **)&texts.free = dlsym(library, "cuda_texts_free");
    if (!texts.load || !texts.arguments || !texts.alignments || !texts.call || !texts.free)
        die("the library cuda_texts lacks a function", NULL);
}

/* The name of a file, up to the end of the line. */
static int read_name(module *m, const char *name) {
    char path[4096];
    if (!texts.load) load_texts();
    snprintf(path, sizeof path, "%.*s", (int)strcspn(name, "\n"), name);
    m->text = texts.load(path);
    return SUCCESS;
}

/* Its kernels become known when somebody asks for them. */
static function *find_in_text(module *m, const char *name) {
    const uint32_t args = m->text ? texts.arguments(m->text, name) : 0;
    if (!args) return NULL;
    function *f = add_function(m, name);
    f->args = args;
    if (args > ARGS_MAX) die("too many arguments", f);
    const unsigned *aligns = texts.alignments(m->text, name);
    for (uint32_t k = 0; k < args; k++) f->aligns[k] = (uint8_t)aligns[k];
    return f;
}

/* Arguments are addresses of the device, whose bytes are elsewhere, or numbers. */
static void run_text(const work *w) {
    uint64_t values[ARGS_MAX];
    void *arguments[ARGS_MAX];
    const function *f = w->function;
    for (uint32_t k = 0; k < f->args; k++) {
        values[k] = is_address(w->args[k]) ? (uintptr_t)bytes_at(w->args[k], 0) : w->args[k];
        arguments[k] = &values[k];
    }
    texts.call(f->module->text, f->name, arguments, w->groups, w->threads, w->shared);
}

/* "4,4,64" */
static void read_aligns(function *f, const char *list) {
    for (uint32_t k = 0; k < f->args && *list; k++) {
        char *end;
        f->aligns[k] = (uint8_t)strtoul(list, &end, 10);
        list = *end == ',' ? end + 1 : end;
    }
}

static int read_text(module *m, const char *text) {
    static const char head[] = "standin text ";
    if (strncmp(text, head, sizeof head - 1) == 0) return read_name(m, text + sizeof head - 1);
    for (const char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n')) {
        char name[128], aligns[256] = "";
        int args, shared, threads;
        if (sscanf(line + 1, "%127s %d %d %d%255[ 0-9,]", name, &args, &shared, &threads, aligns) <
            4)
            continue;
        function *f = add_function(m, name);
        f->args = args < 0 ? 0 : (uint32_t)args;
        f->is_secret = args < 0;
        f->static_shared = shared;
        f->threads_max = threads;
        read_aligns(f, aligns);
    }
    return m->count ? SUCCESS : INVALID_IMAGE;
}

/* How many parameters a kernel of a cubin has: the entries 0x17 of its section of attributes. */
static uint32_t count_params(const uint8_t *at, size_t size) {
    uint32_t count = 0;
    for (size_t k = 0; k + 4 <= size;) {
        uint16_t bytes;
        memcpy(&bytes, at + k + 2, sizeof bytes);
        count += at[k] == 4 && at[k + 1] == 0x17;
        k += 4 + (at[k] == 4 ? bytes : 0u);
    }
    return count;
}

/* Sections are named for kernels: .text.NAME, .nv.info.NAME and .nv.shared.NAME. */
static int read_cubin(module *m, const uint8_t *image) {
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head);
    if (head.e_machine != 190) return INVALID_IMAGE;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(image + head.e_shoff);
    const char *names = (const char *)image + sections[head.e_shstrndx].sh_offset;
    m->is_cubin = true;
    for (int k = 0; k < head.e_shnum; k++)
        if (strncmp(names + sections[k].sh_name, ".text.", 6) == 0)
            (void)add_function(m, names + sections[k].sh_name + 6);
    for (int k = 0; k < head.e_shnum; k++) {
        const char *name = names + sections[k].sh_name;
        for (uint32_t f = 0; f < m->count; f++) {
            if (strncmp(name, ".nv.info.", 9) == 0 && strcmp(name + 9, m->functions[f]->name) == 0)
                m->functions[f]->args =
                    count_params(image + sections[k].sh_offset, sections[k].sh_size);
            if (strncmp(name, ".nv.shared.", 11) == 0 &&
                strcmp(name + 11, m->functions[f]->name) == 0)
                m->functions[f]->static_shared = (int)sections[k].sh_size;
        }
    }
    return m->count ? SUCCESS : INVALID_IMAGE;
}

static void write_log(unsigned count, const int *options, void **values, const char *text) {
    char *log = NULL;
    size_t size = 0;
    for (unsigned k = 0; k < count; k++) {
        if (options[k] == 5) log = values[k];
        if (options[k] == 6) size = (uintptr_t)values[k];
    }
    if (log) snprintf(log, size, "%s", text);
}

EXPORT int cuModuleLoadDataEx(module **out, const void *image, unsigned count, int *options,
                              void **values);
EXPORT int cuModuleLoadDataEx(module **out, const void *image, unsigned count, int *options,
                              void **values) {
    context *c;
    int code;
    MAY_FAIL;
    BEGIN(&c);
    module *m = make(MODULE, sizeof *m);
    m->context = c;
    if (memcmp(image, "\177ELF", 4) == 0) code = read_cubin(m, image);
    else if (strncmp(image, "standin", 7) == 0) code = read_text(m, image);
    else {
        code = strstr(image, ".version") ? NO_BINARY : INVALID_IMAGE;
        write_log(count, options, values, "line 1: not understood");
    }
    m->o.is_gone = code != SUCCESS;
    if (code == SUCCESS) *out = m, standin.modules++;
    return end(code);
}

EXPORT int cuModuleUnload(module *m);
EXPORT int cuModuleUnload(module *m) {
    note(__func__);
    pthread_mutex_lock(&lock);
    check(m, MODULE, "no module");
    run_all(m->context);
    if (m->text) texts.free(m->text);
    m->o.is_gone = true;
    for (uint32_t k = 0; k < m->count; k++) m->functions[k]->o.is_gone = true;
    standin.modules--;
    return end(SUCCESS);
}

EXPORT int cuModuleGetFunction(function **out, module *m, const char *name);
EXPORT int cuModuleGetFunction(function **out, module *m, const char *name) {
    MAY_FAIL;
    BEGIN(NULL);
    check(m, MODULE, "no module");
    for (uint32_t k = 0; k < m->count; k++)
        if (strcmp(m->functions[k]->name, name) == 0) {
            *out = m->functions[k];
            return end(SUCCESS);
        }
    *out = find_in_text(m, name);
    return end(*out ? SUCCESS : NOT_FOUND);
}

EXPORT int cuFuncGetAttribute(int *out, int attribute, function *f);
EXPORT int cuFuncGetAttribute(int *out, int attribute, function *f) {
    MAY_FAIL;
    BEGIN(NULL);
    check(f, FUNCTION, "no kernel");
    switch (attribute) {
    case 0: *out = f->threads_max; break;
    case 1: *out = f->static_shared; break;
    case 4: *out = 32; break;
    case 8: *out = f->dynamic_shared; break;
    default: return end(INVALID_VALUE);
    }
    return end(SUCCESS);
}

EXPORT int cuFuncSetAttribute(function *f, int attribute, int value);
EXPORT int cuFuncSetAttribute(function *f, int attribute, int value) {
    MAY_FAIL;
    BEGIN(NULL);
    check(f, FUNCTION, "no kernel");
    if (attribute != 8 || value < 0 || value + f->static_shared > 227 << 10)
        return end(INVALID_VALUE);
    f->dynamic_shared = value;
    return end(SUCCESS);
}

EXPORT int cuFuncGetParamInfo(function *f, size_t index, size_t *offset, size_t *bytes);
EXPORT int cuFuncGetParamInfo(function *f, size_t index, size_t *offset, size_t *bytes) {
    note(__func__);
    BEGIN(NULL); /* it fails behind the last, so a failure more tells nothing */
    check(f, FUNCTION, "no kernel");
    *offset = 8 * index;
    *bytes = 8;
    if (f->is_secret) return end(801);
    return end(index < f->args ? SUCCESS : INVALID_VALUE);
}

/* ---- launches ---- */

/* What a kernel gets. */
static void take_args(const function *f, void *const *params, uint64_t *out) {
    for (uint32_t k = 0; k < f->args; k++) {
        memcpy(&out[k], params[k], sizeof out[k]);
        if (f->aligns[k] && out[k] % f->aligns[k])
            die("an argument is not aligned as the kernel reads it",
                (const void *)(uintptr_t)out[k]);
    }
}

EXPORT int cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, stream *given, void **params,
                          void **extra);
EXPORT int cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, stream *given, void **params,
                          void **extra) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    check(f, FUNCTION, "no kernel");
    if (f->module->context != c) die("the kernel is of another context", f);
    stream *s = stream_of(c, given);
    if (!gx || !gy || !gz || !bx || !by || !bz || extra || gy > 65535 || gz > 65535 ||
        (uint64_t)bx * by * bz > 1024 ||
        (shared + (unsigned)f->static_shared > 48u << 10 && (int)shared > f->dynamic_shared))
        return end(INVALID_VALUE);
    if (bx * by * bz > (unsigned)f->threads_max) return end(OUT_OF_RESOURCES);
    work *w = add(s, LAUNCH, f->args);
    w->function = f;
    w->groups = gx * gy * gz;
    w->threads = bx * by * bz;
    w->shared = shared;
    take_args(f, params, w->args);
    standin.launches++;
    return end(SUCCESS);
}

/* x, index, y, status, count: y[k] = x[index[k]] for each thread. */
static void run_gather(const work *w) {
    const size_t n = (size_t)w->groups * w->threads;
    const int64_t *index = (const void *)bytes_at(w->args[1], n * 8);
    float *y = (void *)bytes_at(w->args[2], n * 4);
    for (size_t k = 0; k < n; k++) {
        const bool is_bad = index[k] < 0 || index[k] >= (int64_t)w->args[4];
        if (is_bad) *(int *)(void *)bytes_at(w->args[3], 4) = 1;
        const uint64_t at = is_bad ? 0 : (uint64_t)index[k];
        memcpy(&y[k], bytes_at(w->args[0] + at * 4, 4), 4);
    }
}

/* x, y, status, count, scratch: y[group] = the sum of `count` elements. */
static void run_sum(const work *w) {
    const size_t count = (size_t)w->args[3];
    const float *x = (const void *)bytes_at(w->args[0], w->groups * count * 4);
    float *y = (void *)bytes_at(w->args[1], w->groups * 4);
    for (unsigned g = 0; g < w->groups; g++) {
        float *part = (void *)bytes_at(w->args[4] + g * 64, 4);
        *part = 0;
        for (size_t k = 0; k < count; k++) *part += x[g * count + k];
        y[g] = *part;
    }
}

/* ---- kernels of tests/unit/runtime/module_fixture.h: memory, status, numbers, scratch ---- */

static size_t all_threads(const work *w) { return (size_t)w->groups * w->threads; }

/* x, y, z */
static void run_add(const work *w) {
    const size_t n = all_threads(w);
    const float *x = (const void *)bytes_at(w->args[0], n * 4),
                *y = (const void *)bytes_at(w->args[1], n * 4);
    float *z = (void *)bytes_at(w->args[2], n * 4);
    for (size_t k = 0; k < n; k++) z[k] = x[k] + y[k];
}

/* x, z: 2 * x, or e to the power of x */
static void run_unary(const work *w, bool is_exp) {
    const size_t n = all_threads(w);
    const float *x = (const void *)bytes_at(w->args[0], n * 4);
    float *z = (void *)bytes_at(w->args[1], n * 4);
    for (size_t k = 0; k < n; k++) z[k] = is_exp ? (float)exp((double)x[k]) : 2 * x[k];
}

/* x, z, count: z[row] = the sum of `count` elements; scratch memory is there. */
static void run_row_sum(const work *w) {
    const size_t n = all_threads(w), count = (size_t)w->args[3];
    const float *x = (const void *)bytes_at(w->args[0], n * count * 4);
    float *z = (void *)bytes_at(w->args[1], n * 4);
    (void)bytes_at(w->args[4], 8);
    for (size_t k = 0; k < n; k++) {
        z[k] = 0;
        for (size_t j = 0; j < count; j++) z[k] += x[k * count + j];
    }
}

/* x, z, count: how many of `count` bools are true */
static void run_count(const work *w) {
    const size_t count = (size_t)w->args[3];
    const uint8_t *x = bytes_at(w->args[0], count);
    int64_t *z = (void *)bytes_at(w->args[1], 8);
    *z = 0;
    for (size_t k = 0; k < count; k++) *z += x[k] != 0;
}

/* Calls the function whose address is in x[0]. */
static void run_callback(const work *w) {
    void (*fn)(void);
    memcpy(&fn, bytes_at(w->args[0], sizeof fn), sizeof fn);
    fn();
}

/* weigh_N: y, N memories, status, numbers, scratch: y = what element 0 of each memory and each
 * number is, times 1, 2, 3, ..., and what scratch memory has, added up in 64 bits. */
static void run_weigh(const work *w, unsigned memories) {
    const uint32_t last = w->function->args - 1;
    uint64_t sum = 0, element;
    for (uint32_t k = 1; k < last; k++) {
        if (k == memories + 1) continue; /* status */
        if (k <= memories) memcpy(&element, bytes_at(w->args[k], 8), 8);
        else element = w->args[k];
        sum += k * element;
    }
    memcpy(&element, bytes_at(w->args[last], 8), 8);
    sum += element;
    *(int *)(void *)bytes_at(w->args[memories + 1], 4) = 1;
    memcpy(bytes_at(w->args[0], 8), &sum, 8);
}

/* y, status, count: y = y / 2 + 1, often. */
static void run_spin(const work *w) {
    float *y = (void *)bytes_at(w->args[0], w->groups * w->threads * 4);
    for (uint64_t k = 0; k < w->args[2]; k++) *y = *y * 0.5f + 1;
}

/* Kernels of the runtime, which it compiles itself: x, parts, status, numbers; parts, status,
 * groups. */
static bool run_stats(const work *w) {
    if (strcmp(w->function->name, "hn_tensor_stats") == 0)
        standin_stats(bytes_at(w->args[0], 1), bytes_at(w->args[1], 1), w->groups, w->args + 3);
    else if (strcmp(w->function->name, "hn_tensor_stats_join") == 0)
        standin_stats_join(bytes_at(w->args[0], 1), w->args[2]);
    else return false;
    return true;
}

static void run_launch(context *c, const work *w) {
    const function *f = w->function;
    check(w->function, FUNCTION, "a kernel was unloaded before it ran");
    for (uint32_t k = 0; k < f->args; k++)
        if (is_address(w->args[k])) (void)bytes_at(w->args[k], 0);
    if (run_stats(w) || f->module->is_cubin) return;
    if (f->module->text) {
        run_text(w);
        return;
    }
    unsigned memories;
    if (sscanf(f->name, "weigh_%u", &memories) == 1) run_weigh(w, memories);
    if (strcmp(f->name, "gather") == 0) run_gather(w);
    if (strcmp(f->name, "sum") == 0) run_sum(w);
    if (strcmp(f->name, "spin") == 0) run_spin(w);
    if (strcmp(f->name, "add") == 0) run_add(w);
    if (strcmp(f->name, "scale2") == 0) run_unary(w, false);
    if (strcmp(f->name, "exps") == 0) run_unary(w, true);
    if (strcmp(f->name, "row_sum") == 0) run_row_sum(w);
    if (strcmp(f->name, "count") == 0) run_count(w);
    if (strcmp(f->name, "callback") == 0) run_callback(w);
    if (strcmp(f->name, "crash") == 0) c->lost_code = ILLEGAL_ADDRESS;
}

/* ---- graphs ---- */

static graph *new_graph(object_kind kind) {
    graph *g = make(kind, sizeof *g);
    g->end = &g->first;
    return g;
}

static work *copy_work(const work *w) {
    const size_t args = w->kind == FOREIGN ? (w->bytes + 7) / 8
                        : w->function      ? w->function->args
                                           : 0;
    work *copy = calloc(1, sizeof *copy + args * sizeof w->args[0]);
    if (!copy) die("no memory", NULL);
    memcpy(copy, w, sizeof *copy + args * sizeof w->args[0]);
    copy->next = NULL;
    return copy;
}

static void append(const graph *from, work ***end) {
    for (const work *w = from->first; w; w = w->next) {
        **end = copy_work(w);
        *end = &(**end)->next;
    }
}

/* Nodes of a graph are objects when somebody asks for them, and gone with it. */
typedef struct node {
    object o;
    const graph *graph;
    uint32_t number; /* of the work in the graph */
} node;

static void clear(graph *g) {
    for (object *o = objects; o; o = o->next)
        if (o->kind == NODE && ((node *)o)->graph == g) o->is_gone = true;
    for (work *w = g->first, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    g->first = NULL;
    g->end = &g->first;
}

static uint32_t count_works(const graph *g) {
    uint32_t count = 0;
    for (const work *w = g->first; w; w = w->next) count++;
    return count;
}

EXPORT int cuStreamBeginCapture_v2(stream *given, int mode);
EXPORT int cuStreamBeginCapture_v2(stream *given, int mode) {
    context *c;
    MAY_FAIL;
    if (mode < 0 || mode > 2) return INVALID_VALUE;
    BEGIN(&c);
    stream *s = stream_of(c, given);
    if (s->capture) die("the stream is captured already", s);
    s->capture = new_graph(GRAPH);
    s->is_bad = false;
    standin.captures++;
    return end(SUCCESS);
}

/* Work of one stream is a chain: the next one waits for the last. */
EXPORT int cuStreamGetCaptureInfo_v2(stream *given, int *state, uint64_t *id, graph **out,
                                     node *const **out_nodes, size_t *out_count);
EXPORT int cuStreamGetCaptureInfo_v2(stream *given, int *state, uint64_t *id, graph **out,
                                     node *const **out_nodes, size_t *out_count) {
    static __thread node *last;
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    const stream *s = stream_of(c, given);
    *state = !s->capture ? 0 : s->is_bad ? 2 : 1;
    if (*state != 1) return end(*state ? CAPTURE_INVALIDATED : SUCCESS);
    *id = 1;
    *out = s->capture;
    *out_count = s->capture->first != NULL;
    if (!*out_count) return end(SUCCESS);
    last = make(NODE, sizeof *last);
    last->graph = s->capture;
    last->number = count_works(s->capture) - 1;
    *out_nodes = &last; /* until the next call, as of the driver */
    return end(SUCCESS);
}

EXPORT int cuGraphGetNodes(graph *g, node **out, size_t *count);
EXPORT int cuGraphGetNodes(graph *g, node **out, size_t *count) {
    MAY_FAIL;
    BEGIN(NULL);
    check(g, GRAPH, "no graph");
    if (out) return end(INVALID_VALUE); /* nobody asks for them */
    *count = count_works(g);
    return end(SUCCESS);
}

EXPORT int cuStreamEndCapture(stream *given, graph **out);
EXPORT int cuStreamEndCapture(stream *given, graph **out) {
    context *c;
    int failure = SUCCESS;
    const bool has_failed = fails(__func__, &failure);
    BEGIN(&c);
    stream *s = stream_of(c, given);
    graph *g = s->capture;
    if (!g) die("the stream is not captured", s);
    s->capture = NULL;
    *out = NULL;
    if (s->is_bad || has_failed) {
        clear(g);
        g->o.is_gone = true;
        return end(has_failed ? failure : CAPTURE_INVALIDATED);
    }
    for (const work *w = g->first; w; w = w->next)
        if (w->owns_host) die("memory that is not pinned is copied in a graph", w->host);
    standin.graphs++;
    *out = g;
    return end(SUCCESS);
}

static void destroy_graph(graph *g, object_kind kind) {
    check(g, kind, "no graph");
    clear(g);
    g->o.is_gone = true;
    standin.graphs--;
    if (kind == EXEC) standin.execs--;
}

EXPORT int cuGraphDestroy(graph *g);
EXPORT int cuGraphDestroy(graph *g) {
    note(__func__);
    pthread_mutex_lock(&lock);
    destroy_graph(g, GRAPH);
    return end(SUCCESS);
}

EXPORT int cuGraphExecDestroy(graph *g);
EXPORT int cuGraphExecDestroy(graph *g) {
    note(__func__);
    pthread_mutex_lock(&lock);
    destroy_graph(g, EXEC);
    return end(SUCCESS);
}

EXPORT int cuGraphInstantiateWithFlags(graph **out, graph *g, unsigned long long flags);
EXPORT int cuGraphInstantiateWithFlags(graph **out, graph *g, unsigned long long flags) {
    MAY_FAIL;
    if (flags) return INVALID_VALUE;
    BEGIN(NULL);
    check(g, GRAPH, "no graph");
    *out = new_graph(EXEC);
    (*out)->of = g;
    append(g, &(*out)->end);
    standin.graphs++;
    standin.execs++;
    standin.instantiations++;
    return end(SUCCESS);
}

/* The same nodes, of the same kernels. */
static bool is_alike(const graph *a, const graph *b) {
    const work *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next)
        if (x->kind != y->kind || x->function != y->function) return false;
    return !x && !y;
}

EXPORT int cuGraphExecUpdate_v2(graph *exec, graph *g, void *out);
EXPORT int cuGraphExecUpdate_v2(graph *exec, graph *g, void *out) {
    MAY_FAIL;
    BEGIN(NULL);
    (void)out;
    check(exec, EXEC, "no graph"), check(g, GRAPH, "no graph");
    if (!is_alike(exec, g)) return end(GRAPH_UPDATE_FAILURE);
    clear(exec);
    append(g, &exec->end);
    standin.updates++;
    return end(SUCCESS);
}

/* The work of an executable graph that was made of a node. The node has to be there still, in the
 * graph that the other was made of. */
static work *work_of(graph *exec, node *n, work_kind kind) {
    check(exec, EXEC, "no graph"), check(n, NODE, "no node");
    if (n->graph != exec->of) die("the node is of another graph", n);
    work *w = exec->first;
    for (uint32_t k = 0; w && k < n->number; k++) w = w->next;
    if (!w || w->kind != kind) die("the node is of another kind", n);
    return w;
}

typedef struct launch_params {
    function *function;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
} launch_params;

EXPORT int cuGraphExecKernelNodeSetParams(graph *exec, node *n, const launch_params *p);
EXPORT int cuGraphExecKernelNodeSetParams(graph *exec, node *n, const launch_params *p) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    work *w = work_of(exec, n, LAUNCH);
    check(p->function, FUNCTION, "no kernel");
    if (p->function != w->function) die("the node gets another kernel", n); /* ours never do */
    const unsigned groups = p->grid[0] * p->grid[1] * p->grid[2],
                   threads = p->block[0] * p->block[1] * p->block[2];
    if (!groups || !threads || threads > 1024 || !p->params || p->extra) return end(INVALID_VALUE);
    w->groups = groups;
    w->threads = threads;
    w->shared = p->shared;
    take_args(w->function, p->params, w->args);
    standin.patches++;
    return end(SUCCESS);
}

typedef struct copy_side {
    size_t x, y, z, lod;
    int type;
    void *host;
    uint64_t device;
    void *array, *reserved;
    size_t pitch, height;
} copy_side;

typedef struct copy_params {
    copy_side from, to;
    size_t width, height, depth;
} copy_params;

/* Of a row of bytes in memory of the device, as those are that this stand-in captures. */
static bool is_row(const copy_side *s) {
    return !s->x && !s->y && !s->z && !s->lod && s->type == 2 && !s->array && !s->reserved;
}

EXPORT int cuGraphExecMemcpyNodeSetParams(graph *exec, node *n, const copy_params *p, context *of);
EXPORT int cuGraphExecMemcpyNodeSetParams(graph *exec, node *n, const copy_params *p, context *of) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    work *w = work_of(exec, n, COPY);
    if (of != c || !is_row(&p->from) || !is_row(&p->to) || !p->width || p->height != 1 ||
        p->depth != 1)
        return end(INVALID_VALUE);
    (void)bytes_at(p->from.device, p->width), (void)bytes_at(p->to.device, p->width);
    w->to = p->to.device;
    w->from = p->from.device;
    w->bytes = p->width;
    standin.patches++;
    return end(SUCCESS);
}

typedef struct fill_params {
    uint64_t to;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} fill_params;

EXPORT int cuGraphExecMemsetNodeSetParams(graph *exec, node *n, const fill_params *p, context *of);
EXPORT int cuGraphExecMemsetNodeSetParams(graph *exec, node *n, const fill_params *p, context *of) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    work *w = work_of(exec, n, FILL);
    if (of != c || p->element != 1 || !p->width || p->height != 1 || p->value > 255)
        return end(INVALID_VALUE);
    (void)bytes_at(p->to, p->width);
    w->to = p->to;
    w->from = p->value;
    w->bytes = p->width;
    standin.patches++;
    return end(SUCCESS);
}

EXPORT int cuGraphLaunch(graph *exec, stream *given);
EXPORT int cuGraphLaunch(graph *exec, stream *given) {
    context *c;
    MAY_FAIL;
    BEGIN(&c);
    check(exec, EXEC, "no graph");
    append(exec, &stream_of(c, given)->end);
    standin.graph_launches++;
    return end(SUCCESS);
}
