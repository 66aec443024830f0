/* gpu_turns.c: see the header. A function that notes launches takes the place of the driver's for
 * one run. Short blocks alternate, and each round begins with another one, so that what a block
 * leaves behind and what else the machine does falls on all alike. */
#include "bench/gpu_turns.h"

#include "base/trace.h"
#include "bench/median.h"
#include "runtime/device/cuda.h"

#include <stdio.h>

enum { ROUNDS = 101, CALLS = 20, BURST = 20, LAUNCHES_MAX = 128, PARAMS_MAX = 64, BLOCKS_MAX = 3 };

/* What the driver was given. All arguments have 8 bytes (codegen/cuda/README.md). */
typedef struct noted_launch {
    hn_cuda_function function;
    unsigned grid[3], block[3], shared_bytes;
    hn_cuda_stream stream;
    uint64_t values[PARAMS_MAX];
    void *params[PARAMS_MAX];
} noted_launch;

typedef struct race {
    hn_module *m;
    cuda_dev *dev;
    hn_cuda real;
    hn_tensor *const *inputs;
    uint32_t input_count;
    hn_context *c; /* for launches without calls */
    noted_launch launches[LAUNCHES_MAX];
    uint32_t launch_count;
    bool is_whole; /* all launches were noted */
} race;

/* ---- noting ---- */

static race *noting; /* the driver's function has no room for it */

static bool note_params(const hn_cuda *cuda, hn_cuda_function function, void **params,
                        noted_launch *out) {
    size_t offset, bytes;
    uint32_t k = 0;
    for (; cuda->cuFuncGetParamInfo(function, k, &offset, &bytes) == HN_CUDA_SUCCESS; k++) {
        if (k == PARAMS_MAX || bytes != sizeof out->values[k]) return false;
        memcpy(&out->values[k], params[k], bytes);
        out->params[k] = &out->values[k];
    }
    return true;
}

static hn_cuda_result note_launch(hn_cuda_function function, unsigned grid_x, unsigned grid_y,
                                  unsigned grid_z, unsigned block_x, unsigned block_y,
                                  unsigned block_z, unsigned shared_bytes, hn_cuda_stream stream,
                                  void **params, void **extra) {
    race *r = noting;
    if (r->launch_count == LAUNCHES_MAX) r->is_whole = false;
    if (r->is_whole) {
        noted_launch *l = &r->launches[r->launch_count++];
        l->function = function;
        l->stream = stream;
        l->shared_bytes = shared_bytes;
        l->grid[0] = grid_x, l->grid[1] = grid_y, l->grid[2] = grid_z;
        l->block[0] = block_x, l->block[1] = block_y, l->block[2] = block_z;
        r->is_whole = note_params(&r->real, function, params, l);
    }
    return r->real.cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                  shared_bytes, stream, params, extra);
}

static hn_status call_once(race *r) {
    hn_tensor *outputs[64] = {NULL};
    hn_status status = hn_module_run_with(r->m, &(hn_run_options){.device_outputs = true},
                                          r->inputs, r->input_count, outputs, r->m->output_count);
    for (uint32_t k = 0; k < r->m->output_count; k++) hn_tensor_release(outputs[k]);
    return status;
}

/* Whether launches are all that a run gives to the driver. */
static bool only_launches(const hn_module *m) {
    for (uint32_t k = 0; k < m->view.steps_count; k++)
        if (m->view.steps[k].kind != HNB_STEP_KERNEL) return false;
    return m->device->ops->kind == HN_DEVICE_CUDA && m->output_count <= 64;
}

static hn_status note_run(race *r) {
    r->real = r->dev->cuda;
    if (!r->real.cuFuncGetParamInfo)
        return HN_ERROR(HN_UNSUPPORTED, "this driver does not tell the arguments of kernels");
    noting = r;
    r->is_whole = true;
    r->dev->cuda.cuLaunchKernel = note_launch;
    hn_status status = call_once(r);
    r->dev->cuda = r->real;
    if (status) return status;
    return r->is_whole && r->launch_count
               ? NULL
               : HN_ERROR(HN_UNSUPPORTED, "the launches of this program cannot be repeated");
}

/* ---- the same by the driver alone ---- */

static hn_status launch_noted(race *r) {
    hn_cuda_result code = HN_CUDA_SUCCESS;
    for (uint32_t k = 0; k < r->launch_count && code == HN_CUDA_SUCCESS; k++) {
        noted_launch *l = &r->launches[k];
        code = r->real.cuLaunchKernel(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                                      l->block[1], l->block[2], l->shared_bytes, l->stream,
                                      l->params, NULL);
    }
    return hn_cuda_status(&r->real, code, "cuLaunchKernel");
}

static hn_status wait_for_noted(race *r) {
    return hn_cuda_status(&r->real, r->real.cuStreamSynchronize(r->launches[0].stream),
                          "cuStreamSynchronize");
}

/* ---- blocks: each gives the time of one of its parts ---- */

typedef hn_status (*block_fn)(race *r, double *out_ns);

static hn_status block_bare_calls(race *r, double *out_ns) {
    const int64_t begin = hn_now_ns();
    for (int k = 0; k < CALLS; k++) {
        HN_TRY(launch_noted(r));
        HN_TRY(wait_for_noted(r));
    }
    *out_ns = (double)(hn_now_ns() - begin) / CALLS;
    return NULL;
}

static hn_status block_calls(race *r, double *out_ns) {
    const int64_t begin = hn_now_ns();
    for (int k = 0; k < CALLS; k++) HN_TRY(call_once(r));
    *out_ns = (double)(hn_now_ns() - begin) / CALLS;
    return NULL;
}

static hn_status block_calls_apart(race *r, double *out_ns) {
    hn_cuda_context own;
    HN_TRY(hn_cuda_status(&r->real, r->real.cuCtxPopCurrent(&own), "cuCtxPopCurrent"));
    hn_status status = block_calls(r, out_ns);
    (void)r->real.cuCtxPushCurrent(own);
    return status;
}

static int bursts_of(const race *r) {
    return r->launch_count < BURST ? BURST / (int)r->launch_count : 1;
}

static hn_status block_bare_launches(race *r, double *out_ns) {
    const int runs = bursts_of(r);
    const int64_t begin = hn_now_ns();
    for (int k = 0; k < runs; k++) HN_TRY(launch_noted(r));
    *out_ns = (double)(hn_now_ns() - begin) / (runs * (double)r->launch_count);
    return wait_for_noted(r);
}

static hn_status block_launches(race *r, double *out_ns) {
    const int runs = bursts_of(r);
    hn_status status = NULL;
    hn_queue_enter(r->c->places[HN_PLACE_KERNELS].queue); /* as a run does */
    const int64_t begin = hn_now_ns();
    for (int k = 0; k < runs && !status; k++) status = hn_steps_run(r->m, r->c);
    *out_ns = (double)(hn_now_ns() - begin) / (runs * (double)r->launch_count);
    hn_queue_leave(r->c->places[HN_PLACE_KERNELS].queue);
    return hn_steps_finish(r->m, r->c, status);
}

/* ---- turns ---- */

/* Of each block the median, and the median of what it is above the first one. */
static hn_status take_turns(race *r, const block_fn *blocks, uint32_t count, double *out_ns,
                            double *out_above_ns) {
    double times[BLOCKS_MAX][ROUNDS], above[ROUNDS];
    for (uint32_t k = 0; k < count; k++) HN_TRY(blocks[k](r, &times[k][0]));
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t turn = 0; turn < count; turn++) {
            const uint32_t k = (turn + round) % count;
            HN_TRY(blocks[k](r, &times[k][round]));
        }
    for (uint32_t k = count; k-- > 0;) {
        for (uint32_t round = 0; round < ROUNDS; round++)
            above[round] = times[k][round] - times[0][round];
        out_above_ns[k] = median(above, ROUNDS);
        out_ns[k] = median(times[k], ROUNDS); /* sorts: the first one is the last */
    }
    return NULL;
}

static hn_status race_calls(race *r, gpu_turns *out) {
    const block_fn blocks[] = {block_bare_calls, block_calls, block_calls_apart};
    double ns[BLOCKS_MAX], above[BLOCKS_MAX];
    HN_TRY(take_turns(r, blocks, 3, ns, above));
    out->bare_call_us = ns[0] / 1e3;
    out->call_us = ns[1] / 1e3;
    out->call_above_us = above[1] / 1e3;
    out->apart_above_us = above[2] / 1e3;
    return NULL;
}

/* Without the context that a call takes: the one that the last call has left. */
static hn_status race_launches(race *r, gpu_turns *out) {
    const block_fn blocks[] = {block_bare_launches, block_launches};
    double ns[BLOCKS_MAX], above[BLOCKS_MAX];
    HN_TRY(hn_context_take(r->m, &r->c));
    r->c->hooks.count = 0;
    r->c->cancel = NULL;
    hn_status status = take_turns(r, blocks, 2, ns, above);
    hn_context_give(r->m, r->c);
    if (status) return status;
    out->bare_launch_ns = ns[0];
    out->launch_ns = ns[1];
    out->launch_above_ns = above[1];
    return NULL;
}

static hn_status run_race(race *r, gpu_turns *out) {
    HN_TRY(call_once(r));
    HN_TRY(note_run(r));
    out->launches = r->launch_count;
    HN_TRY(race_calls(r, out));
    return race_launches(r, out);
}

hn_status gpu_turns_measure(hn_module *m, hn_tensor *const *inputs, uint32_t input_count,
                            gpu_turns *out) {
    static race r; /* large */
    hn_cuda_context ignored;
    if (!only_launches(m))
        return HN_ERROR(HN_UNSUPPORTED, "a run of this program is not made of launches alone");
    r = (race){.m = m, .dev = (cuda_dev *)m->device, .inputs = inputs, .input_count = input_count};
    const hn_cuda *cuda = &r.dev->cuda;
    HN_TRY(hn_cuda_status(cuda, cuda->cuCtxPushCurrent(r.dev->context), "cuCtxPushCurrent"));
    hn_status status = run_race(&r, out);
    (void)cuda->cuCtxPopCurrent(&ignored);
    return status;
}

void gpu_turns_print(const gpu_turns *t) {
    printf(", \"turns\": {\"launches\": %u, \"launch_ns\": %.0f, \"bare_launch_ns\": %.0f, "
           "\"launch_above_ns\": %.0f",
           t->launches, t->launch_ns, t->bare_launch_ns, t->launch_above_ns);
    printf(", \"call_us\": %.3f, \"bare_call_us\": %.3f, \"call_above_us\": %.3f, "
           "\"apart_above_us\": %.3f}",
           t->call_us, t->bare_call_us, t->call_above_us, t->apart_above_us);
}
