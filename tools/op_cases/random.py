"""Random numbers: only dtype and sizes can be compared with PyTorch's."""
import torch

I = torch.int64


def cases(c):
    n = lambda op, *a, **k: c.add(f"aten.{op}", *a, skip=(0, 1), **k)
    for size in ([2, 3], [], [0]):
        n("rand.default", size), n("randn.default", size), n("randint.default", 5, size), n("randint.low", -3, 5, size)
    n("rand.default", [2], dtype=torch.float64), n("randn.default", [2], dtype=torch.bfloat16), n("randint.default", 5, [2], dtype=torch.float32)
    for x in (c.ramp((2, 3)), c.ramp((3,), torch.bfloat16)):
        n("rand_like.default", x), n("randn_like.default", x), n("uniform.default", x, -1.0, 2.0), n("normal_functional.default", x, 1.0, 2.0), n("bernoulli.p", x, 0.25), n("native_dropout.default", x, 0.5, True)
        c.add("aten.native_dropout.default", x, 0.5, False), c.add("aten.native_dropout.default", x, 0.0, True), c.add("aten.native_dropout.default", x, 1.0, True)
        c.add("aten.native_dropout_backward.default", x, c.ramp(tuple(x.shape), torch.bool), 2.0)
    n("rand_like.default", c.ramp((3,)), dtype=torch.float64), n("randperm.default", 5), n("randperm.default", 0), n("randperm.default", 4, dtype=torch.int32)
    c.add("aten.bernoulli.default", c.tensor([0, 1, 1, 0])), c.add("aten.bernoulli.p", c.ramp((3,)), 0.0), c.add("aten.bernoulli.p", c.ramp((3,)), 1.0), c.add("aten.randint.default", 1, [3]), c.add("aten.randperm.default", 1)
    for p in ([0, 3, 0], [[0, 0, 1], [2, 0, 0]]):
        c.add("aten.multinomial.default", c.tensor(p), 1), c.add("aten.multinomial.default", c.tensor(p), 4, True)
    n("multinomial.default", c.tensor([[1, 2, 3], [3, 2, 1]]), 3), n("multinomial.default", c.tensor([1, 2, 3]), 5, True)
    for shape in ((2, 3, 4), (1, 2, 3, 4)):
        q = c.ramp(shape)
        n("scaled_dot_product_attention.default", q, q, q, None, 0.5), n("scaled_dot_product_attention.default", q, q, q, None, 0.25, True)
    n("scaled_dot_product_attention.default", c.ramp((1, 4, 3, 4)), q, q, None, 0.5, enable_gqa=True)
