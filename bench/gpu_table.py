"""The tables of a GPU's figures, from what gpu_kernels.py and gpu_models.py have written:

    gpu_table.py DIRECTORY... -o RESULTS.md

Of several folders, later ones replace rows of earlier ones. Prints the figures that were asked for, each beside what was measured; RESULTS.md, kept
as bench/RESULTS-H200.md, gets these and the tables behind them.
"""

import argparse
import json
import pathlib
import sys

from table import markdown, reached_text

STEADY_MS = {"gpt2_4x256": 3.80, "llama_8x1024_2x512": 2.07, "resnet50_8": 1.94, "vit_b_16_8": 2.29, "bert_base_8x128": 2.98}
LEAST_BYTES = 64 << 20
GRAPHS_PART = 0.95  # of max-autotune with CUDA graphs


HOST_US = {"one kernel": 1, "chain of 20": 3}  # above as many bare launches


def name_of(entry):
    return entry.get("title") or entry.get("model") or entry["host"]


def load(directories, name):
    """Heads in order, and the newest line of each row."""
    heads, lines = [], {}
    for directory in directories:
        path = directory / name
        for entry in map(json.loads, path.read_text().splitlines() if path.exists() else []):
            if "what" in entry:
                heads.append(entry)
            else:
                lines[name_of(entry)] = entry
    return heads, list(lines.values())


def part(line, who, of="big"):
    us = line.get(who + "_us")
    if not us:
        return None
    return line["copy_us"] / us if of == "copy" else line["bytes"] / us / 1e3 / line["big_copy_gbs"]


def number(value, form=".2f"):
    return "" if value is None else format(value, form)


# --- the figures that were asked for: (what, asked, measured, reached) ---


def asked_of(line):
    """The part of the copy's bandwidth that a row is to reach."""
    columns = line["shape"][-1]
    if line["row"] in ("rms_norm_backward", "layer_norm_backward"):
        return 0.85 if columns <= 4096 else 0.75
    return 0.85 if line["row"] == "cross_entropy" else 0.92


def kernel_figures(lines):
    for line in lines:
        if line["bytes"] < LEAST_BYTES:
            continue
        sweep = line["row"].startswith("sweep_")
        asked, got = (0.80, part(line, "henry", "copy")) if sweep else (asked_of(line), part(line, "henry"))
        what = f"{line['title']}, part of {'a copy of as many bytes' if sweep else 'the copy bandwidth'}"
        right = line.get("right", True)
        yield what, f"{asked:.2f}", number(got) if right and got else "wrong" if got else "failed", bool(got and right and got >= asked)
        inductor = part(line, "inductor")
        if inductor:
            yield f"{line['title']}, times Inductor", "1", number(got / inductor if got else None), bool(got and right and got >= inductor)


def model_figures(lines):
    for line in lines:
        ms = line["henry"]["device_us"] / 1e3 if "henry" in line and line.get("right", True) else None
        for mode, factor in (("default", 1), ("max-autotune", GRAPHS_PART)):
            if mode in line:
                limit = line[mode]["us"] / 1e3 / factor
                yield f"{line['model']}, ms, steady; torch.compile {mode} {line[mode]['us'] / 1e3:.2f}", f"{limit:.2f}", number(ms), bool(ms and ms <= limit)
        if "default" not in line and line["model"] in STEADY_MS:
            limit = STEADY_MS[line["model"]]
            yield f"{line['model']}, ms, steady; torch.compile when last measured", f"{limit:.2f}", number(ms), bool(ms and ms <= limit)
        if "henry" in line and line["model"] == "gpt2_4x256":
            cold = line["henry"]["cold_s"]
            yield f"{line['model']}, s, empty cache, whole process (context creation included)", "1.5", number(cold), cold <= 1.5


def host_figures(lines):
    for line in lines:
        if "bare_launch_us" not in line:
            continue
        above = 1e3 * (line["submit_us"] / line["kernels"] - line["bare_launch_us"])
        yield f"{line['host']}: ns of the host for a launch, above the driver's", "100", number(above, ".0f"), above <= 100
        for key, what in (("call_there_us", "tensors on the device"), ("call_us", "copies")):
            if key not in line:
                continue
            above = line[key] - line["bare_run_us"]
            yield f"{line['host']}: us of a call with {what}, above {line['kernels']} bare launches and a wait", str(HOST_US[line["host"]]), number(above), above <= HOST_US[line["host"]]


# --- the tables behind them ---


def kernels_table(lines):
    rows = []
    for line in lines:
        error = f"{line['error']:.1e} / {line['eager_error']:.1e}" + ("" if line["right"] else " **wrong**") if "error" in line else ""
        rows.append([line["title"], line["bytes"] >> 20, number(line.get("henry_us"), ".1f") or "failed", number(part(line, "henry")), line.get("henry_kernels", ""),
                     number(line.get("inductor_us"), ".1f"), number(part(line, "inductor")), line.get("inductor_kernels", ""), number(part(line, "copy")), error])
    return markdown(["kernel", "MiB", "Henry us", "of copy", "kernels", "Inductor us", "of copy", "kernels", "copy of as much", "error / eager's"], rows)


def models_table(lines):
    rows = []
    for line in lines:
        h = line.get("henry", {})
        modes = [number(line[m]["us"] / 1e3, ".3f") if m in line else "" for m in ("default", "max-autotune")]
        firsts = [number(line[m]["first_call_s"], ".1f") if m in line else "" for m in ("default", "max-autotune")]
        error = f"{line['error']:.1e} / {line['eager_error']:.1e}" + ("" if line["right"] else " **wrong**") if "error" in line else ""
        rows.append([line["model"], number(h["device_us"] / 1e3, ".3f") if h else "failed", number(h["call_us"] / 1e3, ".3f") if h else "",
                     f"{h['kernels']} + {h['extern']}" if h else "", number(h.get("cold_s")), number(h.get("warm_s")),
                     number(line["eager_us"] / 1e3, ".3f"), *modes, *firsts, error])
    return markdown(["model, bf16", "Henry ms", "call with copies", "kernels + calls", "cold s", "warm s", "eager ms", "torch.compile ms", "max-autotune ms",
                     "its first call s", "max-autotune's", "error / eager's"], rows)


def start_table(lines):
    """Warm processes, taken apart; and the memory of the device, beside the least that the plan needs."""
    rows = []
    for line in lines:
        h = line.get("henry", {})
        if "warm_metrics" not in h:
            continue
        ms, counts = h["warm_phases_ms"], h["warm_metrics"]
        upload_ms, moved = ms["weights_upload"], counts["weights_uploaded_bytes"]
        beyond = counts["device_peak_bytes"] - counts["device_weights_bytes"] - counts["device_states_bytes"]
        rest = ms["total"] - ms["device_open"] - ms["libraries_load"]
        rows.append([line["model"], number(ms["total"], ".0f"), number(ms["device_open"], ".0f"), number(ms["libraries_load"], ".0f"), number(rest, ".0f"),
                     number(ms["kernels_load"], ".0f"), number(upload_ms, ".1f"), number(moved / upload_ms / 1e6 if upload_ms else None, ".1f"),
                     number(beyond / 2**20, ".1f"), number(counts["plan_least_bytes"] / 2**20, ".1f"), number(beyond / counts["plan_least_bytes"] if counts["plan_least_bytes"] else None)])
    return markdown(["model, full cache", "ms to the output", "context", "libraries", "rest", "kernels", "upload ms", "GB/s", "MiB beyond weights", "plan's least", "times"], rows)


def host_table(lines):
    keys = ["kernels", "submit_us", "call_there_us", "call_us", "bare_launch_us", "bare_run_us", "inductor_us", "inductor_waited_us"]
    rows = [[line["host"], *(number(line.get(k), "d" if k == "kernels" else ".2f") for k in keys)] for line in lines]
    return markdown(["microseconds of the host", "kernels", "Henry's launches", "a call, tensors on the device", "a call with copies", "a bare launch", "bare launches, waiting", "torch.compile", "with waiting"], rows)


def failures(lines):
    for line in lines:
        for key, text in line.items():
            if key.endswith("_failed"):
                yield f"- {name_of(line)}, {key[:-7]}: {text}"


def figures(kernels, models, host):
    return [*kernel_figures(kernels), *model_figures(models), *host_figures(host)]


def page(heads, kernels, models, host):
    yield "# Results on a GPU\n"
    yield "Made by `make bench-gpu` (bench/README.md says how each is measured). Runs:\n"
    for h in heads:
        copy = f"; a large copy moves {h['big_copy_gbs']:.0f} GB/s" if "big_copy_gbs" in h else ""
        yield f"- {h['date']}, {h['machine'] or h['device']}, torch {h['torch']}{copy}: `bench/gpu.sh {(h['what'] + ' ' + h['command']).strip()}`"
    yield "\n## Figures asked for\n"
    yield markdown(["what", "asked", "measured", "reached"], [(w, a, g, reached_text(a, r)) for w, a, g, r in figures(kernels, models, host)])
    if kernels:
        yield "## Kernels: parts of the bandwidth of a large copy, by the least bytes that must move\n\n" + kernels_table(kernels)
    if models:
        yield "## Models\n\n" + models_table(models)
        yield "## Start and memory\n\n" + start_table(models)
    if host:
        yield "## Host time\n\n" + host_table(host)
    failed = [*failures(kernels), *failures(models), *failures(host)]
    if failed:
        yield "## Failed\n\n" + "\n".join(failed) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directories", type=pathlib.Path, nargs="+")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    loaded = [load(options.directories, f"gpu_{what}.jsonl") for what in ("kernels", "models", "host")]
    lines = [entries for _, entries in loaded]
    options.output.write_text("\n".join(page([head for heads, _ in loaded for head in heads], *lines)))
    for what, asked, got, reached in figures(*lines):
        print(f"{what:96} {asked:>8} {got:>8}  {'yes' if reached else 'no'}")


if __name__ == "__main__":
    sys.exit(main())
