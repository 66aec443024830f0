"""What gpu_table.py makes of lines as the scripts write them: which figures, and which of them are reached. Needs neither a device nor PyTorch.

    test_table.py FOLDER        writes there
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import gpu_table  # noqa: E402  # pylint: disable=wrong-import-position

MIB = 1 << 20
RUN = {"date": "2026-01-01 00:00", "torch": "0", "machine": "", "device": "cuda", "command": ""}
SOFTMAX, SWEEP, SORT, LATE = "softmax bf16 16384x8192", "sweep_softmax bf16 524288x128", "sort f32 4096x4096", "layer_norm bf16 8192x8192"
TOP, BROKEN, SLOW = "top_50 f32 65536x256", "sum_rows bf16 16384x8192", "sort f32 256x65536"


def row(name, title, **more):
    return {"row": name, "title": title, "shape": [1, 128], "dtype": "bf16", "bytes": 256 * MIB} | more


def kernels():
    """At 1000 GB/s the copy of 256 MiB takes 268.4 us."""
    yield {"what": "kernels", "big_copy_gbs": 1000, "rows": [SOFTMAX, LATE]} | RUN
    yield row("softmax", SOFTMAX, henry_failed="no", big_copy_gbs=1000)
    yield row("softmax", SOFTMAX, henry_us=280, henry_kernels=1, copy_us=268.4, big_copy_gbs=1000, right=True, error=0.0, eager_error=0.0)
    yield row("sweep_softmax", SWEEP, henry_us=500, henry_kernels=1, copy_us=268.4, big_copy_gbs=1000, right=True, error=0.0, eager_error=0.0)
    yield row("sort", SORT, henry_us=1000, henry_kernels=1, big_copy_gbs=1000, right=True, error=0.0, eager_error=0.0)
    yield row("sort", SLOW, henry_us=1000, henry_kernels=1, big_copy_gbs=1000, right=True, error=0.0, eager_error=0.0)
    yield row("sum_rows", BROKEN, henry_failed="no", big_copy_gbs=1000)


def inductor():
    yield {"what": "inductor", "big_copy_gbs": 990} | RUN
    yield row("softmax", SOFTMAX, inductor_us=300, inductor_kernels=1, inductor_copy_gbs=990)
    yield row("sort", SORT, inductor_failed="no")
    yield row("sort", SLOW, inductor_us=500, inductor_kernels=0, inductor_copy_gbs=1000)
    yield row("top_50", TOP, inductor_us=300, inductor_kernels=0, inductor_copy_gbs=990)
    yield row("sum_rows", BROKEN, inductor_us=300, inductor_kernels=1, inductor_copy_gbs=990)


def models():
    phases = {"total": 150, "device_open": 60, "libraries_load": 5, "kernels_load": 3, "weights_upload": 5.0}
    counts = {"weights_uploaded_bytes": 250_000_000, "device_peak_bytes": 360 * MIB, "device_weights_bytes": 238 * MIB, "device_states_bytes": 0, "plan_least_bytes": 100 * MIB}
    henry = {"device_us": 2000.0, "call_us": 2500.0, "call_there_us": 2010.0, "kernels": 3, "extern": 2, "cold_s": 1.6, "warm_s": 0.2, "cold_phases_ms": {"device_open": 200},
             "warm_phases_ms": phases, "warm_metrics": counts, "graph_runs": 5, "graph_us": 1800.0, "graph_call_us": 2300.0, "graph_call_there_us": 1810.0}
    yield {"what": "models", "link_gbs": 50.0, "models": ["gpt2_4x256", "resnet50_8"]} | RUN
    yield {"model": "gpt2_4x256", "henry": henry, "eager_us": 6000.0, "right": True, "error": 0.0, "eager_error": 0.0, "default": {"us": 2100.0, "first_call_s": 10.0}}
    yield {"model": "gpt2_4x256", "max-autotune": {"us": 1700.0, "first_call_s": 60.0}}


def host():
    yield {"what": "host", "commit": "abc1234"} | RUN
    yield {"host": "one kernel", "kernels": 1, "submit_us": 3.05, "call_there_us": 8.9, "call_us": 15.0, "inductor_waited_us": 44.0, "turns": {
        "launches": 1, "launch_ns": 3050, "bare_launch_ns": 2990, "launch_above_ns": 50, "call_us": 8.9, "bare_call_us": 8.0, "call_above_us": 0.9, "apart_above_us": 1.2}}


def tuning():
    yield {"what": "tuning"} | RUN
    yield {"tuning": "64x32x16", "function": "gelu", "own_us": 11.0, "pick_us": 10.0, "gain": 1.1, "pick": "library candidate=3", "ways": 8}
    yield {"tuning": "16x16x33", "function": "bias", "own_us": 30.0, "pick_us": 10.0, "gain": 3.0, "pick": "other sizes, 2 kernels and calls"}
    yield {"tuning": "16x32x64", "function": "bias", "own_us": 10.0, "pick_us": 10.0, "gain": 1.0, "pick": "own", "ways": 8}
    yield {"tuning": "gpt2_4x256", "seconds": 14.5, "kernels": 9, "is_complete": True, "again_s": 0.9, "again_calls": 3}


def cell(step, own, tuned):
    """A kernel in three forms: the best, the one that it has without tuning, and the best that a tuning times."""
    forms = [("rows a=1", 1.0, False, False, 9.0), ("rows a=2", own, True, False, 7.0), ("rows a=3", tuned, False, True, 8.0)]
    return {"kernel": "softmax", "sizes": "64 x 128", "step": step, "forms": [{"form": name, "ratio": ratio, "own": is_own, "tuned": is_tuned, "expected": ns} for name, ratio, is_own, is_tuned, ns in forms]}


def picks():
    yield cell(0, 1.2, 1.02)
    yield cell(1, 1.01, 1.04)


def profile():
    yield {"what": "profile", "big_copy_gbs": 1000} | RUN
    yield {"model": "gpt2_4x256", "big_copy_gbs": 1000, "profile": {"device_us": 300.0, "steps": [{"name": "k", "origin": "mul", "calls": 2, "us": 300.0, "bytes": 150_000_000}]}}


# --- what is to come out: a part of the name, what was measured, and whether that is enough ---

EXPECTED = [
    (SOFTMAX + ", part of the copy", "0.96", True),
    (SOFTMAX + ", times Inductor", "1.06", True),
    (SWEEP + ", part of a copy", "0.54", False),
    (SWEEP + ", times Inductor", gpu_table.NONE, False),
    (SORT + ", times Inductor", "failed", False),
    (TOP + ", times Inductor", gpu_table.NONE, False),
    (SLOW + ", times Inductor", "0.50", True),
    (BROKEN + ", part of the copy", "failed", False),
    (BROKEN + ", times Inductor", "failed", False),
    (LATE, gpu_table.NONE, False),
    ("gpt2_4x256, ms, steady; torch.compile default 2.10", "2.00", True),
    ("gpt2_4x256, ms, steady, CUDA graphs; torch.compile max-autotune 1.70", "1.80", False),
    ("gpt2_4x256, s, empty cache", "1.40", True),
    ("gpt2_4x256, ms, full cache", "85", True),
    ("gpt2_4x256, GB/s, upload", "50.0", True),
    ("gpt2_4x256, peak memory", "1.22", False),
    ("resnet50_8", gpu_table.NONE, False),
    ("one kernel, on abc1234: ns", "50", True),
    ("one kernel, on abc1234: us of a call with tensors on the device", "0.90", True),
    ("2 products, tuned, times the first of the heuristic: the least", "1.00", True),
    ("2 products, tuned, times the first of the heuristic: geometric mean", "1.05", False),
    ("gpt2_4x256, s, tuning", "14.5", True),
    ("gpt2_4x256, timed calls of a second tuning", "3", False),
    ("the best of what a tuning times, of 2 kernels", "1.00", True),
    ("the form without a measurement, of 2 kernels", "0.50", True),
]

# What was not run is neither reached nor missed, nor has it failed.
IN_PAGE = [
    "| k | mul | 2 | 300.0 | 1.00 | 143.1 | 0.50 |",
    "- sort f32 4096x4096, inductor: no",
    f"| {TOP}, times Inductor |  | not measured |  |",
    f"| {SLOW}, times Inductor |  | 0.50 |  |",
    f"| {TOP} | 256 | not measured |",
    f"| {BROKEN} | 256 | failed |",
    f"| {BROKEN}, part of the copy bandwidth | 0.92 | failed | **no** |",
    "- 2026-01-01 00:00, commit abc1234, ",
    "| 64, 32, 16 | gelu | 11.0 | 10.0 | 1.10 | library candidate=3 | 8 |",
    "| 16, 16, 33 | bias | 30.0 | 10.0 | 3.00 | other sizes, 2 kernels and calls |  |",
    "| softmax | 64 x 128 | rows a=1 | rows a=2 | 1.20 | 1.02 |",
]


def differences(found):
    for what, got, reached in EXPECTED:
        lines = [f for f in found if f[0].startswith(what)]
        if [(f[2], f[3]) for f in lines] != [(got, reached)]:
            yield f"{what}: expected {got!r}, {reached}; there is {lines}"
    if any(f[0].startswith(SORT + ", part") for f in found):
        yield "a sort is compared with a copy"


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, lines in (("kernels", kernels), ("inductor", inductor), ("models", models), ("host", host), ("tuning", tuning), ("picks", picks), ("profile", profile)):
        (folder / f"gpu_{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines()))
    parts = {name: gpu_table.load([folder], files) for name, files in gpu_table.PARTS.items()}
    wrong = list(differences(gpu_table.figures(parts)))
    page = "\n".join(gpu_table.page(parts))
    wrong += [f"RESULTS.md has no {text!r}" for text in IN_PAGE if text not in page]
    if "softmax bf16 16384x8192, henry: no" in page:
        wrong.append("a row that was measured again is still among those that failed")
    (folder / "RESULTS.md").write_text("old tables\n\n## Which commit\n\nby hand\n")
    if gpu_table.by_hand(folder / "RESULTS.md") != "\n## Which commit\n\nby hand\n":
        wrong.append("what was written by hand is lost")
    if gpu_table.names_with([folder], "max-autotune") != {"gpt2_4x256"} or gpu_table.names_with([folder], "inductor_us") != {SOFTMAX, TOP, SLOW, BROKEN}:
        wrong.append("names_with finds other rows")
    print("\n".join(wrong + [f"{len(EXPECTED) + len(IN_PAGE) + 4 - len(wrong)} passed, {len(wrong)} failed"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
