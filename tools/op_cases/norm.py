"""Layer, group, instance, batch and RMS norms and their gradients."""
import torch

F32 = {"rtol": 1e-5, "atol": 1e-5}  # a normalised value near 0 is a difference of much larger ones
LOW = {"rtol": 1.6e-2, "atol": 1e-2}


def params(c, n, dtype=torch.float32):
    w, b = c.ramp(n, dtype, seed=3), c.ramp(n, dtype, seed=8)
    return ((None, None), (w, None), (None, b), (w, b))


def layer(c):
    x = c.ramp((2, 3, 5))
    for shape in ((5,), (3, 5), (2, 3, 5)):
        for w, b in params(c, shape):
            c.add("aten.native_layer_norm.default", x, list(shape), w, b, 1e-5, **F32)
            y, mean, rstd = torch.ops.aten.native_layer_norm.default(x, list(shape), w, b, 1e-5)
            if w is not None and b is not None:  # a case cannot hold an absent result
                c.add("aten.native_layer_norm_backward.default", c.ramp((2, 3, 5), seed=11), x, list(shape), mean, rstd, w, b, [True, True, True], **F32)
    w, b = params(c, (5,))[3]
    c.add("aten.layer_norm.default", x, [5], w, b, **F32), c.add("aten.layer_norm.default", x, [5], **F32)
    c.add("aten.layer_norm.default", x + 1000, [5], w, b, rtol=1e-4, atol=1e-4), c.add("aten.layer_norm.default", torch.ones(2, 5), [5], w, b, **F32)
    c.add("aten.layer_norm.default", c.ramp((3, 1)), [1], None, None, **F32), c.add("aten.layer_norm.default", torch.zeros(0, 5), [5], w, b)
    c.add("aten.layer_norm.default", c.tensor([1, float("nan"), 2]), [3], None, None), c.add("aten.layer_norm.default", x.double(), [5], w.double(), b.double())
    c.add("aten.native_layer_norm.default", x.bfloat16(), [5], w.bfloat16(), b.bfloat16(), 1e-5, **LOW)
    c.add("aten.native_layer_norm.default", x.bfloat16(), [5], w, b, 1e-5, **LOW)
    for eps in (1e-6, None):
        for ww in (None, w):
            c.add("aten.rms_norm.default", x, [5], ww, eps, **F32)
            c.attempt("aten._fused_rms_norm.default", x, [5], ww, eps, **F32)
    c.add("aten.rms_norm.default", x.bfloat16(), [5], w.bfloat16(), None, **LOW), c.add("aten.rms_norm.default", x, [3, 5], None, 1e-5, **F32)
    c.add("aten.rms_norm.default", torch.zeros(2, 3), [3], None, None, **F32), c.add("aten.rms_norm.default", torch.zeros(2, 3).bfloat16() + 1e-3, [3], None, None, **LOW)
    c.add("aten.rms_norm.default", c.ramp((2, 3)).double() * 1e-8, [3], None, None), c.add("aten.rms_norm.default", (c.ramp((2, 3)) * 1e-4).half(), [3], None, None, rtol=2e-3, atol=1e-4)


def group(c):
    x = c.ramp((2, 4, 3, 2))
    for groups in (1, 2, 4):
        for w, b in params(c, (4,)):
            c.add("aten.native_group_norm.default", x, w, b, 2, 4, 6, groups, 1e-5, **F32)
            y, mean, rstd = torch.ops.aten.native_group_norm.default(x, w, b, 2, 4, 6, groups, 1e-5)
            c.add("aten.native_group_norm_backward.default", c.ramp((2, 4, 3, 2), seed=11), x, mean, rstd, w, 2, 4, 6, groups, [True, True, True], **F32)
    w, b = params(c, (4,))[3]
    c.add("aten.group_norm.default", x, 2, w, b, **F32), c.add("aten.group_norm.default", c.ramp((3, 4)), 2, w, b, **F32), c.add("aten.group_norm.default", c.ramp((1, 4, 5)), 4, **F32)
    c.add("aten.group_norm.default", x.bfloat16(), 2, w.bfloat16(), b.bfloat16(), **LOW)
    for stats in (True, False):
        rm, rv = c.ramp((4,), seed=2), c.ramp((4,), seed=1).abs() + 0.5
        c.add("aten.instance_norm.default", x, w, b, None if stats else rm, None if stats else rv, stats, 0.1, 1e-5, True, **F32)
    c.add("aten.instance_norm.default", c.ramp((2, 3, 5)), None, None, None, None, True, 0.1, 1e-5, True, **F32)


def batch(c):
    rm, rv = c.ramp((3,), seed=2), c.ramp((3,), seed=1).abs() + 0.5
    for shape in ((2, 3), (2, 3, 5), (2, 3, 2, 3), (4, 3, 1, 1)):
        x, g = c.ramp(shape), c.ramp(shape, seed=11)
        for w, b in params(c, (3,)):
            c.add("aten._native_batch_norm_legit_no_training.default", x, w, b, rm, rv, 0.1, 1e-5, **F32)
        w, b = params(c, (3,))[3]
        for training in (True, False):
            c.add("aten._native_batch_norm_legit_functional.default", x, w, b, rm, rv, training, 0.1, 1e-5, **F32)
            c.add("aten.batch_norm.default", x, w, b, rm.clone(), rv.clone(), training, 0.1, 1e-5, True, **F32)
            c.add("aten.native_batch_norm.default", x, w, b, rm.clone(), rv.clone(), training, 0.1, 1e-5, **F32)
            y, mean, invstd = torch.ops.aten.native_batch_norm.default(x, w, b, rm.clone(), rv.clone(), training, 0.1, 1e-5)
            for ww in (w, None):
                c.add("aten.native_batch_norm_backward.default", g, x, ww, rm, rv, mean, invstd, training, 1e-5, [True, True, True], **F32)
        c.add("aten._native_batch_norm_legit.no_stats", x, w, b, True, 0.1, 1e-5, **F32), c.add("aten.batch_norm.default", x, None, None, None, None, True, 0.1, 1e-5, True, **F32)
        c.attempt("aten._batch_norm_with_update_functional.default", x, w, b, rm, rv, 0.1, 1e-5, **F32)
    x = c.ramp((2, 3, 2, 2))
    c.add("aten.batch_norm.default", x.bfloat16(), w.bfloat16(), b.bfloat16(), rm.bfloat16(), rv.bfloat16(), False, 0.1, 1e-5, True, **LOW)
    c.attempt("aten.batch_norm.default", x.bfloat16(), w, b, rm, rv, False, 0.1, 1e-5, True, **LOW)
    c.attempt("aten.batch_norm.default", x.bfloat16(), w, b, rm, rv, True, 0.1, 1e-5, True, **LOW)


def cases(c):
    layer(c)
    group(c)
    batch(c)
