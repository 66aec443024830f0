"""Pooling and its gradients."""
import itertools

import torch

nan, inf = float("nan"), float("inf")


def windows(n):
    """kernel, stride, padding, dilation, ceil_mode for n dims."""
    yield [2] * n, [], [0] * n, [1] * n, False
    for k, s, p, dil in ((3, 2, 1, 1), (2, 3, 1, 1), (3, 1, 1, 2), (3, 2, 0, 1), (1, 1, 0, 1), (2, 2, 1, 1), (4, 3, 2, 1)):
        for ceil in (False, True):
            yield [k] * n, [s] * n, [p] * n, [dil] * n, ceil
    if n == 2:
        yield [3, 2], [2, 1], [1, 0], [1, 2], True
        yield [2], [1], [1], [1], False


def maximum(c):
    x2 = c.ramp((1, 1, 5, 4))
    for k, s, p, dil, ceil in windows(2):
        c.attempt("aten.max_pool2d_with_indices.default", x2, k, s, p, dil, ceil)
        c.attempt("aten.max_pool2d.default", x2[0], k, s, p, dil, ceil)
    for k, s, p, dil, ceil in windows(1):
        c.attempt("aten.max_pool1d.default", c.ramp((2, 2, 7)), k, s, p, dil, ceil)
    x3 = c.ramp((1, 1, 3, 4, 3))
    for k, s, p, dil, ceil in list(windows(3))[:5]:
        c.attempt("aten.max_pool3d_with_indices.default", x3, k, s, p, dil, ceil)
        c.attempt("aten.max_pool3d.default", x3[0], k, s, p, dil, ceil)
    odd = c.tensor([[nan, 1, -inf, -inf], [2, 2, -inf, -inf], [3, inf, 0, -0.0], [-inf, -inf, 1, nan]]).reshape(1, 1, 4, 4)
    for p in (0, 1):
        c.add("aten.max_pool2d_with_indices.default", odd, [2, 2], [1, 1] if p == 0 else [2, 2], [p, p])
    c.add("aten.max_pool2d_with_indices.default", torch.full((1, 1, 3, 3), -inf), [3, 3], [2, 2], [1, 1])
    c.add("aten.max_pool2d_with_indices.default", torch.full((1, 1, 4, 4), -inf), [2, 2], [2, 2], [1, 1], [2, 2])
    c.add("aten.max_pool2d_with_indices.default", c.ramp((1, 1, 4, 4), torch.bfloat16), [3, 3], [1, 1], [1, 1])
    c.attempt("aten.max_pool2d.default", c.ramp((1, 1, 4, 4), torch.int64), [3, 3], [1, 1], [1, 1])
    c.attempt("aten.max_pool2d_with_indices.default", c.ramp((1, 1, 4, 4), torch.uint8), [3, 3], [1, 1], [1, 1])
    c.add("aten.max_pool2d_with_indices.default", torch.zeros(0, 2, 4, 4), [2, 2])


def average(c):
    x = c.ramp((1, 1, 5, 4))
    for k, s, p, dil, ceil in windows(2):
        if dil[0] != 1 or dil[-1] != 1:
            continue
        for include in (True, False):
            c.attempt("aten.avg_pool2d.default", x, k, s, p, ceil, include)
        c.attempt("aten.avg_pool2d.default", x[0], k, s, p, ceil, True, 5)
    for k, s, p, dil, ceil in windows(1):
        if dil[0] == 1:
            c.attempt("aten.avg_pool1d.default", c.ramp((2, 2, 7)), k, s, p, ceil, True)
            c.attempt("aten.avg_pool1d.default", c.ramp((2, 7)), k, s, p, ceil, False)
    for include in (True, False):
        c.add("aten.avg_pool3d.default", c.ramp((1, 1, 4, 5, 4)), [2, 3, 2], [2, 2, 1], [1, 1, 0], True, include)
    c.add("aten.avg_pool3d.default", c.ramp((1, 4, 5, 4)), [2, 3, 2])
    c.add("aten.avg_pool2d.default", c.ramp((1, 1, 4, 4), torch.bfloat16), [3, 3], [1, 1], [1, 1])
    c.add("aten.avg_pool2d.default", c.ramp((1, 1, 4, 4), torch.float64), [3, 3], [1, 1], [1, 1])
    for n in (1, 2, 3, 5, 7, 9):
        c.add("aten.adaptive_avg_pool1d.default", c.ramp((2, 2, 7)), [n])
        c.add("aten._adaptive_avg_pool2d.default", x, [n, 3]), c.add("aten.adaptive_avg_pool2d.default", x[0], [n, 3])
        c.add("aten.adaptive_max_pool2d.default", x, [n, 3])
        c.add("aten._adaptive_avg_pool2d_backward.default", c.ramp((1, 1, n, 3), seed=3), x)
    c.add("aten.adaptive_avg_pool2d.default", x, [1, 1]), c.add("aten.adaptive_avg_pool2d.default", x.bfloat16(), [1, 1])
    c.add("aten._adaptive_avg_pool2d_backward.default", c.ramp((1, 1, 1, 1), seed=3), x)
    c.add("aten._adaptive_avg_pool3d.default", c.ramp((1, 1, 3, 4, 5)), [2, 2, 2])


def gradients(c):
    x = c.ramp((1, 1, 5, 4))
    for k, s, p, dil, ceil in windows(2):
        if len(k) == 1:
            continue
        s = s or k
        try:
            y, index = torch.ops.aten.max_pool2d_with_indices.default(x, k, s, p, dil, ceil)
        except RuntimeError:
            continue
        g = c.ramp(tuple(y.shape), seed=5)
        c.add("aten.max_pool2d_with_indices_backward.default", g, x, k, s, p, dil, ceil, index)
        if dil == [1, 1]:
            for include, divisor in ((True, None), (False, None), (True, 3)):
                c.add("aten.avg_pool2d_backward.default", g, x, k, s, p, ceil, include, divisor)
    y, index = torch.ops.aten.max_pool2d_with_indices.default(x[0], [2, 2])
    c.add("aten.max_pool2d_with_indices_backward.default", c.ramp(tuple(y.shape)), x[0], [2, 2], [2, 2], [0, 0], [1, 1], False, index)
    c.add("aten.avg_pool2d_backward.default", c.ramp(tuple(y.shape)), x[0], [2, 2], [2, 2], [0, 0], False, True, None)

    for size in ([2, 3], [1, 1], [5, 4]):
        y, index = torch.ops.aten.adaptive_max_pool2d.default(x, size)
        c.add("aten.adaptive_max_pool2d_backward.default", c.ramp(tuple(y.shape), seed=5), x, index)
        c.add("aten.adaptive_max_pool2d_backward.default", c.ramp(tuple(y.shape[1:]), seed=5), x[0], index[0])
    z = c.ramp((1, 2, 3, 4, 5))
    y, index = torch.ops.aten.adaptive_max_pool3d.default(z, [2, 3, 2])
    c.add("aten.adaptive_max_pool3d_backward.default", c.ramp(tuple(y.shape), seed=5), z, index)
    for k, s, p, dil in (([2, 2, 2], [1, 2, 1], [0, 1, 1], [1, 1, 1]), ([3, 2, 2], [1, 1, 1], [1, 0, 0], [1, 2, 1])):
        y, index = torch.ops.aten.max_pool3d_with_indices.default(z, k, s, p, dil)
        c.add("aten.max_pool3d_with_indices_backward.default", c.ramp(tuple(y.shape), seed=5), z, k, s, p, dil, False, index)


def cases(c):
    maximum(c)
    average(c)
    gradients(c)
