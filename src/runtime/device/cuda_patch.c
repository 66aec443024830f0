/* cuda_patch.c: the calls that were captured into a graph, with its nodes, and how their addresses
 * are exchanged in what was made of the graph, without capturing them again.
 *
 * While a stream is captured, each launch, copy and fill of the row is noted with the node that the
 * driver made of it. Later the same calls are given with other addresses, and compared: a node is
 * set (cuGraphExecKernelNodeSetParams and its like) where one of its values is another. The nodes
 * are named by those of the captured graph, so that is kept.
 *
 * An operation of a library may be several nodes. The driver tells their parameters
 * (cuGraphKernelNodeGetParams), but not what they mean: structs in which addresses stand anywhere,
 * also in parts, as in the descriptors of Hopper's copies. A number that looks like the address of
 * before may be something else. So they stay as they are, and a graph in which an operation has
 * another address is captured again. */
#include "runtime/device/cuda.h"

#include <stdlib.h>

/* A call that was noted. */
typedef struct noted {
    cuda_call call;          /* its `values` are NULL: they are in the lists, ... */
    hn_cuda_graph_node node; /* NULL: an operation */
    uint32_t first;          /* ... from here on */
} noted;

struct cuda_calls {
    uint32_t refs; /* recordings of one bound, which one thread has at a time */
    hn_cuda_graph graph;
    noted *items;
    uint32_t count, cap;
    uint64_t *values, *fresh; /* at the capture; of the last comparison */
    uint32_t value_count, value_cap;
    uint32_t at;                  /* of the comparison: the next item */
    bool is_compared, is_another; /* it is under way; something was not as noted */
    bool is_incomplete;           /* nothing is known of the nodes */
};

static bool can_patch(const hn_cuda *cuda) {
    return cuda->cuStreamGetCaptureInfo && cuda->cuGraphExecKernelNodeSetParams &&
           cuda->cuGraphExecMemcpyNodeSetParams && cuda->cuGraphExecMemsetNodeSetParams;
}

cuda_calls *hn_cuda_calls_begin(const cuda_dev *d) {
    cuda_calls *calls = can_patch(&d->cuda) ? calloc(1, sizeof *calls) : NULL;
    if (calls) calls->refs = 1;
    return calls;
}

cuda_calls *hn_cuda_calls_retain(cuda_calls *calls) {
    calls->refs++;
    return calls;
}

void hn_cuda_calls_release(const cuda_dev *d, cuda_calls *calls) {
    if (!calls || --calls->refs) return;
    if (calls->graph) (void)d->cuda.cuGraphDestroy(calls->graph);
    free(calls->items);
    free(calls->values);
    free(calls->fresh);
    free(calls);
}

void hn_cuda_calls_take(cuda_calls *calls, hn_cuda_graph graph) { calls->graph = graph; }

hn_cuda_graph hn_cuda_calls_graph(const cuda_calls *calls) { return calls->graph; }

const uint64_t *hn_cuda_calls_values(const cuda_calls *calls, uint32_t *out_count) {
    *out_count = calls->value_count;
    return calls->values;
}

/* ---- noting ---- */

static bool grow_items(cuda_calls *calls) {
    if (calls->count < calls->cap) return true;
    const uint32_t cap = 2 * calls->cap + 32;
    noted *more = realloc(calls->items, cap * sizeof *more);
    if (!more) return false;
    calls->items = more;
    calls->cap = cap;
    return true;
}

static bool grow_list(uint64_t **list, uint32_t cap) {
    uint64_t *more = realloc(*list, cap * sizeof *more);
    if (more) *list = more;
    return more != NULL;
}

static bool grow_values(cuda_calls *calls, uint32_t count) {
    if (calls->value_count + count <= calls->value_cap) return true;
    const uint32_t cap = 2 * calls->value_cap + count + 128;
    if (!grow_list(&calls->values, cap) || !grow_list(&calls->fresh, cap)) return false;
    calls->value_cap = cap;
    return true;
}

/* What the driver made of the last call: the next one would wait for it alone. */
static hn_cuda_graph_node last_node(const cuda_queue *q) {
    const hn_cuda *cuda = &((const cuda_dev *)q->base.dev)->cuda;
    const hn_cuda_graph_node *nodes = NULL;
    hn_cuda_graph graph = NULL;
    size_t count = 0;
    uint64_t id;
    int state;
    if (cuda->cuStreamGetCaptureInfo(q->stream, &state, &id, &graph, &nodes, &count) !=
        HN_CUDA_SUCCESS)
        return NULL;
    return count == 1 ? nodes[0] : NULL;
}

static void copy_values(const cuda_call *call, uint64_t *out) {
    for (uint32_t k = 0; k < call->value_count; k++)
        memcpy(&out[k], call->values[k], sizeof out[k]);
}

void hn_cuda_call_note(cuda_queue *q, const cuda_call *call) {
    cuda_calls *calls = q->calls;
    if (calls->is_incomplete) return;
    const bool has_node = call->kind != CUDA_OPERATION;
    hn_cuda_graph_node node = has_node ? last_node(q) : NULL;
    calls->is_incomplete =
        (has_node && !node) || !grow_items(calls) || !grow_values(calls, call->value_count);
    if (calls->is_incomplete) return;
    copy_values(call, calls->values + calls->value_count);
    noted *n = &calls->items[calls->count++];
    *n = (noted){*call, node, calls->value_count};
    n->call.values = NULL;
    calls->value_count += call->value_count;
}

/* ---- comparing ---- */

static bool is_alike(const cuda_call *a, const cuda_call *b) {
    if (a->kind != b->kind || a->of != b->of || a->value_count != b->value_count) return false;
    if (a->kind == CUDA_OPERATION) return true;
    if (a->kind != CUDA_LAUNCH) return a->bytes == b->bytes && a->byte == b->byte;
    return a->launch.function == b->launch.function &&
           memcmp(a->launch.grid, b->launch.grid, sizeof a->launch.grid) == 0 &&
           memcmp(a->launch.block, b->launch.block, sizeof a->launch.block) == 0 &&
           a->launch.shared_bytes == b->launch.shared_bytes;
}

bool hn_cuda_calls_are_alike(const cuda_calls *a, const cuda_calls *b) {
    if (a->is_incomplete || b->is_incomplete || a->count != b->count) return false;
    for (uint32_t k = 0; k < a->count; k++)
        if (!is_alike(&a->items[k].call, &b->items[k].call)) return false;
    return true;
}

bool hn_cuda_call_compare(cuda_queue *q, const cuda_call *call) {
    cuda_calls *calls = q->calls;
    if (!calls->is_compared) return false;
    if (calls->at == calls->count || !is_alike(&calls->items[calls->at].call, call))
        calls->is_another = true;
    if (!calls->is_another) copy_values(call, calls->fresh + calls->items[calls->at++].first);
    return true;
}

void hn_cuda_calls_compare_begin(cuda_calls *calls) {
    calls->is_compared = true;
    calls->is_another = calls->is_incomplete;
    calls->at = 0;
}

bool hn_cuda_calls_compare_end(cuda_calls *calls) {
    calls->is_compared = false;
    return !calls->is_another && calls->at == calls->count;
}

/* ---- exchanging ---- */

static bool has_changed(const cuda_calls *calls, const noted *n, const uint64_t *values) {
    return memcmp(values + n->first, calls->fresh + n->first,
                  n->call.value_count * sizeof *values) != 0;
}

bool hn_cuda_calls_can_patch(const cuda_calls *calls, const uint64_t *values) {
    for (uint32_t k = 0; k < calls->count; k++)
        if (!calls->items[k].node && has_changed(calls, &calls->items[k], values)) return false;
    return true;
}

static hn_cuda_result set_launch(const cuda_dev *d, hn_cuda_graph_exec exec, const noted *n,
                                 uint64_t *values) {
    hn_cuda_kernel_node node = n->call.launch;
    void **params = malloc(n->call.value_count * sizeof *params);
    if (!params) return HN_CUDA_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < n->call.value_count; k++) params[k] = &values[k];
    node.params = params;
    const hn_cuda_result code = d->cuda.cuGraphExecKernelNodeSetParams(exec, n->node, &node);
    free(params);
    return code;
}

static hn_cuda_result set_copy(const cuda_dev *d, hn_cuda_graph_exec exec, const noted *n,
                               const uint64_t *values) {
    const hn_cuda_copy_node node = {
        .from = {.memory_type = HN_CUDA_MEMORY_DEVICE, .device = values[1]},
        .to = {.memory_type = HN_CUDA_MEMORY_DEVICE, .device = values[0]},
        .width_bytes = n->call.bytes,
        .height = 1,
        .depth = 1};
    return d->cuda.cuGraphExecMemcpyNodeSetParams(exec, n->node, &node, d->context);
}

static hn_cuda_result set_fill(const cuda_dev *d, hn_cuda_graph_exec exec, const noted *n,
                               const uint64_t *values) {
    const hn_cuda_fill_node node = {.to = values[0],
                                    .value = n->call.byte,
                                    .element_bytes = 1,
                                    .width = n->call.bytes,
                                    .height = 1};
    return d->cuda.cuGraphExecMemsetNodeSetParams(exec, n->node, &node, d->context);
}

static hn_cuda_result set_node(const cuda_dev *d, hn_cuda_graph_exec exec, const noted *n,
                               uint64_t *values) {
    switch (n->call.kind) {
    case CUDA_LAUNCH: return set_launch(d, exec, n, values);
    case CUDA_COPY: return set_copy(d, exec, n, values);
    case CUDA_FILL: return set_fill(d, exec, n, values);
    default: return HN_CUDA_INVALID_VALUE;
    }
}

bool hn_cuda_calls_patch(cuda_dev *d, const cuda_calls *calls, hn_cuda_graph_exec exec,
                         uint64_t *values) {
    hn_cuda_result code = HN_CUDA_SUCCESS;
    for (uint32_t k = 0; k < calls->count && code == HN_CUDA_SUCCESS; k++) {
        const noted *n = &calls->items[k];
        if (!has_changed(calls, n, values)) continue;
        memcpy(values + n->first, calls->fresh + n->first, n->call.value_count * sizeof *values);
        code = set_node(d, exec, n, values + n->first);
    }
    /* an error after which the context is of no use is remembered */
    hn_status_free(hn_cuda_check(d, code, "a change of a graph's node"));
    return code == HN_CUDA_SUCCESS;
}
