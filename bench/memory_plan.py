"""Pool bytes against the lower bound of live bytes: memory_plan.py HENRY MODEL.pt2...

A row for each model and mode of the planner; then the median and the worst ratio. The lower bound is the largest sum
of aligned sizes alive at one line. Random programs are in tests/unit/wrapper: test_plan.c prints their ratio, test_pack.c
the one against an exact search.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODES = ("intermediates", "outputs", "combined")


def plan_of(henry, model, mode, folder):
    plan = folder / "plan.json"
    subprocess.run(
        [henry, "compile", model, "-o", folder / "m.hnb", "-q", "--weights", "pt2", "--pool", mode]
        + ["--memory-plan", plan],
        check=True,
    )
    return json.loads(plan.read_text())


def main():
    henry, models = sys.argv[1], sys.argv[2:]
    ratios = []
    print("| model | " + " | ".join(f"{mode}: bytes, ratio" for mode in MODES) + " |")
    print("|---|" + "---|" * len(MODES))
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            cells = []
            for mode in MODES:
                plan = plan_of(henry, model, mode, pathlib.Path(folder))
                ratio = plan["bytes"] / plan["lower_bound"] if plan["lower_bound"] else 1.0
                ratios.append(ratio)
                cells.append(f"{plan['bytes']}, {ratio:.4f}")
            print(f"| {pathlib.Path(model).parent.name} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nmedian {statistics.median(ratios):.4f}, worst {max(ratios):.4f}")


if __name__ == "__main__":
    main()
