"""Looks at the pages of `henry report` in headless Chromium: each section, with keys alone, in light and dark.

    pages.py HENRY DATA [NAME]...        HENRY: the program; DATA: examples/data/digits; NAME: one of the tests
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

import browser
import make_large

henry, data = sys.argv[1], sys.argv[2]
model, array = os.path.join(data, "model.pt2"), os.path.join(data, "input_0.npy")
SECTIONS = ["summary", "timeline", "graph", "kernels", "fusions", "memory", "variants", "environment"]

# Two nodes that become one kernel, with source lines.
NAMED = """graph @named {
  input user %x : f32[8, 8] "x"
  %y = mul(%x, %x) at "square" "model.py:12"
  %z = tanh(%y) at "gate" "model.py:13"
  output user %z "z"
}
"""

# A sum whose form depends on the number of rows, and a softmax beside it.
ROWS = """graph @rows {
  symbol size s0 in [1, 100000] hint 64
  input user %x : f32[s0, 100] "x"
  %y = sum(%x, dims=[0], keepdim=false) at "down" "m.py:1"
  %z = aten._softmax.default(%x, -1, false) : f32[s0, 100] at "soft" "m.py:2"
  output user %y "y"
  output user %z "z"
}
"""

# A scan, whose columns another kernel sums: two loops that do not share one.
APART = """graph @apart {
  input user %x : f32[64, 1000] "x"
  %s = aten.cumsum.default(%x, 1) : f32[64, 1000] at "scan" "m.py:1"
  %t = aten.sum.dim_IntList(%s, [0]) : f32[1000] at "columns" "m.py:2"
  output user %s "s"
  output user %t "t"
}
"""

# Rows, too few for slabs, then columns of the result.
CROSSWISE = """graph @crosswise {
  input user %x : f32[200, 1280] "x"
  %s = aten._softmax.default(%x, -1, false) : f32[200, 1280] at "along" "m.py:1"
  %t = aten._softmax.default(%s, 0, false) : f32[200, 1280] at "down" "m.py:2"
  output user %s "s"
  output user %t "t"
}
"""

# Nodes whose names would do harm in a page that took them for HTML.
HOSTILE = """graph @hostile {
  input user %x : f32[8, 8] "</script><img src=x onerror=alert(1)>"
  %y = mul(%x, %x) at "</script><script>document.title='taken'</script>" "<b>model.py</b>:1"
  %z = tanh(%y) at "<!--" "&lt;:2"
  output user %z "]]><svg onload=alert(2)>"
}
"""


def run(*words):
    return subprocess.run([henry, *words], check=True, capture_output=True, text=True)


def report(page, *words):
    run("report", *words, "-o", page, "-q")
    return page


def check(is_so, what):
    if not is_so:
        raise AssertionError(what)


def same(got, want, what):
    check(got == want, f"{what}: {got!r}, not {want!r}")


def opened(b, page):
    """A page without a complaint of the browser, which has asked for nothing but the page."""
    b.open(page)
    same(b.messages, [], "messages of the browser")
    same(b.requests, ["file://" + os.path.abspath(page)], "requests")


def tuned_rows(page, *picks):
    """A report of ROWS, with records that say which forms the sum has: of its set the picks[n]-th kind of vectors at the n-th size."""
    with open("rows.hnir", "w") as file:
        file.write(ROWS)
    run("tune", "rows.hnir", "--hint", "s0=64,65536", "-o", "rows.json", "--no-cache", "-q")
    with open("rows.json") as file:
        records = {record["sizes"]["s0"]: record for record in map(json.loads, file) if record["kernel"] == "down"}
    kept = []
    for size, pick in zip((64, 65536), picks):
        record, kinds = records[size], {}
        for form in record["forms"]:
            kinds.setdefault(re.search(r"vectors=\d+", form["parameters"])[0] if form["form"] == "columns" else None, form)
        best = [form for kind, form in kinds.items() if kind][pick]
        for form in record["forms"]:
            form.update(median_ns=100 if form is best else 300, low_ns=99 if form is best else 290, high_ns=102 if form is best else 310, samples=9)
            for name in ("dropped", "ratio", "ratio_low", "ratio_high"):
                form.pop(name, None)
        record.update(pick=f"{best['form']} {best['parameters']}", how="timed")
        kept.append(record)
    with open("rows.json", "w") as file:
        file.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in kept)
    report(page, "rows.hnir", "--tuning", "rows.json", "--size", "s0=64")
    return [record["pick"] for record in kept]


def rows_of(b, caption):
    """Texts of the cells of the table with these words in its caption."""
    return b.evaluate(f"[...document.querySelectorAll('table')].filter(table => table.caption && table.caption.textContent.includes({json.dumps(caption)}))"
                      ".flatMap(table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent)))")


def text_of(b, selector):
    return b.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")


def focus(b, selector):
    b.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")


# ---- the tests ----


def test_sections(b):
    """Each section is there, has content and a link, and is no excuse."""
    opened(b, report("model.html", model, "-i", array, "--no-cache"))
    same(b.evaluate("[...document.querySelectorAll('main > section')].map(section => section.id)"), SECTIONS, "sections")
    same(b.evaluate("[...document.querySelectorAll('nav a')].map(link => link.hash.slice(1))"), SECTIONS, "links")
    same(b.evaluate("document.querySelectorAll('.note.bad').length"), 0, "sections that cannot be shown")
    for section in SECTIONS:
        check(len(text_of(b, "#" + section)) > 60, f"section {section} is empty")
        same(b.evaluate(f"document.querySelector('#{section} h2').id"), section + "-title", "heading")
    for section, words in {"summary": ["a run takes", "compiled in", "kernels move", "lost to the limits"], "kernels": ["share", "rate", "lost", "of the limit", "better kernels would gain"], "memory": ["alive", "temporaries on cpu"], "variants": ["x86-64", "forms"],
                           "environment": ["compiler", "kernels_generated", "processors", "ceiling"], "timeline": ["compile", "phase"]}.items():
        for word in words:
            check(word in text_of(b, "#" + section), f"section {section} lacks '{word}'")


def test_numbers(b):
    """The page shows the numbers of the object, and these are those of the compilation."""
    object_ = json.loads(run("report", model, "-i", array, "--json").stdout)
    stats = json.loads(run("compile", model, "-o", "m.hnb", "--json").stdout)
    counters = {metric["name"]: metric["value"] for metric in object_["metrics"]}
    for name in ("kernels_generated", "bytes_read", "bytes_written", "loops", "nodes_imported", "operations"):
        same(counters[name], stats["metrics"][name], name)
    steps = object_["program"]["steps"]
    same(len(steps), counters["steps_scheduled"], "steps")
    check(all(step["min_ns"] > 0 and step["calls"] == object_["run"]["profiled"] for step in steps), "each step has a time")
    check({kernel["name"] for kernel in object_["kernels"]} >= {step["name"] for step in steps if step["kind"] == "kernel"}, "each kernel has a text")
    for limit in object_["roofline"]["steps"]:
        check(limit["ns"] > 0 and limit.get("lost_ns", 0) <= limit["ns"], f"a limit: {limit}")
    same([one["name"] for one in object_["passes"]], ["functionalize", "decompose", "cse", "fold", "patterns", "dce", "weights"], "passes")
    same((object_["passes"][0]["nodes_before"], object_["passes"][-1]["nodes_after"]), (counters["nodes_imported"], counters["nodes"]), "nodes of the passes")
    check(any(limit.get("ideal_ns", 0) > 0 for limit in object_["roofline"]["steps"]), "steps have limits")
    opened(b, "model.html")
    same(b.evaluate("henry.shown.steps.length"), len(steps), "steps of the page")
    same(b.evaluate("henry.shown.counters.bytes_read"), counters["bytes_read"], "bytes of the page")


def test_sizes(b):
    """Bytes are those of the sizes that ran; of a bundle as well."""
    symbol = re.search(r"symbol +(\S+)", run("inspect", model).stdout)[1]
    run("compile", model, "-o", "m.hnb", "-q")
    for file in (model, "m.hnb"):
        large, small = (json.loads(run("report", file, *words, "--repeat", "1", "--json").stdout)["program"] for words in (["-i", array], ["--size", symbol + "=5"]))
        same([one["value"] for one in large["symbols"] + small["symbols"]], [32, 5], "sizes")
        for one, other in zip(large["buffers"], small["buffers"]):
            if one and one["type"].startswith(f"f32[{symbol},"):
                same(one["bytes"] * 5, other["bytes"] * 32, f"bytes of {one['name']}")
        kernels = [(one, other) for one, other in zip(large["steps"], small["steps"]) if one["kind"] == "kernel"]
        check(kernels, "there are kernels")
        for one, other in kernels:
            same((one["written_bytes"] * 5, one["is_at_hint"], other["is_at_hint"]), (other["written_bytes"] * 32, False, False), f"bytes of step {one['name']}")


def test_step(b):
    """A click on a box of the graph, and its keys, open a step: nodes, source lines, text."""
    opened(b, "model.html")
    focus(b, "#graph .pane")
    b.press("ArrowDown")
    check("0" in text_of(b, "#graph .status"), "the first step is chosen")
    kernel = b.evaluate("henry.shown.steps.findIndex(step => step.kind === 'kernel')")
    for _ in range(kernel):
        b.press("ArrowDown")
    b.press("Enter")
    check(b.evaluate("document.getElementById('step').open"), "the step is open")
    text = text_of(b, "#step")
    for word in b.evaluate(f"henry.shown.steps[{kernel}].nodes.map(node => node.node)") + ["aten.", "bytes", "Source for x86-64", b.evaluate(f"henry.shown.steps[{kernel}].name")]:
        check(word in text, f"the step lacks '{word}'")
    check("(" in b.evaluate("document.querySelector('#step pre').textContent"), "the step has its text")
    same(b.evaluate("location.hash"), f"#step-{kernel}", "the address names the step")
    b.press("Escape")
    check(not b.evaluate("document.getElementById('step').open"), "Escape closes it")
    place = b.evaluate("(() => { document.querySelector('#graph').scrollIntoView(); const box = document.querySelector('#graph .node rect').getBoundingClientRect(); return [box.x + 20, box.y + 10]; })()")
    b.click(*place)
    check(b.wait("document.getElementById('step').open"), "a click opens it, too")
    first = b.evaluate("document.querySelector('#graph .node').dataset.step")
    check(text_of(b, "#step-title").startswith(f"Step {first}:"), "it is the one that was clicked")
    b.press("Escape")
    same(b.evaluate("document.querySelector('#graph .node.is-chosen').dataset.step"), first, "it is chosen afterwards")
    b.open("model.html#step-1")
    check(b.evaluate("document.getElementById('step').open") and "Step 1" in text_of(b, "#step-title"), "an address with a step opens it")


def test_nodes(b):
    """A step names its nodes with operator, tensor, operands and source line."""
    with open("named.hnir", "w") as file:
        file.write(NAMED)
    opened(b, report("named.html", "named.hnir"))
    same(b.evaluate("henry.shown.steps.map(step => step.nodes.map(node => node.node))"), [["square", "gate"]], "steps")
    b.evaluate("henry.openStep(henry.shown, 0)")
    rows = b.evaluate("[...document.querySelector('#step table').tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent))")
    same(rows, [["square", "mul", "f32[8, 8]", "x, x", "model.py:12"], ["gate", "tanh", "f32[8, 8]", "square", "model.py:13"]], "nodes of the step")
    check("model.py:13" in text_of(b, "#kernels"), "the table has the source line")


def test_timeline(b):
    """Keys choose spans and zoom; the search finds spans; a chosen run leads to its step."""
    opened(b, "model.html")
    focus(b, "#timeline canvas")
    b.press("ArrowRight")
    check("compile and load" in text_of(b, "#timeline .status"), "the first span is chosen")
    b.press("ArrowDown")
    check("phase" in text_of(b, "#timeline .status"), "the row below is chosen")
    before = b.evaluate("document.querySelector('#timeline canvas').toDataURL()")
    b.press("+")
    b.wait(f"document.querySelector('#timeline canvas').toDataURL() !== {json.dumps(before)}")
    focus(b, "#timeline input")
    b.write(b.evaluate("henry.shown.steps[0].name"))
    b.press("Enter")
    same(re.sub(r"\d+", "N", text_of(b, "#timeline .bar [role=status]")), "N of N", "matches")
    check("run" in text_of(b, "#timeline .status"), "a span of a run is found")
    b.evaluate("document.querySelector('#timeline .status button').click()")
    check("Step 0" in text_of(b, "#step-title"), "the span leads to its step")


def test_table(b):
    """Rows sort by a click on a head, by the keyboard as well, and filter."""
    opened(b, "model.html")
    column = "[...document.querySelectorAll('#kernels tbody tr')].map(row => row.children[0].textContent)"
    by_loss = b.evaluate(column)
    focus(b, "#kernels thead button")
    b.press("Enter")
    by_step = b.evaluate(column)
    same(sorted(by_loss), sorted(by_step), "rows")
    same([int(text.split()[0]) for text in by_step], sorted(int(text.split()[0]) for text in by_step), "order of steps")
    same(b.evaluate("document.querySelector('#kernels th[aria-sort]').getAttribute('aria-sort')"), "ascending", "aria-sort")
    worst = b.evaluate("henry.shown.steps.map(step => [step.lost_ns ?? -1, step.index]).sort((a, b) => b[0] - a[0]).map(pair => pair[1])")
    same([int(text.split()[0]) for text in by_loss], worst, "order by lost time")


def test_memory(b):
    """Boxes are within the plan, what is alive is no more than that, and keys go from box to box."""
    opened(b, "model.html")
    memories = b.evaluate("henry.memories(henry.shown).map(memory => ({bytes: memory.bytes, boxes: memory.boxes, alive: henry.aliveBytes(memory, henry.shown.steps.length)}))")
    check(memories and memories[0]["boxes"], "there are boxes")
    for memory in memories:
        for box in memory["boxes"]:
            check(0 <= box["at"] and box["at"] + box["bytes"] <= memory["bytes"] and box["first"] <= box["last"], f"a box lies in the plan: {box}")
        check(0 < max(memory["alive"]) <= memory["bytes"], "what is alive")
    planned = run("compile", model, "-o", "m.hnb", "--memory-plan", "plan.json").stdout
    same(memories[0]["bytes"], int(re.search(r"pool (\d+) bytes", planned).group(1)), "bytes of the plan")
    focus(b, "#memory .pane")
    b.press("ArrowRight")
    check("from step" in text_of(b, "#memory .status"), "a key chooses a buffer")


def contrast(a, b):
    def light(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= .03928 else ((part + .055) / 1.055) ** 2.4 for part in parts]
        return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2]

    high, low = sorted([light(a), light(b)], reverse=True)
    return (high + .05) / (low + .05)


def test_themes(b):
    """Texts can be read in light and in dark, by the system's choice and by that of the page."""
    opened(b, "model.html")
    colours = """(() => {
        const of = (selector, name) => getComputedStyle(document.querySelector(selector))[name], back = of('body', 'backgroundColor');
        return {back, text: [of('body', 'color'), back], soft: [of('#graph p.soft', 'color'), back], link: [of('#kernels button.link', 'color'), of('#kernels .scroll', 'backgroundColor')],
                head: [of('#kernels th', 'color'), of('#kernels th', 'backgroundColor')], tile: [of('.tile dt', 'color'), of('.tile', 'backgroundColor')],
                node: [of('.node text', 'fill'), of('.node rect', 'fill')], bar: [of('.stack > span', 'color'), of('.stack > span', 'backgroundColor')]};
    })()"""
    backs, bars = {}, {}
    for theme in ("light", "dark"):
        b.theme(theme)
        bars[theme] = b.evaluate("henry.colours(['kernel', 'raised'])")
        found = b.evaluate(colours)
        backs[theme] = found.pop("back")
        for name, (one, other) in found.items():
            check(contrast(one, other) >= 4.5, f"{theme}: {name}: {one} on {other} has contrast {contrast(one, other):.2f}")
    check(backs["light"] != backs["dark"], "themes differ")
    for name in ("kernel", "raised"):
        check(bars["light"][name] != bars["dark"][name], f"what is drawn in '{name}' has the colours of the theme: {bars}")
    b.evaluate("(() => { const choice = document.querySelector('header select'); choice.value = 'light'; choice.dispatchEvent(new Event('change')); })()")
    same(b.evaluate(colours)["back"], backs["light"], "the choice of the page")
    b.theme("light")


def test_keyboard(b):
    """Tab comes to every section's controls, and to the first row of a table; Enter opens a step."""
    opened(b, "model.html")
    b.evaluate("document.activeElement.blur()")
    seen, where = set(), "document.activeElement.closest('section') ? document.activeElement.closest('section').id : document.activeElement.closest('nav') ? 'nav' : document.activeElement.className"
    for _ in range(400):
        b.press("Tab")
        seen.add(b.evaluate(where))
        if seen >= set(SECTIONS):
            break
    for section in ["nav", "skip"] + [name for name in SECTIONS if name != "summary"]:
        check(section in seen, f"Tab does not come to {section}")
    focus(b, "#kernels button.link")
    b.press("Enter")
    check(b.evaluate("document.getElementById('step').open"), "Enter opens a step")


def test_bundle(b):
    """A bundle without its model: what it records, and words about the rest."""
    run("compile", model, "-o", "b.hnb", "-q")
    opened(b, report("bundle.html", "b.hnb", "-i", array))
    same(b.evaluate("[...document.querySelectorAll('main > section')].map(section => section.id)"), SECTIONS, "sections")
    check("Give henry report the model" in text_of(b, "#fusions"), "the bundle has no refused fusions")
    check(b.evaluate("henry.shown.isTimed"), "it ran")
    check("temporaries on cpu" in text_of(b, "#memory"), "its memory")


def test_trace(b):
    """A trace of another command: the time line alone."""
    run("run", model, "-i", array, "--profile", "--trace", "t.json", "-q", "--no-cache")
    opened(b, report("trace.html", "t.json"))
    same(b.evaluate("document.querySelectorAll('main > section').length"), len(SECTIONS), "sections")
    events = json.load(open("t.json"))["traceEvents"]
    spans = sum(event["ph"] in "Xb" for event in events)
    same(b.evaluate("henry.spansOf(henry.shown.trace).length"), spans, "spans")
    check("There is no program" in text_of(b, "#graph"), "no graph")


def test_nothing(b):
    """A report of its version alone: each section says that it has nothing; and it can be compared."""
    with open("nothing.json", "w") as file:
        file.write('{"henry_report":1}')
    opened(b, report("nothing.html", "nothing.json"))
    for section, words in {"summary": "nothing in this report", "timeline": "no trace", "graph": "no program", "kernels": "no program", "fusions": "does not have them", "memory": "no program", "variants": "no program", "environment": "does not say"}.items():
        check(words in text_of(b, "#" + section + " p.note"), f"section {section} does not say '{words}'")
    same(b.evaluate("document.querySelectorAll('.note.bad').length"), 0, "sections that cannot be shown")
    check("undefined" not in b.evaluate("document.body.innerText + document.title"), "a text has 'undefined'")
    opened(b, report("less.html", "nothing.json", "--compare", "model.html"))
    check("gone" in text_of(b, "#changes"), "nothing has no steps of the model")
    check("undefined" not in text_of(b, "#changes"), "a text has 'undefined'")


def test_years(b):
    """A span at 0 among others of today: the time line is years long, and can be zoomed."""
    with open("years.json", "w") as file:
        json.dump([{"ph": "X", "name": name, "ts": ts, "dur": 5} for name, ts in (("first", 0), ("last", 1.7e15))], file)
    opened(b, report("years.html", "years.json"))
    focus(b, "#timeline canvas")
    for _ in range(100):
        b.press("+")
    before = b.evaluate("document.querySelector('#timeline canvas').toDataURL()")
    b.press("0")
    b.wait(f"document.querySelector('#timeline canvas').toDataURL() !== {json.dumps(before)}")


def test_compare(b):
    """Two compilations: what changed in numbers, steps and options; both can be looked at."""
    opened(b, report("compare.html", model, "-i", array, "--no-fusion", "--compare", "model.html"))
    same(b.evaluate("[...document.querySelectorAll('main > section')].map(section => section.id)"), ["changes"] + SECTIONS, "sections")
    text = text_of(b, "#changes")
    for word in ("no_fusion", "kernels_generated", "gone", "new", "before", "after", "bytes_read"):
        check(word in text, f"changes lack '{word}'")
    same(b.evaluate("Object.fromEntries(henry.shown.key).no_fusion"), "1", "the report after")
    b.evaluate("document.querySelector('header [role=group] button').click()")
    same(b.evaluate("Object.fromEntries(henry.shown.key).no_fusion"), "0", "the report before")
    b.wait("document.querySelectorAll('#environment').length")
    opened(b, report("same.html", "model.html", "--compare", "model.html"))
    for word in ("No number differs", "Options, compiler and machine are the same", "0 other text, 0 other form, 0 other sizes, 0 new, 0 gone"):
        check(word in text_of(b, "#changes"), f"changes of equal reports lack '{word}'")


def test_picks(b):
    """Records of tuning decide: the page has each form with its sizes and its text, and what was measured, apart from what is predicted."""
    few, many = tuned_rows("rows.html", 0, 1)
    opened(b, "rows.html")
    variants = {row[2]: row for row in rows_of(b, "kernels in several forms")}
    same(set(variants), {few, many}, "forms")
    sizes = {few: variants[few][3], many: variants[many][3]}  # the edge between the two is where the model of costs puts it
    named = [form for form in sizes if sizes[form] != "all other sizes"]
    same(len(named), 1, f"forms with sizes of their own in {sizes}")
    edge = re.fullmatch("s0 up to ([0-9,]+)" if named == [few] else "s0 ([0-9,]+) or more", sizes[named[0]])
    check(edge and 64 <= int(edge[1].replace(",", "")) <= 65536, f"the edge in {sizes}")
    same((variants[few][4], variants[many][4]), ("ran", "\u2013"), "the form for 64 rows ran")
    picks = {row[2]: row for row in rows_of(b, "picks of tuning records")}
    same(set(picks), {"s0 = 64", "s0 = 65,536"}, "sizes of the records")
    for size, form in (("s0 = 64", few), ("s0 = 65,536", many)):
        row = [text.replace("\u00a0", " ") for text in picks[size]]
        same(row[3:7], [form, "100 ns", "99.0 ns to 102 ns", "9"], f"what was measured at {size}")
        check(row[8].startswith("3.00 times that: "), f"the next best at {size}: {row[8]}")
        same(row[9:], ["yes", "timed"], f"the pick at {size}")
    deciders = {row[0]: row[4] for row in rows_of(b, "the planner has compared")}
    same(sorted(deciders.values()), ["the planner", "tuning records"], "who decides")
    check("predicts" in text_of(b, "#variants") and "predicted" in text_of(b, "#variants"), "predicted times are named so")
    texts = b.evaluate("Object.fromEntries(henry.shown.kernels.map(kernel => [kernel.name, kernel.text]))")
    for form in (few, many):
        b.evaluate(f"[...document.querySelectorAll('#variants td button')].find(button => button.textContent === {json.dumps(variants[form][5])} && button.closest('table').caption.textContent.includes('several forms')).click()")
        same(text_of(b, "#step pre"), texts[variants[form][5]], f"the text of {form}")
        check(form in text_of(b, "#step-title"), "the form is named")
        b.press("Escape")
    b.evaluate("henry.openStep(henry.shown, henry.shown.steps.findIndex(step => step.node === 'down'))")
    check("Other forms of this kernel" in text_of(b, "#step") and many in text_of(b, "#step"), "a step leads to its other forms")
    check(few in text_of(b, "#step"), "the step says which form ran")
    same(text_of(b, "#step pre"), texts[variants[few][5]], "its text is that of the form that ran")
    b.press("Escape")
    other, _ = tuned_rows("others.html", 1, 1)
    opened(b, report("picks.html", "others.html", "--compare", "rows.html"))
    changed = rows_of(b, "picks of tuning records that differ")
    same([(row[3], row[5]) for row in changed if row[2] == "s0 = 64"], [(few, other)], "changed picks")
    check(f"{few} \u2192 {other}" in text_of(b, "#changes"), "the step has another form, with its options")
    opened(b, report("picks.html", "rows.html", "--compare", "rows.html"))
    check("Picks of tuning records are the same." in text_of(b, "#changes"), "equal picks")


def test_picks_of_calls(b):
    """A product is tuned as a kernel is; its forms have no texts."""
    graph = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli/data/multi_call.hnir")
    run("tune", graph, "--hint", "s0=8,500", "-o", "calls.json", "--no-cache", "-q")
    with open("calls.json") as file:
        records = [json.loads(line) for line in file]
    for record in records:
        record.update(pick="own" if record["sizes"]["s0"] < 100 else "gemm rows=in-place", how="timed")
        for form in record["forms"]:
            is_pick = f"{form['form']} {form.get('parameters', '')}".strip() == record["pick"]
            form.update(median_ns=100 if is_pick else 300, low_ns=99 if is_pick else 290, high_ns=102 if is_pick else 310, samples=9)
            for name in ("dropped", "ratio", "ratio_low", "ratio_high"):
                form.pop(name, None)
    with open("calls.json", "w") as file:
        file.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    report("calls.html", graph, "--tuning", "calls.json", "--size", "s0=8")
    opened(b, "calls.html")
    same({row[2] for row in rows_of(b, "kernels in several forms")}, {"own", "gemm rows=in-place"}, "forms of the product")
    same({row[3] for row in rows_of(b, "picks of tuning records")}, {"own", "gemm rows=in-place"}, "picks of the product")


def test_fusions(b):
    """A refused fusion has its two nodes, why, and the bytes that it would have saved; the nodes lead to their steps."""
    with open("apart.hnir", "w") as file:
        file.write(APART)
    object_ = json.loads(run("report", "apart.hnir", "--json").stdout)
    refused = [one for one in object_["fusions"] if (one["first"], one["second"]) == ("scan", "columns")]
    same([one["bytes"] for one in refused], [64 * 1000 * 4], "bytes that need not be read again")
    opened(b, report("apart.html", "apart.hnir"))
    rows = rows_of(b, "each of them")
    same(rows, [["scan", "columns", refused[0]["sentence"], "", "256\u00a0kB"]], "fusions")
    same(rows_of(b, "by reason"), [[refused[0]["reason"], refused[0]["sentence"], "1", "256\u00a0kB"]], "reasons")
    check(refused[0]["sentence"] in run("compile", "apart.hnir", "--explain-fusion").stdout, "the same reason as --explain-fusion")
    b.evaluate("[...document.querySelectorAll('#fusions button')].find(button => button.textContent === 'columns').click()")
    check("columns" in text_of(b, "#step-title"), "a node leads to its step")
    b.press("Escape")
    with open("crosswise.hnir", "w") as file:
        file.write(CROSSWISE)
    unlike = [one for one in json.loads(run("report", "crosswise.hnir", "--json").stdout)["fusions"] if one.get("mismatch")]
    same(unlike[0]["mismatch"], "reduced", "how both walk what they share")
    opened(b, report("crosswise.html", "crosswise.hnir"))
    check(unlike[0]["mismatch_sentence"] in {row[3] for row in rows_of(b, "each of them")}, "the page says how")


def test_hostile(b):
    """Names are text, whatever they look like."""
    with open("hostile.hnir", "w") as file:
        file.write(HOSTILE)
    opened(b, report("hostile.html", "hostile.hnir"))
    check("taken" not in b.evaluate("document.title"), "a script of a name ran")
    same(b.evaluate("document.querySelectorAll('main img, main script, header img').length"), 0, "elements of names")
    b.evaluate("henry.openStep(henry.shown, 0)")
    check("</script><script>" in text_of(b, "#step") or "<!--" in text_of(b, "#step"), "the name is shown")
    check("<b>model.py</b>" in b.evaluate("document.body.textContent"), "the source line is shown")


def test_large(b):
    """2,000 kernels: the page opens, draws what is in sight, and leads to the last one."""
    with open("large.hnir", "w") as file:
        file.write(make_large.text(2250))
    opened(b, report("large.html", "large.hnir", "--no-fusion", "--repeat", "2"))
    steps = b.evaluate("henry.shown.steps.length")
    check(steps >= 2000, f"only {steps} steps")
    check(b.evaluate("document.querySelectorAll('#graph .node').length") < 200, "the graph draws what is in sight")
    focus(b, "#graph .pane")
    b.press("End")
    b.wait(f"document.querySelectorAll('#graph .node[data-step=\"{steps - 1}\"]').length")
    b.evaluate("[...document.querySelectorAll('#kernels .bar button')].pop().click()")
    same(b.evaluate("document.querySelectorAll('#kernels tbody tr').length"), steps, "rows of the table")
    same(b.messages, [], "messages of the browser")


def main():
    wanted = sys.argv[3:]
    tests = [(name[5:], test) for name, test in globals().items() if name.startswith("test_")]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HENRY_CACHE_DIR"] = os.path.join(folder, "cache")
        report("model.html", model, "-i", array)
        with browser.Browser() as b:
            for name, test in tests:
                if wanted and name not in wanted:
                    continue
                try:
                    test(b)
                    passed += 1
                except Exception:  # the next test may do
                    failed += 1
                    print(f"FAILED {name} ({test.__doc__})\n{traceback.format_exc()}")
        os.chdir("/")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


henry, data = os.path.abspath(henry), os.path.abspath(data)
model, array = os.path.abspath(model), os.path.abspath(array)
main()
