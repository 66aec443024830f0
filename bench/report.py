"""What a report costs, and how soon its page is there:

    report.py --henry HENRY --models DIRECTORY -o FILE.json

The time of gathering and writing the report of GPT-2 124M, besides compiling and running, as `henry report` prints it; and the time from
the begin of loading until the page of a model with 2,000 kernels is complete in headless Chromium,
and what its thread computed meanwhile. Medians.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "report"))

import browser  # noqa: E402
import make_large  # noqa: E402

ROUNDS, NODES = 7, 3700


def report(henry, page, *words):
    """The milliseconds that it says."""
    said = subprocess.run([henry, "report", *words, "-o", page], check=True, stderr=subprocess.PIPE, text=True).stderr
    return float(re.search(r"made in (\d+) ms", said)[1])


def open_large(henry, folder):
    model, page = os.path.join(folder, "large.hnir"), os.path.join(folder, "large.html")
    pathlib.Path(model).write_text(make_large.text(NODES, True))
    made = report(henry, page, model, "--no-fusion", "--repeat", "3")
    with browser.Browser() as b:
        b.call("Performance.enable", timeDomain="threadTicks")
        times, busy = [], []
        for _ in range(ROUNDS):
            times.append(b.open(page))
            busy.append(next(one["value"] for one in b.call("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration"))
        steps, texts = b.evaluate("[henry.shown.steps.filter(step => step.kind === 'kernel').length, henry.shown.kernels.length]")
        assert steps >= 2000 and not b.messages, (steps, b.messages)
        version = re.search(r"Chrome/(\d+)", b.evaluate("navigator.userAgent"))[1]
    return {"kernels": steps, "texts": texts, "page_bytes": os.path.getsize(page), "made_ms": made, "open_ms": statistics.median(times), "busy_ms": 1e3 * statistics.median(busy), "browser": f"Chromium {version}"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--henry", required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "gpt2.html")
        made = [report(options.henry, page, str(options.models / "gpt2_124m" / "model.pt2"), "--repeat", "2") for _ in range(ROUNDS)]
        result = {"gpt2": {"made_ms": statistics.median(made), "page_bytes": os.path.getsize(page)}, "large": open_large(options.henry, folder)}
    options.output.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    sys.exit(main())
