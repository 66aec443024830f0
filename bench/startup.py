"""Whole processes: `henry run` from an empty cache and again with a full one; what the phases of a compilation take; peak memory.

    startup.py --henry PROGRAM --phases PROGRAM --models DIRECTORY -o RESULTS.json

Every number comes from processes of their own; medians and minima are kept. Wall time is what a user waits; processor
time (of the process and the compilers that it starts) is what it would be on a machine that has nothing else to do.

Contestants run in turns, and runs during which other programs used the processors are left out and repeated, up to twice as
many as are wanted. Model files are taken out of the page cache and read through once first: a file that was just written lies
there in other pieces than one that was read, and its pages cost up to twice as much to copy.
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

START_UP = {"gpt2_tiny": (9, 3), "gpt2_124m": (7, 3)}  # turns: a run from an empty cache, then so many from a full one
FOREIGN = 0.10  # of one processor, at most, over a run
PHASES = {"gpt2_tiny": 15, "mobilenet_v3": 15, "stack_1250": 9, "stack_2500": 9, "stack_5000": 9, "stack_10000": 9}


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "runs": len(values)}


def busy_seconds():
    """Of all processors together since the machine started; 0 where the system does not tell."""
    try:
        ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return 0.0
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def read_through(path):
    """The page cache as after reading the file from the disk."""
    with open(path, "rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.read(1 << 20):
            pass


def run_process(command, cache):
    """Wall and processor time in milliseconds, peak resident bytes, what it printed, and how much of a processor others used."""
    before = busy_seconds()
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
    # Times of /proc/stat come in ticks of 10 ms: two of them are no sign of anybody.
    foreign = max(0.0, busy_seconds() - before - cpu - 0.02) / wall
    return {"wall": 1e3 * wall, "cpu": 1e3 * cpu, "peak": usage.ru_maxrss * 1024, "output": output.decode(), "foreign": foreign}


def undisturbed(runs):
    """The runs that nobody disturbed, or all of them when these are less than half."""
    quiet = [r for r in runs if r["foreign"] <= FOREIGN]
    return quiet if 2 * len(quiet) >= len(runs) else runs


def start_up(henry, models, work):
    """By model; in turns. Each model has a cache of its own, which is emptied before its run from an empty one."""
    runs = {name: {"cold": [], "warm": []} for name in START_UP}
    for name in START_UP:
        read_through(models / name / "model.pt2")
    for turn in range(2 * max(turns for turns, _ in START_UP.values())):
        for name, (turns, warm_runs) in START_UP.items():
            quiet = [sum(r["foreign"] <= FOREIGN for r in runs[name][kind]) for kind in ("cold", "warm")]
            if turn >= 2 * turns or (quiet[0] >= turns and quiet[1] >= turns * warm_runs):
                continue
            cache = work / name
            command = [henry, "run", models / name / "model.pt2", "--json", "-i", models / name / "input_0.npy"]
            shutil.rmtree(cache, ignore_errors=True)
            cache.mkdir()
            runs[name]["cold"].append(run_process(command, cache))
            runs[name]["warm"] += [run_process(command, cache) for _ in range(warm_runs)]
    return {name: {kind: start_up_summary(kinds[kind]) for kind in kinds} for name, kinds in runs.items()}


def start_up_summary(runs):
    used = undisturbed(runs)
    best = json.loads(min(used, key=lambda r: r["wall"])["output"])
    return {
        "wall_ms": summary([r["wall"] for r in used]),
        "cpu_ms": summary([r["cpu"] for r in used]),
        "peak_bytes": summary([r["peak"] for r in runs]),
        "left_out": len(runs) - len(used),
        **{key: best[key] for key in ("timings_ms", "kernels", "cache", "metrics")},
    }


def phase_runs(program, models, cache):
    """By model, by turn; in turns, so that a slow moment of the machine does not fall on one of them alone."""
    runs = {name: [] for name in PHASES}
    for turn in range(1 + max(PHASES.values())):
        for name, count in PHASES.items():
            if turn <= count:
                run = run_process([program, models / name / "model.pt2"], cache)
                runs[name].append({**json.loads(run["output"]), "foreign": run["foreign"]})
    return {name: measured[1:] for name, measured in runs.items()}  # the first one compiles


def linearity(runs):
    """Time a node of each stack, over that of all stacks in the same turn: medians over the turns, and most over least."""
    stacks = [name for name in runs if name.startswith("stack_")]
    turns = list(zip(*(runs[name] for name in stacks)))
    quiet = [turn for turn in turns if all(run["foreign"] <= FOREIGN for run in turn)]
    relative = {name: [] for name in stacks}
    for turn in quiet if 2 * len(quiet) >= len(turns) else turns:
        times = [run["to_source_ms"] / run["nodes_imported"] for run in turn]
        for name, value in zip(stacks, times):
            relative[name].append(value * len(times) / sum(times))
    medians = {name: statistics.median(values) for name, values in relative.items()}
    return {"relative": medians, "spread": max(medians.values()) / min(medians.values()), "turns": len(relative[stacks[0]])}


def phase_times(runs):
    result = {}
    for name in PHASES:
        measured = undisturbed(runs[name])
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
    result = {"live_bytes": {}}
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        cache = work / "cache"
        cache.mkdir()
        result["start_up"] = start_up(options.henry, options.models, work)
        for name in START_UP:
            result["live_bytes"][name] = live_bytes(options.henry, options.models / name / "model.pt2", work / name)
        runs = phase_runs(options.phases, options.models, cache)
        result["phases"] = phase_times(runs)
        result["linear"] = linearity(runs)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
