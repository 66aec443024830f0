"""Host time of calls on a GPU: Henry against the same launches by the driver alone, and torch.compile.

    gpu_host.py --subject PROGRAM [-o RESULTS.jsonl] [--device cuda] [--no-inductor]

Two functions of 1,024 elements: one kernel, and 20 kernels of which each needs the one before. For Henry: what the launches of a run take on the host
(`submit_us`), and a whole call, with inputs and outputs in the host's memory (`call_us`) and in that of the device (`call_there_us`). On CUDA `turns`
besides: launches, and calls with tensors on the device, in turns with the same launches, arguments and wait by the driver alone (gpu_turns.h). For
torch.compile: a call, without waiting, and with.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import gpu_kernels

CHAIN = 20
CALLS, BLOCKS = 200, 9


def one_kernel(x):
    return x * 2 + 1


def chain(x):
    for _ in range(CHAIN):  # a scan is a kernel of its own
        x = torch.cumsum(x, 0) * 0.5
    return x


def host_us(call, inputs, waits):
    """Of a call; the device gets no more than it can do meanwhile."""
    times = []
    for _ in range(BLOCKS):
        total = 0.0
        for _ in range(CALLS):
            begin = time.perf_counter()
            call(*inputs)
            if waits:
                torch.cuda.synchronize()
            total += time.perf_counter() - begin
            if not waits:
                torch.cuda.synchronize()
        times.append(1e6 * total / CALLS)
    return statistics.median(times)


def measure(options, name, function):
    inputs = [torch.randn(32, 32)]
    result = {"host": name}
    with tempfile.TemporaryDirectory() as directory, torch.no_grad():
        model = pathlib.Path(directory) / "model.pt2"
        torch.export.save(torch.export.export(gpu_kernels.Function(function), tuple(inputs), strict=False), model)
        command = [options.subject, "--device", options.device, "--seconds", "0.5", *(["--bare"] if options.device.startswith("cuda") else []), model]
        done = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            result["henry_failed"] = done.stderr.strip() or f"status {done.returncode}"
        else:
            subject = json.loads(done.stdout)
            result.update({k: subject[k] for k in ("kernels", "submit_us", "call_us", "call_there_us", "turns") if k in subject})
        if options.device.startswith("cuda") and not options.no_inductor:
            inputs = [t.cuda() for t in inputs]
            compiled = torch.compile(function, dynamic=False)
            for _ in range(5):
                compiled(*inputs)
            torch.cuda.synchronize()
            result.update(inductor_us=host_us(compiled, inputs, False), inductor_waited_us=host_us(compiled, inputs, True))
    return result


def describe(line):
    if "henry_failed" in line:
        return f"{line['host']}: Henry failed: {line['henry_failed'][:200]}"
    text = f"{line['host']}: {line['kernels']} kernels, launches {line['submit_us']:.2f} us, call {line['call_us']:.2f} us"
    if "call_there_us" in line:
        text += f", with tensors on the device {line['call_there_us']:.2f} us"
    if "turns" in line:
        t = line["turns"]
        text += f"; in turns: a launch {t['launch_ns']:.0f} ns, by the driver alone {t['bare_launch_ns']:.0f} ({t['launch_above_ns']:+.0f})"
        text += f", a call {t['call_us']:.2f} us, by the driver alone {t['bare_call_us']:.2f} ({t['call_above_us']:+.2f}; without a context {t['apart_above_us']:+.2f})"
    if "inductor_us" in line:
        text += f"; torch.compile {line['inductor_us']:.1f} us, with waiting {line['inductor_waited_us']:.1f} us"
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--subject", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    lines = [gpu_kernels.head("host", options.device)]
    for name, function in (("one kernel", one_kernel), (f"chain of {CHAIN}", chain)):
        lines.append(measure(options, name, function))
        print(describe(lines[-1]), flush=True)
    if options.output:
        options.output.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    return any("henry_failed" in line for line in lines)


if __name__ == "__main__":
    sys.exit(main())
