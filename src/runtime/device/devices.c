/* devices.c: the table of devices, and the counting of open ones. */
#include "runtime/device/rows.h"

#include "base/compiler.h"
#include "base/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static const hn_device_ops *const rows[] = {HN_DEVICE_ROWS_OF_TESTS & hn_device_cpu,
                                            &hn_device_cuda, &hn_device_opencl};

const hn_device_ops *hn_device_ops_of(uint32_t kind) {
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++)
        if ((uint32_t)rows[k]->kind == kind) return rows[k];
    return NULL;
}

const hn_device_ops *hn_device_ops_of_host(void) { return &hn_device_cpu; }

const char *hn_device_target_named(const char *wanted) {
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++) {
        const char *name = rows[k]->target_named(wanted);
        if (name) return name;
    }
    return wanted;
}

void hn_device_kinds_print(hn_strbuf *out) {
    for (size_t k = 0; k < HN_COUNT_OF(rows); k++)
        hn_strbuf_printf(out, "%s%s", k ? ", " : "", hn_device_name(rows[k]->kind));
}

/* ---- processes: each run asks whether this one has opened the device, and getpid is a system call.
 * So forks are counted. ---- */

static atomic_uint forks; /* from the process that has loaded the library to this one */
static bool are_counted;  /* or there was no memory for that */

static void count_fork(void) { atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); }
static void watch_forks(void) { are_counted = pthread_atfork(NULL, NULL, count_fork) == 0; }

/* Another number than that of the process which this one was forked from. */
static int64_t this_process(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return are_counted ? (int64_t)atomic_load_explicit(&forks, memory_order_relaxed)
                       : (int64_t)getpid();
}

/* ---- open devices ---- */

hn_status hn_dev_open(const hn_device_ops *ops, const hn_device_options *options, hn_dev **out) {
    HN_TRY(ops->open(options, out));
    atomic_init(&(*out)->refs, 1);
    (*out)->process = this_process();
    return NULL;
}

hn_dev *hn_dev_retain(hn_dev *dev) {
    atomic_fetch_add_explicit(&dev->refs, 1, memory_order_relaxed);
    return dev;
}

void hn_dev_release(hn_dev *dev) {
    if (dev && atomic_fetch_sub_explicit(&dev->refs, 1, memory_order_acq_rel) == 1 &&
        hn_dev_is_here(dev))
        dev->ops->close(dev);
}

/* ---- fork ---- */

bool hn_dev_is_here(const hn_dev *dev) {
    return dev->facts.is_host || dev->process == this_process();
}

hn_status hn_dev_check(const hn_dev *dev) {
    if (hn_dev_is_here(dev)) return NULL;
    return HN_ERROR(
        HN_DEVICE,
        "%s was opened before this process was forked, and its driver has no threads here; load the "
        "module after the fork, in a process whose parent has not used the driver",
        hn_device_name(dev->ops->kind));
}

void hn_dev_free(hn_dev *dev, void *memory) {
    if (memory && hn_dev_is_here(dev)) dev->ops->free(dev, memory);
}

void hn_dev_free_behind(hn_dev *dev, void *memory, hn_event *event) {
    if (event && hn_dev_is_here(dev)) dev->ops->free_behind(dev, memory, event);
    else hn_dev_free(dev, memory);
}

void hn_dev_unload(hn_dev *dev, hn_device_program *program) {
    if (program && hn_dev_is_here(dev)) dev->ops->unload(program);
}

void hn_dev_operation_release(hn_dev *dev, hn_device_operation *operation) {
    if (operation && hn_dev_is_here(dev)) dev->ops->operations->release(operation);
}

void hn_recording_free(hn_recording *recording) {
    if (recording && hn_dev_is_here(recording->dev)) recording->dev->ops->recording_free(recording);
}

void hn_queue_destroy(hn_queue *queue) {
    if (queue && hn_dev_is_here(queue->dev)) queue->dev->ops->queue_destroy(queue);
}
