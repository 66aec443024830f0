"""Times models under Henry, PyTorch and ONNX Runtime, in turns:

    peers.py --models DIRECTORY --subject PROGRAM -o RESULTS.jsonl [--rounds N] [--threads N] [--compile] [NAME]...

Each contestant is a process of its own that holds the model and waits for its turn; a round gives each one turn of a
quarter of a second, the first run of which is kept apart (`rested_ms`). So what slows the machine down for a while slows all of them,
and their thread pools never spin at the same time. --compile adds torch.compile, which takes a minute a model to start.

Rounds in which other programs used the processors are left out (what the contestant itself did not use of the busy time
in /proc/stat); when that leaves fewer than three, the three quietest count, and `foreign` says how quiet they were.
One JSON object a model: for each contestant the median and the least of all runs in milliseconds, and the median over
rounds of its time in units of Henry's.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

NAMES = ["gpt2_124m", "bert_base", "resnet50", "vit_b_16", "mobilenet_v3_large", "llama_8x1024"]
TURN_MS = 250
PAUSE_S = 0.02  # for the thread pool of the one before to fall asleep
FOREIGN_MAX = 0.1  # of the processors' time
ROUNDS_MIN = 3


def files(directory, kind):
    return sorted(directory.glob(f"{kind}_*.npy"))


# --- a contestant's side: `peers.py --serve KIND DIRECTORY THREADS` ---


def error_of(actual, expected):
    import numpy as np

    return float(np.max(np.abs(actual.astype(np.float64) - expected) / (1e-5 + 1e-4 * np.abs(expected))))


def torch_runner(kind, directory, threads, arrays):
    import torch

    torch.set_num_threads(threads)
    module = torch.export.load(directory / "model.pt2").module()
    if kind == "compile":
        module = torch.compile(module)
    inputs = [torch.from_numpy(a) for a in arrays]

    def run():
        with torch.no_grad():
            return module(*inputs).numpy()

    return run


def onnx_runner(directory, threads, arrays):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"])
    inputs = {i.name: a for i, a in zip(session.get_inputs(), arrays)}
    return lambda: session.run(None, inputs)[0]


def serve(kind, directory, threads):
    import numpy as np

    arrays = [np.load(f) for f in files(directory, "input")]
    begin = time.perf_counter()
    run = onnx_runner(directory, threads, arrays) if kind == "onnx" else torch_runner(kind, directory, threads, arrays)
    loaded = time.perf_counter()
    output = run()
    first = time.perf_counter()
    ready = {"load_ms": 1e3 * (loaded - begin), "first_ms": 1e3 * (first - loaded)}
    ready["error"] = error_of(output, np.load(files(directory, "output")[0]))
    answer(ready, run)


def answer(ready, run):
    """Says what is ready, then times as many runs as each line of standard input asks for."""
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            run()
            times.append(1e3 * (time.perf_counter() - begin))
        print(*times, flush=True)


# --- the other side ---


def busy_ticks():
    """Clock ticks that all processors together were not idle (waiting for disks counts as idle)."""
    user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return user + nice + system + irq + softirq + steal


def own_ticks(pid):
    return sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))


class Contestant:
    def __init__(self, name, command, environment):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start: {' '.join(map(str, command))}")
        self.ready = json.loads(line)
        self.rounds = []  # times
        self.rested = []  # the first of each turn
        self.foreign = []  # share of the processors' time that others used meanwhile

    def turn(self, count):
        time.sleep(PAUSE_S)
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def play(self):
        if not self.rounds:
            once = min(self.turn(2))
            self.runs = 1 + max(1, min(200, round(TURN_MS / once)))
        begin, busy, own = time.perf_counter(), busy_ticks(), own_ticks(self.process.pid)
        first, *times = self.turn(self.runs)
        self.rested.append(first)
        self.rounds.append(times)
        ticks = (time.perf_counter() - begin) * os.sysconf("SC_CLK_TCK") * os.cpu_count()
        self.foreign.append((busy_ticks() - busy - own_ticks(self.process.pid) + own) / ticks)

    def result(self, henry, quiet):
        ratios = [statistics.median(self.rounds[r]) / statistics.median(henry.rounds[r]) for r in quiet]
        runs = [t for r in quiet for t in self.rounds[r]]
        return {
            **self.ready,
            "median_ms": statistics.median(runs),
            "min_ms": min(runs),
            "rested_ms": statistics.median(self.rested[r] for r in quiet),
            "runs": len(runs),
            "times_henry": statistics.median(ratios),
            "min_times_henry": min(runs) / min(t for r in quiet for t in henry.rounds[r]),
        }

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def contestants(options, directory):
    expected, inputs = files(directory, "output")[0], files(directory, "input")
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    serving = [sys.executable, __file__, "--serve"]
    commands = {"henry": [options.subject, directory / "model.pt2", str(options.threads), expected, *inputs]}
    for kind in ["onnx", "eager"] + (["compile"] if options.compile else []):
        commands[kind] = [*serving, kind, directory, str(options.threads)]
    return [Contestant(name, [str(w) for w in command], environment) for name, command in commands.items()]


def play_rounds(players, rounds):
    """The contestants' results over the quiet rounds, by name; the first one is whom they are compared with."""
    for _ in range(rounds):
        for player in players:
            player.play()
    foreign = [max(p.foreign[r] for p in players) for r in range(rounds)]
    by_noise = sorted(range(rounds), key=lambda r: foreign[r])
    quiet = [r for r in by_noise if foreign[r] <= FOREIGN_MAX]
    quiet = quiet if len(quiet) >= ROUNDS_MIN else by_noise[:ROUNDS_MIN]
    result = {"rounds": len(quiet), "foreign": max(foreign[r] for r in quiet)}
    result.update({p.name: p.result(players[0], quiet) for p in players})
    for player in players:
        player.end()
    return result


def compare(options, name):
    players = contestants(options, options.models / name)
    return {"model": name, "threads": options.threads} | play_rounds(players, options.rounds)


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--subject", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    results = []
    for name in options.names or NAMES:
        try:
            results.append(compare(options, name))
        except (RuntimeError, ValueError, BrokenPipeError) as error:
            print(f"peers: {name}: {error}", file=sys.stderr)
            continue
        line = results[-1]
        print(f"{name}: {line['rounds']} rounds, foreign {line['foreign']:.2f}: " + ", ".join(f"{k} {v['median_ms']:.2f} ms" for k, v in line.items() if isinstance(v, dict)), file=sys.stderr, flush=True)
    if options.output:
        options.output.write_text("".join(json.dumps(r) + "\n" for r in results))
    return 0 if len(results) == len(options.names or NAMES) else 1


if __name__ == "__main__":
    sys.exit(main())
