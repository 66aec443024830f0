/* Batch norm behind convolutions of every kind, against the interpreter; and what must not be
 * folded. */
#include "unit/opt/equivalence.h"

#include "ir/build.h"

typedef struct form {
    uint32_t spatial;
    int64_t groups;
    bool transposed, bias, subtract, strided_weight, no_factor, factor_left;
    hn_dtype dtype;
    bool read_twice, wrong_dim, is_large;
} form;

static hn_expr num(hn_graph *g, int64_t n) { return hn_sym_int(g->sym, n); }

static hn_value stored(hn_graph *g, hn_dtype dtype, const hn_expr *sizes, const hn_expr *strides,
                       uint32_t rank, uint64_t seed) {
    int64_t count = 1, size;
    for (uint32_t k = 0; k < rank; k++) count *= hn_sym_is_int(g->sym, sizes[k], &size) ? size : 0;
    /* offset of one: bytes are not aligned to vectors */
    size_t elem = hn_dtype_facts(dtype)->size_bytes, at = 1;
    uint8_t *bytes = hn_arena_alloc(g->arena, ((size_t)count + at) * elem);
    hn_ref_tensor t;
    EXPECT_OK(hn_ref_tensor_init(g->arena, dtype, 1, &count, &t));
    for (int64_t k = 0; k < count; k++)
        t.data.f[k] = 0.25 + (double)(eq_random(&seed) >> 11) * 0x1p-53;
    hn_ref_tensor_store(&t, bytes + at * elem);
    hn_value v = hn_graph_add_tensor(g, dtype, rank, sizes, strides, HN_STR(""));
    uint32_t storage =
        hn_graph_add_storage(g, (hn_storage){.data = bytes,
                                             .size_bytes = ((size_t)count + at) * elem,
                                             .file_record = HN_STR("w")});
    EXPECT_OK(hn_graph_add_input(g, (hn_input){.kind = HN_INPUT_PARAMETER,
                                               .value = v,
                                               .name = HN_STR("w"),
                                               .storage = storage,
                                               .storage_offset_elems = (int64_t)at}));
    return v;
}

static hn_value per_channel(hn_graph *g, const form *f, hn_value v, int64_t channels) {
    hn_expr sizes[5];
    for (uint32_t k = 0; k < f->spatial + 2; k++) sizes[k] = num(g, 1);
    sizes[f->wrong_dim ? 2 : 1] = num(g, channels);
    return hn_b_reshape(g, v, sizes, f->spatial + 2);
}

static void make(hn_graph *g, const form *f) {
    /* large: a weight of 1 MB */
    int64_t in = f->is_large ? 512 : 4, out = f->is_large ? 512 : 6, spatial = 6;
    hn_expr x_sizes[5] = {num(g, 2), num(g, in)},
            w_sizes[5] = {num(g, f->transposed ? in : out),
                          num(g, (f->transposed ? out : in) / f->groups)};
    hn_expr strides[5];
    hn_conv_params params = {
        .spatial = f->spatial, .transposed = f->transposed, .groups = f->groups};
    for (uint32_t k = 0; k < f->spatial; k++) {
        x_sizes[2 + k] = num(g, spatial);
        w_sizes[2 + k] = num(g, 1 + k % 2);
        params.stride[k] = params.dilation[k] = num(g, 1);
        params.padding[k] = params.output_padding[k] = num(g, 0);
    }
    hn_expr step = num(g, 1); /* column-major */
    for (uint32_t k = 0; k < f->spatial + 2; k++) {
        strides[k] = step;
        step = hn_sym_mul(g->sym, step, w_sizes[k]);
    }
    hn_value x = hn_graph_add_tensor(g, f->dtype, f->spatial + 2, x_sizes, NULL, HN_STR(""));
    EXPECT_OK(
        hn_graph_add_input(g, (hn_input){.kind = HN_INPUT_USER, .value = x, .name = HN_STR("x")}));
    hn_value w =
        stored(g, f->dtype, w_sizes, f->strided_weight ? strides : NULL, f->spatial + 2, 1);
    hn_expr channels[1] = {num(g, out)};
    hn_value bias = f->bias ? stored(g, f->dtype, channels, NULL, 1, 2) : 0;
    hn_value var = stored(g, f->dtype, channels, NULL, 1, 3),
             mean = stored(g, f->dtype, channels, NULL, 1, 4);
    hn_value y = hn_b_conv(g, x, w, bias, &params);
    hn_value alpha =
        hn_b_unary(g, HN_OP_RSQRT, hn_b_binary(g, HN_OP_ADD, var, hn_b_scalar(g, 1e-3, f->dtype)));
    hn_value beta = hn_b_binary(g, HN_OP_MUL, mean, alpha), z = y,
             a = per_channel(g, f, alpha, out);
    if (!f->no_factor)
        z = f->factor_left ? hn_b_binary(g, HN_OP_MUL, a, y) : hn_b_binary(g, HN_OP_MUL, y, a);
    z = hn_b_binary(g, f->subtract ? HN_OP_SUB : HN_OP_ADD, z, per_channel(g, f, beta, out));
    EXPECT_OK(hn_graph_add_output(
        g, (hn_output){.kind = HN_OUTPUT_USER, .value = z, .name = HN_STR("")}));
    if (f->read_twice)
        EXPECT_OK(hn_graph_add_output(
            g, (hn_output){.kind = HN_OUTPUT_USER, .value = y, .name = HN_STR("")}));
}

static void build(eq_graph *e, const form *f) {
    eq_begin(e);
    EXPECT_OK(hn_graph_create(&e->arena, e->sym, &e->g));
    make(e->g, f);
    EXPECT_OK(hn_graph_status(e->g));
}

/* `nodes` are left. */
static void expect_form(const form *f, uint32_t nodes, bool metadata_only) {
    eq_graph before, after;
    char what[128];
    snprintf(what, sizeof what, "spatial %u groups %d transposed %d bias %d subtract %d %s",
             f->spatial, (int)f->groups, f->transposed, f->bias, f->subtract,
             hn_dtype_facts(f->dtype)->name);
    build(&before, f);
    build(&after, f);
    EXPECT_OK(eq_run_pass(&after, hn_pass_fold, metadata_only));
    EXPECT_OK(eq_run_pass(&after, hn_pass_patterns, metadata_only));
    if (after.g->nodes.count - 1 != nodes)
        HN_TEST_FAIL("%s: %u nodes are left, expected %u", what, after.g->nodes.count - 1, nodes);
    /* products of weight and factor are rounded first; f64 has digits to spare */
    eq_options o = {.rtol = 1e-5, .atol = 1e-5, .finite = true};
    eq_expect_same(&before, &after, what, &o);
    eq_end(&before);
    eq_end(&after);
}

TEST(norm_behind_every_convolution) {
    for (uint32_t spatial = 1; spatial <= 3; spatial++)
        for (int groups = 1; groups <= 2; groups++)
            for (int flags = 0; flags < 16; flags++)
                expect_form(&(form){.spatial = spatial,
                                    .groups = groups,
                                    .transposed = flags & 1,
                                    .bias = flags & 2,
                                    .subtract = flags & 4,
                                    .factor_left = flags & 8,
                                    .dtype = flags & 1 ? HN_DTYPE_F64 : HN_DTYPE_F32},
                            1, false);
}

TEST(summand_alone) {
    for (int bias = 0; bias < 2; bias++)
        for (int subtract = 0; subtract < 2; subtract++)
            expect_form(&(form){.spatial = 2,
                                .groups = 1,
                                .bias = bias,
                                .subtract = subtract,
                                .no_factor = true,
                                .dtype = HN_DTYPE_F32},
                        1, false);
}

TEST(not_folded) {
    /* the convolution, a factor and a summand that became tables */
    form f = {.spatial = 2, .groups = 1, .dtype = HN_DTYPE_F32};
    form twice = f, strided = f, half = f, wrong = f;
    twice.read_twice = true;
    expect_form(&twice, 3, false);
    strided.strided_weight = true; /* its bytes are not in the order of its elements */
    expect_form(&strided, 3, false);
    wrong.wrong_dim = true; /* along the height, which is as long */
    expect_form(&wrong, 3, false);
    expect_form(&f, 9, true); /* nothing may be computed now */
    half.dtype = HN_DTYPE_BF16;
    eq_graph e;
    build(&e, &half);
    EXPECT_OK(eq_run_pass(&e, hn_pass_patterns, false));
    EXPECT_INT(eq_count(e.g, HN_OP_MUL), 1);
    EXPECT_INT(eq_count(e.g, HN_OP_ADD), 1);
    eq_end(&e);
}

TEST(large_weights) {
    form f = {.spatial = 1, .groups = 1, .dtype = HN_DTYPE_F32, .is_large = true};
    expect_form(&f, 3, false); /* the factor waits until the runtime packs the weight */
    f.bias = true;
    expect_form(&f, 1, false);
}

TEST(parameter_as_bias) {
    static const char text[] =
        "graph { storage 1 : 16 bytes hex 0000803f00000040000080bf0000003f storage 2 : 8 bytes hex 0000803f00004040 "
        "input parameter %w : f32[2, 2, 1] storage 1 offset 0 \"w\" input parameter %b : f32[2] storage 2 offset 0 \"b\" input user %x : f32[1, 2, 3] \"x\" "
        "%y = conv(%x, %w, none, stride=[1], padding=[0], dilation=[1], transposed=false, output_padding=[0], groups=1) "
        "%r = reshape(%b, sizes=[2, 1]) %z = add(%r, %y) output user %z \"\" }";
    eq_graph e;
    if (eq_parse(&e, text)) {
        EXPECT_OK(eq_run_pass(&e, hn_pass_patterns, false));
        const hn_node_info *conv = eq_find(e.g, HN_OP_CONV);
        EXPECT_INT(e.g->nodes.count - 1, 1);
        EXPECT(conv && conv->args[2].as.value == e.g->inputs.items[1].value); /* itself, no copy */
    }
    eq_end(&e);
}

TEST_MAIN
