/* cudnn_standin.c: a library in the place of libcudnn.so.9, for tests without a GPU. It checks the
 * descriptors that it is given, and computes convolutions in plain loops on memory of the host.
 * Written from NVIDIA's documentation; it shares no numbers with src/ops/cuda/cudnn.h, so that a
 * wrong one shows. */
#include "tests/support/cudnn_standin.h"

#include "tests/support/standin_work.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, ALLOCATION_FAILED = 4003, FAILED = 5000 };
enum { FLOAT = 0, HALF = 2, BFLOAT16 = 9 };
enum {
    POINTWISE = 0,
    CONVOLUTION = 1,
    ENGINE = 2,
    CONFIG = 3,
    HEURISTIC = 4,
    PLAN = 5,
    OPERATION_CONV = 10,
    OPERATION_POINTWISE = 13,
    GRAPH = 15,
    PACK = 16,
    TENSOR = 17,
    HANDLE = 0x444e,
    DEAD
};
enum { ADD = 0, RELU = 100, CROSS_CORRELATION = 1 };
enum { WORKSPACE = 512, LARGE = 1 << 30 };
enum { ATTRIBUTES_MAX = 12, ELEMENTS_MAX = 16, DIMS_MAX = 5, TENSORS = 5 };

static cudnn_standin state;
EXPORT cudnn_standin *cudnnStandin(void);
cudnn_standin *cudnnStandin(void) { return &state; }

/* ---- objects ---- */

typedef struct value {
    int attribute;
    int64_t count;
    uint64_t elements[ELEMENTS_MAX]; /* each in the first bytes of its own */
} value;

typedef struct object {
    int kind;
    bool is_finished;
    value values[ATTRIBUTES_MAX];
    uint32_t count;
    const struct object *graph; /* of CONFIG and ENGINE */
    int engine;
    struct object *next; /* of all that there ever were: what is used too late is found */
} object;

static object *all;

static int misuse(const char *what) {
    if (!state.misuse[0]) snprintf(state.misuse, sizeof state.misuse, "%s", what);
    return BAD_PARAM;
}
#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) return misuse(#condition);                                               \
    } while (0)
#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        if (++state.calls == state.fail_at) return (int)state.fail_code;                           \
    } while (0)

static int create(int kind, void **out) {
    object *o = calloc(1, sizeof *o);
    if (!o) return ALLOCATION_FAILED;
    o->kind = kind;
    o->next = all;
    all = o;
    state.objects++;
    *out = o;
    return OK;
}

static int destroy(object *o) {
    NEED(o && o->kind != DEAD);
    o->kind = DEAD;
    state.objects--;
    return OK;
}

EXPORT int cudnnCreate(void **out);
int cudnnCreate(void **out) {
    MAY_FAIL();
    return create(HANDLE, out);
}
EXPORT int cudnnDestroy(void *handle);
int cudnnDestroy(void *handle) { return destroy(handle); }

static void *stream_of_handle;
EXPORT int cudnnSetStream(void *handle, void *stream);
int cudnnSetStream(void *handle, void *stream) {
    MAY_FAIL();
    NEED(handle && ((object *)handle)->kind == HANDLE);
    stream_of_handle = stream;
    return OK;
}

EXPORT size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) { return 92600; }
EXPORT const char *cudnnGetErrorString(int status);
const char *cudnnGetErrorString(int status) {
    return status == BAD_PARAM           ? "CUDNN_STATUS_BAD_PARAM"
           : status == NOT_SUPPORTED     ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == ALLOCATION_FAILED ? "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"
                                         : "CUDNN_STATUS_EXECUTION_FAILED";
}
EXPORT void cudnnGetLastErrorString(char *message, size_t room);
void cudnnGetLastErrorString(char *message, size_t room) {
    snprintf(message, room, "%s", state.misuse[0] ? state.misuse : "as the test wants it");
}

/* ---- attributes ---- */

enum { T_HANDLE, T_DTYPE, T_BOOL, T_I64, T_FLOAT, T_POINTER = 6, T_CONV_MODE, T_HEUR_MODE };
enum {
    T_NAN_PROPAGATION = 10,
    T_NUMERICAL_NOTE = 11,
    T_POINTWISE_MODE = 14,
    T_DESCRIPTOR = 15,
    T_BEHAVIOR_NOTE = 19
};

/* What may be set; `count`: how many elements, 0: several. */
static const struct row {
    int kind, attribute, type, count;
    bool is_needed;
} rows[] = {
    {POINTWISE, 0, T_POINTWISE_MODE, 1, true},
    {POINTWISE, 1, T_DTYPE, 1, true},
    {POINTWISE, 2, T_NAN_PROPAGATION, 1, false},
    {CONVOLUTION, 100, T_DTYPE, 1, true},
    {CONVOLUTION, 101, T_CONV_MODE, 1, true},
    {CONVOLUTION, 102, T_I64, 0, true},
    {CONVOLUTION, 103, T_I64, 0, true},
    {CONVOLUTION, 104, T_I64, 0, true},
    {CONVOLUTION, 105, T_I64, 0, true},
    {CONVOLUTION, 106, T_I64, 1, true},
    {HEURISTIC, 200, T_HEUR_MODE, 1, true},
    {HEURISTIC, 201, T_DESCRIPTOR, 1, true},
    {PLAN, 400, T_HANDLE, 1, true},
    {PLAN, 401, T_DESCRIPTOR, 1, true},
    {OPERATION_CONV, 700, T_FLOAT, 1, true},
    {OPERATION_CONV, 701, T_FLOAT, 1, true},
    {OPERATION_CONV, 702, T_DESCRIPTOR, 1, true},
    {OPERATION_CONV, 703, T_DESCRIPTOR, 1, true},
    {OPERATION_CONV, 704, T_DESCRIPTOR, 1, true},
    {OPERATION_CONV, 705, T_DESCRIPTOR, 1, true},
    {OPERATION_POINTWISE, 750, T_DESCRIPTOR, 1, true},
    {OPERATION_POINTWISE, 751, T_DESCRIPTOR, 1, true},
    {OPERATION_POINTWISE, 752, T_DESCRIPTOR, 1, false},
    {OPERATION_POINTWISE, 753, T_DESCRIPTOR, 1, true},
    {GRAPH, 800, T_HANDLE, 1, true},
    {GRAPH, 801, T_DESCRIPTOR, 0, true},
    {TENSOR, 900, T_I64, 1, true},
    {TENSOR, 901, T_DTYPE, 1, true},
    {TENSOR, 902, T_I64, 0, true},
    {TENSOR, 903, T_I64, 0, true},
    {TENSOR, 906, T_I64, 1, true},
    {TENSOR, 907, T_BOOL, 1, false},
    {PACK, 1000, T_I64, 0, true},
    {PACK, 1001, T_POINTER, 0, true},
    {PACK, 1003, T_POINTER, 1, true},
};
enum { ROWS = sizeof rows / sizeof *rows };

static size_t size_of_type(int type) {
    switch (type) {
    case T_BOOL: return 1;
    case T_HANDLE:
    case T_I64:
    case T_POINTER:
    case T_DESCRIPTOR: return 8;
    default: return 4;
    }
}

static const value *find(const object *o, int attribute) {
    static const value none;
    for (uint32_t k = 0; o && k < o->count; k++)
        if (o->values[k].attribute == attribute) return &o->values[k];
    return &none;
}

static int64_t number(const object *o, int attribute, int64_t k) {
    return (int64_t)find(o, attribute)->elements[k];
}
static const object *other(const object *o, int attribute, int64_t k) {
    return (const object *)(uintptr_t)find(o, attribute)->elements[k];
}

EXPORT int cudnnBackendCreateDescriptor(int type, void **out);
int cudnnBackendCreateDescriptor(int type, void **out) {
    MAY_FAIL();
    return create(type, out);
}
EXPORT int cudnnBackendDestroyDescriptor(void *descriptor);
int cudnnBackendDestroyDescriptor(void *descriptor) { return destroy(descriptor); }

EXPORT int cudnnBackendSetAttribute(void *descriptor, int attribute, int type, int64_t count,
                                    const void *elements);
int cudnnBackendSetAttribute(void *descriptor, int attribute, int type, int64_t count,
                             const void *elements) {
    object *o = descriptor;
    const struct row *row = rows;
    MAY_FAIL();
    NEED(o && o->kind != DEAD && !o->is_finished && elements);
    while (row < rows + ROWS && (row->kind != o->kind || row->attribute != attribute)) row++;
    NEED(row < rows + ROWS && row->type == type);
    NEED(count > 0 && count <= ELEMENTS_MAX && (!row->count || row->count == count));
    NEED(o->count < ATTRIBUTES_MAX && !find(o, attribute)->count);
    value *v = &o->values[o->count++];
    v->attribute = attribute;
    v->count = count;
    for (int64_t k = 0; k < count; k++)
        memcpy(&v->elements[k], (const char *)elements + k * (int64_t)size_of_type(type),
               size_of_type(type));
    return OK;
}

/* ---- what goes together ---- */

static bool is_there(const object *o, int kind) { return o && o->kind == kind && o->is_finished; }

static int check_tensor(const object *t) {
    const int64_t dims = find(t, 902)->count;
    NEED((dims == 4 || dims == 5) && find(t, 903)->count == dims);
    for (int64_t d = 0; d < dims; d++)
        NEED(number(t, 902, d) > 0 && number(t, 903, d) > 0 && number(t, 902, d) <= INT32_MAX);
    NEED(number(t, 901, 0) == FLOAT || number(t, 901, 0) == HALF || number(t, 901, 0) == BFLOAT16);
    NEED(number(t, 900, 0) >= 2 && number(t, 900, 0) <= 16);
    return OK;
}

static int check_convolution(const object *c) {
    const int64_t spatial = number(c, 106, 0);
    NEED(spatial == 2 || spatial == 3);
    for (int k = 102; k <= 105; k++) NEED(find(c, k)->count == spatial);
    NEED(number(c, 101, 0) == CROSS_CORRELATION && number(c, 100, 0) == FLOAT);
    return OK;
}

static int check_operation_conv(const object *o) {
    const object *w = other(o, 703, 0), *x = other(o, 704, 0), *y = other(o, 705, 0),
                 *c = other(o, 702, 0);
    float alpha, beta;
    memcpy(&alpha, find(o, 700)->elements, sizeof alpha);
    memcpy(&beta, find(o, 701)->elements, sizeof beta);
    NEED(alpha == 1.0f && beta == 0.0f);
    NEED(is_there(w, TENSOR) && is_there(x, TENSOR) && is_there(y, TENSOR));
    NEED(is_there(c, CONVOLUTION));
    const int64_t dims = number(c, 106, 0) + 2;
    NEED(find(x, 902)->count == dims && find(w, 902)->count == dims);
    NEED(find(y, 902)->count == dims);
    NEED(number(x, 902, 0) == number(y, 902, 0) && number(w, 902, 0) == number(y, 902, 1));
    NEED(number(x, 902, 1) % number(w, 902, 1) == 0);
    for (int64_t s = 0; s + 2 < dims; s++) {
        const int64_t reach = (number(w, 902, s + 2) - 1) * number(c, 102, s) + 1,
                      padded = number(x, 902, s + 2) + number(c, 104, s) + number(c, 105, s);
        NEED((padded - reach) / number(c, 103, s) + 1 == number(y, 902, s + 2));
    }
    return OK;
}

static int check_operation_pointwise(const object *o) {
    const object *p = other(o, 750, 0);
    NEED(is_there(p, POINTWISE) && number(p, 1, 0) == FLOAT);
    NEED(is_there(other(o, 751, 0), TENSOR) && is_there(other(o, 753, 0), TENSOR));
    if (number(p, 0, 0) == ADD) NEED(is_there(other(o, 752, 0), TENSOR));
    else NEED(number(p, 0, 0) == RELU && number(p, 2, 0) == 1 && !find(o, 752)->count);
    return OK;
}

/* Whether one number of b goes to all elements of a channel. */
static bool is_bias(const object *b) {
    for (int64_t d = 0; d < find(b, 902)->count; d++)
        if (d != 1 && number(b, 902, d) != 1) return false;
    return true;
}

/* The pattern that has compiled kernels: conv [+ tensor] [+ bias] [relu]; with a tensor or relu also
 * a bias. Each operation makes an f32 that is not stored, but the last. */
static int check_graph(const object *g) {
    const int64_t count = find(g, 801)->count;
    const object *made = NULL;
    bool bias = false, residual = false, relu = false;
    NEED(other(g, 800, 0) && other(g, 800, 0)->kind == HANDLE);
    for (int64_t k = 0; k < count; k++) {
        const object *o = other(g, 801, k);
        NEED(is_there(o, k ? OPERATION_POINTWISE : OPERATION_CONV));
        if (k) {
            NEED(other(o, 751, 0) == made && !relu);
            const object *b = other(o, 752, 0);
            if (number(other(o, 750, 0), 0, 0) == RELU) {
                relu = true;
            } else {
                NEED(!bias && (is_bias(b) || !residual));
                *(is_bias(b) ? &bias : &residual) = true;
            }
        }
        made = other(o, k ? 753 : 705, 0);
        NEED(number(made, 907, 0) == (k + 1 < count));
        if (k + 1 < count) NEED(number(made, 901, 0) == FLOAT);
    }
    return bias || (!residual && !relu) ? OK : NOT_SUPPORTED;
}

static int check_plan(const object *p) {
    NEED(other(p, 400, 0) && other(p, 400, 0)->kind == HANDLE);
    NEED(is_there(other(p, 401, 0), CONFIG));
    state.plans++;
    return other(p, 401, 0)->engine == CUDNN_STANDIN_REFUSES ? NOT_SUPPORTED : OK;
}

static int check_pack(const object *p) {
    NEED(find(p, 1000)->count == find(p, 1001)->count);
    state.packs++;
    return OK;
}

static int check(const object *o) {
    switch (o->kind) {
    case TENSOR: return check_tensor(o);
    case CONVOLUTION: return check_convolution(o);
    case OPERATION_CONV: return check_operation_conv(o);
    case OPERATION_POINTWISE: return check_operation_pointwise(o);
    case GRAPH: return check_graph(o);
    case HEURISTIC: NEED(is_there(other(o, 201, 0), GRAPH)); return OK;
    case PLAN: return check_plan(o);
    case PACK: return check_pack(o);
    default: return OK;
    }
}

EXPORT int cudnnBackendFinalize(void *descriptor);
int cudnnBackendFinalize(void *descriptor) {
    object *o = descriptor;
    MAY_FAIL();
    NEED(o && o->kind != DEAD && !o->is_finished);
    for (const struct row *row = rows; row < rows + ROWS; row++)
        if (row->kind == o->kind && row->is_needed) NEED(find(o, row->attribute)->count);
    const int status = check(o);
    o->is_finished = status == OK;
    return status;
}

/* ---- what is got ---- */

static bool is_f32(const object *graph) {
    return number(other(other(graph, 801, 0), 704, 0), 901, 0) == FLOAT;
}

static int get_results(const object *o, int64_t wanted, int64_t *out_count, void **configs) {
    const bool fallback = number(o, 200, 0) == 2;
    const int first = fallback ? CUDNN_STANDIN_PLAIN : 0;
    NEED(fallback || number(o, 200, 0) == 3);
    *out_count = 0;
    if (state.has_nothing || (state.has_fallback_only && !fallback)) return OK;
    for (int e = first; e < CUDNN_STANDIN_ENGINES && *out_count < wanted; e++) {
        object *config = configs[*out_count];
        NEED(config && config->kind == CONFIG && !config->is_finished);
        config->is_finished = true;
        config->engine = e;
        config->graph = other(o, 201, 0);
        ++*out_count;
    }
    return OK;
}

static int get_notes(const object *engine, int attribute, int64_t *out_count, int *notes) {
    *out_count = 0;
    if (attribute == 1305) {
        notes[(*out_count)++] = 3; /* may be in a CUDA graph by itself */
        if (engine->engine == CUDNN_STANDIN_COMPILES) notes[(*out_count)++] = 0;
        return OK;
    }
    if (engine->engine == CUDNN_STANDIN_WINOGRAD) notes[(*out_count)++] = 5;
    if (engine->engine != CUDNN_STANDIN_TENSOR_CORE) return OK;
    notes[(*out_count)++] = 0;
    if (is_f32(engine->graph)) notes[(*out_count)++] = 1;
    return OK;
}

EXPORT int cudnnBackendGetAttribute(const void *descriptor, int attribute, int type, int64_t wanted,
                                    int64_t *out_count, void *elements);
int cudnnBackendGetAttribute(const void *descriptor, int attribute, int type, int64_t wanted,
                             int64_t *out_count, void *elements) {
    const object *o = descriptor;
    MAY_FAIL();
    NEED(o && o->kind != DEAD && o->is_finished && out_count && elements && wanted > 0);
    if (o->kind == HEURISTIC && attribute == 202 && type == T_DESCRIPTOR)
        return get_results(o, wanted, out_count, elements);
    if (o->kind == CONFIG && attribute == 300 && type == T_DESCRIPTOR) {
        object *engine = *(void **)elements;
        NEED(engine && engine->kind == ENGINE);
        engine->is_finished = true;
        engine->engine = o->engine;
        engine->graph = o->graph;
        *out_count = 1;
        return OK;
    }
    if (o->kind == ENGINE && ((attribute == 1303 && type == T_NUMERICAL_NOTE) ||
                              (attribute == 1305 && type == T_BEHAVIOR_NOTE)))
        return get_notes(o, attribute, out_count, elements);
    NEED(o->kind == PLAN && attribute == 402 && type == T_I64);
    *(int64_t *)elements = other(o, 401, 0)->engine == CUDNN_STANDIN_LARGE ? LARGE : WORKSPACE;
    *out_count = 1;
    return OK;
}

/* ---- runs ---- */

/* A tensor and its memory. */
typedef struct operand {
    bool is_there;
    standin_type type;
    int64_t sizes[DIMS_MAX], strides[DIMS_MAX]; /* n, c, three of places */
    void *at;
} operand;

/* A convolution that a stream has not come to. */
typedef struct work {
    operand of[TENSORS]; /* out, x, w, bias, residual */
    int64_t stride[3], pad[3], dilation[3];
    bool relu;
    void *workspace;
} work;

static int64_t place_of(const operand *o, const int64_t *at) {
    int64_t sum = 0;
    for (int d = 0; d < DIMS_MAX; d++) sum += (o->sizes[d] == 1 ? 0 : at[d]) * o->strides[d];
    return sum;
}

static double element(const operand *o, const int64_t *at) {
    return standin_load(o->type, o->at, place_of(o, at));
}

/* Of one row of taps. Places outside count as 0. */
static double sum_of_row(const work *w, const int64_t *from, const int64_t *tap, int64_t first) {
    const operand *x = &w->of[1], *k = &w->of[2];
    const int64_t at_x = place_of(x, from), at_k = place_of(k, tap);
    double sum = 0;
    for (int64_t t = 0; t < k->sizes[4]; t++) {
        const int64_t column = first + t * w->dilation[2];
        if (column < 0 || column >= x->sizes[4]) continue;
        sum += standin_load(x->type, x->at, at_x + column * x->strides[4]) *
               standin_load(k->type, k->at, at_k + t * k->strides[4]);
    }
    return sum;
}

/* Of one channel. */
static double sum_of_taps(const work *w, const int64_t *at, int64_t channel, int64_t c) {
    const operand *x = &w->of[1], *k = &w->of[2];
    const int64_t *stride = w->stride, *pad = w->pad, *dilation = w->dilation;
    int64_t from[DIMS_MAX] = {at[0], channel}, tap[DIMS_MAX] = {at[1], c};
    double sum = 0;
    for (tap[2] = 0; tap[2] < k->sizes[2]; tap[2]++) {
        from[2] = at[2] * stride[0] - pad[0] + tap[2] * dilation[0];
        if (from[2] < 0 || from[2] >= x->sizes[2]) continue;
        for (tap[3] = 0; tap[3] < k->sizes[3]; tap[3]++) {
            from[3] = at[3] * stride[1] - pad[1] + tap[3] * dilation[1];
            if (from[3] < 0 || from[3] >= x->sizes[3]) continue;
            sum += sum_of_row(w, from, tap, at[4] * stride[2] - pad[2]);
        }
    }
    return sum;
}

static double sum_of(const work *w, const int64_t *at) {
    const operand *x = &w->of[1], *k = &w->of[2], *y = &w->of[0];
    const int64_t group = at[1] / (y->sizes[1] / (x->sizes[1] / k->sizes[1]));
    double sum = 0;
    for (int64_t c = 0; c < k->sizes[1]; c++) sum += sum_of_taps(w, at, group * k->sizes[1] + c, c);
    return sum;
}

static void compute(const void *user) {
    const work *w = user;
    const operand *y = &w->of[0];
    int64_t total = 1;
    memset(w->workspace, 0xa5, WORKSPACE);
    for (int d = 0; d < DIMS_MAX; d++) total *= y->sizes[d];
    for (int64_t i = 0; i < total; i++) {
        int64_t at[DIMS_MAX], rest = i, place = 0;
        for (int d = DIMS_MAX; d-- > 0; rest /= y->sizes[d]) {
            at[d] = rest % y->sizes[d];
            place += at[d] * y->strides[d];
        }
        double sum = sum_of(w, at);
        for (int k = 3; k < TENSORS; k++)
            if (w->of[k].is_there) sum += element(&w->of[k], at);
        standin_store(y->type, y->at, place, w->relu && sum < 0 ? 0 : sum);
    }
}

/* On a device: the addresses are not the host's. */
static void compute_there(const void *user, cuda_standin_bytes_fn bytes_at) {
    work w = *(const work *)user;
    for (int k = 0; k < TENSORS; k++) {
        operand *o = &w.of[k];
        int64_t last = 0;
        if (!o->is_there) continue;
        for (int d = 0; d < DIMS_MAX; d++) last += (o->sizes[d] - 1) * o->strides[d];
        o->at = bytes_at((uint64_t)(uintptr_t)o->at, (size_t)(last + 1) * standin_bytes(o->type));
    }
    w.workspace = bytes_at((uint64_t)(uintptr_t)w.workspace, WORKSPACE);
    compute(&w);
}

static int place(const object *tensor, const object *pack, operand *out) {
    const value *ids = find(pack, 1000);
    const int64_t dims = find(tensor, 902)->count, type = number(tensor, 901, 0);
    *out = (operand){.is_there = true,
                     .type = type == FLOAT  ? STANDIN_F32
                             : type == HALF ? STANDIN_F16
                                            : STANDIN_BF16,
                     .sizes = {1, 1, 1, 1, 1}};
    for (int64_t d = 0; d < dims; d++) {
        const int64_t to = d < 2 ? d : d + DIMS_MAX - dims;
        out->sizes[to] = number(tensor, 902, d);
        out->strides[to] = number(tensor, 903, d);
    }
    for (int64_t k = 0; k < ids->count; k++)
        if ((int64_t)ids->elements[k] == number(tensor, 906, 0))
            out->at = (void *)(uintptr_t)find(pack, 1001)->elements[k];
    NEED(out->at && (uintptr_t)out->at % (uint64_t)number(tensor, 900, 0) == 0);
    return OK;
}

static int read_graph(const object *graph, const object *pack, work *w) {
    const int64_t count = find(graph, 801)->count;
    const object *conv = other(graph, 801, 0), *d = other(conv, 702, 0), *y = other(conv, 705, 0);
    const int64_t spatial = number(d, 106, 0);
    for (int s = 0; s < 3; s++) w->stride[s] = w->dilation[s] = 1;
    for (int64_t s = 0; s < spatial; s++) {
        w->dilation[s + 3 - spatial] = number(d, 102, s);
        w->stride[s + 3 - spatial] = number(d, 103, s);
        w->pad[s + 3 - spatial] = number(d, 105, s);
    }
    int status = place(other(conv, 704, 0), pack, &w->of[1]);
    if (!status) status = place(other(conv, 703, 0), pack, &w->of[2]);
    for (int64_t k = 1; k < count && !status; k++) {
        const object *o = other(graph, 801, k), *b = other(o, 752, 0);
        y = other(o, 753, 0);
        if (!b) w->relu = true;
        else status = place(b, pack, &w->of[is_bias(b) ? 3 : 4]);
    }
    return status ? status : place(y, pack, &w->of[0]);
}

EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack);
int cudnnBackendExecute(void *handle, void *plan, void *pack) {
    work w = {0};
    MAY_FAIL();
    NEED(handle && ((object *)handle)->kind == HANDLE);
    NEED(is_there(plan, PLAN) && is_there(pack, PACK));
    const object *config = other(plan, 401, 0);
    NEED(is_there(config, CONFIG) && is_there(config->graph, GRAPH));
    w.workspace = (void *)(uintptr_t)number(pack, 1003, 0);
    NEED(w.workspace && (uintptr_t)w.workspace % 256 == 0);
    const int status = read_graph(config->graph, pack, &w);
    if (status) return status;
    if (standin_give(stream_of_handle, compute_there, compute, &w, sizeof w) != OK) return FAILED;
    const object *x = other(other(config->graph, 801, 0), 704, 0);
    state.convolutions++;
    state.engine = (cudnn_standin_engine)config->engine;
    state.operations = (uint32_t)find(config->graph, 801)->count;
    state.channels_last = w.of[1].strides[1] == 1;
    state.align_x = number(x, 900, 0);
    return OK;
}
