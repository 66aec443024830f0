"""Tuned programs against untuned ones, and what tuning takes:

    tuning.py --henry PROGRAM [-o RESULTS.jsonl] [--budget 30s] [--rounds N] MODEL.pt2...

Each model is tuned twice, in a cache of its own each time, and then once more in the second one, which must time nothing. Of
kernels whose picks differ between the two, those count whose picks are certainly more than 5 % apart by either tuning. Then
both programs run as bundles, in turns: `henry bench` lets them take turns run by run, and is asked several times, each of
both in front. The figure is the median of the ratios of the rounds, with the smallest and the largest: above 1 the tuned
program is faster.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

HEAD = """\
| model | kernels | timed | tuning s | again: runs, ms | picks that differ | of these > 5 % | untuned ms | tuned ms | gain | from | to |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""


def call(arguments, cache):
    return subprocess.run(arguments, check=True, capture_output=True, text=True, env=os.environ | {"HENRY_CACHE_DIR": cache}).stdout


def picks_of(report):
    """(digest, target, sizes) -> (name of the form, its forms by name)"""
    out = {}
    for kernel in report["kernels"]:
        forms = {(form["form"], form["parameters"]): form for form in kernel["forms"]}
        pick = kernel["forms"][kernel["pick"]]
        out[kernel["digest"], kernel["target"], kernel["sizes"]] = ((pick["form"], pick["parameters"]), forms)
    return out


def is_apart(a, b, share=0.05):
    """Whether two timed forms are certainly more than `share` apart."""
    if not a or not b or not a["samples"] or not b["samples"]:
        return False
    first, second = sorted((a, b), key=lambda form: form["median_ns"])
    return second["low_ns"] > (1 + share) * first["high_ns"]


def compare(first, second):
    """How many picks differ, and how many of these by more than 5 %."""
    differ = far = 0
    for key, (pick, forms) in first.items():
        other, others = second.get(key, (pick, forms))
        differ += pick != other
        far += pick != other and any(is_apart(times.get(pick), times.get(other)) for times in (forms, others))
    return differ, far


def times_of(henry, bundles, cache, more):
    text = call([henry, "bench", *bundles, "--json", *more], cache)
    return [model["timings_ms"]["median"] for model in json.loads(text)["models"]]


def turns(henry, first, second, rounds, cache, more=()):
    """Rounds of (first, second), ms. `more`: further arguments of `henry bench`."""
    out = []
    for number in range(rounds):
        if number % 2:
            out.append(tuple(reversed(times_of(henry, [second, first], cache, more))))
        else:
            out.append(tuple(times_of(henry, [first, second], cache, more)))
    return out


def measure(options, path, folder):
    caches = [str(folder / f"cache{k}") for k in range(2)]
    tune = [options.henry, "tune", str(path), "--json", "--budget", options.budget]
    reports = [json.loads(call(tune, cache)) for cache in caches]
    again = json.loads(call(tune, caches[1]))
    plain, tuned = str(folder / "plain.hnb"), str(folder / "tuned.hnb")
    call([options.henry, "compile", str(path), "--tuning", "none", "-o", plain, "-q"], caches[1])
    call([options.henry, "compile", str(path), "-o", tuned, "-q"], caches[1])
    rounds = turns(options.henry, plain, tuned, options.rounds, caches[1])
    ratios = sorted(untuned / own for untuned, own in rounds)
    differ, far = compare(*(picks_of(report) for report in reports))
    return {
        "model": path.parent.name,
        "kernels": len(reports[0]["kernels"]),
        "timed": reports[0]["timed_kernels"],
        "tuning_s": [report["elapsed_ms"] / 1e3 for report in reports],
        "is_complete": all(report["is_complete"] for report in reports),
        "again_runs": again["timed_calls"],
        "again_ms": again["elapsed_ms"],
        "picks_differ": differ,
        "picks_far": far,
        "untuned_ms": statistics.median(untuned for untuned, _ in rounds),
        "tuned_ms": statistics.median(own for _, own in rounds),
        "gain": statistics.median(ratios),
        "gain_from": ratios[0],
        "gain_to": ratios[-1],
    }


def row(r):
    return (
        f"| {r['model']} | {r['kernels']} | {r['timed']} | {max(r['tuning_s']):.1f}{'' if r['is_complete'] else ' (budget)'} "
        f"| {r['again_runs']}, {r['again_ms']:.1f} | {r['picks_differ']} | {r['picks_far']} | {r['untuned_ms']:.3f} "
        f"| {r['tuned_ms']:.3f} | {r['gain']:.3f} | {r['gain_from']:.3f} | {r['gain_to']:.3f} |"
    )


def parser_of(doc):
    """The options that programs which tune have in common."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--henry", required=True)
    parser.add_argument("-o", "--output")
    parser.add_argument("--budget", default="30s")
    parser.add_argument("--rounds", type=int, default=5)
    return parser


def keep(results, output):
    """Writes a line a result, if there is a file to write."""
    if output:
        pathlib.Path(output).write_text("".join(json.dumps(result) + "\n" for result in results))


def main():
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    print(HEAD)
    results = []
    for path in options.models:
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(options, path, pathlib.Path(folder)))
        print(row(results[-1]), flush=True)
    keep(results, options.output)


if __name__ == "__main__":
    main()
