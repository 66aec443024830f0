/* In-place ops become pure: small graphs in text form, before and after. */
#include "unit/harness.h"

#include "opt/pass.h"

typedef struct fixture {
    hn_arena arena, scratch;
    hn_sym *sym;
    hn_graph *graph;
    hn_pass_context context;
} fixture;

static void begin(fixture *f, const char *text) {
    *f = (fixture){0};
    hn_arena_init(&f->arena);
    hn_arena_init(&f->scratch);
    f->context.scratch = &f->scratch;
    EXPECT_OK(hn_sym_create(&f->arena, &f->sym));
    EXPECT_OK(hn_graph_parse(&f->arena, f->sym, hn_str_of(text), &f->graph));
}
static void end(fixture *f) {
    hn_graph_deinit(f->graph);
    hn_arena_deinit(&f->arena);
    hn_arena_deinit(&f->scratch);
}

static void expect_pass(const char *before, const char *after) {
    fixture f;
    hn_strbuf text;
    begin(&f, before);
    hn_strbuf_init(&text);
    if (f.graph) {
        EXPECT_OK(hn_pass_functionalize(f.graph, &f.context));
        EXPECT_OK(hn_graph_verify(f.graph, HN_LEGAL_ANY));
        hn_graph_print(f.graph, &text);
        EXPECT_STR(text.ptr, after);
    }
    hn_strbuf_deinit(&text);
    end(&f);
}

static void expect_refused(const char *before, hn_code code, const char *message) {
    fixture f;
    begin(&f, before);
    if (f.graph) EXPECT_ERROR(hn_pass_functionalize(f.graph, &f.context), code, message);
    end(&f);
}

TEST(pure_graphs_stay) {
    static const char graph[] = "graph @g {\n"
                                "  input user %x : f32[4] \"x\"\n"
                                "  %y = aten.relu.default(%x) : f32[4]\n"
                                "  output user %y \"y\"\n"
                                "}\n";
    expect_pass(graph, graph);
}

TEST(a_write_to_an_input) {
    expect_pass("graph @g {\n"
                "  input user %x : f32[4] \"x\"\n"
                "  input user %y : f32[4] \"y\"\n"
                "  %a = aten.add_.Tensor(%x, %y, alpha=1) : f32[4]\n"
                "  %b = aten.mul.Tensor(%x, %a) : f32[4]\n"
                "  output user %b \"b\"\n"
                "  output user %x \"x\"\n"
                "}\n",
                "graph @g {\n"
                "  input user %x : f32[4] \"x\"\n"
                "  input user %y : f32[4] \"y\"\n"
                "  %a = aten.add.Tensor(%x, %y, alpha=1) : f32[4]\n"
                "  %b = aten.mul.Tensor(%a, %a) : f32[4]\n"
                "  output mutation %a of 0 \"x\"\n"
                "  output user %b \"b\"\n"
                "  output user %a \"x\"\n"
                "}\n");
}

/* A write through a view reaches its base, and the base's other views are made anew when read. */
TEST(views_of_a_local_tensor) {
    expect_pass("graph @g {\n"
                "  input user %x : f32[2, 3] \"x\"\n"
                "  %c = aten.clone.default(%x, memory_format=none) : f32[2, 3]\n"
                "  %r = aten.select.int(%c, dim=0, index=1) : f32[3]\n"
                "  %t = aten.t.default(%c) : f32[3, 2] strides [1, 3]\n"
                "  %z = aten.zero_.default(%r) : f32[3]\n"
                "  %s = aten.relu.default(%t) : f32[3, 2] strides [1, 3]\n"
                "  output user %s \"s\"\n"
                "  output user %r \"r\"\n"
                "}\n",
                "graph @g {\n"
                "  input user %x : f32[2, 3] \"x\"\n"
                "  %c = aten.clone.default(%x, memory_format=none) : f32[2, 3]\n"
                "  %r = aten.select.int(%c, dim=0, index=1) : f32[3]\n"
                "  %t = aten.t.default(%c) : f32[3, 2] strides [1, 3]\n"
                "  %z = aten.fill.Scalar(%r, value=0) : f32[3]\n"
                "  %5 = aten.select_scatter.default(%c, %z, dim=0, index=1) : f32[2, 3]\n"
                "  %6 = aten.t.default(%5) : f32[3, 2] strides [1, 3]\n"
                "  %s = aten.relu.default(%6) : f32[3, 2] strides [1, 3]\n"
                "  output user %s \"s\"\n"
                "  output user %z \"r\"\n"
                "}\n");
}

/* One write through each kind of view; the base is returned, so that the scatter shows. */
TEST(inverses_of_views) {
    static const struct {
        const char *view, *scatter;
    } cases[] = {
        {"aten.view.default(%c, size=[6]) : f32[6]",
         "aten.reshape.default(%w, shape=[2, 3]) : f32[2, 3]"},
        {"aten.unsqueeze.default(%c, dim=0) : f32[1, 2, 3]",
         "aten.reshape.default(%w, shape=[2, 3]) : f32[2, 3]"},
        {"aten.transpose.int(%c, dim0=-1, dim1=0) : f32[3, 2] strides [1, 3]",
         "aten.permute.default(%w, dims=[1, 0]) : f32[2, 3]"},
        {"aten.permute.default(%c, dims=[1, 0]) : f32[3, 2] strides [1, 3]",
         "aten.permute.default(%w, dims=[1, 0]) : f32[2, 3]"},
        {"aten.movedim.int(%c, source=0, destination=1) : f32[3, 2] strides [1, 3]",
         "aten.permute.default(%w, dims=[1, 0]) : f32[2, 3]"},
        {"aten.slice.Tensor(%c, dim=1, start=1, end=9, step=1) : f32[2, 2] strides [3, 1]",
         "aten.slice_scatter.default(%c, %w, dim=1, start=1, end=9, step=1) : f32[2, 3]"},
        {"aten.narrow.default(%c, dim=1, start=-2, length=2) : f32[2, 2] strides [3, 1]",
         "aten.slice_scatter.default(%c, %w, dim=1, start=1, end=3, step=1) : f32[2, 3]"},
        {"aten.diagonal.default(%c, offset=1, dim1=0, dim2=1) : f32[2] strides [4]",
         "aten.diagonal_scatter.default(%c, %w, offset=1, dim1=0, dim2=1) : f32[2, 3]"},
        {"aten.as_strided.default(%c, size=[2], stride=[2], storage_offset=1) : f32[2] strides [2]",
         "aten.as_strided_scatter.default(%c, %w, size=[2], stride=[2], storage_offset=1) : f32[2, 3]"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char before[1024], after[1024];
        const char *type = strstr(cases[k].view, " : ") + 3;
        snprintf(
            before, sizeof before,
            "graph @g {\n  input user %%x : f32[2, 3] \"x\"\n  %%c = aten.neg.default(%%x) : f32[2, "
            "3]\n  %%v = %s\n"
            "  %%w = aten.exp_.default(%%v) : %s\n  output user %%c \"c\"\n}\n",
            cases[k].view, type);
        snprintf(
            after, sizeof after,
            "graph @g {\n  input user %%x : f32[2, 3] \"x\"\n  %%c = aten.neg.default(%%x) : f32[2, "
            "3]\n  %%v = %s\n"
            "  %%w = aten.exp.default(%%v) : %s\n  %%4 = %s\n  output user %%4 \"c\"\n}\n",
            cases[k].view, type, cases[k].scatter);
        expect_pass(before, after);
    }
}

TEST(pieces_of_a_split) {
    expect_pass(
        "graph @g {\n"
        "  input user %x : f32[2, 5] \"x\"\n"
        "  %a, %b = aten.split.Tensor(%x, split_size=3, dim=1) : f32[2, 3] strides [5, 1], f32[2, 2] "
        "strides [5, 1]\n"
        "  %w = aten.exp_.default(%b) : f32[2, 2] strides [5, 1]\n"
        "  %s = aten.neg.default(%a) : f32[2, 3]\n"
        "  output user %s \"s\"\n"
        "}\n",
        "graph @g {\n"
        "  input user %x : f32[2, 5] \"x\"\n"
        "  %a, %b = aten.split.Tensor(%x, split_size=3, dim=1) : f32[2, 3] strides [5, 1], f32[2, 2] "
        "strides [5, 1]\n"
        "  %w = aten.exp.default(%b) : f32[2, 2] strides [5, 1]\n"
        "  %4 = aten.slice_scatter.default(%x, %w, dim=1, start=3, end=5, step=1) : f32[2, 5]\n"
        "  %5 = aten.slice.Tensor(%4, dim=1, start=0, end=3, step=1) : f32[2, 3] strides [5, 1]\n"
        "  %s = aten.neg.default(%5) : f32[2, 3]\n"
        "  output mutation %4 of 0 \"x\"\n"
        "  output user %s \"s\"\n"
        "}\n");
}

/* contiguous and to share memory only when they change nothing; detach_ and unsqueeze_ write
 * nothing. */
TEST(what_is_an_alias) {
    expect_pass(
        "graph @g {\n"
        "  input user %x : f32[2, 3] \"x\"\n"
        "  %t = aten.t.default(%x) : f32[3, 2] strides [1, 3]\n"
        "  %k = aten.contiguous.default(%t, memory_format=\"contiguous_format\") : f32[3, 2]\n"
        "  %d = aten.to.dtype(%x, dtype=f64, non_blocking=false, copy=false, memory_format=none) : "
        "f64[2, 3]\n"
        "  %a = aten.exp_.default(%k) : f32[3, 2]\n"
        "  %b = aten.exp_.default(%d) : f64[2, 3]\n"
        "  %e = aten.detach_.default(%x) : f32[2, 3]\n"
        "  %u = aten.unsqueeze_.default(%e, dim=0) : f32[1, 2, 3]\n"
        "  output user %a \"a\"\n"
        "  output user %b \"b\"\n"
        "  output user %u \"u\"\n"
        "}\n",
        "graph @g {\n"
        "  input user %x : f32[2, 3] \"x\"\n"
        "  %t = aten.t.default(%x) : f32[3, 2] strides [1, 3]\n"
        "  %k = aten.contiguous.default(%t, memory_format=\"contiguous_format\") : f32[3, 2]\n"
        "  %d = aten.to.dtype(%x, dtype=f64, non_blocking=false, copy=false, memory_format=none) : "
        "f64[2, 3]\n"
        "  %a = aten.exp.default(%k) : f32[3, 2]\n"
        "  %b = aten.exp.default(%d) : f64[2, 3]\n"
        "  %e = aten.detach.default(%x) : f32[2, 3]\n"
        "  %u = aten.unsqueeze.default(%e, dim=0) : f32[1, 2, 3]\n"
        "  output user %a \"a\"\n"
        "  output user %b \"b\"\n"
        "  output user %u \"u\"\n"
        "}\n");
    expect_pass(
        "graph @g {\n"
        "  input user %x : f32[2, 3] \"x\"\n"
        "  %k = aten.contiguous.default(%x, memory_format=\"contiguous_format\") : f32[2, 3]\n"
        "  %d = aten.dropout.default(%k, p=0.5, train=false) : f32[2, 3]\n"
        "  %r = aten.reshape.default(%d, shape=[6]) : f32[6]\n"
        "  %a = aten.exp_.default(%r) : f32[6]\n"
        "  output user %a \"a\"\n"
        "}\n",
        "graph @g {\n"
        "  input user %x : f32[2, 3] \"x\"\n"
        "  %k = aten.contiguous.default(%x, memory_format=\"contiguous_format\") : f32[2, 3]\n"
        "  %d = aten.dropout.default(%k, p=0.5, train=false) : f32[2, 3]\n"
        "  %r = aten.reshape.default(%d, shape=[6]) : f32[6]\n"
        "  %a = aten.exp.default(%r) : f32[6]\n"
        "  %5 = aten.reshape.default(%a, shape=[2, 3]) : f32[2, 3]\n"
        "  output mutation %5 of 0 \"x\"\n"
        "  output user %a \"a\"\n"
        "}\n");
    /* a reshape that strides cannot express is a copy: what is written to it stays there */
    expect_pass("graph @g {\n"
                "  input user %x : f32[2, 3] \"x\"\n"
                "  %t = aten.t.default(%x) : f32[3, 2] strides [1, 3]\n"
                "  %r = aten.reshape.default(%t, shape=[6]) : f32[6]\n"
                "  %a = aten.exp_.default(%r) : f32[6]\n"
                "  output user %a \"a\"\n"
                "}\n",
                "graph @g {\n"
                "  input user %x : f32[2, 3] \"x\"\n"
                "  %t = aten.t.default(%x) : f32[3, 2] strides [1, 3]\n"
                "  %r = aten.reshape.default(%t, shape=[6]) : f32[6]\n"
                "  %a = aten.exp.default(%r) : f32[6]\n"
                "  output user %a \"a\"\n"
                "}\n");
}

/* The in-place form keeps its operand's dtype. */
TEST(dtypes_are_cast_back) {
    expect_pass("graph @g {\n"
                "  input user %x : f32[4] \"x\"\n"
                "  input user %h : bf16[4] \"h\"\n"
                "  %a = aten.add_.Tensor(%h, %x, alpha=1) : bf16[4]\n"
                "  %b = aten.gt_.Scalar(%x, other=0) : f32[4]\n"
                "  output user %a \"a\"\n"
                "  output user %b \"b\"\n"
                "}\n",
                "graph @g {\n"
                "  input user %x : f32[4] \"x\"\n"
                "  input user %h : bf16[4] \"h\"\n"
                "  %2 = aten.add.Tensor(%h, %x, alpha=1) : f32[4]\n"
                "  %a = cast(%2, dtype=bf16) : bf16[4]\n"
                "  %4 = aten.gt.Scalar(%x, other=0) : bool[4]\n"
                "  %b = cast(%4, dtype=f32) : f32[4]\n"
                "  output mutation %b of 0 \"x\"\n"
                "  output mutation %a of 1 \"h\"\n"
                "  output user %a \"a\"\n"
                "  output user %b \"b\"\n"
                "}\n");
}

TEST(counterparts_with_other_names) {
    expect_pass(
        "graph @g {\n"
        "  input user %x : i64[4] \"x\"\n"
        "  input user %y : i64[4] \"y\"\n"
        "  input user %f : f32[4] \"f\"\n"
        "  %o = aten.empty_like.default(%x, dtype=none, layout=none, device=none, pin_memory=none, "
        "memory_format=none) : i64[4]\n"
        "  %a = aten.__iand__.Tensor(%x, %y) : i64[4]\n"
        "  %m = aten.maximum.out(%a, %y, %o) : i64[4]\n"
        "  %r = aten.bernoulli_.float(%f, p=0.25, generator=none) : f32[4]\n"
        "  output user %o \"o\"\n"
        "}\n",
        "graph @g {\n"
        "  input user %x : i64[4] \"x\"\n"
        "  input user %y : i64[4] \"y\"\n"
        "  input user %f : f32[4] \"f\"\n"
        "  %o = aten.empty_like.default(%x, dtype=none, layout=none, device=none, pin_memory=none, "
        "memory_format=none) : i64[4]\n"
        "  %a = aten.__and__.Tensor(%x, %y) : i64[4]\n"
        "  %m = aten.maximum.default(%a, %y) : i64[4]\n"
        "  %r = aten.bernoulli.p(%f, p=0.25, generator=none) : f32[4]\n"
        "  output mutation %a of 0 \"x\"\n"
        "  output mutation %r of 2 \"f\"\n"
        "  output user %m \"o\"\n"
        "}\n");
}

TEST(batch_norm_updates_its_statistics) {
    static const char before[] =
        "graph @g {\n"
        "  input user %%x : f32[2, 3, 4] \"x\"\n"
        "  input user %%m : f32[3] \"m\"\n"
        "  input user %%v : f32[3] \"v\"\n"
        "  %%y = aten.batch_norm.default(%%x, weight=none, bias=none, %%m, %%v, "
        "training=%s, momentum=0.1, eps=0.001, "
        "cudnn_enabled=false) : f32[2, 3, 4]\n"
        "  output user %%y \"y\"\n"
        "}\n";
    char text[1024];
    snprintf(text, sizeof text, before, "true");
    expect_pass(text, "graph @g {\n"
                      "  input user %x : f32[2, 3, 4] \"x\"\n"
                      "  input user %m : f32[3] \"m\"\n"
                      "  input user %v : f32[3] \"v\"\n"
                      "  %y, _, _, %4, %5 = aten._native_batch_norm_legit_functional.default(%x, "
                      "weight=none, bias=none, %m, %v, training=true, "
                      "momentum=0.1, eps=0.001) : f32[2, 3, 4], _, _, f32[3], f32[3]\n"
                      "  output mutation %4 of 1 \"m\"\n"
                      "  output mutation %5 of 2 \"v\"\n"
                      "  output user %y \"y\"\n"
                      "}\n");
    snprintf(text, sizeof text, before, "false");
    expect_pass(text, text); /* evaluation writes nothing */
}

/* A mutation that the signature lists already keeps its place and gets no twin. */
TEST(listed_mutations) {
    expect_pass("graph @g {\n"
                "  input user %x : f32[4] \"x\"\n"
                "  %a = aten.exp_.default(%x) : f32[4]\n"
                "  output mutation %a of 0 \"a\"\n"
                "  output user %a \"a\"\n"
                "}\n",
                "graph @g {\n"
                "  input user %x : f32[4] \"x\"\n"
                "  %a = aten.exp.default(%x) : f32[4]\n"
                "  output mutation %a of 0 \"a\"\n"
                "  output user %a \"a\"\n"
                "}\n");
}

TEST(branches) {
    static const char graph[] = "graph @g {\n"
                                "  input user %%p : bool[] \"p\"\n"
                                "  input user %%x : f32[4] \"x\"\n"
                                "  %%y = cond(%%p, then=graph {\n"
                                "    input user %%a : f32[4] \"a\"\n"
                                "    %%b = aten.neg.default(%%a) : f32[4]\n"
                                "    %%c = aten.%s.default(%%%s) : f32[4]\n"
                                "    output user %%b \"b\"\n"
                                "  }, otherwise=graph {\n"
                                "    input user %%a : f32[4] \"a\"\n"
                                "    output user %%a \"a\"\n"
                                "  }, [%%x]) : f32[4]\n"
                                "  output user %%y \"y\"\n"
                                "}\n";
    char before[1024], after[1024];
    snprintf(before, sizeof before, graph, "exp_", "b");
    snprintf(after, sizeof after, graph, "exp", "b");
    char *output = strstr(after, "output user %b \"b\"");
    output[13] = 'c'; /* the branch returns what was written */
    expect_pass(before, after);
    snprintf(before, sizeof before, graph, "exp_", "a");
    expect_refused(before, HN_UNSUPPORTED, "a branch writes its operand 'a'");
}

TEST(refusals) {
    expect_refused(
        "graph @g {\n"
        "  input user %x : f32[1, 4] \"x\"\n"
        "  %e = aten.expand.default(%x, size=[3, 4], implicit=false) : f32[3, 4] strides [0, 1]\n"
        "  %a = aten.exp_.default(%e) : f32[3, 4] strides [0, 1]\n"
        "  output user %a \"a\"\n"
        "}\n",
        HN_UNSUPPORTED,
        "cannot write through 'aten.expand.default': several of its elements share memory");
    expect_refused(
        "graph @g {\n"
        "  input user %x : f32[8] \"x\"\n"
        "  %e = aten.unfold.default(%x, dimension=0, size=4, step=2) : f32[3, 4] strides [2, 1]\n"
        "  %a = aten.exp_.default(%e) : f32[3, 4] strides [2, 1]\n"
        "  output user %a \"a\"\n"
        "}\n",
        HN_UNSUPPORTED, "cannot write through 'aten.unfold.default'");
    expect_refused(
        "graph @g {\n"
        "  input user %x : i64[8] \"x\"\n"
        "  %a = aten.random_.default(%x, generator=none) : i64[8] at \"r\" \"net.py:7\"\n"
        "  output user %a \"a\"\n"
        "}\n",
        HN_UNSUPPORTED,
        "cannot functionalize 'aten.random_.default' (node 'r', net.py:7): 'aten.random_.default' "
        "has no pure counterpart");
    /* whether the reshape copies depends on a size that is not known */
    expect_refused("graph @g {\n"
                   "  symbol size s0 in [1, 64]\n"
                   "  input user %x : f32[s0, 4] strides [8, 1] \"x\"\n"
                   "  %e = aten.reshape.default(%x, shape=[4*s0]) : f32[4*s0]\n"
                   "  %a = aten.exp_.default(%e) : f32[4*s0]\n"
                   "  output user %a \"a\"\n"
                   "}\n",
                   HN_UNSUPPORTED, "cannot tell whether 'e' shares the memory of 'x'");
}

/* A thousand writes to one tensor: chains of results stay flat. */
TEST(long_chains) {
    enum { STEPS = 5000 };
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_strbuf_puts(&text, "graph @g {\n  input user %v0 : f32[4] \"x\"\n");
    for (int k = 0; k < STEPS; k++)
        hn_strbuf_printf(&text, "  %%v%d = aten.exp_.default(%%v%d) : f32[4]\n", k + 1, k);
    hn_strbuf_printf(&text, "  output user %%v%d \"y\"\n}\n", STEPS);
    fixture f;
    begin(&f, text.ptr);
    if (f.graph) {
        EXPECT_OK(hn_pass_functionalize(f.graph, &f.context));
        EXPECT_INT(f.graph->nodes.count - 1, STEPS);
        EXPECT_INT(f.graph->outputs.count, 2);
    }
    end(&f);
    hn_strbuf_deinit(&text);
}

TEST_MAIN
