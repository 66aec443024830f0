#!/usr/bin/env python3
"""Writes tests/ops/cases/<family>.txt: what PyTorch answers to small calls of single operators.

    tools/make_op_cases.py [FAMILY...]      needs PyTorch; the build and the tests read only the files

A family is tools/op_cases/FAMILY.py with a function `cases(c)` that calls `c.add("aten.add.Tensor", x, y,
alpha=2)`. One JSON object a line:

    {"op": "aten.add.Tensor", "in": [{"d": "f32", "s": [1, 2], "v": [1.5, NaN]}...],
     "args": [{"t": 0}, {"t": 1}, 2], "out": [...], "rtol": 1e-3, "atol": 1e-3}

`args` stand in schema order, defaults filled in: null, true, 3, 2.5, "text", [1, 2], {"t": input}, a list of
tensors {"ts": [0, null]}, {"d": "f32"} for a dtype. 16-bit floats are written as the shortest decimal that
rounds back. An output without "v" is compared by dtype and sizes only. "in" and "out" have
"st" (strides) when they are not row-major, and no "s" when "v" is a plain vector. An input that is Cases.ramp has
"r" (its seed) in place of "v". An "out" whose size depends on data lists those dimensions in "u". rtol and atol appear only where the table of dtypes will not do."""

import importlib
import json
import math
import os
import sys
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
warnings.filterwarnings("ignore")

import torch  # noqa: E402

DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
MEMORY_FORMATS = {torch.contiguous_format: "contiguous_format", torch.preserve_format: "preserve_format",
                  torch.channels_last: "channels_last", torch.channels_last_3d: "channels_last_3d"}


RAMP_LO, RAMP_STEP, RAMP_MUL, RAMP_MOD = -4, 0.375, 7, 23


def ramp_seed(t):
    """The seed with which Cases.ramp makes `t`; None when it is no ramp of floats."""
    flat = t.contiguous().reshape(-1).to(torch.float64)
    if not t.dtype.is_floating_point or t.numel() < 3 or not torch.isfinite(flat).all():
        return None
    steps = (flat - RAMP_LO) / RAMP_STEP
    k = torch.arange(t.numel(), dtype=torch.float64)
    return int(steps[0]) if torch.equal(steps, (RAMP_MUL * k + steps[0]) % RAMP_MOD) and steps[0] == int(steps[0]) else None


def shortest(value, dtype):
    """The shortest decimal that rounds to the same element of `dtype`; of f64 ten digits, which its tolerance allows."""
    if math.isnan(value) or math.isinf(value):
        return value
    for digits in range(1, 18):
        text = "%.*g" % (digits, value)
        if dtype == torch.float64 and digits == 10 and abs(value) < 1e300:
            return float(text)
        if torch.tensor(float(text), dtype=torch.float64).to(dtype).item() == value:
            number = float(text)
            return int(number) if number == int(number) and abs(number) < 1e6 and not (number == 0 and str(number)[0] == "-") else number
    return value


def tensor_json(t, values=True, is_input=False):
    out = {"d": DTYPES[t.dtype]}
    seed = ramp_seed(t) if is_input else None
    if t.dim() != 1 or not values or seed is not None:
        out["s"] = list(t.shape)
    if not t.is_contiguous():
        out["st"] = list(t.stride())
    if seed is not None:
        out["r"] = seed
    elif values:
        flat = t.contiguous().reshape(-1).tolist()
        out["v"] = [shortest(v, t.dtype) for v in flat] if t.dtype.is_floating_point else [int(v) for v in flat]
    return out


class Cases:
    """Collects the cases of one family."""

    def __init__(self):
        self.lines = []
        self.seen = set()

    # --- operands ---
    @staticmethod
    def tensor(values, dtype=torch.float32):
        return torch.tensor(values, dtype=torch.float64 if dtype.is_floating_point else torch.int64).to(dtype)

    @staticmethod
    def ramp(shape, dtype=torch.float32, lo=RAMP_LO, step=RAMP_STEP, seed=0):
        """Short numbers of both signs, no order to speak of: element k is lo + step * ((7k + seed) mod 23)."""
        n = math.prod(shape)
        values = [lo + step * ((RAMP_MUL * k + seed) % RAMP_MOD) for k in range(n)]
        if dtype == torch.bool:
            values = [((7 * k + seed) % 23) % 2 for k in range(n)]
        elif not dtype.is_floating_point:
            values = [abs(int(v)) if dtype == torch.uint8 else int(v) for v in values]
        return Cases.tensor(values, dtype).reshape(shape)

    @staticmethod
    def edges(dtype=torch.float32):
        """NaN, infinities, zeros of both signs and plain numbers, or the ints of note."""
        inf, nan = float("inf"), float("nan")
        if dtype.is_floating_point:
            return Cases.tensor([nan, inf, -inf, 0.0, -0.0, 0.5, 1, -1, -2.5, 3.25, 10, -20], dtype)
        if dtype == torch.bool:
            return Cases.tensor([0, 1], dtype)
        info = torch.iinfo(dtype)
        return torch.tensor([0, 1, 2, 7, info.max, info.min] + ([] if dtype == torch.uint8 else [-1, -3]), dtype=dtype)

    # --- cases ---
    def add(self, op, *args, rtol=None, atol=None, skip=(), data=None, keep=None, **kwargs):
        """Runs the operator and records the case. `skip`: results whose values are not compared. `data`: by result, its
        dimensions whose size depends on data. `keep`: how many results are used at all."""
        space, packet, overload = op.split(".")
        fn = getattr(getattr(getattr(torch.ops, space), packet), overload)
        case = {"op": op, "in": [], "args": []}
        call_args, call_kwargs = list(args), dict(kwargs)
        for k, a in enumerate(fn._schema.arguments):
            if not a.kwarg_only and k < len(call_args):
                value = call_args[k]
            elif a.name in call_kwargs:
                value = call_kwargs[a.name]
            elif a.has_default_value():
                value = a.default_value
            else:
                raise TypeError(f"{op}: no value for {a.name}")
            case["args"].append(self._arg(case, a, value))
        result = fn(*[self._clone(a) for a in args], **{k: self._clone(v) for k, v in kwargs.items()})
        results = [] if result is None else list(result)[:keep] if isinstance(result, (tuple, list)) else [result]
        case["out"] = [tensor_json(r, k not in skip) for k, r in enumerate(results)]
        for k, dims in (data or {}).items():
            out = case["out"][k] = tensor_json(results[k].contiguous(), k not in skip)
            values = out.pop("v", None)
            out["s"], out["u"] = list(results[k].shape), dims
            if values is not None:
                out["v"] = values
        if rtol is not None:
            case["rtol"] = rtol
        if atol is not None:
            case["atol"] = atol
        line = json.dumps(case, separators=(",", ":"))
        if line not in self.seen:
            self.seen.add(line)
            self.lines.append(line)
        return result

    def attempt(self, op, *args, **kwargs):
        """add, or nothing where PyTorch refuses the dtype."""
        try:
            self.add(op, *args, **kwargs)
        except (RuntimeError, NotImplementedError, ZeroDivisionError):
            pass

    @staticmethod
    def _clone(value):
        return value.clone() if isinstance(value, torch.Tensor) else value

    @staticmethod
    def _input(case, t):
        case["in"].append(tensor_json(t, is_input=True))
        return len(case["in"]) - 1

    def _arg(self, case, argument, value):
        kind = str(argument.type)
        if isinstance(value, torch.Tensor):
            return {"t": self._input(case, value)}
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return {"ts": [None if v is None else self._input(case, v) for v in value]}
        if isinstance(value, torch.dtype):
            return {"d": DTYPES[value]}
        if "dtype" in argument.name and isinstance(value, int):
            return {"d": {4: "i64", 6: "f32", 7: "f64", 11: "bool"}[value]}
        if isinstance(value, torch.memory_format):
            return MEMORY_FORMATS[value]
        if isinstance(value, (torch.device, torch.layout)):
            return str(value)
        if argument.name == "memory_format" and isinstance(value, int):
            return "contiguous_format"
        if isinstance(value, (list, tuple)):
            return [float(v) if "float" in kind else v for v in value]
        return float(value) if kind == "float" and isinstance(value, int) else value


def main(names):
    folder = os.path.join(ROOT, "tests", "ops", "cases")
    os.makedirs(folder, exist_ok=True)
    every = sorted(f[:-3] for f in os.listdir(os.path.join(ROOT, "tools", "op_cases")) if f.endswith(".py"))
    for name in names or every:
        cases = Cases()
        importlib.import_module(f"op_cases.{name}").cases(cases)
        path = os.path.join(folder, name + ".txt")
        with open(path, "w") as out:
            out.write("\n".join(cases.lines) + "\n")
        print(f"{name}: {len(cases.lines)} cases, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
