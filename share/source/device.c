/* device.c: the GPU of a project that was written for one: memory, kernels, operations. What it
 * calls is Henry's row for CUDA (lib/runtime/device), which finds NVIDIA's driver, cuBLASLt and
 * cuDNN when the program runs. */
#include "support.h"

#include "base/log.h"
#include "base/trace.h"
#include "ops/cpu/forms.h"
#include "runtime/device/cuda.h"
#include "runtime/device/rows.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const program *const P = &model_program;

/* Who does a call of an operation. */
enum { NOBODY_YET, LIBRARY, KERNEL };

typedef struct operation {
    hn_ext_call call;
    int64_t *params; /* that it was prepared for; NULL: it was not */
    hn_device_operation *own;
    hn_ext_form form; /* that it was asked for */
    int who;
} operation;

struct device {
    hn_dev *dev;
    hn_queue *queue;
    uint32_t target;           /* whose code fits the GPU */
    hn_device_program **codes; /* per file of code; NULL: not loaded yet */
    void **kernels;            /* of the target; NULL: not looked up yet */
    const char **wheres;       /* per step: where it comes from */
    operation *operations;     /* per call of the program */
    memory scratch;            /* what operations want, one after the other */
};

static const hn_device_ops *const ops = &hn_device_cuda;

static int refuse(model *m, const char *where, hn_status status) {
    int failed =
        fail(m, "%s%s%s", where ? where : "", where ? ": " : "", hn_status_message(status));
    hn_status_free(status);
    return failed;
}

/* --- what the row asks of the library that it comes from --- */

int64_t hn_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
void hn_trace_span(const char *category, const char *name, int64_t begin_ns, int64_t end_ns) {
    (void)category, (void)name, (void)begin_ns, (void)end_ns;
}
bool hn_log_on(const char *area, hn_log_level level) {
    (void)area, (void)level;
    return false;
}
void hn_log(const char *area, hn_log_level level, const char *fmt, ...) {
    (void)area, (void)level, (void)fmt;
}

const char hn_cuda_words[] = "";
hn_status hn_cuda_load_text(hn_dev *dev, const char *text, const char *name,
                            hn_device_program **out) {
    (void)dev, (void)text, (void)out;
    return HN_ERROR(HN_UNSUPPORTED, "a project compiles no text ('%s')", name);
}

/* The libraries that are not there: a line for each, once a process. */
void hn_warn_once(const char *area, const char *key, const char *fmt, ...) {
    static int said[2];
    va_list args;
    (void)area;
    if (__atomic_exchange_n(&said[strcmp(key, "cudnn") == 0], 1, __ATOMIC_RELAXED)) return;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

#ifndef HN_EXT_ONLY /* else lib/ops/cpu/shared.c has it */
const void *hn_ext_shared_read(const hn_ext_shared *shared, const void *bytes, size_t len,
                               void *buffer) {
    (void)shared, (void)len, (void)buffer;
    return bytes;
}
#endif

/* --- memory --- */

static int wait_for_all(model *m) {
    hn_device_fault fault = {.is_set = false};
    hn_status status = ops->finish(m->device->queue, &fault);
    if (status) return refuse(m, NULL, status);
    if (!fault.is_set) return 0;
    return fail(m, "%s: an index is out of bounds", m->device->wheres[fault.step]);
}

/* Work may be under way that uses the old memory. */
int device_reserve(model *m, memory *memory, int64_t bytes) {
    hn_dev *dev = m->device->dev;
    if (bytes < 0) return fail(m, "the inputs are too large: a size cannot be computed");
    if ((uint64_t)bytes <= memory->size && memory->bytes) return 0;
    if (memory->bytes) TRY(wait_for_all(m));
    ops->free(dev, memory->bytes);
    *memory = (struct memory){ops->alloc(dev, bytes ? (size_t)bytes : 1), (size_t)bytes};
    if (memory->bytes) return 0;
    memory->size = 0;
    return fail(m, "out of memory: no %lld bytes on '%s'", (long long)bytes, dev->facts.name);
}

int device_block(model *m, uint32_t block, int64_t bytes) {
    TRY(device_reserve(m, &m->own_blocks[block], bytes));
    m->blocks[block] = m->own_blocks[block].bytes;
    return 0;
}

int device_input_block(model *m, uint32_t block, uint32_t input, int64_t bytes) {
    TRY(device_reserve(m, &m->device_inputs[input], bytes));
    m->blocks[block] = m->device_inputs[input].bytes;
    return 0;
}

static void release(model *m, memory *memory) {
    ops->free(m->device->dev, memory->bytes);
    *memory = (struct memory){0};
}

int device_release(model *m, memory *memory) {
    TRY(wait_for_all(m));
    release(m, memory);
    return 0;
}

static void release_list(model *m, memory *list, const uint8_t *is_here, uint32_t count) {
    for (uint32_t k = 0; list && k < count; k++)
        if (is_here[k]) release(m, &list[k]);
}

/* --- copies --- */

int device_copy_in(model *m, void *to, const void *from, int64_t bytes) {
    hn_status status = ops->copy_in(m->device->queue, to, from, (size_t)bytes);
    return status ? refuse(m, NULL, status) : 0;
}

int device_copy_out(model *m, void *to, const void *from, int64_t bytes) {
    hn_status status = ops->copy_out(m->device->queue, to, from, (size_t)bytes);
    return status ? refuse(m, NULL, status) : 0;
}

int device_copy(model *m, void *to, const void *from, int64_t bytes) {
    hn_status status = ops->copy(m->device->queue, to, from, (size_t)bytes);
    return status ? refuse(m, NULL, status) : 0;
}

int device_zero(model *m, void *to, int64_t bytes) {
    hn_status status = ops->fill(m->device->queue, to, 0, (size_t)bytes);
    return status ? refuse(m, NULL, status) : 0;
}

int device_read(model *m, void *to, const void *from, int64_t bytes) {
    hn_status status = ops->read(m->device->queue, to, from, (size_t)bytes);
    return status ? refuse(m, NULL, status) : 0;
}

/* --- kernels --- */

static int load(model *m, uint32_t code) {
    struct device *d = m->device;
    const device_code *c = &device_codes[code];
    if (d->codes[code]) return 0;
    hn_status status =
        ops->load(d->dev, c->begin, (size_t)(c->end - c->begin), c->name, &d->codes[code]);
    return status ? refuse(m, NULL, status) : 0;
}

static int find(model *m, uint32_t kernel, void **out) {
    struct device *d = m->device;
    const device_kernel *k = &P->places->kernels[d->target * P->places->kernel_count + kernel];
    if (!d->kernels[kernel]) {
        TRY(load(m, k->code));
        hn_status status = ops->find(d->codes[k->code], k->name, &d->kernels[kernel]);
        if (status) return refuse(m, NULL, status);
    }
    *out = d->kernels[kernel];
    return 0;
}

uint32_t device_target(const model *m) { return m->device->target; }
struct hn_queue *device_queue(const model *m) {
    return m->device->queue;
}

int device_launch(model *m, const launch_facts *f, void *const *args, const long long *params,
                  int64_t groups, void *scratch) {
    struct device *d = m->device;
    hn_device_fault fault;
    void *kernel = NULL;
    if (groups < 0) return fail(m, "%s: the inputs are too large", f->where);
    for (uint32_t k = 0; k < f->params; k++)
        if (params[k] == UNDEFINED) return fail(m, "%s: the inputs are too large", f->where);
    if (groups == 0) return 0;
    TRY(find(m, f->kernel, &kernel));
    d->wheres[f->step] = f->where;
    const hn_device_launch launch = {.kernel = kernel,
                                     .step = f->step,
                                     .args = args,
                                     .arg_count = f->args,
                                     .params = params,
                                     .param_count = f->params,
                                     .extent = groups,
                                     .parts = 1,
                                     .groups = {groups, 1, 1},
                                     .threads = {f->threads, 1, 1},
                                     .shared_bytes = f->shared_bytes,
                                     .scratch = scratch};
    hn_status status = ops->launch(d->queue, &launch, &fault);
    return status ? refuse(m, f->where, status) : 0;
}

/* --- operations --- */

/* How an operand is aligned, as far as libraries want to know. */
enum { ALIGN = 64 };
static int64_t begin_of(const void *operand) { return (int64_t)((uintptr_t)operand % ALIGN); }

/* What the check compares operands with: the compiler has seen that they lie in their memory. Of
 * those whose address is another in each run it tells how they are aligned. */
static void describe(operation *o, const extern_facts *f, void *const *operands) {
    const int64_t far = INT64_MAX / (4 * ALIGN) * ALIGN;
    o->call.knows_rooms = true;
    for (uint32_t k = 0; k < f->operands; k++) {
        o->call.dtypes[k] = f->types[k];
        o->call.rooms[k] = (hn_ext_room){far, far};
        o->call.begins[k] = begin_of(operands[k]);
        o->call.is_constant[k] = f->constants >> k & 1;
        if (o->call.is_constant[k]) o->call.operands[k] = operands[k];
    }
}

static int forget(model *m, operation *o) {
    if (o->own) TRY(wait_for_all(m));
    ops->operations->release(o->own);
    o->own = NULL;
    o->who = NOBODY_YET;
    return 0;
}

static hn_status prepare_call(model *m, operation *o) {
    HN_TRY(hn_ext_check(&o->call));
    return hn_ext_annotate(&o->call, ops->operations->prepare(m->device->dev, &o->call, &o->own));
}

/* In the form that it is asked for; a form that it cannot have here is left to the library. */
static hn_status prepare_in_form(model *m, operation *o, const char *text) {
    hn_status status = *text ? hn_ext_form_read(text, &o->form) : NULL;
    if (*text && !status) {
        o->call.form = &o->form;
        status = prepare_call(m, o);
        if (hn_status_code(status) != HN_UNSUPPORTED) return status;
    }
    hn_status_free(status);
    o->call.form = NULL;
    return prepare_call(m, o);
}

/* Whether it was prepared for such a call: an operand that begins at a place that depends on sizes
 * may have another alignment with the same parameters. */
static bool is_prepared(const operation *o, const extern_facts *f, void *const *operands,
                        const int64_t *params) {
    if (!o->who || memcmp(o->params, params, f->params * sizeof *params) != 0) return false;
    for (uint32_t k = 0; k < f->operands; k++)
        if (o->call.begins[k] != begin_of(operands[k])) return false;
    return true;
}

static int prepare(model *m, operation *o, const extern_facts *f, void *const *operands,
                   const int64_t *params, bool has_kernel) {
    const size_t bytes = f->params * sizeof *params;
    if (is_prepared(o, f, operands, params)) return 0;
    TRY(forget(m, o));
    if (!o->params) o->params = malloc(bytes + 1);
    if (!o->params) return fail(m, "out of memory");
    memcpy(o->params, params, bytes);
    o->call = (hn_ext_call){.kind = (hn_extern_kind)f->kind,
                            .params = o->params,
                            .param_count = f->params,
                            .threads = m->threads,
                            .team = &m->team};
    describe(o, f, operands);
    hn_status status = prepare_in_form(m, o, f->form);
    const hn_code code = hn_status_code(status);
    o->who = status ? KERNEL : LIBRARY;
    if (!status) return 0;
    if (!has_kernel || (code != HN_UNSUPPORTED && code != HN_DEVICE)) {
        o->who = NOBODY_YET;
        return refuse(m, f->where, status);
    }
    hn_status_free(status);
    return 0;
}

int device_operation(model *m, const extern_facts *f, void *const *operands, const int64_t *params,
                     bool *out_for_kernel) {
    struct device *d = m->device;
    operation *o = &d->operations[f->index];
    hn_device_fault fault;
    for (uint32_t k = 0; k < f->params; k++)
        if (params[k] == UNDEFINED) return fail(m, "%s: the inputs are too large", f->where);
    TRY(prepare(m, o, f, operands, params, out_for_kernel != NULL));
    if (out_for_kernel) *out_for_kernel = o->who == KERNEL;
    if (o->who == KERNEL) return 0;
    const size_t scratch = ops->operations->scratch_bytes(o->own);
    if (scratch) TRY(device_reserve(m, &d->scratch, (int64_t)scratch));
    hn_status status = ops->operations->run(d->queue, o->own, 0, operands,
                                            scratch ? d->scratch.bytes : NULL, &fault);
    return status ? refuse(m, f->where, status) : 0;
}

/* --- opening --- */

/* The target whose code fits the GPU best; of equal ones the first. */
static int choose_target(model *m) {
    struct device *d = m->device;
    int best = -1;
    hn_strbuf why;
    hn_strbuf_init(&why);
    for (uint32_t k = 0; P->places->targets[k]; k++) {
        const hn_device_code code = {.name = P->places->targets[k]};
        if (why.len) hn_strbuf_puts(&why, "; ");
        hn_strbuf_printf(&why, "code for %s ", code.name);
        const int fits = ops->fitness(&code, 0, &why);
        if (fits <= best) continue;
        best = fits;
        d->target = k;
    }
    const int failed = best < 0 ? fail(m, "%s", why.len ? why.ptr : "out of memory") : 0;
    hn_strbuf_deinit(&why);
    return failed;
}

/* Weights that stay as they are lie in one piece of memory, those that change in one each. */
static int upload_weights(model *m) {
    const device_places *places = P->places;
    TRY(device_reserve(m, &m->device_weights, (int64_t)places->weights_bytes));
    for (const device_storage *s = places->storages; s->bytes; s++)
        TRY(device_copy_in(m, m->device_weights.bytes + s->at, m->weights + s->offset,
                           (int64_t)s->bytes));
    for (uint32_t k = 0; k < P->owns; k++) {
        if (!places->owns[k]) continue;
        TRY(device_reserve(m, &m->owns[k], (int64_t)P->own[k].bytes));
        TRY(device_copy_in(m, m->owns[k].bytes, m->weights + P->own[k].offset,
                           (int64_t)P->own[k].bytes));
    }
    const int failed = wait_for_all(m);
    hn_team_end(&m->team);
    return failed;
}

static int open_queue(model *m) {
    struct device *d = m->device;
    hn_status status = ops->open(&(hn_device_options){.number = 0}, &d->dev);
    if (status) return refuse(m, NULL, status);
    status = ops->queue_create(d->dev,
                               &(hn_queue_options){.step_count = P->places->steps + 1,
                                                   .team = &m->team,
                                                   .threads = m->threads},
                               &d->queue);
    return status ? refuse(m, NULL, status) : 0;
}

static int device_open(model *m) {
    const device_places *places = P->places;
    struct device *d = m->device = calloc(1, sizeof *d);
    if (!d) return fail(m, "out of memory");
    d->codes = calloc(places->code_count + 1, sizeof *d->codes);
    d->kernels = calloc(places->kernel_count + 1, sizeof *d->kernels);
    d->wheres = calloc(places->steps + 1, sizeof *d->wheres);
    d->operations = calloc(places->operations + 1, sizeof *d->operations);
    if (!d->codes || !d->kernels || !d->wheres || !d->operations) return fail(m, "out of memory");
    TRY(choose_target(m));
    TRY(open_queue(m));
    return upload_weights(m);
}

static void close_operations(struct device *d) {
    for (uint32_t k = 0; d->operations && k < P->places->operations; k++) {
        ops->operations->release(d->operations[k].own);
        free(d->operations[k].params);
    }
}

static void close_memory(model *m) {
    const device_places *places = P->places;
    release(m, &m->device->scratch);
    release(m, &m->device_workspace);
    release(m, &m->device_weights);
    release_list(m, m->device_inputs, places->inputs, P->inputs);
    release_list(m, m->own_blocks, places->blocks, P->blocks);
    release_list(m, m->slots, places->slots, P->slots);
    release_list(m, m->owns, places->owns, P->owns);
}

static void device_close(model *m) {
    struct device *d = m->device;
    if (d->queue) (void)wait_for_all(m);
    if (d->dev) {
        close_operations(d);
        close_memory(m);
        for (uint32_t k = 0; d->codes && k < P->places->code_count; k++) ops->unload(d->codes[k]);
        ops->queue_destroy(d->queue);
        ops->close(d->dev);
    }
    free(d->codes);
    free(d->kernels);
    free(d->wheres);
    free(d->operations);
    free(d);
    m->device = NULL;
}

/* --- runs --- */

int device_enter(model *m) {
    ops->enter(m->device->queue);
    return 0;
}

static int device_begin(model *m) {
    TRY(device_enter(m));
    for (uint32_t k = 0; k < P->inputs; k++) {
        if (!P->places->inputs[k]) continue;
        TRY(device_reserve(m, &m->device_inputs[k], m->input_bytes[k]));
        TRY(device_copy_in(m, m->device_inputs[k].bytes, m->inputs[k], m->input_bytes[k]));
    }
    return 0;
}

void device_leave(model *m) { ops->leave(m->device->queue); }

int device_wait(model *m) { return wait_for_all(m); }

const device_calls device_cuda = {
    .open = device_open,
    .close = device_close,
    .begin = device_begin,
    .wait = device_wait,
    .end = device_leave,
    .copy_in = device_copy_in,
    .copy_out = device_copy_out,
    .copy = device_copy,
    .read = device_read,
};
