"""Training steps of the benchmarks' models, each as one exported graph:

    training_steps.py DIRECTORY [NAME]...

DIRECTORY/NAME_step/ gets model.pt2 and input_K.npy. The step is the forward pass in training mode, the loss and the backward
pass; its results are the loss, new running statistics of batch norms, and the gradients. Batches of 4, without dropout, so that
nothing is random. The graph is what autograd runs, in ATen ops, traced through the model of make_models.py.
"""

import pathlib
import shutil
import sys
import time
import warnings

import numpy as np
import torch
from torch.nn import functional

import make_models

BATCH = 4
NAMES = ["gpt2_124m", "bert_base", "resnet50", "vit_b_16", "mobilenet_v3_large", "llama_8x1024"]


def next_token_loss(logits, ids):
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def class_loss(logits, labels):
    return functional.cross_entropy(logits, labels)


def distance(states, wanted):
    return functional.mse_loss(states, wanted)


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
        if isinstance(getattr(module, "dropout_prob", None), float):
            module.dropout_prob = 0.0
    return model


def batch_of(example):
    shape = (BATCH, *example.shape[1:])
    if example.is_floating_point():
        return torch.randn(shape)
    return torch.randint(0, int(example.max()) + 1, shape)


def loss_and_target(name, model, batch):
    """The loss as a function of the model's result and a target; the target is None where the batch itself is it."""
    if name in ("gpt2_124m", "llama_8x1024"):
        return next_token_loss, None
    with torch.no_grad():
        result = model(batch)
    if name == "bert_base":
        return distance, torch.randn(result.shape)
    return class_loss, torch.randint(0, result.shape[1], (BATCH,))


class Step(torch.nn.Module):
    """The traced graph with the model's weights and statistics as its own."""

    def __init__(self, graph, weights, buffers):
        super().__init__()
        self.graph = graph
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(w, requires_grad=False) for w in weights)
        for k, value in enumerate(buffers):
            self.register_buffer(f"statistic_{k}", value)
        self.buffer_count = len(buffers)

    def forward(self, *inputs):
        return self.graph(inputs, list(self.weights), [getattr(self, f"statistic_{k}") for k in range(self.buffer_count)])


def trace(name):
    from torch.fx.experimental.proxy_tensor import make_fx

    torch.manual_seed(make_models.SEED)
    model, example = make_models.MODELS[name]()
    batch = batch_of(example)
    model = without_dropout(model).train()
    loss_of, target = loss_and_target(name, model, batch)
    inputs = (batch,) if target is None else (batch, target)
    names, weights = zip(*((n, w.detach()) for n, w in model.named_parameters()))
    places, buffers = [n for n, _ in model.named_buffers()], [b.detach().clone() for _, b in model.named_buffers()]

    def step(inputs, weights, buffers):
        weights = [w.detach().requires_grad_() for w in weights]
        buffers = [b.clone() for b in buffers]
        state = dict(zip(names, weights)) | dict(zip(places, buffers))
        result = torch.func.functional_call(model, state, (inputs[0],))
        loss = loss_of(result, inputs[-1])
        statistics = [b for place, b in zip(places, buffers) if place.endswith(("running_mean", "running_var"))]
        return loss.detach(), *statistics, *torch.autograd.grad(loss, weights)

    graph = make_fx(step, tracing_mode="fake")(inputs, list(weights), buffers)
    return torch.export.export(Step(graph, weights, buffers), inputs, strict=False), inputs


def make(name, directory):
    program, inputs = trace(name)
    torch.export.save(program, directory / "model.pt2")
    for k, value in enumerate(inputs):
        np.save(directory / f"input_{k}.npy", value.numpy())
    return sum(1 for node in program.graph.nodes if node.op == "call_function")


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    root, names = pathlib.Path(arguments[0]), arguments[1:] or NAMES
    warnings.filterwarnings("ignore")
    torch.set_num_threads(2)
    for name in names:
        place, partial = root / f"{name}_step", root / f"{name}_step.partial"
        if (place / "model.pt2").exists():
            continue
        begin = time.perf_counter()
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        nodes = make(name, partial)
        partial.rename(place)
        print(f"{name}_step: {nodes} nodes, {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
