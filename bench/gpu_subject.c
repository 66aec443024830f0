/* gpu_subject.c: one model or kernel under Henry on a device, for gpu_kernels.py and gpu_models.py:
 * its outputs for inputs from files, then what its steps take on the device.
 *
 *     bench_gpu_subject [--device DEVICE] [--inputs DIR] [--outputs DIR] [--rotate BYTES] [--seconds S] [--no-cache]
 *                       [--no-calls] [--bare] [--graphs] [--deterministic] MODEL.pt2
 *
 * DIR/input_K.bin has the elements of input K as they lie in memory; an input without a file is
 * random. Outputs are written to DIR/output_K.bin.
 *
 * Device time is that of the steps of a run alone, without copies of inputs and outputs: steps are
 * given to the device again and again, with two events around many runs. Inputs and outputs are in
 * several sets of memory, of --rotate bytes together, which the runs take in turns, so that no
 * cache has what a run reads. That needs the runtime's own functions. `device_us`: steps are
 * launched one by one. `recorded_us`: many runs are recorded once, as one CUDA graph, and that is
 * launched again and again, as gpu_kernels.py times torch.compile and copies; 0 where the device or
 * a step cannot be recorded.
 *
 * Host time: `call_us` is a call with inputs and outputs in the host's memory, `call_there_us` one
 * with both in that of the device. `submit_us` is what it takes to give the steps of a run to the
 * device. --bare: also `turns`, where runs and their launches by the driver alone take turns
 * (gpu_turns.h; CUDA only). --no-calls: no call is timed.
 *
 * --graphs: also a module whose runs are CUDA graphs: `graph_us` a run of the steps, as device_us,
 * `graph_call_us` and `graph_call_there_us` a call; `graph_moved_us` a run whose addresses are not
 * those of the run before. `graph_runs` is 0 where the steps are launched one by one in spite of
 * it.
 *
 * Each step has the least time that a profile has seen, and the bytes of the tensors that it
 * touches.
 *
 * Prints one JSON line; with --seconds 0 nothing: outputs are all that is wanted. */
#include "base/device.h"
#include "base/file.h"
#include "base/trace.h"
#include "bench/gpu_steps.h"
#include "bench/gpu_there.h"
#include "bench/gpu_turns.h"
#include "bench/median.h"
#include "henry/henry.h"
#include "ir/dtype.h"
#include "runtime/module_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 64, MAX_SETS = 64, BLOCKS = 9, MIN_RUNS = 4, MAX_RUNS = 20000, CALLS = 200 };
enum { SUBMIT_STEPS = 400 }; /* in the device's queue at once, which may hold 1024 */
enum { RECORDED_STEPS = 1000 };

typedef struct options {
    const char *device, *inputs, *outputs, *model;
    int64_t rotate_bytes;
    double seconds; /* for all blocks of timed runs */
    bool no_cache, no_calls, bare, graphs, deterministic;
} options;

typedef struct subject {
    options o;
    hn_compiled *compiled;
    hn_module *module;
    hn_tensor *inputs[MAX_TENSORS], *outputs[MAX_TENSORS];
    uint32_t input_count, output_count;
    hn_compile_stats stats;
    int64_t load_ns, first_ns, call_ns, call_there_ns;
    gpu_traffic traffic;
    /* sets of memory: per set an address for each place of `io` */
    uint32_t set_count;
    void **sets[MAX_SETS];
    int64_t set_bytes; /* of inputs and outputs: each read or written once */
    int64_t runs;      /* in a block */
    double run_us[BLOCKS], recorded_us[BLOCKS];
    double submit_us;
    gpu_turns turns;
    /* with CUDA graphs; 0 runs: there were none */
    uint64_t graph_runs;
    int64_t graph_call_ns, graph_call_there_ns;
    double graph_us, graph_moved_us;
} subject;

/* ---- inputs ---- */

static uint64_t next_random(uint64_t *state) { /* splitmix64: any seed is a good one */
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Floating point: -1 to 1. Whole numbers: 0 or 1, valid as an index into anything of two. */
static void fill_random(hn_tensor *t, uint64_t *state) {
    const int64_t count = hn_tensor_numel(t);
    const hn_scalar_type type = hn_tensor_type(t);
    const size_t bytes = hn_scalar_type_bytes(type);
    uint8_t *to = hn_tensor_data(t);
    for (int64_t k = 0; k < count; k++, to += bytes) {
        const uint64_t bits = next_random(state);
        const float f = (float)(int32_t)(bits >> 32) / 2147483648.0f;
        const double d = (double)f;
        const int64_t i = (int64_t)(bits & 1);
        const uint16_t half = type == HN_BF16  ? hn_f32_to_bf16(f)
                              : type == HN_F16 ? hn_f64_to_f16(d)
                                               : 0;
        switch (type) {
        case HN_F64: memcpy(to, &d, bytes); break;
        case HN_F32: memcpy(to, &f, bytes); break;
        case HN_F16:
        case HN_BF16: memcpy(to, &half, bytes); break;
        default: memcpy(to, &i, bytes); break; /* the lowest byte comes first */
        }
    }
}

/* Sets *found: whether there is such a file. */
static hn_status read_file(const char *dir, uint32_t k, hn_tensor *t, bool *found) {
    char path[4096];
    hn_file_map map;
    const size_t bytes = (size_t)hn_tensor_numel(t) * hn_scalar_type_bytes(hn_tensor_type(t));
    *found = false;
    if (!dir) return NULL;
    snprintf(path, sizeof path, "%s/input_%u.bin", dir, k);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fclose(f);
    HN_TRY(hn_file_map_init(&map, path));
    hn_status status = map.size_bytes == bytes
                           ? NULL
                           : HN_ERROR(HN_INVALID_ARGUMENT, "'%s' has %zu bytes, must have %zu",
                                      path, map.size_bytes, bytes);
    if (!status) memcpy(hn_tensor_data(t), map.data, bytes);
    hn_file_map_deinit(&map);
    *found = !status;
    return status;
}

/* A size that only a run knows is that of the export's inputs. */
static bool read_dim(const hn_module_dim *dim, int64_t *out) {
    *out = dim->is_static ? dim->value : dim->hint;
    return *out >= 0;
}

static hn_status make_input(subject *s, uint32_t k, uint64_t *state) {
    hn_module_value_info info;
    int64_t sizes[HN_TENSOR_MAX_RANK], strides[HN_TENSOR_MAX_RANK];
    bool found;
    HN_TRY(hn_module_input_info(s->module, k, &info));
    if (info.kind != HN_VALUE_KIND_TENSOR) return NULL; /* the recorded number */
    for (uint32_t d = 0; d < info.rank; d++) {
        if (!read_dim(&info.sizes[d], &sizes[d]) || !read_dim(&info.strides[d], &strides[d]))
            return HN_ERROR(HN_UNSUPPORTED, "input '%s' has a size that is not known", info.name);
    }
    HN_TRY(hn_tensor_create(
        &(hn_tensor_desc){.type = info.type, .rank = info.rank, .sizes = sizes, .strides = strides},
        &s->inputs[k]));
    HN_TRY(read_file(s->o.inputs, k, s->inputs[k], &found));
    if (!found) fill_random(s->inputs[k], state);
    return NULL;
}

static hn_status make_inputs(subject *s) {
    uint64_t state = 1;
    s->input_count = hn_module_input_count(s->module);
    s->output_count = hn_module_output_count(s->module);
    if (s->input_count > MAX_TENSORS || s->output_count > MAX_TENSORS)
        return HN_ERROR(HN_UNSUPPORTED, "more than %d inputs or outputs", MAX_TENSORS);
    for (uint32_t k = 0; k < s->input_count; k++) HN_TRY(make_input(s, k, &state));
    return NULL;
}

/* ---- runs by the public functions ---- */

static hn_status run_once(subject *s, int64_t *out_ns) {
    const int64_t begin = hn_now_ns();
    HN_TRY(hn_module_run(s->module, s->inputs, s->input_count, s->outputs, s->output_count));
    *out_ns = hn_now_ns() - begin;
    return NULL;
}

static hn_status write_outputs(const subject *s) {
    char path[4096];
    for (uint32_t k = 0; k < s->output_count && s->o.outputs; k++) {
        const hn_tensor *t = s->outputs[k];
        if (!t) continue;
        const size_t bytes = (size_t)hn_tensor_numel(t) * hn_scalar_type_bytes(hn_tensor_type(t));
        void *elements = malloc(bytes + 1);
        if (!elements) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for an output");
        snprintf(path, sizeof path, "%s/output_%u.bin", s->o.outputs, k);
        hn_status status = hn_tensor_copy_out(t, elements);
        if (!status) status = hn_file_write_atomic(path, elements, bytes, false);
        free(elements);
        HN_TRY(status);
    }
    return NULL;
}

static hn_status load_module(subject *s, bool profile, bool graphs) {
    const int64_t begin = hn_now_ns();
    HN_TRY(hn_compiled_load(
        s->compiled,
        &(hn_module_options){.device = s->o.device, .profile = profile, .device_graphs = graphs},
        &s->module));
    s->load_ns = hn_now_ns() - begin;
    return NULL;
}

/* The median of calls, of which there are no more than `seconds` have room for. */
static hn_status time_calls(subject *s, hn_status (*call)(subject *s, int64_t *out_ns),
                            int64_t *out_ns) {
    double calls[CALLS];
    int count = 0;
    const int64_t begin = hn_now_ns();
    while (count < CALLS && (double)(hn_now_ns() - begin) < 1e9 * s->o.seconds) {
        int64_t ns;
        HN_TRY(call(s, &ns));
        calls[count++] = (double)ns;
    }
    *out_ns = count ? (int64_t)median(calls, (size_t)count) : 0;
    return NULL;
}

/* ---- the same with tensors in memory of the device ---- */

static hn_status move_inputs(subject *s) {
    hn_context *c;
    HN_TRY(hn_context_take(s->module, &c));
    hn_status status = NULL;
    for (uint32_t k = 0; k < s->input_count && !status; k++)
        if (s->inputs[k] && !s->module->input_is_hosts[k])
            status = gpu_tensor_move(s->module, c->places[HN_PLACE_KERNELS].queue, &s->inputs[k]);
    hn_context_give(s->module, c);
    return status;
}

static hn_status call_there(subject *s, int64_t *out_ns) {
    hn_tensor *outputs[MAX_TENSORS] = {NULL};
    const int64_t begin = hn_now_ns();
    HN_TRY(hn_module_run_with(s->module, &(hn_run_options){.device_outputs = true}, s->inputs,
                              s->input_count, outputs, s->output_count));
    *out_ns = hn_now_ns() - begin;
    for (uint32_t k = 0; k < s->output_count; k++) hn_tensor_release(outputs[k]);
    return NULL;
}

/* A program of which that cannot be told has no such figure. */
static hn_status take_turns(subject *s) {
    hn_status status = gpu_turns_measure(s->module, s->inputs, s->input_count, &s->turns);
    if (hn_status_code(status) != HN_UNSUPPORTED) return status;
    hn_status_free(status);
    s->turns.launches = 0;
    return NULL;
}

/* Of devices that take such tensors. */
static hn_status time_calls_there(subject *s, int64_t *out_ns) {
    if (s->module->place_count == 1 || !s->module->device->facts.has_addresses) return NULL;
    HN_TRY(move_inputs(s));
    HN_TRY(time_calls(s, call_there, out_ns));
    if (s->o.bare && !s->module->records) HN_TRY(take_turns(s));
    for (uint32_t k = 0; k < s->input_count; k++) {
        hn_tensor_release(s->inputs[k]);
        s->inputs[k] = NULL;
    }
    return make_inputs(s); /* for what comes behind */
}

/* First a module as users have it: its first run, outputs, and the time of a call with its copies. */
static hn_status run_as_users_do(subject *s) {
    HN_TRY(load_module(s, false, false));
    HN_TRY(make_inputs(s));
    HN_TRY(run_once(s, &s->first_ns));
    HN_TRY(write_outputs(s));
    if (!s->o.no_calls) {
        HN_TRY(time_calls(s, run_once, &s->call_ns));
        HN_TRY(time_calls_there(s, &s->call_there_ns));
    }
    hn_module_release(s->module);
    s->module = NULL;
    return NULL;
}

/* ---- runs of the steps alone ---- */

/* The place in `io` of each input that steps read where it lies, and its bytes. */
static bool input_place(const hn_module *m, const hn_context *c, uint32_t k, uint32_t *out_place,
                        int64_t *out_bytes) {
    *out_bytes = c->bounds[0]->input_bytes[k];
    *out_place = k;
    if (!c->bounds[0]->input_strides[k]) return false; /* a number */
    for (uint32_t u = 0; u < m->upload_count; u++)
        if (m->uploads[u] == k) *out_place = m->view.inputs_count + m->output_buffer_count + u;
    return m->place_count == 1 || *out_place != k;
}

/* Memory of its own for a place of `io`, with the content that the place has. */
static hn_status own_place(subject *s, const hn_context *c, uint32_t set, uint32_t place,
                           int64_t bytes, bool copies) {
    const hn_module *m = s->module;
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    void *memory = m->device->ops->alloc(m->device, bytes ? (size_t)bytes : 1);
    if (!memory) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for another set of inputs");
    s->sets[set][place] = memory;
    return bytes && copies ? m->device->ops->copy(queue, memory, c->io[place], (size_t)bytes)
                           : NULL;
}

static hn_status make_set(subject *s, const hn_context *c, uint32_t set) {
    const hn_module *m = s->module;
    uint32_t place;
    int64_t bytes, sum = 0;
    s->sets[set] = calloc(m->io_count + 1u, sizeof *s->sets[set]);
    if (!s->sets[set]) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    for (uint32_t k = 0; k < m->view.inputs_count; k++) {
        if (!input_place(m, c, k, &place, &bytes)) continue;
        HN_TRY(own_place(s, c, set, place, bytes, true));
        sum += bytes;
    }
    for (uint32_t k = 0; k < m->output_buffer_count; k++) {
        sum += c->bounds[0]->block_bytes[k];
        if (m->place_count > 1 && !hn_buffer_is_remote(m, m->output_buffers[k])) continue;
        HN_TRY(own_place(s, c, set, m->view.inputs_count + k, c->bounds[0]->block_bytes[k], false));
    }
    s->set_bytes = sum;
    return NULL;
}

static hn_status make_sets(subject *s, const hn_context *c) {
    hn_device_fault fault;
    do {
        HN_TRY(make_set(s, c, s->set_count++));
    } while (s->set_count < MAX_SETS && s->set_bytes * s->set_count < s->o.rotate_bytes);
    return s->module->device->ops->finish(c->places[HN_PLACE_KERNELS].queue, &fault);
}

static hn_status submit_run(subject *s, hn_context *c, void **set) {
    for (uint32_t k = 0; k < s->module->io_count; k++)
        if (set[k]) c->io[k] = set[k];
    return hn_steps_run(s->module, c);
}

/* The device's context is looked at once, as in a run. */
static hn_status submit_runs(subject *s, hn_context *c, int64_t count) {
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    hn_status status = NULL;
    hn_queue_enter(queue);
    for (int64_t r = 0; r < count && !status; r++)
        status = submit_run(s, c, s->sets[r % s->set_count]);
    hn_queue_leave(queue);
    return status;
}

/* Launches what was recorded, or runs the steps one by one if there is no recording. */
static hn_status submit_recorded(subject *s, hn_context *c, hn_recording *recording,
                                 int64_t count) {
    hn_status status = NULL;
    if (!recording) return submit_runs(s, c, count);
    for (int64_t k = 0; k < count && !status; k++)
        status = s->module->device->ops->replay(c->places[HN_PLACE_KERNELS].queue, recording);
    return status;
}

/* Of `count` runs, or launches of the recording. By the device's clock, or else the host's. A module
 * with graphs has queues without times. */
static hn_status time_runs(subject *s, hn_context *c, hn_recording *recording, int64_t count,
                           double *out_us) {
    const hn_device_ops *ops = s->module->device->ops;
    const bool has_events = ops->event_time && s->module->has_profile;
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    hn_event *events[2] = {NULL, NULL};
    int64_t times[2] = {hn_now_ns(), 0};
    if (has_events) HN_TRY(ops->record(queue, &events[0]));
    hn_status status = submit_recorded(s, c, recording, count);
    if (!status && has_events) status = ops->record(queue, &events[1]);
    status = hn_steps_finish(s->module, c, status);
    times[1] = hn_now_ns();
    for (int k = 0; k < 2 && has_events && !status; k++)
        status = ops->event_time(events[k], &times[k]);
    ops->event_free(events[0]);
    ops->event_free(events[1]);
    *out_us = (double)(times[1] - times[0]) / 1e3 / (double)count;
    return status;
}

static hn_status time_blocks(subject *s, hn_context *c, double times[BLOCKS]) {
    double us;
    const int64_t warm_up = s->set_count > MIN_RUNS ? s->set_count : MIN_RUNS;
    HN_TRY(time_runs(s, c, NULL, warm_up, &us)); /* loads what is not yet, touches all memory */
    HN_TRY(time_runs(s, c, NULL, MIN_RUNS, &us));
    s->runs = (int64_t)(1e6 * s->o.seconds / BLOCKS / (us > 0.1 ? us : 0.1));
    if (s->runs < MIN_RUNS) s->runs = MIN_RUNS;
    if (s->runs > MAX_RUNS) s->runs = MAX_RUNS;
    for (int k = 0; k < BLOCKS; k++) HN_TRY(time_runs(s, c, NULL, s->runs, &times[k]));
    return NULL;
}

/* Whether all of a run is given to the device, and nothing waits for it. */
static bool can_record(const hn_module *m) {
    for (uint32_t k = 0; k < m->view.steps_count; k++) {
        const hnb_step *step = &m->view.steps[k];
        const bool is_call =
            step->kind == HNB_STEP_EXTERN && hn_place_of(m, step->device) == HN_PLACE_KERNELS;
        if (step->kind != HNB_STEP_KERNEL && !is_call) return false;
    }
    return m->device->ops->recording_begin != NULL;
}

/* As many runs as there are sets of memory, and a multiple of that where they have few steps. */
static hn_status record_runs(subject *s, hn_context *c, hn_recording **out, int64_t *out_runs) {
    const hn_device_ops *ops = s->module->device->ops;
    hn_queue *queue = c->places[HN_PLACE_KERNELS].queue;
    const int64_t steps = s->module->view.steps_count ? s->module->view.steps_count : 1;
    *out_runs = s->set_count;
    while (2 * *out_runs * steps <= RECORDED_STEPS && 2 * *out_runs <= s->runs) *out_runs *= 2;
    HN_TRY(ops->recording_begin(queue));
    hn_status status = submit_runs(s, c, *out_runs);
    hn_status end = ops->recording_end(queue, !status, out);
    if (!status) return end;
    hn_status_free(end);
    return status;
}

static hn_status time_recorded(subject *s, hn_context *c) {
    hn_recording *recording = NULL;
    int64_t runs;
    double us;
    if (!can_record(s->module)) return NULL;
    HN_TRY(record_runs(s, c, &recording, &runs));
    const int64_t count = (s->runs + runs - 1) / runs;
    hn_status status = time_runs(s, c, recording, 1, &us);
    for (int k = 0; k < BLOCKS && !status; k++) {
        status = time_runs(s, c, recording, count, &us);
        s->recorded_us[k] = us / (double)runs;
    }
    hn_recording_free(recording);
    return status;
}

static hn_status time_submits(subject *s, hn_context *c) {
    double times[BLOCKS];
    const uint32_t steps = s->module->view.steps_count ? s->module->view.steps_count : 1;
    const int64_t count = steps < SUBMIT_STEPS ? SUBMIT_STEPS / steps : 1;
    for (int k = 0; k < BLOCKS; k++) {
        const int64_t begin = hn_now_ns();
        hn_status status = submit_runs(s, c, count);
        times[k] = (double)(hn_now_ns() - begin) / 1e3 / (double)count;
        HN_TRY(hn_steps_finish(s->module, c, status));
    }
    s->submit_us = median(times, BLOCKS);
    return NULL;
}

/* The context that a run has left: bound, with addresses of everything. */
static hn_status run_steps(subject *s) {
    hn_context *c;
    HN_TRY(hn_context_take(s->module, &c));
    c->hooks.count = 0;
    c->cancel = NULL;
    hn_status status = make_sets(s, c);
    if (!status) status = time_blocks(s, c, s->run_us);
    if (!status) status = time_recorded(s, c);
    if (!status) status = time_submits(s, c);
    hn_context_give(s->module, c);
    return status;
}

/* ---- the same with CUDA graphs ---- */

/* A run with the sets of memory that there are and one more. */
static hn_status time_graph_sets(subject *s, hn_context *c, double *out_us) {
    double times[BLOCKS];
    HN_TRY(make_set(s, c, s->set_count++));
    HN_TRY(time_blocks(s, c, times));
    *out_us = median(times, BLOCKS);
    return NULL;
}

/* One set of memory first, so that all runs have the same addresses. Then two in turns: each run
 * gives the graph other addresses than the last. */
static hn_status run_graph(subject *s) {
    hn_context *c;
    HN_TRY(hn_context_take(s->module, &c));
    c->hooks.count = 0;
    c->cancel = NULL;
    s->set_count = 0;
    hn_status status = time_graph_sets(s, c, &s->graph_us);
    if (!status) status = time_graph_sets(s, c, &s->graph_moved_us);
    hn_context_give(s->module, c);
    return status;
}

/* A third module, beside the one that the report is of. A run is timed by the host's clock, over many
 * runs and one wait. */
static hn_status time_graphs(subject *s) {
    hn_module_stats m;
    int64_t ns;
    const int64_t load_ns = s->load_ns, runs = s->runs, set_bytes = s->set_bytes;
    const uint32_t set_count = s->set_count;
    hn_module *reported = s->module;
    HN_TRY(load_module(s, false, true));
    for (int k = 0; k < 3; k++) HN_TRY(run_once(s, &ns));
    if (!s->o.no_calls) {
        HN_TRY(time_calls(s, run_once, &s->graph_call_ns));
        HN_TRY(time_calls_there(s, &s->graph_call_there_ns));
        HN_TRY(
            run_once(s, &ns)); /* in place of memory that is gone, the context has its own again */
    }
    hn_module_stats_get(s->module, &m);
    s->graph_runs = m.graph_runs;
    HN_TRY(run_graph(s));
    s->module = reported;
    s->load_ns = load_ns;
    s->runs = runs;
    s->set_bytes = set_bytes;
    s->set_count = set_count;
    return NULL;
}

/* ---- the report ---- */

static void print_report(subject *s) {
    hn_module_device_info device;
    hn_module_stats m;
    hn_module_device_get(s->module, &device);
    hn_module_stats_get(s->module, &m);
    printf("{\"device\": \"%s\", \"compile_ms\": %.2f, \"load_ms\": %.2f, \"first_ms\": %.2f",
           device.name, (double)s->stats.total_ns / 1e6, (double)s->load_ns / 1e6,
           (double)s->first_ns / 1e6);
    printf(", \"kernels\": %u, \"extern\": %u, \"host_steps\": %u, \"from_cache\": %s",
           s->stats.kernels_generated, s->stats.kernels_extern, m.host_steps,
           s->stats.graph_cache == HN_CACHE_HIT ? "true" : "false");
    printf(", \"sets\": %u, \"set_bytes\": %lld, \"runs\": %lld, \"workspace_bytes\": %llu",
           s->set_count, (long long)s->set_bytes, (long long)s->runs,
           (unsigned long long)m.peak_workspace_bytes);
    printf(", \"call_us\": %.2f, \"device_us\": %.3f", (double)s->call_ns / 1e3,
           median(s->run_us, BLOCKS));
    if (s->call_there_ns) printf(", \"call_there_us\": %.2f", (double)s->call_there_ns / 1e3);
    printf(", \"recorded_us\": %.3f", median(s->recorded_us, BLOCKS));
    printf(", \"device_min_us\": %.3f", s->run_us[0]); /* they are sorted now */
    printf(", \"submit_us\": %.3f", s->submit_us);
    if (s->turns.launches) gpu_turns_print(&s->turns);
    if (s->o.graphs) {
        printf(", \"graph_runs\": %llu, \"graph_us\": %.3f, \"graph_moved_us\": %.3f",
               (unsigned long long)s->graph_runs, s->graph_us, s->graph_moved_us);
        printf(", \"graph_call_us\": %.2f, \"graph_call_there_us\": %.2f",
               (double)s->graph_call_ns / 1e3, (double)s->graph_call_there_ns / 1e3);
    }
    gpu_steps_print(s->module, &s->traffic);
    printf("}\n");
}

/* A second module, whose queues have times. */
static hn_status measure(subject *s) {
    int64_t ns;
    const char *name; /* of a device by its UUID */
    hn_device device;
    HN_TRY(hn_device_parse(s->o.device, &device, &name));
    const char *target = device.kind == HN_DEVICE_CPU ? NULL : hn_device_name(device.kind);
    HN_TRY(hn_compile_file(s->o.model,
                           &(hn_compile_options){.target = target,
                                                 .no_cache = s->o.no_cache,
                                                 .deterministic = s->o.deterministic},
                           &s->compiled));
    hn_compiled_stats_get(s->compiled, &s->stats);
    HN_TRY(run_as_users_do(s));
    if (s->o.seconds <= 0) return NULL;
    const int64_t load_ns = s->load_ns;
    HN_TRY(load_module(s, true, false));
    s->load_ns = load_ns;
    for (int k = 0; k < 3; k++) HN_TRY(run_once(s, &ns));
    HN_TRY(gpu_traffic_count(s->module, s->inputs, s->input_count, s->outputs, s->output_count,
                             &s->traffic));
    HN_TRY(run_steps(s));
    if (s->o.graphs) HN_TRY(time_graphs(s));
    print_report(s);
    return NULL;
}

static bool parse(int argc, char **argv, options *o) {
    *o = (options){.device = "cuda", .rotate_bytes = INT64_C(256) << 20, .seconds = 0.3};
    int k = 1;
    for (; k < argc && argv[k][0] == '-'; k++) {
        const bool has_word = k + 1 < argc;
        if (strcmp(argv[k], "--no-cache") == 0) o->no_cache = true;
        else if (strcmp(argv[k], "--no-calls") == 0) o->no_calls = true;
        else if (strcmp(argv[k], "--bare") == 0) o->bare = true;
        else if (strcmp(argv[k], "--graphs") == 0) o->graphs = true;
        else if (strcmp(argv[k], "--deterministic") == 0) o->deterministic = true;
        else if (!has_word) return false;
        else if (strcmp(argv[k], "--device") == 0) o->device = argv[++k];
        else if (strcmp(argv[k], "--inputs") == 0) o->inputs = argv[++k];
        else if (strcmp(argv[k], "--outputs") == 0) o->outputs = argv[++k];
        else if (strcmp(argv[k], "--rotate") == 0) o->rotate_bytes = atoll(argv[++k]);
        else if (strcmp(argv[k], "--seconds") == 0) o->seconds = atof(argv[++k]);
        else return false;
    }
    o->model = k == argc - 1 ? argv[k] : NULL;
    return o->model != NULL;
}

/* Memory of the device goes with the process. */
int main(int argc, char **argv) {
    static subject s;
    if (!parse(argc, argv, &s.o)) {
        fprintf(stderr, "usage: bench_gpu_subject [--device DEVICE] [--inputs DIR] [--outputs DIR] "
                        "[--rotate BYTES] [--seconds S] [--no-cache] [--no-calls] [--bare] "
                        "[--graphs] [--deterministic] MODEL.pt2\n");
        return 2;
    }
    hn_status status = measure(&s);
    if (status) fprintf(stderr, "bench_gpu_subject: %s\n", hn_status_message(status));
    const int code = status != NULL;
    hn_status_free(status);
    fflush(stdout);
    _Exit(code);
}
