/* cudnn_graph.c: see cudnn_graph.h. A graph is conv, + residual, + bias, relu, of which those are
 * left out that the call has not, and nothing between them is stored. The library has compiled
 * kernels for this order of sums; for others it would have to compile one. */
#include "ops/cuda/cudnn_graph.h"

#include "ops/cuda/alignment.h"

#include <stdbool.h>

/* ---- descriptors ---- */

static bool is_good(const hn_dnn_builder *b) { return b->status == NULL; }

#define DNN(b, call, ...) hn_cudnn_status((b)->dnn, (b)->dnn->call(__VA_ARGS__), #call)

void *hn_dnn_make(hn_dnn_builder *b, int type) {
    void *made = NULL;
    if (is_good(b) && b->count == HN_DNN_DESCRIPTORS_MAX)
        b->status = HN_ERROR(HN_INTERNAL, "too many descriptors of cuDNN");
    if (is_good(b)) b->status = DNN(b, cudnnBackendCreateDescriptor, type, &made);
    if (!is_good(b)) return NULL;
    return b->items[b->count++] = made;
}

void hn_dnn_set(hn_dnn_builder *b, void *descriptor, int attribute, int type, int64_t count,
                const void *elements) {
    if (is_good(b))
        b->status = DNN(b, cudnnBackendSetAttribute, descriptor, attribute, type, count, elements);
}

void hn_dnn_finish(hn_dnn_builder *b, void *descriptor) {
    if (is_good(b)) b->status = DNN(b, cudnnBackendFinalize, descriptor);
}

int64_t hn_dnn_get(hn_dnn_builder *b, const void *descriptor, int attribute, int type,
                   int64_t wanted, void *elements) {
    int64_t count = 0;
    if (is_good(b))
        b->status =
            DNN(b, cudnnBackendGetAttribute, descriptor, attribute, type, wanted, &count, elements);
    if (!is_good(b)) return 0;
    return count < wanted ? count : wanted;
}

void hn_dnn_drop(hn_dnn_builder *b, void *descriptor) {
    for (uint32_t k = 0; descriptor && k < b->count; k++) {
        if (b->items[k] != descriptor) continue;
        (void)b->dnn->cudnnBackendDestroyDescriptor(descriptor);
        b->items[k] = b->items[--b->count];
        return;
    }
}

void hn_dnn_end(hn_dnn_builder *b) {
    while (b->count) (void)b->dnn->cudnnBackendDestroyDescriptor(b->items[--b->count]);
    hn_status_free(b->status);
    b->status = NULL;
}

/* ---- the graph ---- */

enum { BETWEEN = 100, OPERATIONS_MAX = 4 }; /* ids of tensors between operations begin there */

typedef struct graph {
    hn_dnn_builder *b;
    const hn_convolution *conv;
    const hn_dnn_tensors *tensors;
    void *operations[OPERATIONS_MAX];
    uint32_t count, left; /* operations that are there, and that are missing */
} graph;

static void *make_tensor(graph *g, hn_convolution_tensor like, int64_t id, int type, bool stored) {
    const hn_convolution_shape *shape = &g->conv->of[like];
    const int64_t dims = 2 + g->conv->spatial;
    const int64_t align = stored ? g->tensors->align[like] : HN_ALIGN_MAX;
    const bool between = true;
    void *t = hn_dnn_make(g->b, HN_DNN_TENSOR);
    hn_dnn_set(g->b, t, HN_DNN_TENSOR_DATA_TYPE, HN_DNN_TYPE_DATA_TYPE, 1, &type);
    hn_dnn_set(g->b, t, HN_DNN_TENSOR_DIMENSIONS, HN_DNN_TYPE_INT64, dims, shape->sizes);
    hn_dnn_set(g->b, t, HN_DNN_TENSOR_STRIDES, HN_DNN_TYPE_INT64, dims, shape->strides);
    hn_dnn_set(g->b, t, HN_DNN_TENSOR_UNIQUE_ID, HN_DNN_TYPE_INT64, 1, &id);
    hn_dnn_set(g->b, t, HN_DNN_TENSOR_BYTE_ALIGNMENT, HN_DNN_TYPE_INT64, 1, &align);
    if (!stored) hn_dnn_set(g->b, t, HN_DNN_TENSOR_IS_VIRTUAL, HN_DNN_TYPE_BOOLEAN, 1, &between);
    hn_dnn_finish(g->b, t);
    return t;
}

static void *operand(graph *g, hn_convolution_tensor k) {
    return make_tensor(g, k, k, g->tensors->type, true);
}

/* What the next operation makes: the result, or an f32 that goes to the one behind it. */
static void *next_result(graph *g) {
    if (!--g->left) return operand(g, HN_CONVOLUTION_OUT);
    return make_tensor(g, HN_CONVOLUTION_OUT, BETWEEN + g->left, HN_DNN_FLOAT, false);
}

static void *make_conv_descriptor(graph *g) {
    const hn_convolution *conv = g->conv;
    const int64_t spatial = conv->spatial;
    const int sums = HN_DNN_FLOAT, mode = HN_DNN_CROSS_CORRELATION;
    void *d = hn_dnn_make(g->b, HN_DNN_CONVOLUTION);
    hn_dnn_set(g->b, d, HN_DNN_CONVOLUTION_SPATIAL_DIMS, HN_DNN_TYPE_INT64, 1, &spatial);
    hn_dnn_set(g->b, d, HN_DNN_CONVOLUTION_COMP_TYPE, HN_DNN_TYPE_DATA_TYPE, 1, &sums);
    hn_dnn_set(g->b, d, HN_DNN_CONVOLUTION_CONV_MODE, HN_DNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    hn_dnn_set(g->b, d, HN_DNN_CONVOLUTION_PRE_PADDINGS, HN_DNN_TYPE_INT64, spatial, conv->padding);
    hn_dnn_set(g->b, d, HN_DNN_CONVOLUTION_POST_PADDINGS, HN_DNN_TYPE_INT64, spatial,
               conv->padding);
    hn_dnn_set(g->b, d, HN_DNN_CONVOLUTION_DILATIONS, HN_DNN_TYPE_INT64, spatial, conv->dilation);
    hn_dnn_set(g->b, d, HN_DNN_CONVOLUTION_FILTER_STRIDES, HN_DNN_TYPE_INT64, spatial,
               conv->stride);
    hn_dnn_finish(g->b, d);
    return d;
}

static void *add_conv(graph *g) {
    const float one = 1, zero = 0;
    void *x = operand(g, HN_CONVOLUTION_X), *w = operand(g, HN_CONVOLUTION_W), *y = next_result(g),
         *d = make_conv_descriptor(g);
    void *op = hn_dnn_make(g->b, HN_DNN_OPERATION_CONVOLUTION);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_CONVOLUTION_CONV_DESC, HN_DNN_TYPE_DESCRIPTOR, 1, &d);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_CONVOLUTION_X, HN_DNN_TYPE_DESCRIPTOR, 1, &x);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_CONVOLUTION_W, HN_DNN_TYPE_DESCRIPTOR, 1, &w);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_CONVOLUTION_Y, HN_DNN_TYPE_DESCRIPTOR, 1, &y);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_CONVOLUTION_ALPHA, HN_DNN_TYPE_FLOAT, 1, &one);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_CONVOLUTION_BETA, HN_DNN_TYPE_FLOAT, 1, &zero);
    hn_dnn_finish(g->b, op);
    g->operations[g->count++] = op;
    return y;
}

/* y = x + other, or relu(x) without another one. */
static void *add_pointwise(graph *g, int mode, void *x, void *other) {
    const int precision = HN_DNN_FLOAT, nan = HN_DNN_PROPAGATE_NAN;
    void *y = next_result(g), *d = hn_dnn_make(g->b, HN_DNN_POINTWISE);
    hn_dnn_set(g->b, d, HN_DNN_POINTWISE_MODE, HN_DNN_TYPE_POINTWISE_MODE, 1, &mode);
    hn_dnn_set(g->b, d, HN_DNN_POINTWISE_MATH_PREC, HN_DNN_TYPE_DATA_TYPE, 1, &precision);
    if (mode == HN_DNN_RELU)
        hn_dnn_set(g->b, d, HN_DNN_POINTWISE_NAN_PROPAGATION, HN_DNN_TYPE_NAN_PROPAGATION, 1, &nan);
    hn_dnn_finish(g->b, d);
    void *op = hn_dnn_make(g->b, HN_DNN_OPERATION_POINTWISE);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_POINTWISE_DESC, HN_DNN_TYPE_DESCRIPTOR, 1, &d);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_POINTWISE_X, HN_DNN_TYPE_DESCRIPTOR, 1, &x);
    if (other)
        hn_dnn_set(g->b, op, HN_DNN_OPERATION_POINTWISE_B, HN_DNN_TYPE_DESCRIPTOR, 1, &other);
    hn_dnn_set(g->b, op, HN_DNN_OPERATION_POINTWISE_Y, HN_DNN_TYPE_DESCRIPTOR, 1, &y);
    hn_dnn_finish(g->b, op);
    g->operations[g->count++] = op;
    return y;
}

static void *add_sum(graph *g, void *x, hn_convolution_tensor other) {
    if (!g->conv->of[other].is_there) return x;
    return add_pointwise(g, HN_DNN_ADD, x, operand(g, other));
}

void *hn_dnn_graph(hn_dnn_builder *b, const hn_convolution *conv, const hn_dnn_tensors *tensors,
                   void *handle) {
    graph g = {.b = b, .conv = conv, .tensors = tensors};
    g.left = 1u + conv->of[HN_CONVOLUTION_RESIDUAL].is_there +
             conv->of[HN_CONVOLUTION_BIAS].is_there + conv->relu;
    void *y = add_conv(&g);
    y = add_sum(&g, y, HN_CONVOLUTION_RESIDUAL);
    y = add_sum(&g, y, HN_CONVOLUTION_BIAS);
    if (conv->relu) (void)add_pointwise(&g, HN_DNN_RELU, y, NULL);
    void *made = hn_dnn_make(b, HN_DNN_OPERATIONGRAPH);
    if (handle) hn_dnn_set(b, made, HN_DNN_OPERATIONGRAPH_HANDLE, HN_DNN_TYPE_HANDLE, 1, &handle);
    hn_dnn_set(b, made, HN_DNN_OPERATIONGRAPH_OPS, HN_DNN_TYPE_DESCRIPTOR, g.count, g.operations);
    hn_dnn_finish(b, made);
    return made;
}
