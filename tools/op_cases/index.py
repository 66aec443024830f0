"""Reading and writing by index, and rearrangements by index arithmetic."""
import torch

I, B = torch.int64, torch.bool


def reads(c):
    x = c.ramp((3, 4, 2))
    i = lambda v, d=I: c.tensor(v, d)
    for dim in (0, 1, -1):
        c.add("aten.index_select.default", x, dim, i([1, 0, 1])), c.add("aten.index_select.default", x, dim, i([1], torch.int32))
        c.add("aten.gather.default", x, dim, i([[[1, 0]], [[0, 1]]]))
    c.add("aten.index_select.default", x, 0, i(2)), c.add("aten.index_select.default", c.tensor(2.5), 0, i([0])), c.add("aten.index_select.default", x, 1, i([]))
    c.add("aten.gather.default", c.tensor(2.5), 0, i(0)), c.add("aten.gather.default", c.ramp((3,)), 0, i([2, 2, 0, 1])), c.add("aten.gather.default", x, 1, torch.zeros(0, 4, 2, dtype=I))
    for index in (i([1, 0]), i([[3], [0]]), i(2), i([], I)):
        c.add("aten.embedding.default", c.ramp((4, 3)), index)
    c.add("aten.embedding.default", c.ramp((4, 3), torch.bfloat16), i([1, 0], torch.int32), 1)
    c.add("aten.take.default", x, i([[0, -1], [23, 5]])), c.add("aten.take.default", c.tensor(2.5), i(0))
    c.add("aten.take_along_dim.default", x, i([3, -0, 5])), c.add("aten.take_along_dim.default", x, i([[[1], [0], [2], [0]]]), 0), c.add("aten.take_along_dim.default", x, i([[[1, 0]]]), 1)


def advanced(c):
    x = c.ramp((3, 4, 2))
    i = lambda v: c.tensor(v, I)
    lists = [[i([0, -1])], [None, i([1, 3])], [None, None, i(1)], [i([[0], [2]]), i([1, -1, 0])], [i([0, 2]), None, i([1, 0])], [None, i([[0, 1]]), i([1, 0])],
             [i(1), i([0, 1, 2])], [i([0, 2]), None, None], [i([0, 2]), i([1, 1]), i([0, -2])], [i([]), None, i(0)], [i([2, 2, 2])]]
    for k, index in enumerate(lists):
        shape = tuple(torch.ops.aten.index.Tensor(x, index).shape)
        c.add("aten.index.Tensor", x, index), c.add("aten._unsafe_index.Tensor", x, index)
        for accumulate in (False, True):
            if not accumulate and k == 10:
                continue  # which of several values stays is not defined
            c.add("aten.index_put.default", x, index, c.ramp(shape, seed=5), accumulate), c.add("aten.index_put.default", x, index, c.tensor(7.5), accumulate)
        c.add("aten._unsafe_index_put.default", x, index, c.ramp(shape[-1:], seed=5), True)
    c.add("aten.index_put.default", x.to(I), [i([0, 0])], c.tensor(3, I), True), c.add("aten.index_put.default", x.bfloat16(), [i([0, 1])], c.tensor(3, torch.bfloat16), True)
    mask = x > 0
    for accumulate in (False, True):
        c.add("aten.index_put.default", x, [mask], c.tensor(7.5), accumulate), c.add("aten.index_put.default", x, [mask[:, 0, 0]], c.tensor([7.5]), accumulate)
        c.add("aten.index_put.default", x, [mask[:, 0, 0]], c.ramp((4, 2), seed=5), accumulate), c.add("aten.index_put.default", x, [mask[:, :, 1]], c.ramp((1, 2), seed=5), accumulate)
        c.add("aten.index_put.default", x, [mask[:, 0, 0]], c.ramp((1, 4, 1), seed=5), accumulate)
    c.add("aten._unsafe_masked_index.default", x, c.tensor([1, 0, 1], B)[:, None, None], [i([0, 9, -5 % 3]), None, None], 1.5)


def writes(c):
    x = c.ramp((3, 4))
    for dim, n in ((0, 3), (1, 4), (-1, 4)):
        index = c.tensor([n - 1, 0], I)
        source = c.ramp((2, 4) if dim == 0 else (3, 2), seed=5)
        c.add("aten.index_copy.default", x, dim, index, source), c.add("aten.index_fill.int_Scalar", x, dim, c.tensor([-1, 0], I), 2.5)
        c.add("aten.index_fill.int_Tensor", x, dim, index, c.tensor(2.5)), c.add("aten.index_add.default", x, dim, index, source), c.add("aten.index_add.default", x, dim, c.tensor([1, 1], I), source, alpha=2)
    c.add("aten.index_add.default", c.ramp((3,)), 0, c.tensor([2, 2, 0], torch.int32), c.ramp((3,), seed=2)), c.add("aten.index_add.default", c.tensor(1.5), 0, c.tensor([0], I), c.tensor(2.5))
    c.add("aten.index_fill.int_Scalar", c.ramp((3,), I), 0, c.tensor(1, I), 2), c.add("aten.index_copy.default", x, 0, c.tensor(1, I), c.ramp((1, 4), seed=3))


def rearranged(c):
    x = c.ramp((2, 3))
    for shifts, dims in (([1], [0]), ([-1], [1]), ([4, 2], [0, 1]), ([1], []), ([0], [1]), ([7], [-1])):
        c.add("aten.roll.default", x, shifts, dims)
    c.add("aten.roll.default", torch.zeros(0, 2), [1], [0]), c.add("aten.roll.default", c.ramp((3,), I), [2], [0])
    c.add("aten.pixel_shuffle.default", c.ramp((2, 8, 2, 3)), 2), c.add("aten.pixel_shuffle.default", c.ramp((9, 1, 2)), 3), c.add("aten.pixel_shuffle.default", c.ramp((2, 1, 2, 3)), 1)
    c.add("aten.pixel_unshuffle.default", c.ramp((1, 2, 4, 6)), 2), c.add("aten.pixel_unshuffle.default", c.ramp((1, 3, 6)), 3)
    c.add("aten.channel_shuffle.default", c.ramp((1, 6, 2, 2)), 2), c.add("aten.channel_shuffle.default", c.ramp((2, 6, 2)), 3)
    for dim in (0, 1, -1, None):
        c.add("aten.repeat_interleave.self_int", x, 2, dim), c.add("aten.repeat_interleave.self_int", x, 1, dim), c.add("aten.repeat_interleave.self_int", x, 0, dim)


    repeats = c.tensor([2, 0, 3], I)
    for dim, x in ((1, c.ramp((2, 3))), (0, c.ramp((3, 2))), (None, c.ramp((3,)))):
        c.add("aten.repeat_interleave.self_Tensor", x, repeats, dim, output_size=5)
    c.add("aten.repeat_interleave.self_Tensor", c.ramp((2, 2)), c.tensor([2], I), 0, output_size=4)


def cases(c):
    reads(c)
    advanced(c)
    writes(c)
    rearranged(c)
