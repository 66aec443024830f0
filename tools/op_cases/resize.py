"""Pooling and resizing overloads that exports leave in one piece."""
import torch

T = {"rtol": 1e-5, "atol": 1e-5}


def resize(c, name, spatial, size, out, align=None):
    x = c.ramp((1, 2) + size)
    flags = [] if align is None else [align]
    c.add(f"aten.{name}.default", x, list(out), *flags, **T), c.add(f"aten.{name}.vec", x, list(out), *flags, None, **T)
    c.add(f"aten.{name}.vec", x, None, *flags, [1.7, 2.0, 0.6][:spatial], **T)
    c.add(f"aten.{name}.default", x, list(out), *flags, *[o / s * 1.1 for o, s in zip(out, size)], **T)


def cases(c):
    sizes = {1: ((5,), ((7,), (10,), (3,))), 2: ((4, 5), ((7, 3), (8, 10), (2, 9))), 3: ((3, 4, 2), ((5, 2, 4), (6, 8, 4)))}
    for spatial, (size, outs) in sizes.items():
        for out in outs:
            resize(c, f"_upsample_nearest_exact{spatial}d", spatial, size, out)
            if spatial == 3:
                resize(c, "upsample_nearest3d", 3, size, out)
            for align in (False, True):
                if spatial == 2:
                    resize(c, "_upsample_bilinear2d_aa", 2, size, out, align), resize(c, "_upsample_bicubic2d_aa", 2, size, out, align)
                else:
                    resize(c, "upsample_linear1d" if spatial == 1 else "upsample_trilinear3d", spatial, size, out, align)
    c.add("aten._upsample_bilinear2d_aa.default", c.ramp((1, 1, 9, 11)), [3, 2], False, **T), c.add("aten._upsample_bicubic2d_aa.default", c.ramp((1, 1, 9, 11)), [3, 2], False, **T)
    c.add("aten._upsample_bilinear2d_aa.default", c.ramp((1, 1, 3, 4), torch.float64), [5, 2], False)
    for shape, out in (((2, 5), [3]), ((1, 2, 6), [2]), ((1, 2, 5), [7]), ((2, 4), [1])):
        c.add("aten.adaptive_max_pool1d.default", c.ramp(shape), out)
    for shape, out in (((1, 2, 4, 5, 3), [2, 3, 3]), ((2, 3, 4, 5), [1, 2, 3])):
        c.add("aten.adaptive_max_pool3d.default", c.ramp(shape), out), c.add("aten.adaptive_avg_pool3d.default", c.ramp(shape), out, **T)
    c.add("aten.adaptive_avg_pool3d.default", c.ramp((1, 2, 4, 4, 2)), [1, 1, 1], **T)
    c.add("aten.max_pool1d_with_indices.default", c.ramp((1, 2, 9)), [3], [2], [1]), c.add("aten.max_pool1d_with_indices.default", c.ramp((2, 9)), [2], [], [0], [2], True)
    for shape in ((1, 2, 4, 6), (2, 4, 6)):
        x = c.ramp(shape)
        values, indices = torch.ops.aten.max_pool2d_with_indices.default(x, [2, 2])
        c.add("aten.max_unpool2d.default", values, indices, [4, 6])
    x = c.ramp((1, 2, 4, 4, 2))
    values, indices = torch.ops.aten.max_pool3d_with_indices.default(x, [2, 2, 2])
    c.add("aten.max_unpool3d.default", values, indices, [4, 4, 2], [2, 2, 2], [0, 0, 0])
    for pad in ([1, 2], [2, 0]):
        c.add("aten.replication_pad1d.default", c.ramp((2, 3, 4)), pad), c.add("aten._pad_circular.default", c.ramp((2, 3, 4)), pad)
        for mode in range(4):
            c.add("aten._pad_enum.default", c.ramp((2, 3, 4)), pad, mode, 1.5 if mode == 3 else None)
