"""Exports the step of AdamW for the parameters of GPT-2 124M, or of a smaller one, as one graph:

    make_optimizer.py DIRECTORY [LAYERS WIDTH VOCABULARY POSITIONS]

DIRECTORY gets model.pt2. The graph is torch.optim's own functional update (one tensor after the other) on copies: it takes the lists of
parameters, gradients, first and second moments and steps, and returns the new parameters, moments and steps. Nothing is kept in it
but shapes, so the export needs no memory for the parameters.
"""

import pathlib
import sys
import warnings

import torch
from torch.optim.adamw import adamw

SETTINGS = dict(beta1=0.9, beta2=0.999, lr=1e-3, weight_decay=0.01, eps=1e-8)


def shapes(layers=12, width=768, vocabulary=50257, positions=1024):
    """Of GPT-2's parameters, in their order: the last matrix is the first one."""
    vector, block = (width,), []
    block += [vector, vector, (width, 3 * width), (3 * width,), (width, width), vector]
    block += [vector, vector, (width, 4 * width), (4 * width,), (4 * width, width), vector]
    return [(vocabulary, width), (positions, width)] + block * layers + [vector, vector]


class Step(torch.nn.Module):
    def forward(self, parameters, gradients, first, second, steps):
        parameters, first, second, steps = ([x.clone() for x in tensors] for tensors in (parameters, first, second, steps))
        adamw(parameters, list(gradients), first, second, [], steps, foreach=False, capturable=True, differentiable=False, fused=False,
              grad_scale=None, found_inf=None, has_complex=False, amsgrad=False, maximize=False, **SETTINGS)
        return parameters, first, second, steps


def main(arguments):
    if len(arguments) not in (1, 5):
        sys.exit(__doc__)
    directory, sizes = pathlib.Path(arguments[0]), shapes(*map(int, arguments[1:]))
    directory.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    with torch._subclasses.FakeTensorMode():
        lists = [[torch.empty(size) for size in sizes] for _ in range(4)]
        program = torch.export.export(Step(), (*lists, [torch.empty(()) for _ in sizes]), strict=False)
    program._example_inputs = None
    partial = directory / "model.pt2.partial"
    with open(partial, "wb") as file:
        torch.export.save(program, file)
    partial.rename(directory / "model.pt2")
    print(f"{len(sizes)} parameters, {sum(n.op == 'call_function' for n in program.graph.nodes)} nodes", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
