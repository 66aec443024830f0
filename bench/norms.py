"""Backward passes of norms under Henry and torch.compile, in turns:

    norms.py --models DIRECTORY --subject PROGRAM -o RESULTS.jsonl [--rounds N] [--threads N]... [NAME-PART]...

The functions are those of gpu_kernels.py: the gradients of a norm's input, weight and, of layer norm, bias, from the statistics that
the forward pass keeps. They are exported to DIRECTORY/NAME/ once. Contestants and rounds are as in peers.py. One JSON object a
function and number of threads: milliseconds of both, the ratio, the kernels that Henry made, and the bytes that a run must move.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys

import numpy as np
import torch

import gpu_kernels
import peers

SHAPES = [(4096, 768), (32768, 256), (8192, 2048)]
NORMS = ("rms_norm_backward", "layer_norm_backward")
SEED = 7


def rows():
    for dtype in (torch.float32, torch.bfloat16):
        for shape in SHAPES:
            yield from gpu_kernels.norm_rows(*shape, dtype, only=NORMS)


def name_of(row):
    return f"{row.name}_{row.shape[0]}x{row.shape[1]}_{gpu_kernels.TYPES[row.dtype]}"


def moved_bytes(row, inputs):
    """Each input read once, each output written once."""
    return gpu_kernels.size_of(inputs) + gpu_kernels.size_of(gpu_kernels.as_tuple(row.function(*inputs)))


def make(row, directory):
    """bf16 is kept as float32; the expected output is that of float64."""
    if (directory / "about.json").exists():
        return
    partial = directory.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    torch.manual_seed(SEED)
    inputs = row.make("cpu")
    torch.export.save(torch.export.export(gpu_kernels.Function(row.function), tuple(inputs), strict=False), partial / "model.pt2")
    for k, x in enumerate(inputs):
        np.save(partial / f"input_{k}.npy", x.float().numpy())
    np.save(partial / "output_0.npy", gpu_kernels.as_tuple(row.function(*(x.double() for x in inputs)))[0].float().numpy())
    (partial / "about.json").write_text(json.dumps({"bytes": moved_bytes(row, inputs)}))
    shutil.rmtree(directory, ignore_errors=True)
    partial.rename(directory)


def serve(directory, threads):
    torch.set_num_threads(threads)
    row = next(r for r in rows() if name_of(r) == directory.name)
    inputs = [torch.from_numpy(np.load(f)).to(dtype) for f, (_, dtype, _) in zip(peers.files(directory, "input"), row.inputs)]
    compiled = torch.compile(row.function)
    expected = torch.from_numpy(np.load(directory / "output_0.npy"))
    relative = 2**-8 if row.dtype == torch.bfloat16 else 1e-4
    with torch.no_grad():
        error = ((compiled(*inputs)[0].float() - expected).abs() / (1e-5 + relative * expected.abs())).max().item()
        peers.answer({"error": error}, lambda: compiled(*inputs))


def compare(options, row, threads):
    directory = options.models / name_of(row)
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    henry = [options.subject, directory / "model.pt2", threads, directory / "output_0.npy", *peers.files(directory, "input")]
    compiled = [sys.executable, __file__, "--serve", directory, threads]
    players = [peers.Contestant(name, [str(w) for w in command], environment) for name, command in (("henry", henry), ("compile", compiled))]
    result = {"name": row.name, "shape": row.shape, "dtype": gpu_kernels.TYPES[row.dtype], "threads": threads}
    result.update(json.loads((directory / "about.json").read_text()))
    return result | peers.play_rounds(players, options.rounds)


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--subject", required=True)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args()
    results = []
    for row in rows():
        if options.parts and not any(part in name_of(row) for part in options.parts):
            continue
        make(row, options.models / name_of(row))
        for threads in options.threads or [1, 2]:
            line = compare(options, row, threads)
            results.append(line)
            times = [f"{who} {line[who]['median_ms']:.2f} (least {line[who]['min_ms']:.2f}) ms" for who in ("henry", "compile")]
            print(f"{name_of(row)}, threads {threads}: {', '.join(times)}, error {line['henry']['error']:.2f}, {line['henry']['kernels']} kernels", file=sys.stderr, flush=True)
    if options.output:
        options.output.write_text("".join(json.dumps(r) + "\n" for r in results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
