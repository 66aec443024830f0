#!/usr/bin/env python3
"""The table of `bench/run.sh picks`: each cell's best form, the model's first guess, and how much longer it takes.

    picks.py TIMED.jsonl... [--expected EXPECTED.jsonl] [--all]

A file is what bench_picks or bench_picks_calls prints. With --expected, the times that the model expects are those of
another run (`bench_picks --predict`), so that a change of the model is judged by times that were taken before. The
first guess is the form with the least expected time; `own` is what is made without a measurement; `tuned` is the best
of those that a tuning times. Without --all only cells whose guess is more than 5 % behind are listed."""
import argparse
import json
import sys

SHARES = (1.05, 1.10, 1.20)


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def key(cell):
    return cell["kernel"], cell["sizes"], cell["step"]


def expect(cells, path):
    """Replaces expected times, and which form is the planner's own; forms that were not timed are left out."""
    by_key = {key(cell): {form["form"]: form for form in cell["forms"]} for cell in read(path)}
    for cell in cells:
        for form in cell["forms"]:
            other = by_key.get(key(cell), {}).get(form["form"])
            form["expected"] = other["expected"] if other else 0
            form["own"] = other["own"] if other else False


def judge(cell):
    """None where nothing was compared."""
    timed = [form for form in cell["forms"] if "ratio" in form]
    if len(timed) < 2:
        return None
    best = min(timed, key=lambda form: form["ratio"])
    expected = [form for form in timed if form["expected"]]
    own = next((form for form in timed if form["own"]), None)
    guess = min(expected, key=lambda form: form["expected"]) if expected else own or timed[0]
    tuned = min((form for form in timed if form.get("tuned")), key=lambda form: form["ratio"], default=None)
    worst = max(timed, key=lambda form: form["ratio"])
    return {"cell": key(cell), "again": cell.get("again", []), "best": best, "guess": guess, "own": own or guess, "tuned": tuned, "worst": worst}


def ratio(row, field):
    """Of forms that raced again, by that."""
    again = {form["form"]: form for form in row["again"] if "ratio" in form}
    form, best = (again.get(row[name]["form"], row[name]) for name in (field, "best"))
    if row[field]["form"] not in again or row["best"]["form"] not in again:
        form, best = row[field], row["best"]
    return max(1.0, form["ratio"] / best["ratio"])


def shares(rows, field):
    """Of all cells, in percent, those within each of SHARES; and the worst ratio."""
    ratios = [ratio(row, field) for row in rows]
    return [100 * sum(r <= limit for r in ratios) / len(ratios) for limit in SHARES], max(ratios)


def print_shares(what, rows, field):
    within, worst = shares(rows, field)
    text = ", ".join(f"{share:.1f} % within {round(100 * (limit - 1))} %" for share, limit in zip(within, SHARES))
    print(f"{what}: {len(rows)} cells, {text}, {worst:.2f} at worst")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timed", nargs="+")
    parser.add_argument("--expected")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    cells = [cell for path in options.timed for cell in read(path)]
    if options.expected:
        expect(cells, options.expected)
    rows = [row for row in map(judge, cells) if row]
    if not rows:
        sys.exit("picks: nothing was timed")
    print("| kernel | sizes | best form | first guess | times as long | the slowest |")
    print("|---|---|---|---|---:|---:|")
    for row in rows:
        behind = ratio(row, "guess")
        if options.all or behind > SHARES[0]:
            print(f"| {row['cell'][0]} | {row['cell'][1]} | {row['best']['form']} | {row['guess']['form']} | {behind:.2f} | {ratio(row, 'worst'):.2f} |")
    print()
    print_shares("first guess of the model", rows, "guess")
    print_shares("without a measurement", rows, "own")
    tuned = [row for row in rows if row["tuned"]]
    if tuned:
        print_shares("the best of what a tuning times", tuned, "tuned")
    changes = {}
    for row in rows:
        changes.setdefault((row["cell"][0], row["cell"][2]), set()).add(row["best"]["form"].split(" grain=")[0])
    print(f"kernels: {len(changes)}, of which {sum(len(forms) > 1 for forms in changes.values())} have several best forms")


if __name__ == "__main__":
    main()
