"""Joining, repeating, reversing."""
import torch


def cases(c):
    x, y, z = (torch.arange(float(k), k + 3.0 * n).reshape(n, 3) for k, n in ((0, 2), (6, 2), (12, 4)))
    for name in ("cat", "concat"):
        c.add(f"aten.{name}.default", [x, y, z]), c.add(f"aten.{name}.default", [x, y], -1), c.add(f"aten.{name}.default", [x])
        c.add(f"aten.{name}.default", [x, c.ramp((1, 3), torch.int64)]), c.add(f"aten.{name}.default", [x.half(), c.ramp((1, 3), torch.bfloat16)])
        c.add(f"aten.{name}.default", [torch.zeros(0), x]), c.add(f"aten.{name}.default", [torch.zeros(0), torch.zeros(0)]), c.add(f"aten.{name}.default", [torch.zeros(0, 3), x])
    c.add("aten.cat.default", [c.tensor([1], torch.bool), c.tensor([2], torch.uint8)]), c.add("aten.cat.default", [c.tensor([1.5]), c.tensor([2], torch.float64)])
    c.add("aten.stack.default", [x, y]), c.add("aten.stack.default", [x, y], 2), c.add("aten.stack.default", [x, y], -2), c.add("aten.stack.default", [c.tensor(1.0), c.tensor(2.0)])
    c.add("aten.stack.default", [x, y.long()], 1)
    for name in ("hstack", "vstack"):
        c.add(f"aten.{name}.default", [x, y]), c.add(f"aten.{name}.default", [x[0], y[1]]), c.add(f"aten.{name}.default", [c.tensor(1.0), c.tensor(2.0)])
    for reps in ((2, 1), (1, 3), (2, 2, 2), (1, 1), (3, 0), (2, 1, 1, 1)):
        c.add("aten.repeat.default", x, reps), c.add("aten.tile.default", x, reps)
    c.add("aten.tile.default", x, (2,)), c.add("aten.tile.default", x, ()), c.add("aten.repeat.default", c.tensor(1.0), (2, 2)), c.add("aten.repeat.default", c.ramp((3,), torch.bool), (2,))
    for dims in ([0], [1], [0, -1], []):
        c.add("aten.flip.default", x, dims)
    c.add("aten.flipud.default", x), c.add("aten.fliplr.default", x), c.add("aten.flip.default", torch.zeros(0, 2), [0])
    for k in (-1, 0, 1, 2, 3, 5):
        c.add("aten.rot90.default", x, k), c.add("aten.rot90.default", c.ramp((2, 3, 2)), k, [1, 2]), c.add("aten.rot90.default", x, k, [1, 0])
