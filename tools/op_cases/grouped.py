"""Products of groups of rows, each with a matrix of its own: the experts of a mixture. Needs transformers, whose operator it is."""
import torch
import transformers.integrations.moe  # noqa: F401


def cases(c):
    f, d, h, b = torch.float32, torch.float64, torch.float16, torch.bfloat16
    op = "transformers.grouped_mm_fallback.default"
    ends = lambda *v: c.tensor(v, torch.int32)  # noqa: E731
    x, w = c.ramp((7, 3)), c.ramp((4, 3, 5), seed=1)
    c.add(op, x, w, ends(2, 3, 6, 7))
    c.add(op, x, w, ends(0, 0, 7, 7))  # groups without rows
    c.add(op, x, w, ends(2, 2, 2, 5))  # rows of no group
    c.add(op, x, w, c.tensor([0, 0, 0, 0], torch.int64))
    c.add(op, x, c.ramp((4, 5, 3), seed=1).transpose(1, 2), ends(1, 4, 4, 7))
    c.add(op, c.ramp((3, 7)).t(), w, ends(1, 4, 4, 7))
    c.add(op, x[:0], w, ends(0, 0, 0, 0))
    c.add(op, x[:, :0], w[:, :0], ends(1, 2, 3, 4))
    c.add(op, x, w[..., :1], ends(3, 4, 5, 6))
    c.add(op, c.ramp((17, 33)), c.ramp((2, 33, 19), seed=1), ends(9, 17))
    for dtype in (d, h, b):
        c.add(op, x.to(dtype), w.to(dtype), ends(2, 3, 6, 7))
        c.add(op, c.ramp((17, 33), dtype), c.ramp((2, 33, 19), dtype, seed=1), ends(9, 17))
    for dtype in (f, b):  # strides of 16 bytes are asked for
        x, w = c.ramp((7, 8), dtype), c.ramp((3, 8, 16), dtype, seed=1)
        c.add("aten._grouped_mm.default", x, w, ends(3, 3, 7))
        c.add("aten._grouped_mm.default", x, c.ramp((3, 16, 8), dtype, seed=2).transpose(1, 2), ends(1, 3, 7))
        c.add("aten._grouped_mm.default", c.ramp((3, 8, 16), dtype), c.ramp((16, 24), dtype, seed=1), ends(8, 8, 24))
        c.add("aten._grouped_mm.default", c.ramp((3, 8, 16), dtype), c.ramp((3, 16, 8), dtype, seed=1))
