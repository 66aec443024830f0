"""Memory-bound kernels on a GPU: Henry against torch.compile and a copy of as many bytes, in one run.

    gpu_kernels.py --subject PROGRAM [-o RESULTS.jsonl] [--device cuda] [--rows NAME,...] [--no-inductor] [--no-check] [--tiny] [--limit S]

Each row is a function that is exported here with torch.export. Henry compiles it, gets random inputs and gives outputs, which are compared with
the function in float64; then bench_gpu_subject (gpu_subject.c) times its kernels. torch.compile's are captured in a CUDA graph. Both
take turns over several sets of inputs and outputs, which together are larger than the cache (--rotate), and are timed by events on the
device, so neither has to do with host time. What counts is the minimal traffic: each input read once, each output written once; a
fraction is this traffic per second over that of a large copy in the same run.

--rows: names of the list below or their beginnings ("softmax,layer_norm"); `--rows list` prints them. --tiny: shapes that any machine can do; with
--device opencl or cpu, without a GPU, that tries this script. --limit: no row begins after so many seconds.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

NORM_SHAPES = [(576000, 384), (32768, 4096), (8192, 8192), (4096, 16384)]
SWEEP_COLUMNS = [128 << k for k in range(11)]  # to 128k
SWEEP_ELEMENTS = 1 << 26  # of bf16: 128 MiB in, as much out
BIG_COPY_BYTES = 2 << 30  # read, and as many written
BLOCKS = 9
BLOCK_S = 0.03
TYPES = {torch.bfloat16: "bf16", torch.float32: "f32", torch.float16: "f16"}
EPS = 1e-5


def wide(x):
    """What sums and statistics are computed in; float64 stays, for the reference."""
    return x if x.dtype == torch.float64 else x.float()


# --- the functions ---


def softmax(x):
    return torch.softmax(x, dim=-1)


def bias_gelu(x, bias):
    return F.gelu(x + bias)


def add_rms_norm(x, residual, weight):
    total = x + residual
    return total, F.rms_norm(total, weight.shape, weight, EPS)


def sum_rows(x):
    return x.sum(dim=0)


def sum_columns(x):
    return x.sum(dim=1)


def sum_all(x):
    return wide(x).sum()


def add_transposed(x, y):
    return x + y.t()


def cross_entropy(x, target):
    return F.cross_entropy(wide(x), target)


def var_mean(x):
    return torch.var_mean(x, dim=-1)


def cumsum(x):
    return torch.cumsum(wide(x), dim=-1)


def rms_norm(x, weight):
    return F.rms_norm(x, weight.shape, weight, EPS)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias, EPS)


def rms_norm_backward(dy, x, weight, rstd):
    normal, grad = wide(x) * rstd, wide(dy) * wide(weight)
    dx = (grad - normal * (grad * normal).mean(-1, keepdim=True)) * rstd
    return dx.to(x.dtype), (wide(dy) * normal).sum(0).to(weight.dtype)


def layer_norm_backward(dy, x, weight, mean, rstd):
    normal, grad = (wide(x) - mean) * rstd, wide(dy) * wide(weight)
    dx = (grad - grad.mean(-1, keepdim=True) - normal * (grad * normal).mean(-1, keepdim=True)) * rstd
    return dx.to(x.dtype), (wide(dy) * normal).sum(0).to(weight.dtype), wide(dy).sum(0).to(weight.dtype)


def sort_rows(x):
    return torch.sort(x, dim=-1, stable=True)


def top_50(x):
    """Of equal elements PyTorch takes any: only the values are compared."""
    return torch.topk(x, 50, dim=-1)[0]


# --- the rows ---


class Row:
    """A function and its inputs: of each a shape, a type and what to fill it with (random by default)."""

    def __init__(self, name, function, dtype, shape, inputs, inductor=True):
        self.name, self.function, self.dtype, self.shape, self.inputs = name, function, dtype, shape, inputs
        self.inductor = inductor
        self.title = f"{name} {TYPES[dtype]} {'x'.join(map(str, shape))}"

    def make(self, device):
        return [make(shape, dtype, device) for shape, dtype, make in self.inputs]


def normal(shape, dtype, device):
    return torch.randn(shape, device=device, dtype=torch.float32 if device == "cpu" else dtype).to(dtype)


def near_one(shape, dtype, device):
    return (1 + 0.1 * torch.randn(shape, device=device)).to(dtype)


def classes(count):
    return lambda shape, dtype, device: torch.randint(0, count, shape, device=device)


def norm_rows(rows, columns, dtype, suffix="", inductor=True, only=None):
    x, w = ((rows, columns), dtype, normal), ((columns,), dtype, near_one)
    b, stat = ((columns,), dtype, normal), ((rows, 1), torch.float32, near_one)
    mean = ((rows, 1), torch.float32, lambda *a: 0.1 * normal(*a))
    lists = {
        "rms_norm": (rms_norm, [x, w]),
        "layer_norm": (layer_norm, [x, w, b]),
        "rms_norm_backward": (rms_norm_backward, [x, x, w, stat]),
        "layer_norm_backward": (layer_norm_backward, [x, x, w, mean, stat]),
    }
    return [Row(name + suffix, f, dtype, (rows, columns), i, inductor) for name, (f, i) in lists.items() if not only or name in only]


def all_rows(tiny):
    bf16, f32 = torch.bfloat16, torch.float32

    def fit(*shape):
        return tuple(min(n, 48 if k == 0 else 320) for k, n in enumerate(shape)) if tiny else shape

    big, square = fit(16384, 8192), (fit(64, 64)[:1] * 2 if tiny else (8192, 8192))
    vocabulary, scan = fit(8192, 50257), fit(4096, 8192)
    x, vector = (big, bf16, normal), (big[1:], bf16, normal)
    rows = [
        Row("softmax", softmax, bf16, big, [x]),
        Row("bias_gelu", bias_gelu, bf16, big, [x, vector]),
        Row("add_rms_norm", add_rms_norm, bf16, big, [x, x, (big[1:], bf16, near_one)]),
        Row("sum_rows", sum_rows, bf16, big, [x]),
        Row("sum_columns", sum_columns, bf16, big, [x]),
        Row("sum_all", sum_all, bf16, big, [x]),
        Row("add_transposed", add_transposed, bf16, square, [(square, bf16, normal)] * 2),
        Row("cross_entropy", cross_entropy, bf16, vocabulary, [(vocabulary, bf16, normal), (vocabulary[:1], torch.int64, classes(vocabulary[1]))]),
        Row("var_mean", var_mean, bf16, big, [x]),
        Row("cumsum", cumsum, bf16, scan, [(scan, bf16, normal)]),
    ]
    for shape in ((1, 1 << 20), (4096, 4096), (65536, 256), (256, 65536)):
        rows.append(Row("sort", sort_rows, f32, fit(*shape), [(fit(*shape), f32, normal)]))
    for shape in ((1, 1 << 20), (64, 128256), (65536, 256)):
        rows.append(Row("top_50", top_50, f32, fit(*shape), [(fit(*shape), f32, normal)]))
    for dtype in (bf16, f32):
        for shape in NORM_SHAPES:
            only = None if dtype == bf16 else ("rms_norm_backward", "layer_norm_backward")
            rows += norm_rows(*fit(*shape), dtype, only=only)
    for columns in SWEEP_COLUMNS:
        shape = fit(SWEEP_ELEMENTS // columns, columns)
        rows.append(Row("sweep_softmax", softmax, bf16, shape, [(shape, bf16, normal)], inductor=False))
        rows += norm_rows(*shape, bf16, "", inductor=False, only=("rms_norm", "layer_norm"))
        for row in rows[-2:]:
            row.name, row.title = "sweep_" + row.name, "sweep_" + row.title
    return {row.title: row for row in rows}.values()  # tiny shapes are equal


def chosen(rows, names):
    return [r for r in rows if not names or any(r.name.startswith(n) or r.title == n for n in names)]


# --- timing on the device ---


def size_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def as_tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def time_on_host(call, sets):
    """Without CUDA there are no events."""
    begin = time.perf_counter()
    for _ in range(3):
        for inputs in sets:
            call(*inputs)
    return 1e6 * (time.perf_counter() - begin) / (3 * len(sets))


def time_on_device(call, sets):
    """Microseconds of a call: a graph of many calls, replayed; the outputs of a turn are kept, so that they lie apart."""
    if not torch.cuda.is_available():
        return time_on_host(call, sets)
    for inputs in sets[:2]:
        call(*inputs)
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def capture(turns):
        graph, kept = torch.cuda.CUDAGraph(), [None] * len(sets)
        with torch.cuda.graph(graph):
            for _ in range(turns):
                for k, inputs in enumerate(sets):
                    kept[k] = call(*inputs)
        return graph, kept

    def replay(graph):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return 1e3 * begin.elapsed_time(end)

    graph, kept = capture(1)
    replay(graph)
    turns = max(1, min(200, int(1e6 * BLOCK_S / max(1.0, replay(graph)))))
    del graph, kept
    graph, kept = capture(turns)
    replay(graph)
    times = [replay(graph) / (turns * len(sets)) for _ in range(BLOCKS)]
    del graph, kept
    return statistics.median(times)


def copies(count, total_bytes, device):
    """`count` pairs of memory; a copy of each reads and writes `total_bytes` together."""
    half = max(16, total_bytes // 2) // 4
    return [
        (torch.empty(half, dtype=torch.int32, device=device), torch.randint(-(2**31), 2**31, (half,), dtype=torch.int32, device=device))
        for _ in range(count)
    ]


def copy_us(count, total_bytes, device):
    """The better of two ways: a copy of the driver, which in a graph may be the work of a copy engine (2.8 TB/s on an H200), and a kernel (4.2)."""
    sets = copies(count, total_bytes, device)
    ways = (lambda to, source: to.copy_(source), lambda to, source: torch.add(source, 0, out=to))
    return min(time_on_device(way, sets) for way in ways)


# --- one row ---


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def write_raw(directory, tensors):
    for k, t in enumerate(tensors):
        t.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tofile(directory / f"input_{k}.bin")


def read_raw(path, like):
    bytes_ = torch.from_file(str(path), size=like.numel() * like.element_size(), dtype=torch.uint8)
    return bytes_.view(like.dtype).view(like.shape).to(like.device)


def error_of(outputs, expected, scales=None):
    """The largest of ||out - reference|| / ||scale||, by default the reference; infinite for NaN."""
    worst = 0.0
    for out, want, scale in zip(outputs, expected, scales or expected):
        want, scale = want.double(), scale.double()  # indices are whole numbers
        part = float(torch.linalg.vector_norm(out.double() - want)) / max(float(torch.linalg.vector_norm(scale)), 1e-30)
        worst = max(worst, part if math.isfinite(part) else math.inf)
    return worst


def check(row, inputs, directory):
    """Henry's error and PyTorch's own, in float64."""
    eager = as_tuple(row.function(*inputs))
    reference = as_tuple(row.function(*[t.double() if t.is_floating_point() else t for t in inputs]))
    outputs = [read_raw(directory / f"output_{k}.bin", like) for k, like in enumerate(eager)]
    # the terms of a sum cancel: what its error is to be compared with is the sum of what they are without signs
    scales = as_tuple(row.function(*[t.double().abs() for t in inputs])) if row.function is sum_all else reference
    error, own = error_of(outputs, reference, scales), error_of(eager, reference, scales)
    return {"error": error, "eager_error": own, "right": error <= 2 * own + 1e-6}


def export(row, inputs, path):
    """Memory that nothing touches takes the place of the inputs: it is traced, not computed."""
    like = tuple(torch.empty(t.shape, dtype=t.dtype) for t in inputs)
    torch.export.save(torch.export.export(Function(row.function), like, strict=False), path)


def run_henry(options, row, inputs, directory):
    export(row, inputs, directory / "model.pt2")
    command = [options.subject, "--device", options.henry_device, "--rotate", str(options.rotate), "--seconds", str(options.seconds)]
    if not options.no_check:
        write_raw(directory, inputs)
        command += ["--inputs", str(directory), "--outputs", str(directory)]
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    done = subprocess.run(command + [str(directory / "model.pt2")], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"status {done.returncode}")
    return json.loads(done.stdout)


def run_inductor(row, sets):
    import torch._inductor.metrics as metrics

    torch._dynamo.reset()
    metrics.reset()
    begin = time.perf_counter()
    compiled = torch.compile(row.function, dynamic=False)
    compiled(*sets[0])
    compile_s = time.perf_counter() - begin
    return {"us": time_on_device(compiled, sets), "kernels": metrics.generated_kernel_count, "compile_ms": 1e3 * compile_s}


def measure(options, row, directory):
    inputs = row.make(options.device)
    with torch.no_grad():
        traffic = size_of(inputs) + size_of(as_tuple(row.function(*inputs)))
        count = max(2, min(64, math.ceil(options.rotate / traffic)))
        result = {"row": row.name, "title": row.title, "shape": row.shape, "dtype": TYPES[row.dtype], "bytes": traffic, "big_copy_gbs": options.big_copy_gbs}
        try:
            henry = run_henry(options, row, inputs, directory)
            if not options.no_check:
                result.update(check(row, inputs, directory))
            result.update(henry_us=henry["device_us"], henry_min_us=henry["device_min_us"], henry_kernels=henry["kernels"], henry_steps=henry["steps"],
                          henry_compile_ms=henry["compile_ms"], henry_call_us=henry["call_us"])
        except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
            result["henry_failed"] = str(error)[:400]
        sets = [inputs] + [[t.clone() for t in inputs] for _ in range(count - 1)]
        if row.inductor and not options.no_inductor:
            try:
                result.update({"inductor_" + k: v for k, v in run_inductor(row, sets).items()})
            except Exception as error:  # whatever the compiler says  # pylint: disable=broad-except
                result["inductor_failed"] = str(error)[:400]
        del sets
        result["copy_us"] = copy_us(count, traffic, options.device)
    return result


# --- the table ---


def fraction(line, who):
    """Of the bandwidth of a large copy."""
    us = line.get(who + "_us")
    return line["bytes"] / us / 1e3 / line["big_copy_gbs"] if us else None


def describe(line):
    henry, inductor, copy = (fraction(line, who) for who in ("henry", "inductor", "copy"))
    text = f"{line['title']:46} {line['bytes'] >> 20:5} MiB"
    text += f"  Henry {line['henry_us']:9.1f} us {henry:5.2f} ({line['henry_kernels']})" if henry else f"  Henry failed: {line.get('henry_failed', '?')[:120]}"
    text += f"  Inductor {line['inductor_us']:9.1f} us {inductor:5.2f} ({line['inductor_kernels']})" if inductor else ""
    text += "  Inductor failed" if "inductor_failed" in line else ""
    text += f"  copy {copy:5.2f}" if copy else ""
    if "error" in line:
        text += f"  error {line['error']:.1e} (eager {line['eager_error']:.1e})" + ("" if line["right"] else "  WRONG")
    return text


def clocks():
    query = "name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu"
    done = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True, check=False) if shutil.which("nvidia-smi") else None
    return done.stdout.strip().split("\n")[0] if done and done.returncode == 0 else ""


def own_options():
    """The command line without what bench/gpu.sh adds: files of this machine."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in ("--henry", "--subject", "--device", "-o"):
            next(words)
        else:
            kept.append(word)
    return " ".join(kept)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--subject", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", default="")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rotate", type=int, default=256 << 20)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    options.henry_device = options.device
    if not options.device.startswith("cuda"):
        options.device = "cpu"  # of PyTorch
    rows = chosen(all_rows(options.tiny), [n for n in options.rows.split(",") if n])
    if options.rows == "list":
        print("\n".join(row.title for row in all_rows(options.tiny)))
        return 0
    begin = time.perf_counter()
    torch.manual_seed(time.time_ns() % (1 << 31))
    big = (64 << 20) if options.tiny else BIG_COPY_BYTES
    us = copy_us(2, 2 * big, options.device)
    options.big_copy_gbs = 2 * big / us / 1e3
    head = {"what": "kernels", "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "torch": torch.__version__, "machine": clocks(),
            "device": options.henry_device, "big_copy_gbs": options.big_copy_gbs, "command": own_options()}
    print(f"{head['machine'] or options.device}, torch {torch.__version__}: a copy of {2 * big >> 20} MiB moves {options.big_copy_gbs:.0f} GB/s", flush=True)
    lines, failed, left = [head], 0, 0
    shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 8 << 30 else None
    for row in rows:
        if time.perf_counter() - begin > options.limit:
            left += 1
            continue
        with tempfile.TemporaryDirectory(dir=shared_memory) as directory:
            line = measure(options, row, pathlib.Path(directory))
        lines.append(line)
        failed += "henry_failed" in line or not line.get("right", True)
        print(describe(line), flush=True)
        if options.output:
            options.output.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    print(f"{len(lines) - 1} rows, {failed} failed" + (f", {left} not begun within {options.limit:.0f} s" if left else "") + f"; {time.perf_counter() - begin:.0f} s; {clocks()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
