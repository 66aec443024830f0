"""Whole models on a GPU, bf16: Henry against torch.compile, in one run.

    gpu_models.py --henry PROGRAM --subject PROGRAM [-o RESULTS.jsonl] [--device cuda] [--models NAME,...] [--modes MODE,...] [--have DIR]... [--no-check] [--limit S]

Models are made with random weights and exported here (make_models.py has the configurations). Of each: the steady time of a run with and without CUDA graphs,
and what it takes from the start of a process to its first output, with an empty cache and with a full one. --modes: "henry", and those of torch.compile
(default "henry,default,max-autotune"; the last uses CUDA graphs). Henry's outputs and PyTorch's own are compared with the model in float64.
--have: what the results of an earlier run have is not done again. --limit: no model and no mode begins after so many seconds.
--device opencl or cpu with --models tiny tries this script without a GPU.

Steady times: torch.compile's is that of calls with inputs on the device, by events around many calls. Henry's `device_us` is the same
for its steps, `graph_us` for its graphs, `call_us` one call with inputs and outputs in the host's memory.

--profile: in place of all that, the kernels and calls that take most of a run of Henry's, as `henry run --profile` times them, each
with the bytes of the tensors that it touches, and the part of a copy's bandwidth that this makes.
"""

import argparse
import collections
import json
import logging
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

BEGIN = time.perf_counter()  # importing PyTorch takes seconds, which count

import torch

import gpu_kernels
import gpu_table
import make_models

RUNS, BLOCKS = 20, 9
WARM_STARTS = 3
LINK_BYTES = 256 << 20
SUBJECT = ("device_us", "device_min_us", "call_us", "call_there_us", "kernels", "extern", "host_steps", "workspace_bytes", "steps", "from_cache",
           "graph_runs", "graph_us", "graph_moved_us", "graph_call_us", "graph_call_there_us")
BY_KERNEL = "a kernel does it: "  # what the runtime says


def tokens(rows, columns, vocabulary):
    return torch.randint(0, vocabulary, (rows, columns))


def gpt2():
    return make_models.gpt2_124m()[0], tokens(4, 256, 50257)


def llama():
    return make_models.llama_8x1024()[0], tokens(2, 512, 32000)


def bert():
    return make_models.bert_base()[0], tokens(8, 128, 30522)


def images(name):
    model = make_models.vit_b_16()[0] if name == "vit_b_16" else make_models.vision(name)[0]
    return model, torch.randn(8, 3, 224, 224)


MODELS = {
    "gpt2_4x256": gpt2,
    "llama_8x1024_2x512": llama,
    "resnet50_8": lambda: images("resnet50"),
    "vit_b_16_8": lambda: images("vit_b_16"),
    "bert_base_8x128": bert,
    "tiny": make_models.gpt2_tiny,
}


def narrow(x):
    return x.bfloat16() if x.is_floating_point() else x


# --- Henry ---


def run_program(command, cache, timeout=300):
    """Seconds of the whole process, and what it printed."""
    begin = time.perf_counter()
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=timeout, check=False, env=dict(os.environ, HENRY_CACHE_DIR=str(cache)))
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"status {done.returncode}")
    return time.perf_counter() - begin, done.stdout


def phases(options, directory):
    """A process of `henry run`: seconds, and milliseconds by phase."""
    stats = directory / "stats.json"
    command = [options.henry, "run", directory / "model.pt2", "-i", directory / "input_0.npy", "--device", options.device, "-q", "--stats", stats]
    wall, _ = run_program(command, directory / "cache")
    told = json.loads(stats.read_text())
    return wall, told["timings_ms"], told["metrics"]


def start_up(options, directory):
    cold, cold_phases, _ = phases(options, directory)
    warm = sorted((phases(options, directory) for _ in range(WARM_STARTS)), key=lambda pair: pair[0])[WARM_STARTS // 2]
    return {"cold_s": cold, "cold_phases_ms": cold_phases, "warm_s": warm[0], "warm_phases_ms": warm[1], "warm_metrics": warm[2]}


def calls_by_kernels(options, directory):
    """Why calls are done by kernels of the bundle in place of a library, and how many."""
    command = [options.henry, "run", directory / "model.pt2", "-i", directory / "input_0.npy", "--device", options.device, "-q"]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=300, check=True, env=dict(os.environ, HENRY_CACHE_DIR=str(directory / "cache"), HENRY_LOG="run:info"))
    return dict(collections.Counter(line.split(BY_KERNEL, 1)[1] for line in done.stderr.splitlines() if BY_KERNEL in line))


def run_henry(options, directory):
    """Cold and warm processes first: they fill the cache."""
    result = start_up(options, directory)
    result["calls_by_kernels"] = calls_by_kernels(options, directory)
    _, text = run_program([options.subject, "--device", options.device, "--inputs", directory, "--outputs", directory, "--rotate", 0, "--seconds", options.seconds, *(["--graphs"] if options.device.startswith("cuda") else []), directory / "model.pt2"], directory / "cache")
    subject = json.loads(text)
    result.update({k: subject[k] for k in SUBJECT if k in subject})
    return result


# --- Henry's steps ---


def by_name(steps):
    """Steps of one kernel and size together, by their time: equal layers have one text."""
    groups = {}
    for step in steps:
        group = groups.setdefault((step["name"], step["bytes"]), {"name": step["name"], "origin": step["origin"], "calls": 0, "us": 0.0, "bytes": 0})
        group["calls"] += 1
        group["us"] += step["us"]
        group["bytes"] += step["bytes"]
    return sorted(groups.values(), key=lambda group: -group["us"])


def profile(options, name, directory):
    make(options, name, directory, True)
    command = [options.subject, "--device", options.device, "--inputs", directory, "--rotate", 0, "--seconds", min(0.2, options.seconds), "--no-calls", directory / "model.pt2"]
    try:
        _, text = run_program(command, directory / "cache")
    except (RuntimeError, subprocess.SubprocessError, OSError) as error:
        return {"model": name, "profile_failed": str(error)[:400]}
    subject = json.loads(text)
    return {"model": name, "profile": {"device_us": subject["device_us"], "steps": by_name(subject["steps"])}, "big_copy_gbs": options.big_copy_gbs}


# --- torch.compile ---


def steady_us(call, inputs):
    """Of a call, the host's work included where the device waits for it."""
    for _ in range(5):
        call(inputs)
    if not inputs.is_cuda:
        begin = time.perf_counter()
        call(inputs)
        return 1e6 * (time.perf_counter() - begin)
    times = []
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(BLOCKS):
        torch.cuda.synchronize()
        begin.record()
        for _ in range(RUNS):
            call(inputs)
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / RUNS)
    return statistics.median(times)


def run_compiled(mode, model, inputs):
    from torch._inductor import metrics

    torch._dynamo.reset()
    metrics.reset()
    begin = time.perf_counter()
    compiled = torch.compile(model, mode=None if mode == "default" else mode, dynamic=False)
    compiled(inputs)
    if inputs.is_cuda:
        torch.cuda.synchronize()
    first = time.perf_counter() - begin
    return {"first_call_s": first, "kernels": metrics.generated_kernel_count, "us": steady_us(compiled, inputs)}


# --- one model ---


def make(options, name, directory, exports):
    """The model and its input on PyTorch's device, in bf16; files for Henry, if it is one of those that run."""
    torch.manual_seed(make_models.SEED)
    model, inputs = MODELS[name]()
    model, inputs = model.eval().bfloat16(), narrow(inputs)
    if exports:
        with torch.no_grad():
            torch.export.save(torch.export.export(model, (inputs,), strict=False), directory / "model.pt2")
        gpu_kernels.write_raw(directory, [inputs])
        make_models.np.save(directory / "input_0.npy", (inputs.float() if inputs.is_floating_point() else inputs).numpy())
    return model.to(options.torch_device), inputs.to(options.torch_device)


def check(model, inputs, directory):
    """Henry's error and PyTorch's own. The model is in float64 meanwhile, which has all that bf16 has."""
    eager = [model(inputs)]
    outputs = [gpu_kernels.read_raw(directory / "output_0.bin", eager[0])]
    reference = [model.double()(inputs.double() if inputs.is_floating_point() else inputs)]
    model.bfloat16()
    error, own = gpu_kernels.error_of(outputs, reference), gpu_kernels.error_of(eager, reference)
    return {"error": error, "eager_error": own, "right": error <= 2 * own + 1e-6}


def measure(options, name, modes, directory, late, keep):
    """`keep`: gets what there is so far; torch.compile may take longer than there is time."""
    model, inputs = make(options, name, directory, "henry" in modes)
    result = {"model": name}
    with torch.no_grad():
        if "henry" in modes:
            try:
                result["henry"] = run_henry(options, directory)
            except (RuntimeError, subprocess.SubprocessError, OSError) as error:
                result["henry_failed"] = str(error)[:400]
            result["eager_us"] = steady_us(model, inputs)
            if "henry" in result and not options.no_check:
                result.update(check(model, inputs, directory))
        for mode in (m for m in modes if m != "henry"):
            keep(result)
            if late():
                break
            try:
                result[mode] = run_compiled(mode, model, inputs)
            except Exception as error:  # whatever the compiler says  # pylint: disable=broad-except
                result[mode + "_failed"] = str(error)[:400]
    return result


def link_gbs(device):
    """How fast pinned memory of the host is copied to the device."""
    if not device.startswith("cuda"):
        return None
    source, to = torch.empty(LINK_BYTES, dtype=torch.uint8).pin_memory(), torch.empty(LINK_BYTES, dtype=torch.uint8, device=device)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(BLOCKS):
        begin.record()
        to.copy_(source, non_blocking=True)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return LINK_BYTES / statistics.median(times) / 1e6


def graphs_text(henry):
    if "graph_us" not in henry:
        return ""
    return f", graphs {henry['graph_us'] / 1e3:.3f}" if henry["graph_runs"] else ", no graphs"


def describe(line):
    parts = [f"{line['model']:20}"]
    henry = line.get("henry")
    if henry:
        parts.append(f"Henry {henry['device_us'] / 1e3:8.3f} ms{graphs_text(henry)} (call {henry['call_us'] / 1e3:.3f}), {henry['kernels']} kernels + {henry['extern']} calls ({sum(henry['calls_by_kernels'].values())} by kernels), "
                     f"cold {henry['cold_s']:.2f} s, warm {henry['warm_s']:.2f} s")
    elif "henry_failed" in line:
        parts.append(f"Henry failed: {line['henry_failed']}")
    if "eager_us" in line:
        parts.append(f"eager {line['eager_us'] / 1e3:.3f} ms")
    parts += [f"{mode} {v['us'] / 1e3:.3f} ms (first {v['first_call_s']:.1f} s, {v['kernels']} kernels)" for mode, v in line.items() if isinstance(v, dict) and "first_call_s" in v]
    parts += [f"{k[:-7]} failed: {v[:80]}" for k, v in line.items() if k.endswith("_failed") and k != "henry_failed"]
    if "error" in line:
        parts.append(f"error {line['error']:.1e} (eager {line['eager_error']:.1e})" + ("" if line["right"] else " WRONG"))
    return "; ".join(parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--henry", required=True)
    parser.add_argument("--subject", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", default=",".join(n for n in MODELS if n != "tiny"))
    parser.add_argument("--modes", default="henry,default,max-autotune")
    parser.add_argument("--have", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=math.inf)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # files in memory are removed
    options.modes = [m for m in options.modes.split(",") if m]
    options.torch_device = "cuda" if options.device.startswith("cuda") else "cpu"
    names = options.models.split(",")
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        sys.exit(f"unknown model {unknown[0]!r}; there are {', '.join(MODELS)}")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)

    def late():
        return time.perf_counter() - BEGIN > options.limit

    if options.profile:
        options.modes = ["profile"]
        big = (64 << 20) if options.torch_device == "cpu" else gpu_kernels.BIG_COPY_BYTES
        options.big_copy_gbs = 2 * big / gpu_kernels.copy_us(2, 2 * big, options.torch_device) / 1e3
    head = {**gpu_kernels.head("profile" if options.profile else "models", options.device),
            "cpus": os.cpu_count(), "link_gbs": link_gbs(options.torch_device), "models": names, "modes": options.modes, "libraries": {name: os.environ.get(name) for name in ("HENRY_CUBLASLT", "HENRY_CUDNN")}}
    def keep(entries):
        if options.output:
            options.output.write_text("".join(json.dumps(entry) + "\n" for entry in entries))

    lines, failed, left = [head], 0, 0
    keep(lines)
    have = {mode: gpu_table.names_with(options.have, mode) for mode in options.modes}
    for name in names:
        modes = [m for m in options.modes if name not in have[m]]
        if not modes or late():
            left += bool(modes)
            continue
        with tempfile.TemporaryDirectory(dir=gpu_kernels.shared_memory()) as directory:
            line = profile(options, name, pathlib.Path(directory)) if options.profile else measure(options, name, modes, pathlib.Path(directory), late, lambda part: keep([*lines, part]))
        lines.append(line)
        failed += bool({"henry_failed", "profile_failed"} & line.keys()) or not line.get("right", True)
        print(gpu_table.profile_table([line]) if "profile" in line else describe(line), flush=True)
        keep(lines)
    print(f"{len(lines) - 1} models, {failed} failed" + (f", {left} not begun" if left else "") + f"; {time.perf_counter() - BEGIN:.0f} s; {gpu_kernels.clocks()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
