"""Products of a number of rows that differs from call to call, against products made for each number:

    tuning_sizes.py --henry PROGRAM [-o RESULTS.jsonl] [--budget 30s] [--rounds N]

A linear layer is exported with a dynamic number of rows, once at 64 rows and once at 4096, and tuned at 64, 256 and 4096.
For each of these numbers, and for 1000, at which the first two were not timed, the same layer is exported with just that
number, and tuned. Both run as bundles, in turns (tuning.py). The figure is the time of the first in units of the second.
"""

import pathlib
import statistics
import tempfile

import numpy
import torch

from tuning import call, keep, parser_of, turns

LAYERS = ((768, 3072), (3072, 768), (1024, 4096))
EXPORTED = (64, 4096)
HINTS = (64, 256, 4096)
ROWS = (64, 256, 1000, 4096)
HEAD = """\
| layer | exported at | rows | dynamic ms | own ms | ratio | from | to |
|---|---:|---:|---:|---:|---:|---:|---:|"""


def export(layer, rows, path, is_dynamic):
    """Saves the layer; the name of its symbol, or None."""
    dim = torch.export.Dim("rows", min=1, max=8192)
    exported = torch.export.export(layer, (torch.zeros(rows, layer.in_features),), dynamic_shapes=({0: dim},) if is_dynamic else None)
    torch.export.save(exported, path)
    return next((str(symbol) for symbol in exported.range_constraints), None)


def tuned(options, layer, rows, folder, is_dynamic):
    """The bundle of the layer, tuned."""
    name = f"{'dynamic' if is_dynamic else 'own'}{rows}"
    path, bundle, cache = folder / f"{name}.pt2", str(folder / f"{name}.hnb"), str(folder / f"{name}_cache")
    symbol = export(layer, rows, path, is_dynamic)
    hint = ["--hint", f"{symbol}={','.join(map(str, HINTS))}"] if is_dynamic else []
    call([options.henry, "tune", str(path), "--budget", options.budget, *hint], cache)
    call([options.henry, "compile", str(path), "-o", bundle, "-q"], cache)
    return bundle


def measure(options, sizes, folder):
    torch.manual_seed(0)
    layer = torch.nn.Linear(*sizes)
    dynamic = {rows: tuned(options, layer, rows, folder, True) for rows in EXPORTED}
    for rows in ROWS:
        own = tuned(options, layer, rows, folder, False)
        given = folder / "input.npy"
        numpy.save(given, numpy.random.default_rng(rows).standard_normal((rows, sizes[0]), dtype=numpy.float32))
        for exported, bundle in dynamic.items():
            times = turns(options.henry, bundle, own, options.rounds, str(folder / "cache"), ["--input", str(given)])
            ratios = sorted(first / second for first, second in times)
            yield {
                "layer": f"{sizes[0]} to {sizes[1]}",
                "exported": exported,
                "rows": rows,
                "is_hint": rows in HINTS,
                "dynamic_ms": statistics.median(first for first, _ in times),
                "own_ms": statistics.median(second for _, second in times),
                "ratio": statistics.median(ratios),
                "ratio_from": ratios[0],
                "ratio_to": ratios[-1],
            }


def row(r):
    return (
        f"| {r['layer']} | {r['exported']} | {r['rows']} | {r['dynamic_ms']:.3f} | {r['own_ms']:.3f} "
        f"| {r['ratio']:.3f} | {r['ratio_from']:.3f} | {r['ratio_to']:.3f} |"
    )


def main():
    options = parser_of(__doc__).parse_args()
    print(HEAD)
    results = []
    for sizes in LAYERS:
        with tempfile.TemporaryDirectory() as folder:
            for result in measure(options, sizes, pathlib.Path(folder)):
                results.append(result)
                print(row(result), flush=True)
    keep(results, options.output)


if __name__ == "__main__":
    main()
