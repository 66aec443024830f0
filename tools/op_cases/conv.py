"""Convolutions, transposed convolutions and their gradients. All three gradients are asked for: a case cannot
hold an absent result."""
import itertools

import torch


def forward(c, dtype):
    r = lambda *s, seed=0: c.ramp(s, dtype, step=0.25, lo=-2, seed=seed)
    b = r(4, seed=2)
    c.add("aten.conv1d.default", r(2, 2, 7), r(4, 2, 3, seed=1), b)
    c.add("aten.conv1d.default", r(2, 7), r(4, 2, 3, seed=1), b, stride=[2], padding=[1], dilation=[2])
    x, w = r(2, 2, 5, 6), r(4, 2, 3, 2, seed=1)
    c.add("aten.conv2d.default", x, w), c.add("aten.conv2d.default", x, w, b)
    c.add("aten.conv2d.default", x[0], w, b, stride=[2, 1], padding=[1, 0], dilation=[1, 2])
    c.add("aten.conv2d.default", x, r(4, 1, 3, 3, seed=1), b, padding=[1, 1], groups=2)
    c.add("aten.conv2d.default", r(0, 2, 5, 6), w, b), c.add("aten.conv2d.default", r(1, 2, 1, 1), r(4, 2, 1, 1, seed=1), b)
    c.add("aten.conv3d.default", r(1, 2, 3, 3, 4), r(2, 2, 2, 1, 3, seed=1), b[:2], stride=[1, 2, 1], padding=[1, 0, 1])
    for padding in ("same", "valid"):
        for k in (1, 2, 3, 4):
            c.add("aten.conv1d.padding", r(1, 2, 6), r(4, 2, k, seed=1), b, padding=padding)
        c.add("aten.conv2d.padding", x, w, b, padding=padding), c.add("aten.conv2d.padding", x[0], w, None, padding=padding, dilation=[2, 3])
    c.add("aten.conv_transpose1d.default", r(2, 2, 3), r(2, 4, 3, seed=1), b)
    c.add("aten.conv_transpose1d.default", r(2, 3), r(2, 4, 3, seed=1), None, stride=[2], padding=[1], output_padding=[1])
    t = r(2, 4, 3, 2, seed=1)
    c.add("aten.conv_transpose2d.input", r(1, 2, 3, 2), t, b), c.add("aten.conv_transpose2d.input", r(1, 2, 3, 2), t, b, stride=[2, 3], padding=[1, 0], output_padding=[1, 2], dilation=[1, 2])
    c.add("aten.conv_transpose2d.input", r(1, 2, 3, 2), r(2, 2, 3, 2, seed=1), b, groups=2)
    c.add("aten.conv_transpose3d.input", r(1, 2, 2, 2, 2), r(2, 2, 2, 1, 3, seed=1), None, stride=[2, 1, 1])
    for transposed in (False, True):
        ww = r(2, 4, 3, 2, seed=1) if transposed else w
        c.add("aten.convolution.default", x, ww, b, [2, 1], [1, 1], [1, 1], transposed, [1 if transposed else 0, 0], 1)


def backward(c):
    """Strides that leave a rest, dilation, groups, transposed with output padding; each mask of results."""
    r = lambda *s, seed=0: c.ramp(s, step=0.25, lo=-2, seed=seed)

    def one(x, w, stride, padding, dilation, transposed, output_padding, groups):
        y = torch.ops.aten.convolution.default(x, w, None, stride, padding, dilation, transposed, output_padding, groups)
        c.add("aten.convolution_backward.default", c.ramp(tuple(y.shape), step=0.25, lo=-2, seed=9), x, w, [w.shape[1] * groups if transposed else w.shape[0]], stride, padding, dilation, transposed, output_padding, groups, [True, True, True])

    one(r(2, 2, 6), r(4, 2, 3, seed=1), [1], [0], [1], False, [0], 1)
    one(r(2, 2, 6), r(4, 2, 3, seed=1), [2], [1], [1], False, [0], 1)
    one(r(2, 2, 7), r(4, 2, 2, seed=1), [3], [0], [2], False, [0], 1)
    x, w = r(2, 2, 5, 6), r(4, 2, 3, 2, seed=1)
    for stride, padding, dilation in itertools.product(([1, 1], [2, 3]), ([0, 0], [1, 1]), ([1, 1], [2, 1])):
        one(x, w, stride, padding, dilation, False, [0, 0], 1)
    one(x, r(4, 1, 3, 2, seed=1), [2, 1], [1, 0], [1, 1], False, [0, 0], 2)
    one(x, r(2, 1, 3, 2, seed=1), [1, 1], [1, 1], [1, 1], False, [0, 0], 2)
    one(r(2, 2, 3, 3), r(2, 4, 3, 2, seed=1), [2, 2], [1, 0], [1, 1], True, [1, 1], 1)
    one(r(2, 4, 3, 3), r(4, 2, 3, 2, seed=1), [1, 2], [0, 0], [2, 1], True, [1, 0], 2)
    one(r(1, 2, 3, 3, 4), r(2, 2, 2, 1, 3, seed=1), [1, 2, 1], [1, 0, 1], [1, 1, 1], False, [0, 0, 0], 1)


def cases(c):
    forward(c, torch.float32)
    forward(c, torch.float64)
    backward(c)
    b = torch.bfloat16
    c.add("aten.conv2d.default", c.ramp((1, 2, 4, 4), b), c.ramp((3, 2, 3, 3), b, seed=1), c.ramp((3,), b))
