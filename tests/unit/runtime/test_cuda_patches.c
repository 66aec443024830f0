/* test_cuda_patches.c: CUDA graphs whose addresses are exchanged, on the stand-in for the driver:
 * the steps are captured once, and the nodes get other addresses. An operation of a library:
 * test_cuda_operations.c. */
#include "unit/runtime/cuda_caller.h"

#include "runtime/device/cuda.h"
#include "runtime/module_impl.h"

/* Three kernels, of which the second adds zeros of a fill, y = 4 * x; two copies, z = x, w = 2
 * * x. */
#define EACH_KIND                                                                                  \
    "symbol size s0 in [1, 64] buffer b1 : input f32[s0] source 0 buffer b2 : output f32[s0] "     \
    "bytes(4*s0) buffer b3 : output f32[s0] bytes(4*s0) buffer b4 : output f32[s0] bytes(4*s0) "   \
    "buffer b5 : temp f32[s0] bytes(4*s0) buffer b6 : workspace f32[s0] bytes(4*s0) zeroed each "  \
    "buffer b7 : temp f32[s0] bytes(4*s0) " KERNELS                                                \
    "input \"x\" : f32[s0] strides [1] in b1 call k4(b1 f32, out b5 f32) extent(s0) "              \
    "call k1(b5 f32, out b6 f32, out b7 f32) extent(s0) call k4(b7 f32, out b2 f32) extent(s0) "   \
    "copy b3 from b1 copy b4 from b7 output tensor \"y\" : f32[s0] strides [1] in b2 "             \
    "output tensor \"z\" : f32[s0] strides [1] in b3 output tensor \"w\" : f32[s0] strides [1] in b4"
enum { KIND_OUTPUTS = 3 };

static const hn_module_options graphs = {.device_graphs = true};

/* Outputs that are kept, so that each run has other memory. */
typedef struct held {
    hn_tensor *out[16][KIND_OUTPUTS];
    uint32_t count;
} held;

static hn_status run_kinds(const caller *c, hn_module *m, int64_t count, float first, held *h) {
    float x[64], back[64];
    for (int k = 0; k < count; k++) x[k] = first + (float)k;
    hn_tensor *in = F32(x, count), **out = h->out[h->count];
    hn_status status =
        hn_module_run_with(m, &(hn_run_options){.device_outputs = true}, &in, 1, out, KIND_OUTPUTS);
    h->count += !status;
    for (uint32_t o = 0; o < KIND_OUTPUTS && !status; o++) {
        get(c, back, (uintptr_t)hn_tensor_data(out[o]), (size_t)count * sizeof *back);
        for (int k = 0; k < count; k++) EXPECT(back[k] == (float)(o == 0 ? 4 : o) * x[k]);
    }
    hn_tensor_release(in);
    return status;
}

static void release_held(held *h) {
    for (uint32_t k = 0; k < h->count; k++)
        for (uint32_t o = 0; o < KIND_OUTPUTS; o++) hn_tensor_release(h->out[k][o]);
    h->count = 0;
}

/* Addresses that are others each time are exchanged: the steps are captured once. Nodes that have
 * no such address are left alone. */
TEST(other_addresses_are_no_capture) {
    caller c;
    if (!begin(&c)) return;
    cuda_standin *s = c.standin;
    hn_module *m = load_text(EACH_KIND, &graphs);
    held h = {.count = 0};
    hn_module_stats stats;
    if (!m) return;
    for (int k = 0; k < 2; k++) EXPECT_OK(run_kinds(&c, m, 8, (float)k, &h));
    EXPECT(s->captures == 1 && s->instantiations == 1 && s->patches == 0);
    const long launches = s->launches;
    EXPECT_OK(run_kinds(&c, m, 8, 2, &h));
    /* of three kernels, two copies and zeros, three have an output's address */
    EXPECT(s->captures == 1 && s->instantiations == 1 && s->patches == 3);
    for (int k = 3; k < 12; k++) EXPECT_OK(run_kinds(&c, m, 8, (float)k, &h));
    EXPECT(s->captures == 1 && s->instantiations == 4 && s->updates == 0);
    EXPECT(s->launches == launches && s->graph_launches == 11);
    hn_module_stats_get(m, &stats);
    EXPECT(stats.graphs_made == 11 && stats.graph_runs == 11);
    release_held(&h);
    end(&c, m);
    EXPECT_INT(s->graphs, 0);
}

/* The workspace moves for larger sizes, and with it what zeros and copies have. */
TEST(a_workspace_that_moves_is_no_capture) {
    caller c;
    if (!begin(&c)) return;
    cuda_standin *s = c.standin;
    hn_module *m = load_text(EACH_KIND, &graphs);
    held h = {.count = 0};
    if (!m) return;
    for (int k = 0; k < 3; k++) EXPECT_OK(run_kinds(&c, m, 8, (float)k, &h));
    for (int k = 0; k < 3; k++) EXPECT_OK(run_kinds(&c, m, 64, (float)k, &h));
    const long patches = s->patches;
    EXPECT_OK(run_kinds(&c, m, 8, 5, &h));
    EXPECT(s->captures == 2 && s->updates == 0 && s->patches == patches + 6);
    release_held(&h);
    end(&c, m);
    EXPECT_INT(s->graphs, 0);
}

/* The driver refuses one of the changes: the steps are captured again. */
TEST(a_refused_change_is_a_capture) {
    static const char *const setters[] = {"cuGraphExecKernelNodeSetParams",
                                          "cuGraphExecMemcpyNodeSetParams",
                                          "cuGraphExecMemsetNodeSetParams"};
    caller c;
    for (size_t at = 0; at < HN_COUNT_OF(setters); at++) {
        if (!begin(&c)) return;
        cuda_standin *s = c.standin;
        hn_module *m = load_text(EACH_KIND, &graphs);
        held h = {.count = 0};
        if (!m) return;
        for (int k = 0; k < 2; k++) EXPECT_OK(run_kinds(&c, m, 8, (float)k, &h));
        EXPECT_OK(run_kinds(&c, m, 64, 1, &h)); /* the workspace moves */
        s->code = 910;
        s->fails = setters[at];
        EXPECT_OK(run_kinds(&c, m, 8, 2, &h));
        EXPECT_STR(s->failed, setters[at]);
        EXPECT(s->captures == 2 && s->instantiations == 2 && s->graph_launches == 2);
        EXPECT_OK(run_kinds(&c, m, 8, 3, &h)); /* another graph of the new capture */
        EXPECT(s->captures == 2 && s->instantiations == 3 && s->graph_launches == 3);
        release_held(&h);
        end(&c, m);
        EXPECT_INT(s->graphs, 0);
    }
}

/* A driver without one of the functions: the steps are captured, and the graph is brought up to
 * date. */
TEST(a_driver_that_exchanges_nothing) {
    caller c;
    if (!begin(&c)) return;
    cuda_standin *s = c.standin;
    hn_module *m = load_text(EACH_KIND, &graphs);
    held h = {.count = 0};
    if (!m) return;
    ((cuda_dev *)m->device)->cuda.cuGraphExecMemsetNodeSetParams = NULL;
    for (int k = 0; k < 3; k++) EXPECT_OK(run_kinds(&c, m, 8, (float)k, &h));
    EXPECT(s->captures == 2 && s->instantiations == 1 && s->updates == 1 && s->patches == 0);
    release_held(&h);
    end(&c, m);
}

/* Graphs of a module take 256 MiB at most, 10 KiB counted for a node. The one for which there is
 * room gets the addresses, where others would have another one. */
TEST(graphs_are_bounded_together) {
    enum { NODES = 6, NODE_BYTES = 10 << 10, MOST = 256 << 20 };
    caller c;
    for (int has_room = 0; has_room < 2; has_room++) {
        if (!begin(&c)) return;
        hn_module *m = load_text(EACH_KIND, &graphs);
        held h = {.count = 0};
        if (!m) return;
        cuda_dev *d = (cuda_dev *)m->device;
        d->graph_bytes = MOST - NODES * NODE_BYTES + !has_room; /* of others */
        for (int k = 0; k < 8; k++) EXPECT_OK(run_kinds(&c, m, 8, (float)k, &h));
        EXPECT_INT(c.standin->graph_launches, has_room ? 7 : 0);
        EXPECT_INT(c.standin->execs, has_room);
        EXPECT_INT(c.standin->captures, has_room ? 2 : 1); /* the second one in vain */
        if (has_room) EXPECT_INT(d->graph_bytes, MOST);
        release_held(&h);
        end(&c, m);
    }
}

TEST_MAIN
