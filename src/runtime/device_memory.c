/* device_memory.c: what a module has of its device's memory: counters, what the plan for some sizes
 * wants and needs, and the message when there is no more. */
#include "runtime/lives.h"

#include <stdlib.h>

/* ---- what the plan needs ---- */

/* What lies in a pool, and a pool in the memory of an input, has no bytes of its own. */
static bool has_own_bytes(const hn_module *m, uint32_t s) {
    const hnb_buffer *f = &m->view.buffers[m->output_buffers[s]];
    return hn_buffer_is_remote(m, m->output_buffers[s]) && !m->output_pools[s] &&
           !(f->kind == HNB_BUFFER_POOL && f->source);
}

/* Inputs and outputs that a run has on the device. They stay from its begin to its end. */
static uint64_t io_bytes(const hn_module *m, const hn_bound *bound) {
    uint64_t sum = 0;
    for (uint32_t u = 0; u < m->upload_count; u++)
        sum += (uint64_t)bound->input_bytes[m->uploads[u]];
    for (uint32_t s = 0; s < m->output_buffer_count; s++)
        if (has_own_bytes(m, s)) sum += (uint64_t)bound->block_bytes[s];
    return sum;
}

/* ---- counters ---- */

static uint64_t weights_bytes(const hn_module *m) {
    uint64_t sum = 0;
    for (uint32_t k = 1; k < m->view.storages_count; k++)
        if (m->storage_is_remote[k] && !m->view.storages[k].is_mutable)
            sum += m->view.storages[k].bytes;
    return sum;
}

static uint64_t states_bytes(const hn_module *m) {
    uint64_t sum = 0;
    for (uint32_t k = 1; k < m->view.storages_count; k++)
        if (m->storage_is_remote[k] && m->view.storages[k].is_mutable)
            sum += m->view.storages[k].bytes;
    return sum * atomic_load_explicit(&m->state_count, memory_order_relaxed);
}

void hn_device_memory_stats(const hn_module *m, hn_module_stats *out) {
    hn_device_usage usage;
    if (m->place_count == 1 || !m->device->ops->usage || !hn_dev_is_here(m->device)) return;
    m->device->ops->usage(m->device, &usage);
    out->device_bytes = usage.bytes;
    out->device_peak_bytes = usage.peak_bytes;
    out->libraries_load_ns += usage.libraries_ns;
    out->libraries_start_ns = usage.start_ns;
    out->operations_choose_ns = usage.choose_ns;
    out->operations_first_ns = usage.first_ns;
    out->device_weights_bytes = weights_bytes(m);
    out->device_states_bytes = states_bytes(m);
}

/* Of a context that no run has, while it has none: with the lock held. False: there is no context. */
static bool read_plan(const hn_module *m, hn_module_stats *out, hn_life *lives) {
    const hn_bound *bound = m->idle ? m->idle->bounds[0] : NULL;
    if (!bound) return false;
    const uint64_t io = io_bytes(m, bound);
    out->plan_bytes = io + bound->workspace_bytes[HN_PLACE_KERNELS];
    out->plan_least_bytes = io;
    out->scratch_bytes = bound->scratch_bytes[HN_PLACE_KERNELS];
    if (lives) hn_lives_find(m, bound, lives);
    return lives != NULL;
}

/* Runs that begin wait for the lock: what takes longer than a look at each step is done behind it. */
void hn_device_plan_stats(hn_module *m, hn_module_stats *out) {
    if (m->place_count == 1) return;
    hn_life *lives = hn_lives_allocate(m);
    pthread_mutex_lock(&m->lock);
    const bool has_lives = read_plan(m, out, lives);
    pthread_mutex_unlock(&m->lock);
    if (has_lives) out->plan_least_bytes += hn_lives_most(m, lives);
    free(lives);
}

/* ---- no memory ---- */

/* With the unit that suits: " 1.5 MiB". */
static void print_bytes(hn_strbuf *out, const char *before, uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    double number = (double)bytes / 1024;
    uint32_t unit = 0;
    for (; number >= 1024 && unit < 2; unit++) number /= 1024;
    hn_strbuf_printf(out, "%s %.1f %s", before, number, units[unit]);
}

static void print_usage(const hn_module *m, hn_strbuf *out) {
    hn_device_usage usage;
    if (!m->device->ops->usage) return;
    m->device->ops->usage(m->device, &usage);
    const uint64_t weights = weights_bytes(m), states = states_bytes(m);
    const uint64_t kept = weights + states < usage.bytes ? weights + states : usage.bytes;
    print_bytes(out, "; the module has", usage.bytes);
    print_bytes(out, " there: weights want", weights);
    print_bytes(out, ", states", states);
    print_bytes(out, ", and runs have", usage.bytes - kept);
    if (usage.limit_bytes) {
        print_bytes(out, "; its limit is", usage.limit_bytes);
        hn_strbuf_puts(out, " (device_memory_bytes)");
    }
    if (usage.free_bytes) {
        print_bytes(out, "; the device has", usage.free_bytes);
        print_bytes(out, " left, of", m->device->facts.memory_bytes);
    }
}

static uint64_t least_bytes(const hn_module *m, const hn_bound *bound) {
    hn_life *lives = hn_lives_allocate(m);
    if (!lives) return 0;
    hn_lives_find(m, bound, lives);
    const uint64_t bytes = hn_lives_most(m, lives);
    free(lives);
    return bytes;
}

static void print_plan(const hn_module *m, const hn_bound *bound, hn_strbuf *out) {
    print_bytes(out, "; a run of these sizes wants", bound->workspace_bytes[HN_PLACE_KERNELS]);
    print_bytes(out, " for temporaries, at least", least_bytes(m, bound));
    print_bytes(out, ",", io_bytes(m, bound));
    print_bytes(out, " for inputs and outputs, and", bound->scratch_bytes[HN_PLACE_KERNELS]);
    hn_strbuf_puts(out, " for scratch memory");
}

hn_status hn_device_memory_error(const hn_module *m, const hn_bound *bound, const char *what,
                                 uint64_t bytes) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    print_usage(m, &text);
    if (bound) print_plan(m, bound, &text);
    hn_status status = HN_ERROR(
        HN_OUT_OF_MEMORY,
        "no memory for %s of %llu bytes on %s%s; use a smaller batch, fewer runs at the same time, "
        "or another device",
        what, (unsigned long long)bytes, m->device->facts.name, text.ptr ? text.ptr : "");
    hn_strbuf_deinit(&text);
    return status;
}
