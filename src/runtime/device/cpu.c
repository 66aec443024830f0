/* cpu.c: the CPU's row. Its memory is the host's, its kernels are functions of shared objects, and
 * work is done when a function returns: so copies are memmove, reading a scalar is a load, events
 * are nothing, and a kernel that found something wrong says so by its return value. */
#include "runtime/device/rows.h"

#include "base/compiler.h"
#include "base/cpu.h"
#include "base/library.h"
#include "bundle/format.h"
#include "runtime/cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, HUGE_PAGE = 2 << 20, HUGE_FROM = 4 << 20 };

typedef struct cpu_device {
    hn_dev base;
    hn_allocator allocator;
} cpu_device;

typedef struct cpu_queue {
    hn_queue base;
    hn_team *team;
} cpu_queue;

static hn_status no_memory(void) { return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a device"); }

/* ---- targets ---- */

static const char *target_named(const char *wanted) {
    const hn_cpu_level *level = hn_cpu_level_named(hn_str_of(wanted));
    return level ? level->name : NULL;
}

static int fitness(const hn_device_code *code, uint32_t number, hn_strbuf *why) {
    (void)number;
    if (code->machine != HNB_MACHINE_HERE) {
        hn_strbuf_printf(why, "is for ELF machine %u, not %d", code->machine, HNB_MACHINE_HERE);
        return -1;
    }
    for (uint32_t k = 0; k < code->feature_count; k++) {
        if (hn_cpu_has(hn_str_of(code->features[k]))) continue;
        hn_strbuf_printf(why, "needs '%s', which this CPU lacks", code->features[k]);
        return -1;
    }
    return 0;
}

/* ---- the device and its memory ---- */

static uint64_t memory_bytes(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

static hn_status cpu_open(const hn_device_options *options, hn_dev **out) {
    if (options->number)
        return HN_ERROR(HN_NOT_FOUND, "there is no device cpu:%u; there is cpu:0", options->number);
    cpu_device *d = calloc(1, sizeof *d);
    if (!d) return no_memory();
    d->base.ops = &hn_device_cpu;
    d->base.facts = (hn_device_facts){
        .name = "cpu", .memory_bytes = memory_bytes(), .align = ALIGN, .is_host = true};
    d->allocator = options->allocator;
    *out = &d->base;
    return NULL;
}

static void cpu_close(hn_dev *dev) { free(dev); }

/* From 4 MiB on aligned for huge pages and, without an allocator of the caller's, asking for
 * them. */
static void *cpu_alloc(hn_dev *dev, size_t bytes) {
    const hn_allocator *a = &((cpu_device *)dev)->allocator;
    void *memory;
    if (bytes > SIZE_MAX / 2) return NULL;
    size_t align = bytes >= HUGE_FROM ? HUGE_PAGE : ALIGN;
    if (a->alloc) return a->alloc(a->context, bytes ? bytes : 1, align);
    if (posix_memalign(&memory, align, bytes ? bytes : 1) != 0) return NULL;
    /* an advice: may be refused */
    if (bytes >= HUGE_FROM) (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static void cpu_free(hn_dev *dev, void *memory) {
    const hn_allocator *a = &((cpu_device *)dev)->allocator;
    if (!memory) return;
    if (a->alloc) a->free(a->context, memory);
    else free(memory);
}

/* ---- code: a program is a shared object, a kernel the address of its function ---- */

static hn_status cpu_load(hn_dev *dev, const void *code, size_t len, const char *name,
                          hn_device_program **out) {
    hn_library *library;
    (void)dev;
    HN_TRY(hn_library_load(code, len, name, &library));
    *out = (hn_device_program *)library;
    return NULL;
}

static void cpu_unload(hn_device_program *program) { hn_library_close((hn_library *)program); }

static hn_status cpu_find(hn_device_program *program, const char *symbol, void **out_kernel) {
    return hn_library_symbol((hn_library *)program, symbol, out_kernel);
}

static hn_kernel_fn cpu_direct(void *kernel) {
    hn_kernel_fn fn;
    memcpy(&fn, &kernel, sizeof fn);
    return fn;
}

/* ---- work ---- */

static hn_status cpu_queue_create(hn_dev *dev, const hn_queue_options *options, hn_queue **out) {
    cpu_queue *q = calloc(1, sizeof *q);
    if (!q) return no_memory();
    *q = (cpu_queue){.base.dev = dev, .team = options->team};
    *out = &q->base;
    return NULL;
}

static void cpu_queue_destroy(hn_queue *queue) { free(queue); }

static hn_status cpu_copy(hn_queue *queue, void *to, const void *from, size_t bytes) {
    (void)queue;
    if (bytes) memmove(to, from, bytes); /* of no bytes, either may be NULL */
    return NULL;
}

static hn_status cpu_fill(hn_queue *queue, void *to, uint8_t byte, size_t bytes) {
    (void)queue;
    if (bytes) memset(to, byte, bytes);
    return NULL;
}

typedef struct part_job {
    const hn_device_launch *launch;
    hn_kernel_fn fn;
    int failed;
} part_job;

static void run_part(void *context, int k) {
    part_job *j = context;
    const hn_device_launch *l = j->launch;
    const long long part = l->extent / l->parts, more = l->extent % l->parts;
    const long long begin = k * part + (k < more ? k : more), end = begin + part + (k < more);
    const int rc = j->fn(l->args, l->params, begin, end,
                         (uint8_t *)l->scratch + (size_t)k * l->scratch_stride);
    if (HN_UNLIKELY(rc)) __atomic_store_n(&j->failed, rc, __ATOMIC_RELAXED);
}

static hn_status cpu_launch(hn_queue *queue, const hn_device_launch *l, hn_device_fault *out) {
    part_job job = {.launch = l, .fn = cpu_direct(l->kernel)};
    hn_team_run(((cpu_queue *)queue)->team, (int)l->parts, run_part, &job);
    *out = (hn_device_fault){.is_set = job.failed != 0, .step = l->step};
    return NULL;
}

static hn_status cpu_record(hn_queue *queue, hn_event **out) {
    (void)queue;
    *out = NULL;
    return NULL;
}

static hn_status cpu_wait(hn_queue *queue, hn_event *event) {
    (void)queue, (void)event;
    return NULL;
}

static void cpu_event_free(hn_event *event) { (void)event; }

static hn_status cpu_finish(hn_queue *queue, hn_device_fault *out) {
    (void)queue;
    *out = (hn_device_fault){.is_set = false};
    return NULL;
}

const hn_device_ops hn_device_cpu = {
    .kind = HN_DEVICE_CPU,
    .dlpack_type = 1,
    .target_named = target_named,
    .fitness = fitness,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .load = cpu_load,
    .unload = cpu_unload,
    .find = cpu_find,
    .direct = cpu_direct,
    .queue_create = cpu_queue_create,
    .queue_destroy = cpu_queue_destroy,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .read = cpu_copy,
    .launch = cpu_launch,
    .record = cpu_record,
    .wait = cpu_wait,
    .event_free = cpu_event_free,
    .finish = cpu_finish,
};
