"""Shapes and views."""
import torch


def cases(c):
    x, m = torch.arange(24, dtype=torch.int32).reshape(2, 3, 4), torch.arange(12, dtype=torch.int32).reshape(3, 4)
    for name in "view reshape view_copy _unsafe_view".split():
        c.add(f"aten.{name}.default", x, [6, -1]), c.add(f"aten.{name}.default", c.tensor(1.0), [1, 1]), c.add(f"aten.{name}.default", torch.zeros(0, 3), [3, 0])
    c.add("aten.reshape.default", x.permute(2, 0, 1), [8, 3]), c.add("aten._reshape_alias.default", x, [24], [1])
    c.add("aten.view_as.default", x, c.ramp((4, 6))), c.add("aten.reshape_as.default", x, c.ramp((4, 6))), c.add("aten.ravel.default", m), c.add("aten.ravel.default", m.t())
    c.add("aten.flatten.using_ints", x), c.add("aten.flatten.using_ints", x, 1), c.add("aten.flatten.using_ints", x, 0, -2), c.add("aten.flatten.using_ints", c.tensor(1.0))
    c.add("aten.unflatten.int", x, 2, [2, -1]), c.add("aten.unflatten.int", x, -1, [2, 2])
    for name in ("permute", "permute_copy"):
        c.add(f"aten.{name}.default", x, [2, 0, 1]), c.add(f"aten.{name}.default", x, [0, -1, 1]), c.add(f"aten.{name}.default", c.tensor(1.0), [])
    c.add("aten.transpose.int", x, 0, -1), c.add("aten.transpose_copy.int", x, 1, 1), c.add("aten.swapaxes.default", x, -1, -2), c.add("aten.transpose.int", c.tensor(1.0), 0, -1)
    for name in ("t", "t_copy", "numpy_T"):
        c.add(f"aten.{name}.default", m), c.add(f"aten.{name}.default", m[0]), c.add(f"aten.{name}.default", c.tensor(1.0))
    c.add("aten.numpy_T.default", x), c.add("aten.mT.default", x), c.add("aten.mT.default", m)
    c.add("aten.movedim.int", x, 0, -1), c.add("aten.movedim.int", x, -1, 0), c.add("aten.movedim.intlist", x, [0, 2], [1, 0]), c.add("aten.movedim.intlist", x, [2, 1], [-3, -1])
    one = torch.arange(3).reshape(1, 3, 1)
    for name in ("expand", "expand_copy", "broadcast_to"):
        c.add(f"aten.{name}.default", one, [2, 3, 4]), c.add(f"aten.{name}.default", one, [5, -1, 3, -1]), c.add(f"aten.{name}.default", c.tensor(2.0), [2, 2]), c.add(f"aten.{name}.default", one, [0, 3, 1])
    c.add("aten.expand_as.default", one, x[:, :, :2])
    for dim in (0, 2, -1, -4):
        c.add("aten.unsqueeze.default", x, dim if dim != -4 else -4), c.add("aten.unsqueeze_copy.default", x, dim)
    c.add("aten.unsqueeze.default", c.tensor(1.0), 0)
    for name in ("squeeze", "squeeze_copy"):
        c.add(f"aten.{name}.default", one), c.add(f"aten.{name}.dim", one, 0), c.add(f"aten.{name}.dim", one, 1), c.add(f"aten.{name}.dim", one, -1), c.add(f"aten.{name}.dim", c.tensor(1.0), 0)
    c.add("aten.squeeze.dims", one, [0, 1, -1])
    parts(c, x, m)
    diagonals(c, x, m)
    strided(c, x, m)


def parts(c, x, m):
    for dim, index in ((0, 1), (-1, -1), (1, -3), (2, 3)):
        c.add("aten.select.int", x, dim, index)
    c.add("aten.select_copy.int", x, 0, 1)
    for args in ((1, 1, 3), (2, -3, -1), (0, None, None), (1, 0, 9223372036854775807), (2, 0, 100, 3), (2, 1, None, 2), (2, -100, 2), (1, 2, 1), (1, 5, 9), (0, 2, 2)):
        c.add("aten.slice.Tensor", x, *args)
    c.add("aten.slice_copy.Tensor", x, 1, 1, 3)
    c.add("aten.narrow.default", x, 1, 1, 2), c.add("aten.narrow.default", x, 2, -2, 1), c.add("aten.narrow.default", x, 0, 2, 0)
    c.add("aten.split.Tensor", x, 2, -1), c.add("aten.split.Tensor", x, 3, 2), c.add("aten.split.Tensor", x, 9), c.add("aten.split_copy.Tensor", x, 2, 1), c.add("aten.unsafe_split.Tensor", x, 1, 1)
    c.add("aten.split.sizes", x, [1, 0, 3], 2), c.add("aten.split_with_sizes.default", x, [2, 1], 1)
    for n in (1, 2, 3, 5):
        c.add("aten.chunk.default", m, n, 1), c.add("aten.unsafe_chunk.default", m, n, 0), c.add("aten.tensor_split.sections", m, n, 1)
    c.add("aten.unbind.int", x), c.add("aten.unbind.int", x, -2), c.add("aten.unbind_copy.int", m, 1)
    c.add("aten.unfold.default", x, 2, 2, 1), c.add("aten.unfold.default", x, 1, 2, 2), c.add("aten.unfold.default", c.ramp((7,)), 0, 3, 2), c.add("aten.unfold.default", c.tensor(1.0), 0, 1, 1)


def diagonals(c, x, m):
    for offset in (0, 1, -1, 3, -2, 4, -3):
        c.add("aten.diagonal.default", m, offset), c.add("aten.diag.default", m, offset)
    c.add("aten.diagonal.default", x, 0, 0, 2), c.add("aten.diagonal.default", x, 1, -1, 1), c.add("aten.diagonal_copy.default", x, -1, 2, 0)
    for offset in (0, 1, -2):
        c.add("aten.diag.default", m[0], offset), c.add("aten.diag_embed.default", m, offset)
    c.add("aten.diag_embed.default", m, 1, 0, 2), c.add("aten.diag_embed.default", m, -1, 2, 0), c.add("aten.diag_embed.default", c.ramp((2,), torch.int64)), c.add("aten.diag_embed.default", c.ramp((2,), torch.bool), 1)


def strided(c, x, m):
    c.add("aten.as_strided.default", m, [2, 2], [4, 1]), c.add("aten.as_strided.default", m, [2, 3], [1, 2], 3), c.add("aten.as_strided.default", m, [12], [1])
    c.add("aten.as_strided.default", m.t(), [3, 4], [4, 1]), c.add("aten.as_strided.default", m.t(), [2], [3], 1), c.add("aten.as_strided_copy.default", m, [3, 2], [0, 4], 1)
    c.add("aten.as_strided.default", x.permute(1, 2, 0), [4, 3], [1, 4]), c.add("aten.as_strided.default", m, [], [], 5)
