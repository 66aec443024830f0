"""Memory-bound kernels on a GPU: Henry, or torch.compile, and a copy of as many bytes.

    gpu_kernels.py --subject PROGRAM [-o RESULTS.jsonl] [--device cuda] [--who henry|inductor] [--rows NAME,...] [--have DIR]... [--no-check] [--tiny] [--limit S]

Each row is a function. --who henry: it is exported with torch.export. Henry compiles it, gets random inputs and gives outputs, which are compared with
the function in float64; then bench_gpu_subject (gpu_subject.c) times its kernels. --who inductor: torch.compile's kernels. Both are
timed as CUDA graphs of many runs, by events on the device, so neither has to do with host time. Runs take turns over several sets of inputs and outputs, which
together are larger than the cache (--rotate). What counts is the minimal traffic: each input read once, each output written once; a
fraction is this traffic per second over that of a large copy in the same run.

Processes beside this one export the functions, or compile them by torch.compile, ahead of the row that is timed: exporting all at once, and compiling before
anything is timed, since it tries kernels on the device.

--rows: "main", "sweep", or names of the list below or their beginnings ("softmax,layer_norm"); `--rows list` prints them. --have: rows of which the results
of an earlier run have this figure are not done again. --tiny: shapes that any machine can do; with --device opencl or cpu, without a GPU, that tries this script.
--limit: no row begins after so many seconds.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BEGIN = time.perf_counter()  # importing PyTorch takes seconds, which count

import torch
import torch.nn.functional as F

import gpu_table

NORM_SHAPES = [(576000, 384), (32768, 4096), (8192, 8192), (4096, 16384)]
VOCABULARY = 50257
SWEEP_COLUMNS = [128 << k for k in range(11)]  # to 128k
SWEEP_BYTES = 128 << 20  # in, as many out
AHEAD_PART = 0.5  # of the time, for compiling by torch.compile before anything is timed
HELPERS = 8  # processes: each has some memory of the device
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


def cumsum_columns(x):
    return torch.cumsum(wide(x), dim=0)


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
    return tuple(torch.sort(x, dim=-1, stable=True))


def top_50(x):
    """Of equal elements PyTorch takes any: only the values are compared."""
    return torch.topk(x, 50, dim=-1)[0]


def embedding_backward(grad, indices):
    return torch.ops.aten.embedding_dense_backward(grad, indices, VOCABULARY, -1, False)


def scatter_add(values, indices):
    return torch.zeros(1 << 20, dtype=values.dtype, device=values.device).scatter_add(0, indices, values)


# --- the rows ---


class Row:
    """A function and its inputs: of each a shape, a type and what to fill it with (random by default)."""

    def __init__(self, name, function, dtype, shape, inputs, deterministic=False):
        self.name, self.function, self.dtype, self.shape, self.inputs = name, function, dtype, shape, inputs
        self.deterministic = deterministic  # Henry's kernels only
        self.title = f"{name} {TYPES[dtype]} {'x'.join(map(str, shape))}"

    def make(self, device):
        return [make(shape, dtype, device) for shape, dtype, make in self.inputs]


def normal(shape, dtype, device):
    return torch.randn(shape, device=device, dtype=torch.float32 if device == "cpu" else dtype).to(dtype)


def near_one(shape, dtype, device):
    return (1 + 0.1 * torch.randn(shape, device=device)).to(dtype)


def classes(count):
    return lambda shape, dtype, device: torch.randint(0, count, shape, device=device)


def words(count):
    """Classes in about the frequencies of words of a language: class k has a probability of about 1 / ((k + 1) ln count)."""
    return lambda shape, dtype, device: (count ** torch.rand(shape, device=device)).long() - 1


def norm_rows(rows, columns, dtype, prefix="", only=None):
    x, w = ((rows, columns), dtype, normal), ((columns,), dtype, near_one)
    b, stat = ((columns,), dtype, normal), ((rows, 1), torch.float32, near_one)
    mean = ((rows, 1), torch.float32, lambda *a: 0.1 * normal(*a))
    lists = {
        "rms_norm": (rms_norm, [x, w]),
        "layer_norm": (layer_norm, [x, w, b]),
        "rms_norm_backward": (rms_norm_backward, [x, x, w, stat]),
        "layer_norm_backward": (layer_norm_backward, [x, x, w, mean, stat]),
    }
    return [Row(prefix + name, f, dtype, (rows, columns), i) for name, (f, i) in lists.items() if not only or name in only]


def all_rows(tiny):
    bf16, f32 = torch.bfloat16, torch.float32

    def fit(*shape):
        return tuple(min(n, 48 if k == 0 else 320) for k, n in enumerate(shape)) if tiny else shape

    big, square = fit(16384, 8192), (fit(64, 64)[:1] * 2 if tiny else (8192, 8192))
    vocabulary, scan = fit(8192, VOCABULARY), fit(4096, 8192)
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
        Row("cumsum_columns", cumsum_columns, bf16, scan, [(scan, bf16, normal)]),
    ]
    for dtype in (bf16, f32):
        for shape in NORM_SHAPES:
            only = None if dtype == bf16 else ("rms_norm_backward", "layer_norm_backward")
            rows += norm_rows(*fit(*shape), dtype, only=only)
    for shape in ((1, 1 << 20), (64, 128256)):
        rows.append(Row("cumsum", cumsum, f32, fit(*shape), [(fit(*shape), f32, normal)]))
    for shape in ((1, 1 << 20), (4096, 4096), (65536, 256), (256, 65536)):
        rows.append(Row("sort", sort_rows, f32, fit(*shape), [(fit(*shape), f32, normal)]))
    for shape in ((1, 1 << 20), (64, 128256), (65536, 256)):
        rows.append(Row("top_50", top_50, f32, fit(*shape), [(fit(*shape), f32, normal)]))
    for dtype, order, indices in ((bf16, "", classes), (f32, "", classes), (f32, "", words), (f32, "_in_order", classes), (f32, "_in_order", words)):
        shape, name = fit(8192, 1024), "embedding_backward" + ("_words" if indices is words else "") + order
        inputs = [(shape, dtype, normal), (shape[:1], torch.int64, indices(VOCABULARY))]
        rows.append(Row(name, embedding_backward, dtype, shape, inputs, bool(order)))
    for order in ("", "_in_order"):
        shape = fit(1 << 22)
        inputs = [(shape, f32, normal), (shape, torch.int64, classes(1 << 20))]
        rows.append(Row("scatter_add" + order, scatter_add, f32, shape, inputs, bool(order)))
    for dtype in (bf16, f32):
        for columns in SWEEP_COLUMNS:
            shape = fit(SWEEP_BYTES // dtype.itemsize // columns, columns)
            rows.append(Row("sweep_softmax", softmax, dtype, shape, [(shape, dtype, normal)]))
            rows += norm_rows(*shape, dtype, prefix="sweep_", only=("rms_norm", "layer_norm"))
    rows = list({row.title: row for row in rows}.values())  # tiny shapes are equal
    for number, row in enumerate(rows):
        row.number = number
    return rows


def is_named(row, name):
    if name in ("main", "sweep"):
        return row.name.startswith("sweep_") == (name == "sweep")
    return row.name.startswith(name) or row.title == name


def chosen(rows, names):
    return [r for r in rows if not names or any(is_named(r, n) for n in names)]


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


COPIES = {}  # microseconds of a copy, by its size: sizes that are nearly equal cost as much a byte


def copy_like_us(count, total_bytes, device):
    key = round(50 * math.log(total_bytes))  # 2 %
    if key not in COPIES:
        COPIES[key] = copy_us(count, total_bytes, device) / total_bytes
    return COPIES[key] * total_bytes


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


def export(row, path):
    """Memory that nothing touches takes the place of the inputs: it is traced, not computed."""
    like = tuple(torch.empty(shape, dtype=dtype) for shape, dtype, _ in row.inputs)
    torch.export.save(torch.export.export(Function(row.function), like, strict=False), path)


def run_henry(options, row, inputs, directory, model):
    command = [options.subject, "--device", options.henry_device, "--rotate", options.rotate, "--seconds", options.seconds, "--no-calls"]
    command += ["--deterministic"] if row.deterministic else []
    if not options.no_check:
        write_raw(directory, inputs)
        command += ["--inputs", directory, "--outputs", directory]
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    done = subprocess.run([str(w) for w in command + [model]], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"status {done.returncode}")
    return json.loads(done.stdout)
def line_of(row, traffic):
    return {"row": row.name, "title": row.title, "shape": row.shape, "dtype": TYPES[row.dtype], "bytes": traffic}


def sets_for(options, traffic):
    return max(2, min(64, math.ceil(options.rotate / traffic)))


def shared_memory():
    return "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 8 << 30 else None


# --- Henry ---


def export_in_helper(number, tiny, path):
    """A helper's: why it failed, or None."""
    try:
        with torch.no_grad():
            export(all_rows(tiny)[number], path)
    except Exception as error:  # whatever PyTorch says  # pylint: disable=broad-except
        return str(error)
    return None


def measure_henry(options, row, directory, model):
    inputs = row.make(options.device)
    traffic = size_of(inputs) + size_of(as_tuple(row.function(*inputs)))
    result = line_of(row, traffic) | {"big_copy_gbs": options.big_copy_gbs}
    try:
        henry = run_henry(options, row, inputs, directory, model)
        if not options.no_check:
            result.update(check(row, inputs, directory))
        result.update({"henry_" + to: henry[key] for to, key in (("launched_us", "device_us"), ("launched_min_us", "device_min_us"), ("kernels", "kernels"), ("steps", "steps"), ("compile_ms", "compile_ms"))})
        result["henry_us"] = henry["recorded_us"] or henry["device_us"]  # devices other than CUDA record nothing
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
        result["henry_failed"] = str(error)[:400]
    result["copy_us"] = copy_like_us(sets_for(options, traffic), traffic, options.device)
    return result


def henry_lines(options, rows, helpers, late):
    """Rows are exported by helpers, ahead of their turn."""
    with tempfile.TemporaryDirectory(dir=shared_memory()) as folder:
        models = [pathlib.Path(folder) / f"{k}.pt2" for k in range(len(rows))]
        exports = [helpers.apply_async(export_in_helper, (row.number, options.tiny, model)) for row, model in zip(rows, models)]
        for row, model, exported in zip(rows, models, exports):
            if late():
                return
            try:
                why = exported.get(timeout=120)
            except multiprocessing.TimeoutError:
                why = "the export has not ended"
            if why:
                yield line_of(row, 0) | {"big_copy_gbs": options.big_copy_gbs, "henry_failed": "torch.export: " + why[:300]}
                continue
            with tempfile.TemporaryDirectory(dir=shared_memory()) as directory:
                yield measure_henry(options, row, pathlib.Path(directory), model)


# --- torch.compile ---


def prepare_inductor():
    """Kernels come from a cache that helpers have filled; which of several is the best is tried again when nothing else is on the device."""
    import torch._inductor.config as config

    config.compile_threads = 1
    for name, value in (("autotune_local_cache", False), ("fx_graph_cache", True)):
        if hasattr(config, name):
            setattr(config, name, value)


def compile_in_helper(number, device, tiny):
    """A helper's: fills the cache."""
    prepare_inductor()
    torch._dynamo.reset()  # of one function only so many sizes are compiled
    row = all_rows(tiny)[number]
    try:
        with torch.no_grad():
            torch.compile(row.function, dynamic=False)(*(torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, _ in row.inputs))
        if device.startswith("cuda"):
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except Exception as error:  # whatever the compiler says  # pylint: disable=broad-except
        return str(error)[:200]
    return None


def compile_ahead(options, rows, helpers):
    """How many of the rows there was time for; they are in the order of their turns. Ends the helpers, and what they are at."""
    end = BEGIN + AHEAD_PART * min(options.limit, 3600)
    results = [helpers.apply_async(compile_in_helper, (row.number, options.device, options.tiny)) for row in rows]
    while time.perf_counter() < end and not all(r.ready() for r in results):
        time.sleep(0.1)
    helpers.terminate()
    return sum(r.ready() for r in results)


def run_inductor(row, sets):
    import torch._inductor.metrics as metrics

    torch._dynamo.reset()
    metrics.reset()
    begin = time.perf_counter()
    compiled = torch.compile(row.function, dynamic=False)
    compiled(*sets[0])
    compile_s = time.perf_counter() - begin
    return {"us": time_on_device(compiled, sets), "kernels": metrics.generated_kernel_count, "compile_ms": 1e3 * compile_s}


def measure_inductor(options, row):
    inputs = row.make(options.device)
    traffic = size_of(inputs) + size_of(as_tuple(row.function(*inputs)))
    result = line_of(row, traffic)
    sets = [inputs] + [[t.clone() for t in inputs] for _ in range(sets_for(options, traffic) - 1)]
    try:
        result.update({"inductor_" + k: v for k, v in run_inductor(row, sets).items()} | {"inductor_copy_gbs": options.big_copy_gbs})
    except Exception as error:  # whatever the compiler says  # pylint: disable=broad-except
        result["inductor_failed"] = str(error)[:400]
    return result


def inductor_lines(options, rows, helpers, late):
    begin = time.perf_counter()
    done = compile_ahead(options, rows, helpers)
    print(f"{done} of {len(rows)} functions compiled ahead by torch.compile in {time.perf_counter() - begin:.0f} s", flush=True)
    prepare_inductor()
    for row in rows:
        if late():
            return
        yield measure_inductor(options, row)


# --- the table ---


def describe(line):
    text = f"{line['title']:46} {line['bytes'] >> 20:5} MiB"
    for who, name in (("henry", "Henry"), ("inductor", "Inductor")):
        us = line.get(who + "_us")
        text += f"  {name} {us:9.1f} us {gpu_table.part(line, who):5.2f} ({line[who + '_kernels']})" if us else ""
        text += f"  {name} failed: {line[who + '_failed'][:120]}" if who + "_failed" in line else ""
    if "copy_us" in line:
        text += f"  copy {line['bytes'] / line['copy_us'] / 1e3 / line['big_copy_gbs']:5.2f}"
    if "error" in line:
        text += f"  error {line['error']:.1e} (eager {line['eager_error']:.1e})" + ("" if line["right"] else "  WRONG")
    return text


def clocks():
    query = "name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu"
    done = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True, check=False) if shutil.which("nvidia-smi") else None
    return done.stdout.strip().split("\n")[0] if done and done.returncode == 0 else ""


def commit():
    """Of the tree that is measured: a pack has it in a file."""
    about = pathlib.Path(__file__).resolve().parents[1] / "about.txt"
    if about.exists():
        return about.read_text().strip().removeprefix("commit ")
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=about.parent, capture_output=True, text=True, check=False) if shutil.which("git") else None
    return done.stdout.strip() if done and done.returncode == 0 else None


def own_options():
    """The command line without what bench/gpu.sh adds: the part, and files of this machine."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in ("--henry", "--subject", "--device", "--have", "--who", "-o"):
            next(words)
        elif word != "--profile":
            kept.append(word)
    return " ".join(kept)


def head(what, device):
    """The first line of results: what was measured, when and where."""
    return {"what": what, "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "torch": torch.__version__, "machine": clocks(), "device": device, "commit": commit(), "command": own_options()}


def run_rows(options, rows, helpers):
    """Prints and keeps a line a row; how many rows have failed."""
    torch.manual_seed(time.time_ns() % (1 << 31))
    big = (64 << 20) if options.tiny else BIG_COPY_BYTES
    measured = henry_lines if options.who == "henry" else inductor_lines
    options.big_copy_gbs = 2 * big / copy_us(2, 2 * big, options.device) / 1e3
    first = {**head("kernels" if options.who == "henry" else "inductor", options.henry_device), "big_copy_gbs": options.big_copy_gbs, "rows": [row.title for row in all_rows(options.tiny)]}
    print(f"{first['machine'] or options.device}, torch {torch.__version__}: a copy of {2 * big >> 20} MiB moves {options.big_copy_gbs:.0f} GB/s", flush=True)
    lines = []
    with torch.no_grad():
        for line in itertools.chain([first], measured(options, rows, helpers, lambda: time.perf_counter() - BEGIN > options.limit)):
            lines.append(line)
            if line is not first:
                print(describe(line), flush=True)
            if options.output:
                options.output.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    failed = sum(any(key.endswith("_failed") for key in line) or not line.get("right", True) for line in lines[1:])
    left = len(rows) - (len(lines) - 1)
    print(f"{len(lines) - 1} rows, {failed} failed" + (f", {left} not begun within {options.limit:.0f} s" if left else "") + f"; {time.perf_counter() - BEGIN:.0f} s; {clocks()}")
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--subject", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--who", choices=("henry", "inductor"), default="henry")
    parser.add_argument("--rows", default="")
    parser.add_argument("--have", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rotate", type=int, default=256 << 20)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    options.henry_device = options.device
    options.device = options.device if options.device.startswith("cuda") else "cpu"  # of PyTorch
    if options.rows == "list":
        print("\n".join(row.title for row in all_rows(options.tiny)))
        return 0
    done = gpu_table.names_with(options.have, options.who + "_us")
    rows = [row for row in chosen(all_rows(options.tiny), [n for n in options.rows.split(",") if n]) if row.title not in done]
    # The helpers are made before this process has anything to do with CUDA, which a copy of a process could not use.
    helpers = multiprocessing.get_context("fork").Pool(max(1, min(HELPERS, (os.cpu_count() or 1) - 1)), signal.signal, (signal.SIGTERM, signal.SIG_DFL))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # files in memory are removed
    try:
        return 1 if run_rows(options, rows, helpers) else 0
    finally:
        helpers.terminate()


if __name__ == "__main__":
    sys.exit(main())
