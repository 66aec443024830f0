#!/usr/bin/env python3
"""Writes tests/models/adamw_step: the step of AdamW for four parameters of three sizes, as bench/make_optimizer.py exports it for the
148 of GPT-2, with inputs and what PyTorch makes of them.

    tools/make_adamw_step.py        needs PyTorch; the tests read only the files
"""

import os
import sys
import warnings

import numpy as np
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import make_optimizer  # noqa: E402

SIZES = dict(layers=0, width=7, vocabulary=37, positions=10)


def eager(parameters, gradients, first, second, steps):
    """In place, on copies: the update for steps that the host knows, which is what torch.optim does on a CPU."""
    parameters, first, second, steps = ([x.clone() for x in tensors] for tensors in (parameters, first, second, steps))
    make_optimizer.adamw(parameters, gradients, first, second, [], steps, foreach=False, capturable=False, differentiable=False, fused=False,
                         grad_scale=None, found_inf=None, has_complex=False, amsgrad=False, maximize=False, **make_optimizer.SETTINGS)
    return parameters, first, second, steps


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(7)
    shapes = make_optimizer.shapes(**SIZES)
    lists = [[0.02 * torch.randn(shape) for shape in shapes] for _ in range(3)]
    lists += [[0.01 * torch.rand(shape) for shape in shapes], [torch.tensor(3.0 + k) for k in range(len(shapes))]]
    folder = os.path.join(ROOT, "tests", "models", "adamw_step")
    os.makedirs(folder, exist_ok=True)
    program = torch.export.export(make_optimizer.Step(), tuple(lists), strict=False)
    program._example_inputs = None
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # where the repository lies on the machine that made the file
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    for name, tensors in (("input", sum(lists, [])), ("output", sum(eager(*lists), []))):
        for k, tensor in enumerate(tensors):
            np.save(os.path.join(folder, f"{name}_{k}.npy"), tensor.numpy())


if __name__ == "__main__":
    main()
