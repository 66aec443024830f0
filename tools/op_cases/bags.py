"""Rows of a table put together by bags: by offsets, of one length (offsets from arange), weighted, padded, empty."""
import torch

I = torch.int64
T = {"rtol": 1e-5, "atol": 1e-5}


def cases(c):
    i = lambda *v: c.tensor(v, I)
    table, index, weights = c.ramp((7, 3)), i(3, 0, 6, 3, 3, 1, 5), c.ramp((7,), seed=5)
    for mode in (0, 1, 2):
        for offsets, last in ((i(0, 2, 2, 6), False), (i(0, 3), False), (i(0, 2, 5, 7), True), (i(0, 0, 7), True)):
            for padding in (-1, 3):
                c.add("aten._embedding_bag.default", table, index, offsets, False, mode, False, None, last, padding, keep=1, **T)
            c.add("aten.embedding_bag.padding_idx", table, index, offsets, False, mode, False, None, last, None, keep=1, **T)
            c.add("aten.embedding_bag.default", table, index, offsets, False, mode, False, None, last, keep=1, **T)
    c.add("aten._embedding_bag.default", table, index, i(0, 2, 2, 6), False, 0, False, weights, keep=1, **T)
    c.add("aten._embedding_bag_forward_only.default", table, index.int(), i(0, 2, 2, 6).int(), False, 1, False, None, False, 3, keep=1, **T)
    c.add("aten.embedding_bag.default", table.double(), i(3, 3), i(0), False, 2, keep=1)
