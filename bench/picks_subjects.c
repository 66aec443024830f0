/* picks_subjects.c: see the header. */
#include "bench/picks_subjects.h"

#define GRAPH(inputs, body) "graph @g {\n" inputs body "  output user %y \"y\"\n}\n"
#define X                   "  input user %x : f32[R, C] \"x\"\n"
#define X2                  X "  input user %b : f32[R, C] \"b\"\n"
#define X3                  X2 "  input user %c : f32[R, C] \"c\"\n"
#define XR                  X "  input user %w : f32[C] \"w\"\n"
#define XRR                 XR "  input user %v : f32[C] \"v\"\n"
#define XH                  "  input user %x : bf16[R, C] \"x\"\n"
#define XH2                 XH "  input user %b : bf16[R, C] \"b\"\n"
#define XHR                 XH "  input user %w : bf16[C] \"w\"\n"
#define SQUARES             "  %q = mul(%x, %x)\n  %m = aten.mean.dim(%q, [1], true) : f32[R, 1]\n"

static const picks_subject subjects[] = {
    {"softmax", GRAPH(X, "  %y = aten._softmax.default(%x, -1, false) : f32[R, C]\n")},
    {"log_softmax", GRAPH(X, "  %y = aten._log_softmax.default(%x, -1, false) : f32[R, C]\n")},
    {"softmax bf16", GRAPH(XH, "  %y = aten._softmax.default(%x, -1, false) : bf16[R, C]\n")},
    {"softmax of columns", GRAPH(X, "  %y = aten._softmax.default(%x, 0, false) : f32[R, C]\n")},
    {"layer_norm",
     GRAPH(XRR, "  %y = aten.layer_norm.default(%x, [C], %w, %v, 1e-05, false) : f32[R, C]\n")},
    {"layer_norm bf16",
     GRAPH(XHR, "  %y = aten.layer_norm.default(%x, [C], %w, %w, 1e-05, false) : bf16[R, C]\n")},
    {"add + layer_norm",
     GRAPH(X2 "  input user %w : f32[C] \"w\"\n",
           "  %s = add(%x, %b)\n"
           "  %y = aten.layer_norm.default(%s, [C], %w, %w, 1e-05, false) : f32[R, C]\n")},
    {"rms_norm", GRAPH(XR, SQUARES "  %e = aten.add.Scalar(%m, 1e-05) : f32[R, 1]\n  %r = "
                                   "aten.rsqrt.default(%e) : f32[R, 1]\n  %s = "
                                   "aten.mul.Tensor(%x, %r) : f32[R, C]\n  %y = "
                                   "aten.mul.Tensor(%s, %w) : f32[R, C]\n")},
    {"over its sum", GRAPH(X, "  %s = sum(%x, dims=[1], keepdim=true)\n  %y = "
                              "aten.div.Tensor(%x, %s) : f32[R, C]\n")},
    {"sum of rows", GRAPH(X, "  %y = sum(%x, dims=[1], keepdim=false)\n")},
    {"sum of rows bf16", GRAPH(XH, "  %y = aten.sum.dim_IntList(%x, [1], false) : bf16[R]\n")},
    {"mean of squares", GRAPH(X, "  %q = mul(%x, %x)\n  %y = aten.mean.dim(%q, [1], false) : "
                                 "f32[R]\n")},
    {"sum of products", GRAPH(X2, "  %q = mul(%x, %b)\n  %y = sum(%q, dims=[1], keepdim=false)\n")},
    {"sum of exponentials", GRAPH(X, "  %q = exp(%x)\n  %y = sum(%q, dims=[1], keepdim=false)\n")},
    {"largest of rows", GRAPH(X, "  %y = aten.amax.default(%x, [1], false) : f32[R]\n")},
    {"argmax of rows", GRAPH(X, "  %y = aten.argmax.default(%x, 1, false) : i64[R]\n")},
    {"sum of columns", GRAPH(X, "  %y = sum(%x, dims=[0], keepdim=false)\n")},
    {"sum of columns bf16", GRAPH(XH, "  %y = aten.sum.dim_IntList(%x, [0], false) : bf16[C]\n")},
    {"column sums of products",
     GRAPH(X2, "  %q = mul(%x, %b)\n  %y = sum(%q, dims=[0], keepdim=false)\n")},
    {"largest of columns", GRAPH(X, "  %y = aten.amax.default(%x, [0], false) : f32[C]\n")},
    {"argmax of columns", GRAPH(X, "  %y = aten.argmax.default(%x, 0, false) : i64[C]\n")},
    {"mean of exponentials of columns",
     GRAPH(X, "  %q = exp(%x)\n  %y = aten.mean.dim(%q, [0], false) : f32[C]\n")},
    {"transpose",
     GRAPH("  input user %x : f32[C, R] \"x\"\n", "  %y = permute(%x, dims=[1, 0])\n")},
    {"transpose bf16",
     GRAPH("  input user %x : bf16[C, R] \"x\"\n", "  %y = permute(%x, dims=[1, 0])\n")},
    {"x.t() + y", GRAPH("  input user %x : f32[C, R] \"x\"\n  input user %b : f32[R, C] \"b\"\n",
                        "  %t = permute(%x, dims=[1, 0])\n  %y = add(%t, %b)\n")},
    {"gelu(x.t())", GRAPH("  input user %x : f32[C, R] \"x\"\n",
                          "  %t = permute(%x, dims=[1, 0])\n  %y = aten.gelu.default(%t) : f32[R, "
                          "C]\n")},
    {"cat", GRAPH("  input user %x : f32[R, H] \"x\"\n  input user %b : f32[R, H] \"b\"\n",
                  "  %y = cat([%x, %b], dim=1)\n")},
    {"embedding", GRAPH("  input user %x : f32[3000, C] \"x\"\n  input user %i : i64[R] \"i\"\n",
                        "  %y = aten.embedding.default(%x, %i, -1, false, false) : f32[R, C]\n")},
    {"gather", GRAPH(X "  input user %i : i64[R, C] \"i\"\n", "  %y = gather(%x, %i, dim=1)\n")},
    {"add", GRAPH(X2, "  %y = add(%x, %b)\n")},
    {"add bf16", GRAPH(XH2, "  %y = add(%x, %b)\n")},
    {"relu", GRAPH(X, "  %y = aten.relu.default(%x) : f32[R, C]\n")},
    {"silu(a*b+c)",
     GRAPH(X3,
           "  %m = mul(%x, %b)\n  %s = add(%m, %c)\n  %y = aten.silu.default(%s) : f32[R, C]\n")},
    {"gelu", GRAPH(X, "  %y = aten.gelu.default(%x) : f32[R, C]\n")},
    {"gelu bf16", GRAPH(XH, "  %y = aten.gelu.default(%x) : bf16[R, C]\n")},
    {"exp", GRAPH(X, "  %y = exp(%x)\n")},
    {"tanh", GRAPH(X, "  %y = aten.tanh.default(%x) : f32[R, C]\n")},
    {"silu(a)*b", GRAPH(X2, "  %s = aten.silu.default(%x) : f32[R, C]\n  %y = mul(%s, %b)\n")},
    {"bias + gelu", GRAPH(XR, "  %s = aten.add.Tensor(%x, %w) : f32[R, C]\n  %y = "
                              "aten.gelu.default(%s) : f32[R, C]\n")},
    {"scale + shift", GRAPH(XRR, "  %s = aten.mul.Tensor(%x, %w) : f32[R, C]\n  %y = "
                                 "aten.add.Tensor(%s, %v) : f32[R, C]\n")},
    {"cumsum", GRAPH(X, "  %y = cumsum(%x, dim=1)\n")},
    {"where", GRAPH(X2 "  input user %m : bool[R, C] \"m\"\n", "  %y = where(%m, %x, %b)\n")},
};

static const picks_size sizes[] = {
    {32, 48}, {512, 384}, {7, 30011}, {20011, 12}, {2048, 2048}, {4096, 4096},
};

/* Softmax and norms, forward and backward; statistics of rows are f32. */
#define OUT(name)  "  output user %" name " \"" name "\"\n"
#define XHD        XH "  input user %d : bf16[R, C] \"d\"\n"
#define XHDR       XHD "  input user %w : bf16[C] \"w\"\n  input user %r : f32[R, 1] \"r\"\n"
#define WIDE(f, x) "  %" f " = aten._to_copy.default(%" x ", dtype=f32) : f32[R, C]\n"

static const picks_subject gpu_subjects[] = {
    {"softmax", GRAPH(XH, "  %y = aten._softmax.default(%x, -1, false) : bf16[R, C]\n")},
    {"layer_norm",
     GRAPH(XHR, "  %y = aten.layer_norm.default(%x, [C], %w, %w, 1e-05, false) : bf16[R, C]\n")},
    {"rms_norm", GRAPH(XHR, "  %y = aten.rms_norm.default(%x, [C], %w, 1e-05) : bf16[R, C]\n")},
    {"softmax backward",
     GRAPH(XHD, "  %y = aten._softmax_backward_data.default(%d, %x, -1, bf16) : bf16[R, C]\n")},
    {"layer_norm backward",
     GRAPH(XHDR "  input user %m : f32[R, 1] \"m\"\n",
           "  %y, %g, %b = aten.native_layer_norm_backward.default(%d, %x, [C], %m, %r, %w, %w, "
           "[1, 1, 1]) : bf16[R, C], bf16[C], bf16[C]\n" OUT("g") OUT("b"))},
    {"rms_norm backward",
     GRAPH(XHDR,
           WIDE("xf", "x") WIDE("df", "d") "  %n = aten.mul.Tensor(%xf, %r) : f32[R, C]\n"
                                           "  %e = aten.mul.Tensor(%df, %w) : f32[R, C]\n"
                                           "  %p = aten.mul.Tensor(%e, %n) : f32[R, C]\n"
                                           "  %m = aten.mean.dim(%p, [1], true) : f32[R, 1]\n"
                                           "  %q = aten.mul.Tensor(%n, %m) : f32[R, C]\n"
                                           "  %s = aten.sub.Tensor(%e, %q) : f32[R, C]\n"
                                           "  %z = aten.mul.Tensor(%s, %r) : f32[R, C]\n"
                                           "  %y = aten._to_copy.default(%z, dtype=bf16) : "
                                           "bf16[R, C]\n"
                                           "  %t = aten.mul.Tensor(%df, %n) : f32[R, C]\n"
                                           "  %u = aten.sum.dim_IntList(%t, [0], false) : f32[C]\n"
                                           "  %g = aten._to_copy.default(%u, dtype=bf16) : bf16[C]"
                                           "\n" OUT("g"))},
};

/* Rows for 4, 32 and 128 MiB of bf16: within the second cache of an H200, and beyond it. */
#define CELL(bits, columns)                                                                        \
    { (1 << (bits)) / (columns), columns }
#define CELLS(columns) CELL(21, columns), CELL(24, columns), CELL(26, columns)

static const picks_size gpu_sizes[] = {CELLS(128),  CELLS(512),   CELLS(2048),
                                       CELLS(8192), CELLS(32768), CELLS(131072)};

#define COUNT(list) (sizeof(list) / sizeof *(list))
const picks_cells picks_of_cpu = {subjects, COUNT(subjects), sizes, COUNT(sizes)},
                  picks_of_gpu = {gpu_subjects, COUNT(gpu_subjects), gpu_sizes, COUNT(gpu_sizes)};
