/* cudnn_conv.c: see cudnn_conv.h. A call has a plan for the alignment of its addresses, which is
 * known when the call is prepared: a program lays out its memory, and a caller's that is aligned to
 * less is copied. Choosing and making a plan takes milliseconds, and models repeat their layers: so
 * calls that differ in addresses only have one plan. */
#include "ops/cuda/cudnn_conv.h"

#include "henry/tensor.h"
#include "ops/cuda/alignment.h"
#include "ops/cuda/convolution.h"
#include "ops/cuda/cudnn_graph.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIGS_MAX = 16 }; /* that are asked of the heuristic: the rest are much slower */

/* What plans are the same for. */
typedef struct plan_key {
    hn_convolution conv;
    hn_dnn_tensors tensors;
    bool tf32;
    uint32_t candidate;
    size_t workspace_max;
} plan_key;

typedef struct hn_dnn_plan {
    struct hn_dnn_plan *next;
    uint32_t calls; /* that have it */
    plan_key key;
    hn_dnn_builder b; /* of all that the plan stands on */
    void *made;       /* NULL: there is none so far */
    size_t workspace_bytes;
} plan;

struct hn_dnn_conv {
    const hn_cudnn *dnn;
    void *handle;
    hn_dnn_options options;
    const hn_ext_call *call;
    hn_convolution conv;
    uint32_t elem_bytes;
    plan *plan; /* NULL: nothing is to be done */
    /* addresses of the last run, and what tells the library of them; NULL: there was none */
    hn_dnn_builder b;
    void *pack, *args[HN_CONVOLUTION_TENSORS], *scratch;
};

/* ---- numbers of the library ---- */

static const struct {
    int type;
    uint32_t elem_bytes; /* 0: not taken */
} dtypes[] = {
    [HN_F32] = {HN_DNN_FLOAT, 4},
    [HN_F16] = {HN_DNN_HALF, 2},
    [HN_BF16] = {HN_DNN_BFLOAT16, 2},
};

#define NOTE(name) (1u << HN_DNN_NOTE_##name)

/* What an engine must not do: sums are those of f32, and the same ones each time. */
static uint32_t bad_notes(const hn_dnn_conv *c) {
    const uint32_t always = NOTE(NARROW_SUMS) | NOTE(FFT) | NOTE(NONDETERMINISTIC) | NOTE(WINOGRAD);
    const bool is_exact = c->elem_bytes == 4 && !c->options.tf32;
    return always | (is_exact ? NOTE(TENSOR_CORE) | NOTE(DOWN_CONVERT) : 0);
}

/* ---- a plan ---- */

static uint32_t notes_of(hn_dnn_builder *b, const void *engine, int attribute, int type) {
    int notes[HN_DNN_NOTES_MAX] = {0};
    uint32_t mask = 0;
    const int64_t count = hn_dnn_get(b, engine, attribute, type, HN_DNN_NOTES_MAX, notes);
    for (int64_t k = 0; k < count; k++)
        mask |= notes[k] >= 0 && notes[k] < 32 ? 1u << notes[k] : 1u << 31;
    return mask;
}

/* Whether an engine computes as is wanted, with kernels that are compiled already and are in the
 * library itself. */
static bool is_wanted(const hn_dnn_conv *c, hn_dnn_builder *b, const void *config) {
    void *engine = hn_dnn_make(b, HN_DNN_ENGINE);
    (void)hn_dnn_get(b, config, HN_DNN_ENGINECFG_ENGINE, HN_DNN_TYPE_DESCRIPTOR, 1, &engine);
    const uint32_t numbers =
        notes_of(b, engine, HN_DNN_ENGINE_NUMERICAL_NOTE, HN_DNN_TYPE_NUMERICAL_NOTE);
    const uint32_t needs =
        notes_of(b, engine, HN_DNN_ENGINE_BEHAVIOR_NOTE, HN_DNN_TYPE_BEHAVIOR_NOTE);
    hn_dnn_drop(b, engine);
    return !b->status && !(numbers & bad_notes(c)) && !(needs & ~(1u << HN_DNN_GRAPH_NATIVE));
}

static void forget(hn_dnn_builder *b) {
    hn_status_free(b->status);
    b->status = NULL;
}

static void forget_unsupported(hn_dnn_builder *b) {
    if (hn_status_code(b->status) == HN_UNSUPPORTED) forget(b);
}

/* Whether there is a plan of a configuration that is wanted. One that the library does not support
 * after all, or fails to load, is none: there are others. */
static bool try_config(const hn_dnn_conv *c, plan *p, void *config, size_t workspace_max) {
    hn_dnn_builder *b = &p->b;
    int64_t bytes = 0;
    void *made = hn_dnn_make(b, HN_DNN_EXECUTION_PLAN);
    if (c->handle)
        hn_dnn_set(b, made, HN_DNN_EXECUTION_PLAN_HANDLE, HN_DNN_TYPE_HANDLE, 1, &c->handle);
    if (c->options.device)
        hn_dnn_set(b, made, HN_DNN_EXECUTION_PLAN_DEVICEPROP, HN_DNN_TYPE_DESCRIPTOR, 1,
                   &c->options.device);
    hn_dnn_set(b, made, HN_DNN_EXECUTION_PLAN_ENGINE_CONFIG, HN_DNN_TYPE_DESCRIPTOR, 1, &config);
    hn_dnn_finish(b, made);
    (void)hn_dnn_get(b, made, HN_DNN_EXECUTION_PLAN_WORKSPACE_SIZE, HN_DNN_TYPE_INT64, 1, &bytes);
    const bool fits = !b->status && bytes >= 0 && (uint64_t)bytes <= workspace_max;
    forget(b);
    if (!fits) {
        hn_dnn_drop(b, made);
        return false;
    }
    p->made = made;
    p->workspace_bytes = (size_t)bytes;
    return true;
}

/* The number of the first configuration that makes a plan, or of the candidate, if it does; `count`
 * for none. */
static uint32_t pick_config(const hn_dnn_conv *c, plan *p, void *const *configs, uint32_t count) {
    hn_dnn_builder *b = &p->b;
    uint32_t wanted = 0;
    for (uint32_t k = 0; k < count && !b->status; k++) {
        const bool is_good = is_wanted(c, b, configs[k]);
        if (!is_good) forget(b);
        wanted += is_good;
        if (!is_good || wanted < p->key.candidate) continue;
        if (try_config(c, p, configs[k], p->key.workspace_max)) return k;
        if (p->key.candidate) break;
    }
    return count;
}

/* One of a list of the heuristic's. */
static void choose(const hn_dnn_conv *c, plan *p, void *graph, int mode) {
    hn_dnn_builder *b = &p->b;
    void *configs[CONFIGS_MAX] = {NULL}, *heuristic = hn_dnn_make(b, HN_DNN_ENGINEHEUR);
    hn_dnn_set(b, heuristic, HN_DNN_ENGINEHEUR_OPERATION_GRAPH, HN_DNN_TYPE_DESCRIPTOR, 1, &graph);
    hn_dnn_set(b, heuristic, HN_DNN_ENGINEHEUR_MODE, HN_DNN_TYPE_HEUR_MODE, 1, &mode);
    if (c->options.device)
        hn_dnn_set(b, heuristic, HN_DNN_ENGINEHEUR_DEVICEPROP, HN_DNN_TYPE_DESCRIPTOR, 1,
                   &c->options.device);
    hn_dnn_finish(b, heuristic);
    for (uint32_t k = 0; k < CONFIGS_MAX; k++) configs[k] = hn_dnn_make(b, HN_DNN_ENGINECFG);
    const int64_t count = hn_dnn_get(b, heuristic, HN_DNN_ENGINEHEUR_RESULTS,
                                     HN_DNN_TYPE_DESCRIPTOR, CONFIGS_MAX, configs);
    forget_unsupported(b); /* no heuristic for such graphs */
    const uint32_t k = pick_config(c, p, configs, count > 0 && !b->status ? (uint32_t)count : 0);
    for (uint32_t other = 0; other < CONFIGS_MAX; other++)
        if (other != k || !p->made) hn_dnn_drop(b, configs[other]);
    hn_dnn_drop(b, heuristic);
}

static hn_status make_plan(const hn_dnn_conv *c, plan *p) {
    static const int modes[] = {HN_DNN_HEUR, HN_DNN_HEUR_FALLBACK};
    const uint32_t lists = p->key.candidate ? 1 : 2;
    p->b.dnn = c->dnn;
    void *graph = hn_dnn_graph(&p->b, &p->key.conv, &p->key.tensors, c->handle);
    for (uint32_t k = 0; k < lists && !p->b.status && !p->made; k++) choose(c, p, graph, modes[k]);
    hn_status status = p->b.status;
    p->b.status = NULL;
    if (status || p->made) return status;
    return HN_ERROR(HN_UNSUPPORTED, "cuDNN has no good plan for the convolution");
}

/* ---- plans that calls share ---- */

static void describe(const hn_dnn_conv *c, plan_key *out) {
    memset(out, 0, sizeof *out); /* keys are compared by bytes */
    memcpy(&out->conv, &c->conv, sizeof out->conv);
    out->tensors.type = dtypes[c->call->dtypes[0]].type;
    for (uint32_t k = 0; k < HN_CONVOLUTION_TENSORS; k++)
        out->tensors.align[k] = hn_align_of_operand(c->call, k, c->elem_bytes);
    out->tf32 = c->options.tf32;
    out->candidate = c->options.candidate;
    out->workspace_max = c->options.workspace_bytes;
}

static void free_plan(plan *p) {
    hn_dnn_end(&p->b);
    free(p);
}

static hn_status add_plan(const hn_dnn_conv *c, const plan_key *key, plan **out) {
    plan *p = calloc(1, sizeof *p);
    if (!p) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a plan of cuDNN");
    memcpy(&p->key, key, sizeof *key);
    hn_status status = make_plan(c, p);
    if (status) {
        free_plan(p);
        return status;
    }
    if (c->options.plans) {
        p->next = c->options.plans->first;
        c->options.plans->first = p;
    }
    *out = p;
    return NULL;
}

static hn_status take_plan(hn_dnn_conv *c) {
    plan_key key;
    describe(c, &key);
    plan *p = c->options.plans ? c->options.plans->first : NULL;
    while (p && memcmp(&p->key, &key, sizeof key) != 0) p = p->next;
    if (!p) HN_TRY(add_plan(c, &key, &p));
    p->calls++;
    c->plan = p;
    return NULL;
}

static void give_plan(hn_dnn_conv *c) {
    plan *p = c->plan;
    if (!p || --p->calls) return;
    plan **at = c->options.plans ? &c->options.plans->first : &p;
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    free_plan(c->plan);
}

/* ---- the life of a call ---- */

static hn_status make(hn_dnn_conv *c) {
    HN_TRY(hn_convolution_of(c->call, &c->conv));
    return c->conv.is_empty ? NULL : take_plan(c);
}

hn_status hn_dnn_conv_create(const hn_cudnn *dnn, void *handle, const hn_dnn_options *options,
                             const hn_ext_call *call, hn_dnn_conv **out) {
    const uint8_t dtype = call->dtypes[0];
    if (dtype >= sizeof dtypes / sizeof *dtypes || !dtypes[dtype].elem_bytes)
        return HN_ERROR(HN_UNSUPPORTED, "cuDNN is asked for convolutions of narrow floats only");
    hn_dnn_conv *c = calloc(1, sizeof *c);
    if (!c) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a convolution");
    c->dnn = dnn;
    c->handle = handle;
    c->options = *options;
    c->call = call;
    c->elem_bytes = dtypes[dtype].elem_bytes;
    c->b.dnn = dnn;
    hn_status status = make(c);
    if (status) {
        hn_dnn_conv_destroy(c);
        return status;
    }
    *out = c;
    return NULL;
}

void hn_dnn_conv_destroy(hn_dnn_conv *c) {
    if (!c) return;
    hn_dnn_end(&c->b);
    give_plan(c);
    free(c);
}

size_t hn_dnn_conv_scratch_bytes(const hn_dnn_conv *c) {
    return c->plan ? c->plan->workspace_bytes : 0;
}

/* ---- runs ---- */

static hn_status check_alignment(const hn_dnn_conv *c, void *const *args) {
    for (uint32_t k = 0; k < HN_CONVOLUTION_TENSORS; k++)
        if (c->conv.of[k].is_there && !hn_align_fits(c->plan->key.tensors.align[k], args[k]))
            return HN_ERROR(HN_INTERNAL,
                            "operand %u of a convolution is not aligned as it was said", k);
    return NULL;
}

static bool is_packed(const hn_dnn_conv *c, void *const *args, void *scratch) {
    if (!c->pack || c->scratch != scratch) return false;
    for (uint32_t k = 0; k < HN_CONVOLUTION_TENSORS; k++)
        if (c->conv.of[k].is_there && c->args[k] != args[k]) return false;
    return true;
}

/* Addresses do not change from run to run, mostly. */
static hn_status pack(hn_dnn_conv *c, void *const *args, void *scratch) {
    hn_dnn_builder *b = &c->b;
    int64_t ids[HN_CONVOLUTION_TENSORS], count = 0;
    void *at[HN_CONVOLUTION_TENSORS];
    if (is_packed(c, args, scratch)) return NULL;
    hn_dnn_drop(b, c->pack);
    c->pack = NULL;
    for (uint32_t k = 0; k < HN_CONVOLUTION_TENSORS; k++) {
        if (!c->conv.of[k].is_there) continue;
        ids[count] = k;
        at[count++] = c->args[k] = args[k];
    }
    c->scratch = scratch;
    void *made = hn_dnn_make(b, HN_DNN_VARIANT_PACK);
    hn_dnn_set(b, made, HN_DNN_VARIANT_PACK_UNIQUE_IDS, HN_DNN_TYPE_INT64, count, ids);
    hn_dnn_set(b, made, HN_DNN_VARIANT_PACK_DATA_POINTERS, HN_DNN_TYPE_VOID_PTR, count, at);
    hn_dnn_set(b, made, HN_DNN_VARIANT_PACK_WORKSPACE, HN_DNN_TYPE_VOID_PTR, 1, &scratch);
    hn_dnn_finish(b, made);
    hn_status status = b->status;
    b->status = NULL;
    if (status) hn_dnn_drop(b, made);
    else c->pack = made;
    return status;
}

hn_status hn_dnn_conv_run(hn_dnn_conv *c, void *const *args, void *scratch, void *stream) {
    const hn_cudnn *dnn = c->dnn;
    if (c->conv.is_empty) return NULL;
    HN_TRY(check_alignment(c, args));
    HN_TRY(pack(c, args, c->plan->workspace_bytes ? scratch : NULL));
    HN_TRY(hn_cudnn_status(dnn, dnn->cudnnSetStream(c->handle, stream), "cudnnSetStream"));
    return hn_cudnn_status(dnn, dnn->cudnnBackendExecute(c->handle, c->plan->made, c->pack),
                           "cudnnBackendExecute");
}
