"""Point-wise arithmetic of two or three tensors, and type promotion."""
import torch

B = torch.bool


def promotion(c):
    """add says the result's dtype and div the INT_TO_FLOAT kind, over every pair of dtypes and ranks."""
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, B)
    for k, x in enumerate(kinds):
        for y in kinds[k:]:
            c.add("aten.add.Tensor", c.tensor([1], x), c.tensor([1], y))
        for y in kinds:
            if x != y and y.itemsize != 2:
                c.add("aten.mul.Tensor", c.tensor([1], x), c.tensor(1, y))
        for scalar in (2, 1.5):
            c.add("aten.add.Tensor", c.tensor([1], x), scalar)
            c.add("aten.div.Tensor", c.tensor([1], x), scalar)


def cases(c):
    promotion(c)
    c.add("aten.add.Tensor", c.edges(B), True), c.add("aten.add.Tensor", c.tensor([2], torch.int32), True)
    f = [c.ramp((2, 3)), c.ramp((3,), seed=5)]
    nan, inf = float("nan"), float("inf")
    e = [c.tensor([nan, 1, inf, -inf, 0, -0.0, 3, -3, inf]), c.tensor([1, nan, inf, 2, 0, 0, -2, 2, -inf])]
    h = [c.ramp((3,), torch.bfloat16), c.ramp((3,), torch.bfloat16, seed=9)]
    i = [c.tensor([7, -7, 7, -7, 0, 1]), c.tensor([2, 2, -3, -3, 5, -1])]
    i = [t.to(torch.int64) for t in i]
    u = [c.tensor([7, 200, 3], torch.uint8), c.tensor([2, 100, 3], torch.uint8)]
    for name in "add sub mul div floor_divide remainder fmod maximum minimum fmax fmin atan2 hypot copysign logaddexp logaddexp2 xlogy heaviside pow".split():
        overload = {"floor_divide": "default", "maximum": "default", "minimum": "default", "fmax": "default", "fmin": "default",
                    "atan2": "default", "hypot": "default", "logaddexp": "default", "logaddexp2": "default",
                    "heaviside": "default", "pow": "Tensor_Tensor"}.get(name, "Tensor")
        op = f"aten.{name}.{overload}"
        tol = {"rtol": 1e-5} if name in ("logaddexp", "logaddexp2", "atan2") else {}
        for pair in (f, e, h, i, u):
            c.attempt(op, *pair, **tol)
        c.attempt(op, c.tensor([1.1, -7], torch.float64), c.tensor([-0.3, 2], torch.float64))
        c.attempt(op, c.tensor(2.5), c.ramp((1, 2), seed=3), **tol)
        c.attempt(op, torch.zeros(0, 2), torch.ones(2))
    for name in "multiply divide true_divide subtract".split():
        c.add(f"aten.{name}.Tensor", *f)
    c.add("aten.max.other", *e), c.add("aten.min.other", *e)
    c.add("aten.max.other", *i), c.add("aten.min.other", *i)
    for mode in (None, "trunc", "floor"):
        for pair in (f, e, i, u, h):
            c.attempt("aten.div.Tensor_mode", *pair, rounding_mode=mode)
        c.add("aten.div.Scalar_mode", i[0], 2, rounding_mode=mode)
        c.add("aten.div.Scalar_mode", f[0], -0.75, rounding_mode=mode)
        c.add("aten.div.Scalar_mode", h[0], 0.3, rounding_mode=mode)
    # numbers that a 16-bit float cannot hold stay wide (in sums only on CUDA: no operands here that cancel)
    for dtype in (torch.bfloat16, torch.float16):
        x = c.tensor([4, 3, 100, -0.3], dtype)
        for op in ("mul", "div", "remainder", "fmod"):
            c.add(f"aten.{op}.Scalar", x, 1.1)
        c.add("aten.add.Scalar", x.abs(), 1.1), c.add("aten.sub.Scalar", -x.abs(), 1.1)
        c.add("aten.floor_divide.Scalar", x, 0.7)
        c.add("aten.rsub.Scalar", -x.abs(), 1.1)
        c.add("aten.add.Tensor", x.abs(), c.tensor(1.1))
        c.add("aten.mul.Tensor", x, c.tensor(1.1, torch.float64))
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x, y = c.ramp((3,), dtype), c.ramp((3,), dtype, seed=4)
        c.add("aten.add.Tensor", x, y, alpha=3), c.add("aten.sub.Tensor", x, y, alpha=3)
        c.add("aten.add.Scalar", x, 2, 3), c.add("aten.sub.Scalar", x, 2, 3)
        c.add("aten.rsub.Scalar", x, 2, 3), c.add("aten.rsub.Tensor", x, y, alpha=2)
        c.add("aten.addcmul.default", x, y, x, value=2)
        c.attempt("aten.addcdiv.default", x, y, x, value=0.5)
        c.attempt("aten.lerp.Scalar", x, y, 0.25)
        c.attempt("aten.lerp.Scalar", x, y, 0.75)
        c.attempt("aten.lerp.Tensor", x, y, c.tensor([0.1, 0.5, 1.0], dtype))
    c.add("aten.add.Tensor", c.tensor([0, 1], B), c.tensor([1, 1], B))
    c.add("aten.mul.Tensor", c.tensor([0, 1], B), c.tensor([1, 1], B))
    c.add("aten.mul.Scalar", c.tensor([0, 1], B), 2.5)
    c.add("aten.remainder.Scalar", c.edges(), 1.5), c.add("aten.fmod.Scalar", c.edges(), 1.5)
    c.add("aten.remainder.Scalar", i[0], -3), c.add("aten.fmod.Scalar", i[0], -3)
    c.add("aten.floor_divide.default", c.edges(), c.tensor(0.3))
    powers(c)
    bits(c)


def powers(c):
    nan, inf = float("nan"), float("inf")
    for exponent in (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 1.5, -3.0):
        c.add("aten.pow.Tensor_Scalar", c.tensor([nan, inf, -inf, 0, -0.0, 0.5, -2.5, 10]), exponent, rtol=1e-5)
        c.add("aten.pow.Tensor_Scalar", c.tensor([0.5, 3], torch.bfloat16), exponent)
        c.attempt("aten.pow.Tensor_Scalar", c.tensor([1, -2, 5], torch.int32), exponent, rtol=1e-5)
    c.add("aten.pow.Tensor_Scalar", c.tensor([0, 1], B), 2)
    c.add("aten.pow.Tensor_Tensor", c.tensor([2, -1, 1, 3, -1, -2], torch.int64), c.tensor([5, -3, -2, -1, -2, 3], torch.int64))
    c.add("aten.pow.Tensor_Tensor", c.tensor([2, 3], torch.int64), c.tensor([0.5, -1]))
    c.add("aten.pow.Scalar", 2, c.edges(), rtol=1e-5)
    c.add("aten.pow.Scalar", 2.5, c.tensor([1, 2, 3], torch.int64), rtol=1e-5)
    c.add("aten.pow.Scalar", 1, c.edges())
    c.add("aten.pow.Scalar", 3, c.tensor([0, 1, 4], torch.int64))
    c.add("aten.float_power.Tensor_Scalar", c.tensor([1, 2, -3], torch.int64), 2)
    c.add("aten.float_power.Tensor_Scalar", c.ramp((3,)), 1.5)
    c.add("aten.square.default", c.edges(B))


def bits(c):
    x, y = c.tensor([12, -7, 255, 0], torch.int32), c.tensor([10, 3, -1, 5], torch.int32)
    for name in ("and", "or", "xor"):
        c.add(f"aten.bitwise_{name}.Tensor", x, y)
        c.add(f"aten.bitwise_{name}.Tensor", c.tensor([0, 0, 1, 1], B), c.tensor([0, 1, 0, 1], B))
        c.add(f"aten.bitwise_{name}.Scalar", x, 6)
        c.add(f"aten.__{name}__.Tensor", x, y)
    c.add("aten.__and__.Scalar", x, 6), c.add("aten.__or__.Scalar", x, 6)
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.int8):
        v = c.tensor([12, 77, 1, 5] if dtype == torch.uint8 else [12, -77, 1, -5], dtype)
        c.add("aten.bitwise_left_shift.Tensor", v, c.tensor([1, 0, 3, 2], dtype))
        c.add("aten.bitwise_right_shift.Tensor", v, c.tensor([1, 0, 3, 2], dtype))
        c.add("aten.__lshift__.Scalar", v, 2), c.add("aten.__rshift__.Scalar", v, 2)
    c.add("aten.bitwise_left_shift.Tensor", x, c.tensor([40, -1, 31, 2], torch.int32))
    c.add("aten.bitwise_right_shift.Tensor", x, c.tensor([40, -1, 31, 2], torch.int32))
