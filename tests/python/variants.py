"""Gives each kernel line of a project three variants, of which the second one is what the line was; the others do nothing.

    variants.py DIR"""

import json
import os
import sys

path = os.path.join(sys.argv[1], "program.json")
with open(path, encoding="utf-8") as file:
    document = json.load(file)
sizes = [7] + [symbol["name"] for symbol in document["symbols"][:1] if "input" in symbol]


def edit(lines):
    count = 0
    for line in lines:
        for key in ("then", "otherwise", "test", "body"):
            count += edit(line.get(key, ()))
        if line["kind"] != "kernel":
            continue
        operands = line["operands"]
        own = {key: line[key] for key in ("kernel", "grain", "params", "extent", "scratch_bytes") if key in line}
        idle = {"kernel": line["kernel"], "grain": 0, "extent": 0, "form": "idle"}
        # another order, and one operand twice
        line["operands"] = [operands[-1]] + operands
        line["takes"], line["form"], line["extent"] = [0], "idle", 0
        line["variants"] = [{**own, "takes": list(range(1, len(operands) + 1)), "form": "own"}, idle]
        line["choose"] = {"sizes": sizes, "otherwise": 0, "ranges": [
            {"variant": 2, "in": [[1, 6]] + [[None, None]] * (len(sizes) - 1)},
            {"variant": 1, "in": [[7, 7]] + [[1, None]] * (len(sizes) - 1)}]}
        count += 1
    return count


assert edit(document["program"]["lines"])
with open(path, "w", encoding="utf-8") as file:
    json.dump(document, file)
