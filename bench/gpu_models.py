"""Whole models on a GPU, bf16: Henry against torch.compile, in one run.

    gpu_models.py --henry PROGRAM --subject PROGRAM [-o RESULTS.jsonl] [--device cuda] [--models NAME,...] [--modes MODE,...] [--no-check] [--limit S]

Models are made with random weights and exported here (make_models.py has the configurations). Of each: the steady time of a run, and
what it takes from the start of a process to its first output, with an empty cache and with a full one. --modes: of torch.compile
(default "default,max-autotune"; the second uses CUDA graphs; "" for none). Henry's outputs and PyTorch's own are compared with the model in float64.
--limit: no model and no mode begins after so many seconds. --device opencl or cpu with --models tiny tries this script without a GPU.

Steady times: torch.compile's is that of calls with inputs on the device, by events around many calls. Henry's `device_us` is the same
for its steps, `call_us` one call with inputs and outputs in the host's memory.
"""

import argparse
import collections
import json
import logging
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import torch

import gpu_kernels
import make_models

RUNS, BLOCKS = 20, 9
WARM_STARTS = 3
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
    _, text = run_program([options.subject, "--device", options.device, "--inputs", directory, "--outputs", directory, "--rotate", 0, "--seconds", options.seconds, directory / "model.pt2"], directory / "cache")
    subject = json.loads(text)
    result.update({k: subject[k] for k in ("device_us", "device_min_us", "call_us", "kernels", "extern", "host_steps", "workspace_bytes", "steps", "from_cache")})
    return result


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


def make(options, name, directory):
    """The model and its input on PyTorch's device, in bf16; files for Henry."""
    torch.manual_seed(make_models.SEED)
    model, inputs = MODELS[name]()
    model, inputs = model.eval().bfloat16(), narrow(inputs)
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (inputs,), strict=False), directory / "model.pt2")
    gpu_kernels.write_raw(directory, [inputs])
    make_models.np.save(directory / "input_0.npy", (inputs.float() if inputs.is_floating_point() else inputs).numpy())
    return model.to(options.torch_device), inputs.to(options.torch_device)


def check(model, inputs, directory):
    """Henry's error and PyTorch's own; the model is in float64 behind this."""
    eager = [model(inputs)]
    outputs = [gpu_kernels.read_raw(directory / "output_0.bin", eager[0])]
    reference = [model.double()(inputs.double() if inputs.is_floating_point() else inputs)]
    error, own = gpu_kernels.error_of(outputs, reference), gpu_kernels.error_of(eager, reference)
    return {"error": error, "eager_error": own, "right": error <= 2 * own + 1e-6}


def measure(options, name, directory, late):
    model, inputs = make(options, name, directory)
    result = {"model": name}
    with torch.no_grad():
        try:
            result["henry"] = run_henry(options, directory)
        except (RuntimeError, subprocess.TimeoutExpired, OSError) as error:
            result["henry_failed"] = str(error)[:400]
        result["eager_us"] = steady_us(model, inputs)
        for mode in options.modes:
            if late():
                result[mode + "_failed"] = "no time was left"
                continue
            try:
                result[mode] = run_compiled(mode, model, inputs)
            except Exception as error:  # whatever the compiler says  # pylint: disable=broad-except
                result[mode + "_failed"] = str(error)[:400]
        if "henry" in result and not options.no_check:
            result.update(check(model, inputs, directory))
    return result


def describe(line):
    parts = [f"{line['model']:20}"]
    henry = line.get("henry")
    if henry:
        parts.append(f"Henry {henry['device_us'] / 1e3:8.3f} ms (call {henry['call_us'] / 1e3:.3f}), {henry['kernels']} kernels + {henry['extern']} calls ({sum(henry['calls_by_kernels'].values())} by kernels), "
                     f"cold {henry['cold_s']:.2f} s, warm {henry['warm_s']:.2f} s")
    else:
        parts.append(f"Henry failed: {line.get('henry_failed', '?')}")
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
    parser.add_argument("--modes", default="default,max-autotune")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=math.inf)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    options.modes = [m for m in options.modes.split(",") if m]
    options.torch_device = "cuda" if options.device.startswith("cuda") else "cpu"
    names = options.models.split(",")
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        sys.exit(f"unknown model {unknown[0]!r}; there are {', '.join(MODELS)}")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    begin = time.perf_counter()

    def late():
        return time.perf_counter() - begin > options.limit

    head = {"what": "models", "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "torch": torch.__version__, "machine": gpu_kernels.clocks(),
            "device": options.device, "command": gpu_kernels.own_options(),
            "libraries": {name: os.environ.get(name) for name in ("HENRY_CUBLASLT", "HENRY_CUDNN")}}
    lines, failed, left = [head], 0, 0
    shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 8 << 30 else None
    for name in names:
        if late():
            left += 1
            continue
        with tempfile.TemporaryDirectory(dir=shared_memory) as directory:
            line = measure(options, name, pathlib.Path(directory), late)
        lines.append(line)
        failed += "henry_failed" in line or not line.get("right", True)
        print(describe(line), flush=True)
        if options.output:
            options.output.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    print(f"{len(lines) - 1} models, {failed} failed" + (f", {left} not begun" if left else "") + f"; {time.perf_counter() - begin:.0f} s; {gpu_kernels.clocks()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
