"""Point-wise functions of one tensor, activations excepted."""
import torch

SAME = "abs absolute neg negative sign sgn floor ceil trunc round bitwise_not positive square frac isnan isinf isposinf isneginf isfinite signbit nan_to_num logical_not"
REAL = """sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
atanh erf erfc erfinv lgamma digamma sigmoid deg2rad rad2deg logit"""
# PyTorch computes these in f32 with an error of some ulps; the interpreter rounds a double.
LOOSE = {"digamma": 1e-5, "lgamma": 1e-5, "erfinv": 1e-5, "tan": 1e-5, "logit": 1e-5}


def cases(c):
    unit = [-1.0, -0.75, 0.125, 0.5, 0.875]
    for name in SAME.split():
        for dtype in (torch.float32, torch.int64, torch.uint8, torch.bool):
            c.attempt(f"aten.{name}.default", c.edges(dtype))
        for dtype in (torch.bfloat16, torch.float16):
            c.attempt(f"aten.{name}.default", c.tensor([1.5, -2.75], dtype))
    for name in REAL.split():
        tol = {"rtol": LOOSE[name]} if name in LOOSE else {}
        c.add(f"aten.{name}.default", c.edges(), **tol)
        c.add(f"aten.{name}.default", c.tensor(unit), **tol)
        c.add(f"aten.{name}.default", c.tensor([0.625], torch.bfloat16))
        c.add(f"aten.{name}.default", c.tensor([0.7], torch.float64))
        c.add(f"aten.{name}.default", c.tensor([1, 0, 2], torch.int32), **tol)
    c.attempt("aten.exp.default", c.edges(torch.bool))
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        c.add("aten.nan_to_num.default", c.edges(dtype), 1.5, None, -7.0)
    c.add("aten.logit.default", c.tensor([-0.5, 0.0, 0.25, 0.999, 1.5, float("nan")]), 0.125, rtol=1e-5)
    c.add("aten.round.default", c.tensor([0.5, 1.5, 2.5, -0.5, -1.5]))
    c.add("aten.exp.default", torch.zeros(0, 3))
    c.add("aten.exp.default", c.tensor(1.5))
    c.add("aten.relu.default", c.ramp((2, 3)).t())
