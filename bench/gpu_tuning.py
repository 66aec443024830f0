"""Tuning on a GPU: how much products gain, and how long it takes.

    gpu_tuning.py --henry PROGRAM --subject PROGRAM [-o RESULTS.jsonl] [--device cuda] [--rows NAME,...] [--budget SECONDS] [--have DIR]... [--tiny] [--limit S]

"products": linear layers of bf16 with a bias and a function behind it, the shapes of M x N x K below. `henry tune` lets the ways race that
the library's heuristic lists; the first of them is what runs without tuning. A line for each: both times, and their ratio, from the same rounds. Layers of odd numbers are
other products when they are compiled (docs/gpu.md). They are timed whole, in CUDA graphs, beside the same with K as a size that only a run knows: that is a call of the
library with the first of its heuristic.
"odd": the same of more layers of odd numbers, which nothing is asked of.
"model": the seconds of `henry tune` for GPT-2 124M, and of a second one, with the number of its timed calls.

--budget: of each tuning, in seconds (default 15). --tiny: small shapes and models, which any machine can do, 2 seconds each. --have: rows of which the results of an
earlier run have figures are not done again. --limit: no row begins after so many seconds.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BEGIN = time.perf_counter()  # importing PyTorch takes seconds, which count

import torch
import torch.nn.functional as F

import gpu_kernels
import gpu_models
import gpu_table

PRODUCTS = [(64, 4096, 4096), (256, 4096, 4096), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 11008, 4096), (333, 777, 1023)]
ODD_PRODUCTS = [(128, 128, 129), (256, 1000, 1001), (1024, 1024, 1001), (64, 4096, 4095), (2048, 2047, 2049), (4096, 4096, 4097)]
TINY_PRODUCTS = [(64, 48, 32), (16, 64, 64), (16, 49, 63)]
FUNCTIONS = {"bias": lambda x: x, "gelu": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu}


class Products(torch.nn.Module):
    """One linear layer for each shape, with functions in turn."""

    def __init__(self, shapes):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(k, n) for _, n, k in shapes)

    def forward(self, *inputs):
        functions = list(FUNCTIONS.values())
        return tuple(functions[i % len(functions)](layer(x)) for i, (layer, x) in enumerate(zip(self.layers, inputs)))


class Layer(torch.nn.Module):
    """A linear layer, with a weight and a bias of its own or of the caller's."""

    def __init__(self, function, k=1, n=1):
        super().__init__()
        self.linear, self.function = torch.nn.Linear(k, n), function

    def forward(self, x, weight=None, bias=None):
        return self.function(self.linear(x) if weight is None else F.linear(x, weight, bias))


def export(model, inputs, path, sizes=None):
    with torch.no_grad():
        torch.export.save(torch.export.export(model.eval(), inputs, dynamic_shapes=sizes), path)


def tune(options, model, cache):
    """What `henry tune --json` says, and the seconds of the process."""
    command = [options.henry, "tune", model, "--device", options.device, "--budget", f"{options.budget}s", "--json"]
    begin = time.perf_counter()
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ, HENRY_CACHE_DIR=str(cache)))
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"status {done.returncode}")
    return json.loads(done.stdout), time.perf_counter() - begin


def shape_of(kernel, shapes):
    """The layer that a call is of: 'linear' is the first one, 'linear_1' the second."""
    number = kernel["name"].rpartition("_")[2]
    return shapes[int(number) if number.isdigit() else 0]


def layer_us(options, model):
    """Microseconds of a run, and the kernels and calls that it consists of."""
    command = [options.subject, "--device", options.device, "--rotate", 256 << 20, "--seconds", 0.2, "--no-calls", model]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"status {done.returncode}")
    told = json.loads(done.stdout)
    return told["recorded_us"] or told["device_us"], len(told["steps"])  # devices other than CUDA record nothing


def odd_layer(options, directory, shape, name):
    m, n, k = shape
    function, inputs = FUNCTIONS[name], tuple(torch.randn(*sizes).bfloat16() for sizes in ((m, k), (n, k), (n,)))
    of_any_length = torch.export.Dim("k", min=8, max=4 * k)
    export(Layer(function, k, n).bfloat16(), inputs[:1], directory / "layer.pt2")
    export(Layer(function), inputs, directory / "as_it_is.pt2", ({1: of_any_length}, {1: of_any_length}, None))
    (own, _), (pick, steps) = (layer_us(options, directory / f"{model}.pt2") for model in ("as_it_is", "layer"))
    return {"own_us": own, "pick_us": pick, "gain": own / pick, "pick": f"other sizes, {steps} kernels and calls"}


def run_products(options, directory):
    shapes = TINY_PRODUCTS if options.tiny else PRODUCTS
    model = Products(shapes).bfloat16()
    export(model, tuple(torch.randn(m, k).bfloat16() for m, _, k in shapes), directory / "model.pt2")
    told, _ = tune(options, directory / "model.pt2", directory / "cache")
    for kernel in told["kernels"]:
        timed = [form for form in kernel["forms"] if form["samples"]]
        if not kernel["name"].startswith("linear") or not timed:
            continue
        shape = shape_of(kernel, shapes)
        function = list(FUNCTIONS)[shapes.index(shape) % len(FUNCTIONS)]
        own, pick = kernel["forms"][0], kernel["forms"][kernel["pick"]]
        row = {"tuning": "x".join(map(str, shape)), "function": function, "own_us": own["median_ns"] / 1e3, "pick_us": pick["median_ns"] / 1e3,
               "gain": own["ratio"] / pick["ratio"], "pick": f"{pick['form']} {pick['parameters']}".strip(), "ways": len(timed)}
        yield row | odd_layer(options, directory, shape, function) if any(number % 8 for number in shape[1:]) else row


def run_odd(options, directory):
    for shape in TINY_PRODUCTS[-1:] if options.tiny else ODD_PRODUCTS:
        yield {"tuning": "x".join(map(str, shape)), "function": "bias"} | odd_layer(options, directory, shape, "bias")


def run_model(options, directory):
    name = "tiny" if options.tiny else "gpt2_4x256"
    model, inputs = gpu_models.MODELS[name]()
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    export(model.bfloat16(), tuple(map(gpu_models.narrow, inputs)), directory / "model.pt2")
    first, seconds = tune(options, directory / "model.pt2", directory / "cache")
    again, seconds_again = tune(options, directory / "model.pt2", directory / "cache")
    yield {"tuning": name, "seconds": seconds, "kernels": len(first["kernels"]), "is_complete": first["is_complete"], "again_s": seconds_again, "again_calls": again["timed_calls"]}


ROWS = {"products": run_products, "odd": run_odd, "model": run_model}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--henry", required=True)
    parser.add_argument("--subject", required=True)
    parser.add_argument("-o", "--output")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--budget", type=float, default=15)
    parser.add_argument("--have", action="append", default=[], type=pathlib.Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--limit", type=float, default=1e9)
    options = parser.parse_args()
    if options.tiny:
        options.budget = min(options.budget, 2)
    torch.manual_seed(0)
    status = 0
    with open(options.output, "w", encoding="utf-8") if options.output else sys.stdout as out:
        print(json.dumps(gpu_kernels.head("tuning", options.device)), file=out, flush=True)
        for name in options.rows.split(","):
            if time.perf_counter() - BEGIN > options.limit:
                break
            try:
                with tempfile.TemporaryDirectory() as directory:
                    for row in ROWS[name](options, pathlib.Path(directory)):
                        print(json.dumps(row), file=out, flush=True)
                        print(gpu_table.tuning_text(row), flush=True)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{name}: {error}", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
