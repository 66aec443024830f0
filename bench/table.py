"""Turns what the parts of run.sh measured into the table of figures:

    table.py DIRECTORY -o RESULTS.md

DIRECTORY holds the files of FILES, as far as those parts have run. Prints the figures that were asked for, each beside what was measured; RESULTS.md gets these and the tables behind them.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

import picks

FILES = {"kernels": "kernels.jsonl", "ceilings": "ceilings.jsonl", "steps": "steps.json", "variants": "variants.json", "threads": "threads.json", "bundle": "bundle.json",
         "service": "service.json", "cache": "cache.jsonl", "startup": "startup.json", "peers": "peers.jsonl", "norms": "norms.jsonl", "fusion": "fusion.jsonl",
         "roofline": "roofline.json", "tuning": "tuning.jsonl", "tuning_sizes": "tuning_sizes.jsonl", "optimizer": "optimizer.json", "report": "report.json", "debugger": "debugger.json", "picks": "picks.jsonl", "picks_calls": "picks_calls.jsonl"}
PICKS = {"picks": "kernels", "picks_calls": "products, convolutions and attention"}
PEERS = {"onnx": "ONNX Runtime", "compile": "torch.compile", "eager": "PyTorch eager"}
IN_CACHE = ["softmax", "layer_norm", "silu(a*b+c)", "sum of rows", "sum of columns"]
MEMORY_BOUND_BYTES = 32 << 20
PHASE_ROWS = [("import", "import_ms"), ("opt", "opt_ms"), ("lower", "lower_ms"), ("sched", "sched_ms"), ("codegen", "codegen_ms"), ("counters and records", "count_ms"),
              ("to source", "to_source_ms"), ("bundle", "bundle_ms"), ("total", "total_ms")]


def load(directory, name):
    path = directory / name
    if not path.exists():
        return None
    text = path.read_text()
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def markdown(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


# --- the figures that were asked for: rows (what, asked, measured, reached) ---


def kernel_figures(kernels):
    one = [k for k in kernels if k["threads"] == 1]
    for name in IN_CACHE:
        case = next(k for k in one if k["case"] == name and k["rows"] * k["cols"] * 4 <= 1 << 20)
        ratio = case["times_hand"]
        yield f"{name}, {case['rows']} x {case['cols']}, in cache, times the hand-written kernel", "1.10", f"{ratio:.2f}", ratio <= 1.10
    for case in kernels:
        if case["bytes"] >= MEMORY_BOUND_BYTES:
            part = case["of_copy"]
            what = f"{case['case']}, {case['bytes'] >> 20} MiB moved, {case['threads']} threads, part of a copy's bandwidth"
            yield what.replace("1 threads", "1 thread"), "0.85", f"{part:.2f}", part >= 0.85


def ceiling_figures(ceilings):
    """Each generated kernel beside the best loop by hand that does the same, or of sums that reads the same; in one run, in turns."""
    for c in (c for c in ceilings if c["sort"] == "henry"):
        what = f"{c['loop']}, from memory, {c['threads']} thread{'s' if c['threads'] > 1 else ''}, part of the speed of its ceiling"
        yield what, "0.95", f"{c['of_ceiling']:.2f}", c["of_ceiling"] >= 0.95


def variant_figures(variants):
    yield "the form of a kernel, looked up when a shape is bound: 8 ranges over 2 sizes", "100 ns", f"{variants['pick_ns']:.0f} ns", variants["pick_ns"] <= 100
    yield "the same in a call of a bound shape", "nothing", f"{max(variants['per_call_ns'], 0):.1f} ns", variants["per_call_ns"] <= 1


def step_figures(steps):
    yield f"a step of a module of {steps['steps']} tiny kernels, above the kernel", "100 ns", f"{steps['above_ns']:.1f} ns", steps["above_ns"] <= 100


def thread_figures(threads):
    cases = {
        "one": "one thread", "two": "two threads", "moved": "two threads, warmed in one host thread and served from another",
        "callers": "two host threads at once", "busy_one": "one thread beside a busy process", "busy_two": "two threads beside a busy process",
    }
    for case, what in cases.items():
        times = threads[case]
        yield f"digits_cnn, batch 8, {what}: median (p99)", "", f"{times['us']:.0f} ({times['p99']:.0f}) us", True
    ratio = threads["busy_ratio"]
    yield "digits_cnn, batch 8, two threads beside a busy process, times one thread's", "1.20", f"{ratio:.2f}", ratio <= 1.20


def bundle_figures(bundle):
    what = f"warm start of a bundle with {bundle['kernels']} kernels in {bundle['objects']} objects, {bundle['code_bytes'] >> 10} KiB of code: "
    yield what + "open to first launch", "5 ms", f"{bundle['first_launch_ms']:.2f} ms", bundle["first_launch_ms"] <= 5
    yield what + "all loaded", "50 ms", f"{bundle['all_loaded_ms']:.2f} ms", bundle["all_loaded_ms"] <= 50


def service_figures(service):
    above, times, hit = service["trivial_above_us"], service["times"], service["disk_hit_us"]
    yield "submit to result of a trivial job in a warm worker, above the tools' own time", "400 us", f"{above:.0f} us", above <= 400
    many = f"{service['kernels']} kernels through 2 workers ({service['service_ms']:.0f} ms), times as fast as `make -j2` ({service['make_ms']:.0f} ms)"
    yield many, "2", f"{times:.2f}", times >= 2
    yield f"disk hit to callable function, {service['disk_bytes']} bytes of code", "100 us", f"{hit:.0f} us", hit <= 100


def startup_figures(startup):
    limits = [("phases", "mobilenet_v3", 15), ("phases", "stack_10000", 200)]
    for _, name, limit in limits:
        value = startup["phases"][name]["to_source_ms"]["median"]
        nodes = startup["phases"][name]["nodes_imported"]
        yield f"import to kernel source, {name} ({nodes} nodes)", f"{limit} ms", f"{value:.1f} ms", value <= limit
    spread = startup["linear"]["spread"]
    yield "the same for stacks of 1,250 to 10,000 nodes, most over least time a node", "linear", f"{spread:.2f}", spread <= 1.5
    for name, times in startup["phases"].items():
        if "count_ms" in times:
            percent = 100 * times["count_ms"]["median"] / times["total_ms"]["median"]
            yield f"counters and records, part of compiling {name} with kernels from the cache", "1 %", f"{percent:.2f} %", percent <= 1
    for name, cold, warm in (("gpt2_tiny", 500, 20), ("gpt2_124m", 1000, 250)):
        for kind, limit in (("cold", cold), ("warm", warm)):
            value = startup["start_up"][name][kind]["wall_ms"]["median"]
            yield f"`henry run` {name}, {'empty' if kind == 'cold' else 'full'} cache, whole process", f"{limit} ms", f"{value:.0f} ms", value <= limit
    big = startup["start_up"]["gpt2_124m"]["warm"]
    metrics, live = big["metrics"], startup["live_bytes"]["gpt2_124m"]
    weights = metrics["weights_mapped_bytes"] + metrics["weights_copied_bytes"] + metrics["weights_packed_bytes"]
    bound = weights + 1.1 * live
    peak = big["peak_bytes"]["median"]
    yield "peak memory of GPT-2 124M (weights mapped and packed, 1.1 times the live activations)", f"{bound / 1e6:.0f} MB", f"{peak / 1e6:.0f} MB", peak <= bound
    for name in startup["start_up"]:
        kernels = startup["start_up"][name]["cold"]["kernels"]
        compiled, unique = kernels["compiled"], kernels["unique"]
        yield f"kernels compiled = kernels that differ, {name} ({kernels['generated']} generated)", unique, compiled, compiled == unique


def peer_figures(peers):
    for peer in ("onnx", "compile"):
        ratios = [(p["model"], p[peer]["times_henry"]) for p in peers if peer in p]
        for model, ratio in ratios:
            yield f"{model}: {PEERS[peer]}'s time in units of Henry's", "> 1", f"{ratio:.2f}", ratio > 1
        if peer == "onnx" and ratios:
            mean = geometric_mean([r for _, r in ratios])
            yield f"geometric mean of these {len(ratios)} over ONNX Runtime", "1.15", f"{mean:.2f}", mean >= 1.15


def norm_title(n):
    return f"{n['name'].replace('_', ' ')}, {n['shape'][0]} x {n['shape'][1]}, {n['dtype']}, {n['threads']} thread{'s' if n['threads'] > 1 else ''}"


def norm_figures(norms):
    for n in norms:
        ratio = n["compile"]["times_henry"]
        yield f"{norm_title(n)}: torch.compile's time in units of Henry's", "2", f"{ratio:.2f}", ratio >= 2
    most = max(n["henry"]["kernels"] for n in norms)
    yield "kernels of these, one and a small second one", "2", most, most <= 2


def fusion_figures(fusion):
    for what in ("kernels", "bytes"):
        more = [f["model"] for f in fusion if f["henry"][what] > f["inductor"][what]]
        yield f"models, of {len(fusion)}, with more {what} than TorchInductor's", "0", len(more), not more
    mean = geometric_mean([f["henry"]["bytes"] / f["inductor"]["bytes"] for f in fusion])
    yield "bytes of generated kernels in units of TorchInductor's, geometric mean", "0.85", f"{mean:.2f}", mean <= 0.85


def reached_text(asked, reached):
    """Nothing where nothing was asked."""
    return "" if not asked else "yes" if reached else "**no**"


def optimizer_figures(o):
    what = f"AdamW step of GPT-2 124M, {o['parameters']} parameters in one graph"
    yield f"{what} ({o['nodes']} nodes): kernels", 8, o["kernels"], o["kernels"] <= 8
    what += f", {o['threads']} threads ({o['ms']:.0f} ms): part of the speed of "
    yield what + "a loop that reads four streams and writes three", "0.95", f"{o['of_plain']:.2f}", o["of_plain"] >= 0.95
    yield what + "the same loop with the arithmetic of AdamW", "0.95", f"{o['of_hand']:.2f}", o["of_hand"] >= 0.95


def debugger_figures(d):
    what = f"tensor debugger, GPT-2 124M, {d['threads']} threads ({d['plain_ms']:.1f} ms a call): time more "
    for name, most in (("off", 0.01), ("stats", 0.3)):
        more = d[name + "_of_plain"] - 1
        yield what + name, "0 %" if name == "off" else "30 %", f"{100 * more:.1f} %", more <= most


def report_figures(report):
    gpt2, large = report["gpt2"], report["large"]
    yield f"report of GPT-2 124M ({gpt2['page_bytes'] / 1e6:.1f} MB), besides compiling and running", "300 ms", f"{gpt2['made_ms']:.0f} ms", gpt2["made_ms"] <= 300
    what = f"page of a model of {large['kernels']} kernels, {large['texts']} different ({large['page_bytes'] / 1e6:.1f} MB), complete in {large['browser']} (its thread computes {large['busy_ms']:.0f} ms)"
    yield what, "2 s", f"{large['open_ms'] / 1e3:.2f} s", large["open_ms"] <= 2000


def tuning_figures(tuning):
    least = min(tuning, key=lambda t: t["gain"])
    yield f"tuned against untuned, the least of {len(tuning)} models ({least['model']})", "0.99", f"{least['gain']:.3f}", least["gain"] >= 0.99
    for t in tuning:
        if t["model"] == "gpt2_124m":
            seconds = max(t["tuning_s"])
            yield "tuning GPT-2 124M, s", "30", f"{seconds:.1f}", seconds <= 30
    runs = sum(t["again_runs"] for t in tuning)
    yield "timed runs of a second tuning", "0", runs, runs == 0
    far = sum(t["picks_far"] for t in tuning)
    yield "picks of two tunings that are certainly over 5 % apart", "0", far, far == 0


def tuning_sizes_figures(products):
    for is_hint, asked, what in ((True, 1.05, "that were hints"), (False, 1.10, "at which nothing was timed")):
        worst = max((p for p in products if p["is_hint"] == is_hint), key=lambda p: p["ratio"])
        name = f"products of dynamic rows in units of ones made for the number, at numbers {what}, at most ({worst['layer']}, {worst['rows']} rows, exported at {worst['exported']})"
        yield name, f"{asked:.2f}", f"{worst['ratio']:.3f}", worst["ratio"] <= asked


def figures(results):
    for name, function in (("startup", startup_figures), ("kernels", kernel_figures), ("ceilings", ceiling_figures), ("steps", step_figures), ("variants", variant_figures), ("threads", thread_figures), ("bundle", bundle_figures), ("service", service_figures), ("peers", peer_figures), ("norms", norm_figures), ("fusion", fusion_figures), ("tuning", tuning_figures), ("tuning_sizes", tuning_sizes_figures), ("optimizer", optimizer_figures), ("report", report_figures), ("debugger", debugger_figures)):
        if results[name]:
            yield from ((what, asked, got, reached_text(asked, reached)) for what, asked, got, reached in function(results[name]))


# --- the tables behind them ---


def peers_table(peers):
    kinds = [k for k in PEERS if any(k in p for p in peers)]
    rows = []
    for p in peers:
        row = [p["model"], f"{p['henry']['median_ms']:.2f}"]
        for kind in kinds:
            row += [f"{p[kind]['median_ms']:.2f}", f"{p[kind]['times_henry']:.2f}"] if kind in p else ["", ""]
        rows.append(row + [p["rounds"], f"{p['foreign']:.2f}"])
    head = ["model, fp32, milliseconds a run", "Henry"] + [w for k in kinds for w in (PEERS[k], "ratio")] + ["rounds", "foreign load"]
    return markdown(head, rows)


def kernels_table(kernels):
    rows = [[k["case"], f"{k['rows']} x {k['cols']}", k["threads"], f"{k['henry_us'][0]:.1f}", f"{min(k['hand_us'][0], k['hand_streaming_us'][0]):.1f}",
             f"{min(k['copy_us'][0], k['copy_streaming_us'][0]):.1f}", f"{k['times_hand']:.2f}", f"{k['of_copy']:.2f}"] for k in kernels]
    return markdown(["generated kernel, microseconds", "size", "threads", "Henry", "by hand", "copy", "times hand", "of copy"], rows)


def ceilings_table(ceilings):
    """A row a loop: the part of a copy's bandwidth by threads; of each kernel's whole loops the best is marked. Generated kernels also as part of it."""
    threads = sorted({c["threads"] for c in ceilings})
    by_loop, best = {}, {}
    for c in ceilings:
        by_loop.setdefault((c["kernel"], c["loop"]), {})[c["threads"]] = c
        if c["sort"] == "whole":
            key = c["kernel"], c["threads"]
            best[key] = max(best.get(key, 0), c["of_copy"])
    rows = []
    for (kernel, loop), found in by_loop.items():
        cells = []
        for t in threads:
            c = found.get(t)
            mark = "**" if c and c["sort"] == "whole" and c["of_copy"] == best[kernel, t] else ""
            own = f" ({c['of_ceiling']:.2f} of the ceiling)" if c and c["sort"] == "henry" else ""
            cells.append(f"{mark}{c['of_copy']:.2f}{mark}{own}" if c else "")
        sort = next(iter(found.values()))["sort"]
        rows.append([kernel, f"**generated: {loop}**" if sort == "henry" else loop + (" (part)" if sort == "part" else "")] + cells)
    return markdown(["kernel", "loop"] + [f"{t} thread{'s' if t > 1 else ''}" for t in threads], rows)


def phases_table(phases):
    names = list(phases)
    rows = [[label] + [f"{phases[n][key]['median']:.{2 if key == 'count_ms' else 1}f}" for n in names] for label, key in PHASE_ROWS if key in phases[names[0]]]
    rows.append(["kernels / unique"] + [f"{phases[n]['kernels']} / {phases[n]['unique']}" for n in names])
    return markdown(["milliseconds"] + [f"{n} ({phases[n]['nodes_imported']} nodes)" for n in names], rows)


def startup_table(start_up):
    rows = []
    for name, kinds in start_up.items():
        for kind, r in kinds.items():
            wall, cpu, peak = r["wall_ms"], r["cpu_ms"], r["peak_bytes"]
            rows.append([f"{name}, {kind}", f"{wall['median']:.1f}", f"{wall['min']:.1f}", f"{cpu['median']:.1f}", f"{peak['median'] / 1e6:.0f}", wall["runs"]])
    return markdown(["`henry run`, whole process", "median ms", "least ms", "processor ms", "peak MB", "runs"], rows)


def cache_table(cache):
    rows = [[f"{pathlib.Path(c['model']).parent.name}, {c['bytes'] / 1e6:.1f} MB", f"{c['cold_us'] / 1e3:.1f}", f"{c['hit_us'] / 1e3:.2f}", f"{c['copy_hit_us'] / 1e3:.2f}"]
            for c in cache if "model" in c]
    text = markdown(["`hn_compile_file`, milliseconds", "cold, once", "hit", "hit of a new copy of the file"], rows)
    for v in (c for c in cache if "variants" in c):
        text += (f"\nThe last of {v['variants']} programs of a graph, by its sizes: {v['memory_us']:.0f} us in memory, "
                 f"{v['disk_us']:.0f} us with the read of the table ({v['table_bytes'] // 1000} KB).\n")
    return text


def norms_table(norms):
    rows = [[norm_title(n), f"{n['henry']['median_ms']:.2f}", f"{n['henry']['min_ms']:.2f}", f"{n['bytes'] / n['henry']['median_ms'] / 1e6:.1f}", f"{n['compile']['median_ms']:.2f}",
             f"{n['compile']['min_ms']:.2f}", f"{n['compile']['times_henry']:.2f}", n["henry"]["kernels"], n["rounds"], f"{n['foreign']:.2f}"] for n in norms]
    return markdown(["milliseconds a run", "Henry", "least", "GB/s", "torch.compile", "least", "ratio", "kernels", "rounds", "foreign load"], rows)


def fusion_table(fusion):
    head = ["model", "kernels", "Inductor", "its loop nests", "calls", "Inductor", "bytes", "Inductor", "its loop nests", "ratio"]
    rows = []
    for f in fusion:
        ours, theirs = f["henry"], f["inductor"]
        row = [f["model"], ours["kernels"], theirs["kernels"], theirs["nests"], ours["calls"], theirs["calls"]]
        row += [f"{n:,}" for n in (ours["bytes"], theirs["bytes"], theirs["bytes_of_nests"])]
        rows.append(row + [f"{ours['bytes'] / theirs['bytes']:.3f}"])
    return markdown(head, rows)


def roofline_tables(roofline):
    """Models beside the limits of this machine, and of each the steps that lose most."""
    models = [(pathlib.Path(m["model"]).parent.name, m["roofline"]) for m in roofline["models"]]
    ceilings = models[0][1]["ceilings"][0]
    rows = [[level["name"], "" if level["bytes"] is None else level["bytes"] >> 10, f"{level['read_gb_s']:.1f}", f"{level['copy_gb_s']:.1f}", f"{level['fill_gb_s']:.1f}"]
            for level in ceilings["levels"]]
    text = markdown(["level, GB/s", "KiB", "read", "copy", "fill"], rows)
    text += "\n" + ", ".join(f"{name} {rate:.0f}" for name, rate in ceilings["giga_operations_per_s"].items() if rate) + " (10^9 a second).\n"
    if ceilings["own_share"] < 0.8:
        text += f"Other programs had {100 * (1 - ceilings['own_share']):.0f} % of the processors meanwhile: these are too low.\n"
    rows = []
    for name, r in models:
        most = sorted((s for s in r["steps"] if s["is_known"]), key=lambda s: -s["lost_us"])[:3]
        worst = ", ".join(f"{s['name'] if s['category'] == 'call' else s['category']} ({s['node']}) {s['lost_us'] / 1e3:.2f}" for s in most)
        rows.append([name, f"{r['us'] / 1e3:.2f}", f"{r['limit_us'] / 1e3:.2f}", f"{r['limit_us'] / r['us']:.2f}", f"{r['one_step_us'] / 1e3:.2f}", worst])
    return text + "\n" + markdown(["model, milliseconds, steps at their fastest", "steps", "limits", "of limit", "as one step", "most is lost in"], rows)


def judged(cells):
    return [row for row in map(picks.judge, cells) if row]


def picks_tables(cells_of):
    """What is picked without a measurement beside the best of all forms; and the cells whose pick is more than the first share behind."""
    head = ["times as long as the best form, cells", "cells"] + [f"within {round(100 * (limit - 1))} %" for limit in picks.SHARES] + ["at worst"]
    sums, behind = [], []
    for what, rows in ((PICKS[name], judged(cells)) for name, cells in cells_of.items()):
        if not rows:
            continue
        for title, field in (("first guess of the model", "guess"), ("without a measurement", "own")):
            within, worst = picks.shares(rows, field)
            sums.append([f"{what}: {title}", len(rows), *(f"{share:.1f} %" for share in within), f"{worst:.2f}"])
        for row in rows:
            if picks.ratio(row, "guess") > picks.SHARES[0]:
                behind.append([f"{row['cell'][0]}, {row['cell'][1]}", row["best"]["form"], row["guess"]["form"], f"{picks.ratio(row, 'guess'):.2f}"])
    text = markdown(head, sums)
    return text + ("\n" + markdown(["first guesses that are behind", "best form", "first guess", "times as long"], behind) if behind else "")


def tuning_sizes_table(products):
    rows = [[p["layer"], p["exported"], p["rows"], f"{p['dynamic_ms']:.3f}", f"{p['own_ms']:.3f}", f"{p['ratio']:.3f}", f"{p['ratio_from']:.3f}", f"{p['ratio_to']:.3f}"] for p in products]
    return markdown(["linear layer, milliseconds", "exported at", "rows", "dynamic", "own", "ratio", "from", "to"], rows)


# --- the page ---


def parts():
    """The parts of run.sh, as it tells them."""
    text = (pathlib.Path(__file__).parent / "run.sh").read_text()
    return re.search(r"\[PART\]\.\.\. +([a-z_ ]+);", text)[1].split()



def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", info, re.M)
    flags = re.search(r"^flags\s*: (.*)$", info, re.M)
    features = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flags and f in flags[1].split()]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]
    return f"{model[1] if model else platform.machine()} ({', '.join(features)}), {os.cpu_count()} processors, {memory:.0f} GiB, {platform.release()}, {compiler}"


def page(results, versions):
    yield "# Results\n"
    alone = ", ".join(f"`{'' if k else 'bench/run.sh '}{part}`" for k, part in enumerate(parts()))
    yield f"Made by `make bench` on {time.strftime('%Y-%m-%d', time.gmtime())}; each part alone: {alone}. Medians; ratios are taken"
    yield "in one run, contestants in turns (bench/README.md says how each is measured).\n"
    yield f"Machine: {machine()}."
    yield f"Peers: {versions}.\n" if versions else ""
    yield "## Figures asked for\n"
    yield markdown(["what", "asked", "measured", "reached"], figures(results))
    if results["peers"]:
        yield f"## Models, {results['peers'][0]['threads']} threads\n\n" + peers_table(results["peers"])
    if results["norms"]:
        yield "## Backward passes of norms\n\n" + norms_table(results["norms"])
    if results["fusion"]:
        yield "## Kernels and bytes of the same graphs\n\n" + fusion_table(results["fusion"])
    if results["roofline"]:
        yield "## Models beside the limits of this machine (`henry bench --roofline`, 2 threads)\n\n" + roofline_tables(results["roofline"])
    if results["startup"]:
        yield "## Start-up\n\n" + startup_table(results["startup"]["start_up"])
        yield "## Phases of a compilation, one thread\n\n" + phases_table(results["startup"]["phases"])
    if results["cache"]:
        yield "## Hits of the graph cache\n\n" + cache_table(results["cache"])
    if results["kernels"]:
        yield "## Generated kernels\n\n" + kernels_table(results["kernels"])
    if results["tuning_sizes"]:
        yield "## Products of dynamic rows beside ones made for each number of rows, both tuned\n\n" + tuning_sizes_table(results["tuning_sizes"])
    timed = {name: results[name] for name in PICKS if results[name]}
    if timed:
        yield "## Forms that are picked without a measurement\n\n" + picks_tables(timed)
    if results["ceilings"]:
        yield "## Ceilings: loops by hand, part of a copy's bandwidth\n\n" + ceilings_table(results["ceilings"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    results = {name: load(options.directory, file) for name, file in FILES.items()}
    versions = options.directory / "versions.txt"
    options.output.write_text("\n".join(page(results, versions.read_text().strip() if versions.exists() else "")))
    for what, asked, got, reached in figures(results):
        print(f"{what:96} {asked!s:>8} {got!s:>10}  {reached.strip('*')}")


if __name__ == "__main__":
    sys.exit(main())
