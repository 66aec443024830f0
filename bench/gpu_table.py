"""The tables of a GPU's figures, from what gpu_kernels.py, gpu_models.py and gpu_host.py have written:

    gpu_table.py DIRECTORY... -o RESULTS.md [--counts]

What later lines, and later folders, say of a row replaces what earlier ones said. Prints the figures that were asked for, each beside what was measured, those that
were reached first; --counts: only how many. Those that were not measured are in RESULTS.md. RESULTS.md, kept as bench/RESULTS-H200.md, gets these and the tables behind them;
what is there from the heading "Which commit" on is written by hand, and stays. bench/h200/ has results that newer runs did not measure again: name it first.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

import picks
from table import markdown, reached_text

STEADY_MS = {"gpt2_4x256": 3.80, "llama_8x1024_2x512": 2.07, "resnet50_8": 1.94, "vit_b_16_8": 2.29, "bert_base_8x128": 2.98}
LEAST_BYTES = 64 << 20
GRAPHS_PART = 0.95  # of max-autotune with CUDA graphs
LINK_PART, WARM_MS, COLD_S, MEMORY_TIMES = 0.8, 80, 1.5, 1.1
NO_BANDWIDTH = ("sort", "top_50", "embedding", "scatter")  # compared with Inductor alone,
NOT_ASKED = (*NO_BANDWIDTH, "sweep_")  # which no figure asks for
CONTESTANTS = ("henry", "inductor", "eager", "default", "max-autotune", "profile")
PARTS = {"kernels": ["kernels", "inductor"], "models": ["models"], "host": ["host"], "tuning": ["tuning"], "picks": ["picks"], "profile": ["profile"]}  # and their files
NONE, FAILED = "not measured", "failed"
BY_HAND = "## Which commit"  # from this heading on, a page is written by hand

HOST_US = {"one kernel": 1, "chain of 20": 3}  # above the same launches by the driver alone


TUNE_S, PRODUCT_GAIN, SAME_GAIN = 15, 1.05, 0.995  # a gain of 1 within what is printed
PICKS_PART, PICKS_LIMIT = 0.95, 1.05

NAMES = ("title", "model", "host", "tuning")


def name_of(entry):
    return next((entry[key] for key in NAMES if key in entry), None) or " ".join(map(str, picks.key(entry)))


def merged(old, new):
    """What the new line says of a contestant replaces all that the old one said of it."""
    renewed = tuple(who for who in CONTESTANTS if any(key.startswith(who) for key in new))
    return {key: value for key, value in old.items() if not key.startswith(renewed)} | new


def load(directories, parts):
    """Heads in order, and what is known of each row; with the commit of its head, if that is known."""
    heads, lines = [], {}
    for path in (directory / f"gpu_{part}.jsonl" for directory in directories for part in parts):
        for entry in map(json.loads, path.read_text().splitlines() if path.exists() else []):
            if "what" in entry:
                heads.append(entry)
            else:
                entry["commit"] = heads[-1].get("commit") if heads else None
                lines[name_of(entry)] = merged(lines.get(name_of(entry), {}), entry)
    return heads, list(lines.values())


def names_with(directories, key):
    """The rows and models that have such a figure already."""
    return {name_of(line) for line in load(directories, [*PARTS["kernels"], *PARTS["models"]])[1] if key in line}


def part(line, who, of="big"):
    us, gbs = line.get(who + "_us"), line.get(who + "_copy_gbs", line.get("big_copy_gbs"))
    if of == "copy":
        return line["copy_us"] / us if us and "copy_us" in line else None
    return line["bytes"] / us / 1e3 / gbs if us and gbs else None


def number(value, form=".2f"):
    return "" if value is None else format(value, form)


# --- the figures that were asked for: (what, asked, measured, reached) ---


def asked_of(line):
    """The part of the copy's bandwidth that a row is to reach."""
    columns = line["shape"][-1]
    if line["row"] in ("rms_norm_backward", "layer_norm_backward"):
        return 0.85 if columns <= 4096 else 0.75
    return 0.85 if line["row"] == "cross_entropy" else 0.92


def missing(line, *contestants):
    """Why there is no figure of a row or model: one of these has failed at it, or it was not run."""
    return FAILED if any(who + "_failed" in line for who in contestants) else NONE


def inductor_figure(line, got):
    inductor = part(line, "inductor")
    is_asked, is_known = not line["row"].startswith(NOT_ASKED), bool(inductor and got)
    reached = is_known and line.get("right", True) and (got >= inductor or not is_asked)
    text = number(got / inductor) if is_known else missing(line, "henry", "inductor")
    return f"{line['title']}, times Inductor", "1" if is_asked else "", text, reached


def kernel_figures(heads, lines):
    known = {line["title"] for line in lines}
    for line in lines:
        if line["bytes"] < LEAST_BYTES and "henry_failed" not in line:
            continue
        sweep = line["row"].startswith("sweep_")
        asked, got = (0.80, part(line, "henry", "copy")) if sweep else (asked_of(line), part(line, "henry"))
        right = line.get("right", True)
        if not line["row"].startswith(NO_BANDWIDTH):
            what = f"{line['title']}, part of {'a copy of as many bytes' if sweep else 'the copy bandwidth'}"
            text = number(got) if right and got else "wrong" if got else missing(line, "henry")
            yield what, f"{asked:.2f}", text, bool(got and right and got >= asked)
        yield inductor_figure(line, part(line, "henry"))
    for title in dict.fromkeys(title for head in heads for title in head.get("rows", []) if title not in known):
        yield title, "", NONE, False


def steady_figures(line):
    """Each of torch.compile's modes beside Henry: plain calls, and CUDA graphs."""
    henry = line.get("henry", {}) if line.get("right", True) else {}
    plain, graph = henry.get("device_us"), henry.get("graph_us") if henry.get("graph_runs") else None
    for mode, us, factor, what in (("default", plain, 1, "steady"), ("max-autotune", graph, GRAPHS_PART, "steady, CUDA graphs")):
        limit = line[mode]["us"] / 1e3 / factor if mode in line else None
        beside = f"torch.compile {mode} {line[mode]['us'] / 1e3:.2f}" if mode in line else f"torch.compile {mode} {NONE}"
        if mode == "default" and not limit and line["model"] in STEADY_MS:
            limit, beside = STEADY_MS[line["model"]], "torch.compile when last measured"
        ms = us / 1e3 if us else None
        yield f"{line['model']}, ms, {what}; {beside}", number(limit), number(ms) or missing(line, "henry"), bool(ms and limit and ms <= limit)


LIBRARIES = ("libraries_load", "libraries_start", "operations_first")


def of_libraries(ms):
    """Milliseconds of a start that are the libraries' own: loading them, the first question to each, and the first call of each of their kernels."""
    return sum(ms.get(k, 0) for k in LIBRARIES)


def start_figures(line, link_gbs):
    """A process of GPT-2's with an empty cache and with a full one; the driver and its context, and of the second libraries, apart."""
    henry = line["henry"]
    cold = henry["cold_s"] - henry["cold_phases_ms"].get("device_open", 0) / 1e3
    yield f"{line['model']}, s, empty cache, whole process without the context", f"{COLD_S}", number(cold), cold <= COLD_S
    ms, counts = henry["warm_phases_ms"], henry["warm_metrics"]
    rest = ms["total"] - ms["device_open"] - of_libraries(ms)
    if link_gbs:
        limit = WARM_MS + counts["weights_uploaded_bytes"] / (LINK_PART * link_gbs * 1e6)
        yield f"{line['model']}, ms, full cache, without context and libraries; {WARM_MS} and the upload", number(limit, ".0f"), number(rest, ".0f"), rest <= limit


def upload_and_memory_figures(line, link_gbs):
    ms, counts = line["henry"]["warm_phases_ms"], line["henry"]["warm_metrics"]
    if ms["weights_upload"] and link_gbs:
        gbs = counts["weights_uploaded_bytes"] / ms["weights_upload"] / 1e6
        what = f"GB/s, upload of weights; the link has {link_gbs:.1f}; asked is the time of a start with a full cache, which counts the upload at {LINK_PART * link_gbs:.1f}"
        yield f"{line['model']}, {what}", "", number(gbs, ".1f"), True
    if counts["plan_least_bytes"]:
        times = beyond_weights(counts) / counts["plan_least_bytes"]
        yield f"{line['model']}, peak memory of the device beyond weights, times the plan's least", f"{MEMORY_TIMES}", number(times), times <= MEMORY_TIMES


def model_figures(heads, lines):
    link_gbs = next((head["link_gbs"] for head in reversed(heads) if head.get("link_gbs")), None)
    for line in lines:
        yield from steady_figures(line)
        if line["model"] in ("gpt2_4x256", "tiny") and "henry" in line:
            yield from start_figures(line, link_gbs)
        if "warm_metrics" in line.get("henry", {}):
            yield from upload_and_memory_figures(line, link_gbs)
    known = {line["model"] for line in lines}
    for model in dict.fromkeys(name for head in heads for name in head.get("models", []) if name not in known):
        yield f"{model}, steady, start and memory", "", NONE, False


def host_figures(lines):
    for line in lines:
        if "turns" not in line:
            continue
        turns, asked = line["turns"], HOST_US[line["host"]]
        name = line["host"] + (f", on {line['commit']}" if line["commit"] else "")
        beside = f"; torch.compile {line['inductor_waited_us']:.1f} in all" if "inductor_waited_us" in line else ""
        behind = f"above its {turns['launches']} launches and a wait by the driver alone{beside}"
        yield f"{name}: ns of the host for a launch, above the driver's", "100", number(turns["launch_above_ns"], ".0f"), turns["launch_above_ns"] <= 100
        yield f"{name}: us of a call with tensors on the device, {behind}", str(asked), number(turns["call_above_us"]), turns["call_above_us"] <= asked
        if "call_us" in line:
            yield f"{name}: us of a call with copies, {behind}", "", number(line["call_us"] - turns["bare_call_us"]), True


def tuning_figures(lines):
    products = [line for line in lines if "ways" in line]
    if products:
        least, mean = min(line["gain"] for line in products), math.exp(statistics.mean(math.log(line["gain"]) for line in products))
        yield f"{len(products)} products, tuned, times the first of the heuristic: the least", "1", number(least), least >= SAME_GAIN
        yield f"{len(products)} products, tuned, times the first of the heuristic: geometric mean", f"{PRODUCT_GAIN}", number(mean), mean >= PRODUCT_GAIN
    for line in (line for line in lines if "seconds" in line):
        yield f"{line['tuning']}, s, tuning", f"{TUNE_S}", number(line["seconds"], ".1f"), line["seconds"] <= TUNE_S
        yield f"{line['tuning']}, timed calls of a second tuning", "0", str(line["again_calls"]), line["again_calls"] == 0


def judged(lines):
    return [row for row in map(picks.judge, lines) if row]


def picks_figures(lines):
    rows = judged(lines)
    for field, what, asked in (("tuned", "the best of what a tuning times", PICKS_PART), ("own", "the form without a measurement", None)):
        of_field = [row for row in rows if row[field]]
        if of_field:
            reached = sum(picks.ratio(row, field) <= PICKS_LIMIT for row in of_field) / len(of_field)
            yield f"{what}, of {len(of_field)} kernels: within 5 % of the best of all forms", number(asked), number(reached), asked is None or reached >= asked


# --- the tables behind them ---


def kernels_table(lines):
    rows = []
    for line in lines:
        error = f"{line['error']:.1e} / {line['eager_error']:.1e}" + ("" if line["right"] else " **wrong**") if "error" in line else ""
        rows.append([line["title"], line["bytes"] >> 20, number(line.get("henry_us"), ".1f") or missing(line, "henry"), number(part(line, "henry")), line.get("henry_kernels", ""),
                     number(line.get("inductor_us"), ".1f"), number(part(line, "inductor")), line.get("inductor_kernels", ""), number(part(line, "copy")), error])
    return markdown(["kernel", "MiB", "Henry us", "of copy", "kernels", "Inductor us", "of copy", "kernels", "copy of as much", "error / eager's"], rows)


def models_table(lines):
    def ms(entry, key="us"):
        return number(entry[key] / 1e3, ".3f") if entry.get(key) else ""

    rows = []
    for line in lines:
        h, modes = line.get("henry", {}), [line.get(mode, {}) for mode in ("default", "max-autotune")]
        error = f"{line['error']:.1e} / {line['eager_error']:.1e}" + ("" if line["right"] else " **wrong**") if "error" in line else ""
        graphs = ms(h, "graph_us") if h.get("graph_runs") else "none" if "graph_us" in h else ""
        rows.append([line["model"], ms(h, "device_us") or missing(line, "henry"), graphs, ms(h, "graph_moved_us"), ms(h, "call_there_us"), ms(h, "graph_call_there_us"), ms(h, "call_us"), f"{h['kernels']} + {h['extern']}" if h else "",
                     number(h.get("cold_s")), number(h.get("warm_s")), ms(line, "eager_us"), *map(ms, modes), *(number(m.get("first_call_s"), ".1f") for m in modes), error])
    return markdown(["model, bf16", "Henry ms", "CUDA graphs", "with other addresses each time", "a call, tensors on the device", "the same, graphs", "call with copies", "kernels + calls", "cold s", "warm s", "eager ms",
                     "torch.compile ms", "max-autotune ms", "its first call s", "max-autotune's", "error / eager's"], rows)


def cold_table(lines):
    """The phases of processes with an empty cache."""
    found = [(line["model"], line["henry"]["cold_phases_ms"]) for line in lines if "cold_phases_ms" in line.get("henry", {})]
    keys = list(dict.fromkeys(key for _, phases in found for key, value in phases.items() if isinstance(value, (int, float))))
    return markdown(["model, empty cache, ms", *keys], [[model, *(number(phases.get(key), ".0f") for key in keys)] for model, phases in found])


def beyond_weights(counts):
    return counts["device_peak_bytes"] - counts["device_weights_bytes"] - counts["device_states_bytes"]


def profile_table(lines, most=15):
    """The kernels and calls that take most of a model's time."""
    rows = []
    for line in (line for line in lines if "profile" in line):
        steps = line["profile"]["steps"]
        whole = sum(step["us"] for step in steps)
        rows.append([f"**{line['model']}**", f"{len(steps)} different", sum(step["calls"] for step in steps), number(whole, ".1f"), "1.00", "", ""])
        for step in steps[:most]:
            gbs = step["bytes"] / step["us"] / 1e3 if step["us"] else 0
            rows.append([step["name"], step["origin"], step["calls"], number(step["us"], ".1f"), number(step["us"] / whole if whole else 0),
                         number(step["bytes"] / 2**20, ".1f"), number(gbs / line["big_copy_gbs"])])
    return markdown(["step", "of", "calls", "us of a run", "part", "MiB", "of copy"], rows)


def start_table(lines):
    """Warm processes, taken apart; and the memory of the device, beside the least that the plan needs."""
    rows = []
    for line in lines:
        h = line.get("henry", {})
        if "warm_metrics" not in h:
            continue
        ms, counts = h["warm_phases_ms"], h["warm_metrics"]
        upload_ms, moved = ms["weights_upload"], counts["weights_uploaded_bytes"]
        beyond = beyond_weights(counts)
        rest = ms["total"] - ms["device_open"] - of_libraries(ms)
        rows.append([line["model"], number(ms["total"], ".0f"), number(ms["device_open"], ".0f"), *(number(ms.get(k), ".0f") for k in LIBRARIES), number(rest, ".0f"),
                     number(ms["kernels_load"], ".0f"), number(upload_ms, ".1f"), number(moved / upload_ms / 1e6 if upload_ms else None, ".1f"),
                     number(beyond / 2**20, ".1f"), number(counts["plan_least_bytes"] / 2**20, ".1f"), number(beyond / counts["plan_least_bytes"] if counts["plan_least_bytes"] else None)])
    return markdown(["model, full cache", "ms to the output", "context", "libraries loaded", "first asked", "their kernels", "rest", "own kernels", "upload ms", "GB/s", "MiB beyond weights", "plan's least", "times"], rows)


def host_table(lines):
    turns = ["launch_ns", "bare_launch_ns", "launch_above_ns", "call_us", "bare_call_us", "call_above_us", "apart_above_us"]
    rows = []
    for line in lines:
        t = line.get("turns", {})
        rows.append([line["host"], line.get("kernels", ""), *(number(t.get(k), ".0f" if k.endswith("_ns") else ".2f") for k in turns),
                     *(number(line.get(k), ".2f") for k in ("call_us", "inductor_us", "inductor_waited_us"))])
    return markdown(["host time", "kernels", "a launch, ns", "by the driver alone", "above", "a call, tensors on the device, us", "by the driver alone", "above", "in a thread without a context",
                     "a call with copies", "torch.compile", "with waiting"], rows)


def tuning_text(line):
    """A line for whoever watches."""
    if "gain" in line:
        return f"{line['tuning']} {line['function']}: {line['own_us']:.1f} us, tuned {line['pick_us']:.1f} ({line['gain']:.3f}), {line['pick']}" + (f" of {line['ways']}" if "ways" in line else "")
    return f"{line['tuning']}: {line['seconds']:.1f} s, {line['kernels']} kernels and calls{'' if line['is_complete'] else ', not all'}; again {line['again_s']:.1f} s, {line['again_calls']} timed calls"


def tuning_table(lines):
    rows = [[line["tuning"].replace("x", ", "), line["function"], number(line["own_us"], ".1f"), number(line["pick_us"], ".1f"), number(line["gain"]), line["pick"], line.get("ways", "")] for line in lines if "gain" in line]
    return markdown(["product (m, n, k)", "and", "first of the heuristic, us", "tuned, us", "times as fast", "picked", "of ways"], rows)


def picks_table(lines):
    """Cells in which the form without a measurement is behind."""
    rows = [[*row["cell"][:2], row["best"]["form"], row["own"]["form"], number(picks.ratio(row, "own")), number(picks.ratio(row, "tuned") if row["tuned"] else None)] for row in judged(lines) if picks.ratio(row, "own") > PICKS_LIMIT]
    return markdown(["kernel", "sizes", "best form", "without a measurement", "times as long", "the best of a tuning's"], rows)


def failures(lines):
    for line in lines:
        for key, text in line.items():
            if key.endswith("_failed"):
                yield f"- {name_of(line)}, {key[:-7]}: {text}"


def figures(parts):
    return [*kernel_figures(*parts["kernels"]), *model_figures(*parts["models"]), *host_figures(parts["host"][1]), *tuning_figures(parts["tuning"][1]), *picks_figures(parts["picks"][1])]


def page(parts):
    kernels, models, host, tuning, cells, profiles = (parts[name][1] for name in ("kernels", "models", "host", "tuning", "picks", "profile"))
    yield "# Results on a GPU\n"
    yield "Made by `make bench-gpu` (bench/README.md says how each is measured). Runs:\n"
    for h in (head for heads, _ in parts.values() for head in heads):
        copy = f"; a large copy moves {h['big_copy_gbs']:.0f} GB/s" if "big_copy_gbs" in h else ""
        link = f"; the link moves {h['link_gbs']:.1f} GB/s to the device" if h.get("link_gbs") else ""
        commit = f"commit {h['commit']}, " if h.get("commit") else ""
        yield f"- {h['date']}, {commit}{h['machine'] or h['device']}, torch {h['torch']}{copy}{link}: `bench/gpu.sh {(h['what'] + ' ' + h['command']).strip()}`"
    yield "\n## Figures asked for\n"
    yield markdown(["what", "asked", "measured", "reached"], [(w, a, g, "" if g == NONE else reached_text(a, r)) for w, a, g, r in figures(parts)])
    if kernels:
        yield "## Kernels: parts of the bandwidth of a large copy, by the least bytes that must move\n\n" + kernels_table(kernels)
    if models:
        yield "## Models\n\n" + models_table(models)
        yield "## Start and memory\n\n" + start_table(models)
        yield cold_table(models)
    if profiles:
        yield "## Where the time of a run goes\n\n" + profile_table(profiles)
    if host:
        yield "## Host time\n\n" + host_table(host)
    if tuning:
        yield "## Tuned products, bf16\n\n" + tuning_table(tuning)
    if cells:
        yield "## Softmax and norms, bf16: where the form without a measurement is more than 5 % behind the best\n\n" + picks_table(cells)
    failed = [text for _, lines in parts.values() for text in failures(lines)]
    if failed:
        yield "## Failed\n\n" + "\n".join(failed) + "\n"


def by_hand(path):
    """What somebody has written below the tables of an earlier page."""
    text = path.read_text() if path.exists() else ""
    begin = text.find("\n" + BY_HAND)
    return text[begin:] if begin >= 0 else ""


def print_figures(found, only_counts):
    reached = [f for f in found if f[3]]
    without = [f for f in found if f[2] == NONE]
    if not only_counts:
        for what, asked, got, is_reached in sorted((f for f in found if f[2] != NONE), key=lambda f: not f[3]):
            print(f"{what:96} {asked:>8} {got:>8}  {'' if not asked else 'yes' if is_reached else 'no'}")
    print(f"{len(found)} figures: {len(reached)} reached, {len(found) - len(reached) - len(without)} not, {len(without)} not measured")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directories", type=pathlib.Path, nargs="+")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--counts", action="store_true")
    options = parser.parse_args()
    parts = {name: load(options.directories, files) for name, files in PARTS.items()}
    options.output.write_text("\n".join(page(parts)) + by_hand(options.output))
    print_figures(figures(parts), options.counts)


if __name__ == "__main__":
    sys.exit(main())
