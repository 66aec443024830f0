"""Whole processes: `henry run` from an empty cache and again with a full one; what the phases of a compilation take; peak memory.

    startup.py --henry PROGRAM --phases PROGRAM --models DIRECTORY -o RESULTS.json

Every number comes from processes of their own; medians and minima are kept. Wall time is what a user waits; processor
time (of the process and the compilers that it starts) is what it would be on a machine that has nothing else to do.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

START_UP = {"gpt2_tiny": (9, 25), "gpt2_124m": (5, 9)}  # runs from an empty cache, from a full one
PHASES = {"mobilenet_v3": 15, "stack_1250": 9, "stack_2500": 9, "stack_5000": 9, "stack_10000": 9}


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "runs": len(values)}


def run_process(command, cache):
    """Wall and processor time in milliseconds, peak resident bytes, and what it printed."""
    begin = time.perf_counter()
    environment = dict(os.environ, HENRY_CACHE_DIR=str(cache))
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, env=environment)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode}: {' '.join(map(str, command))}")
    cpu = usage.ru_utime + usage.ru_stime
    return {"wall": 1e3 * wall, "cpu": 1e3 * cpu, "peak": usage.ru_maxrss * 1024, "output": output.decode()}


def repeat(command, cache, count, cold):
    runs = []
    for _ in range(count):
        if cold:
            shutil.rmtree(cache, ignore_errors=True)
            cache.mkdir()
        runs.append(run_process(command, cache))
    return runs


def start_up(henry, directory, cache, cold_runs, warm_runs):
    command = [henry, "run", directory / "model.pt2", "--json", "-i", directory / "input_0.npy"]
    result = {}
    for kind, count in (("cold", cold_runs), ("warm", warm_runs)):
        runs = repeat(command, cache, count, kind == "cold")
        best = json.loads(min(runs, key=lambda r: r["wall"])["output"])
        result[kind] = {
            "wall_ms": summary([r["wall"] for r in runs]),
            "cpu_ms": summary([r["cpu"] for r in runs]),
            "peak_bytes": summary([r["peak"] for r in runs]),
            **{key: best[key] for key in ("timings_ms", "kernels", "cache", "metrics")},
        }
    return result


def phase_times(program, models, cache):
    """By model; in turns, so that a slow moment of the machine does not fall on one of them alone."""
    runs = {name: [] for name in PHASES}
    for turn in range(1 + max(PHASES.values())):
        for name, count in PHASES.items():
            if turn <= count:
                runs[name].append(json.loads(run_process([program, models / name / "model.pt2"], cache)["output"]))
    result = {}
    for name in PHASES:
        measured = runs[name][1:]  # the first one compiles
        times = {k: summary([r[k] for r in measured]) for k in measured[0] if k.endswith("_ms")}
        result[name] = {**measured[0], **times}
    return result


def live_bytes(henry, model, cache):
    """The most bytes of temporaries and outputs that are alive at one step, in the order of the program: no plan needs less.
    A step that writes a temporary over the one that it reads has both in one place, which counts once."""
    run = run_process([henry, "compile", model, "--emit", "text"], cache)
    buffers = re.findall(r"^buffer (b\d+)\S* (?:temp|output) \S+ bytes (\d+)(?: at (\d+))?", run["output"], re.M)
    sizes = {name: int(size) for name, size, _ in buffers}
    places = {name: place or name for name, _, place in buffers}
    steps = re.findall(r"^step \d+ (.*?)(?: ; .*)?$", run["output"], re.M)
    first, last = {}, {}
    for at, step in enumerate(steps):
        for name in re.findall(r"\bb\d+\b", step):
            first.setdefault(name, at)
            last[name] = at
    most = 0
    for at in range(len(steps)):
        alive = {}
        for b, size in sizes.items():
            if first.get(b, -1) <= at <= last.get(b, -1):
                alive[places[b]] = max(size, alive.get(places[b], 0))
        most = max(most, sum(alive.values()))
    return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--henry", required=True)
    parser.add_argument("--phases", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    result = {"start_up": {}, "phases": {}, "live_bytes": {}}
    with tempfile.TemporaryDirectory() as temporary:
        cache = pathlib.Path(temporary) / "cache"
        cache.mkdir()
        for name, counts in START_UP.items():
            result["start_up"][name] = start_up(options.henry, options.models / name, cache, *counts)
            result["live_bytes"][name] = live_bytes(options.henry, options.models / name / "model.pt2", cache)
        result["phases"] = phase_times(options.phases, options.models, cache)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
