"""What `henry bisect` takes to find a fault: bisect_faults.py HENRY_PLANTED MODEL_DIR [FAULT]...

HENRY_PLANTED is `build/henry_planted`, the command line with faults in it (tests/support/planted.c); MODEL_DIR
holds model.pt2, input_K.npy and output_0.npy, as the folders of the shared models do. A row for each fault: what
bisect names, and the time from start to end with an empty cache. Exit status 1 when a fault is not found.
"""

import glob
import os
import pathlib
import subprocess
import sys
import tempfile
import time

FAULTS = ("pass", "fold", "pattern", "fusion", "kernel", "call", "memory")


def command_of(henry, model):
    inputs = sorted(glob.glob(str(model / "input_*.npy")), key=lambda path: (len(path), path))
    given = [word for path in inputs for word in ("-i", path)]
    return [henry, "bisect", model / "model.pt2", *given, "-e", model / "output_0.npy", "--threads", "2"]


def measure(command, fault):
    """Seconds, the exit status, and what is named."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "HENRY_PLANT": fault, "HENRY_CACHE_DIR": cache}
        begin = time.monotonic()
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - begin
        lines = [line for line in done.stdout.splitlines() if not line.startswith(("there", "wrong"))]
        return seconds, done.returncode, lines[0] if lines else "nothing"


def main():
    command = command_of(sys.argv[1], pathlib.Path(sys.argv[2]))
    missed = 0
    print("| fault | found | s |\n|---|---|---|")
    for fault in sys.argv[3:] or FAULTS:
        seconds, status, named = measure(command, fault)
        # 1: something is wrong, and here is what
        missed += status != 1
        print(f"| {fault} | {named} | {seconds:.1f} |", flush=True)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
