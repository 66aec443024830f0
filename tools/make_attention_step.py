#!/usr/bin/env python3
"""Writes tests/models/attention_step: a training step of three transformer blocks, whose attentions are the operators that PyTorch
takes on CPUs and on CUDA devices (flash and memory-efficient), with their gradients.

    tools/make_attention_step.py        needs PyTorch; the tests read only the files

Parameters are one vector, so that there are few files. The outputs, the loss and the parameters after a step of SGD, are
computed in double precision with plain products."""

import os
import shutil
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from op_cases import attention as operators  # noqa: E402

BATCH, TOKENS, WIDTH, HEADS, WORDS, RATE = 2, 12, 16, 2, 11, 0.1
ATEN = torch.ops.aten


class Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        r = ATEN._scaled_dot_product_flash_attention(q, k, v, 0.0, True)
        ctx.save_for_backward(q, k, v, r[0], r[1], r[6], r[7])
        return r[0]

    @staticmethod
    def backward(ctx, g):
        *operands, seed, offset = ctx.saved_tensors
        return ATEN._scaled_dot_product_flash_attention_backward(g, *operands, None, None, TOKENS, TOKENS, 0.0, True, seed, offset)


class Efficient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        out, lse, seed, offset = ATEN._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, True)
        ctx.save_for_backward(q, k, v, out, lse, seed, offset)
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, *rest = ctx.saved_tensors
        return ATEN._scaled_dot_product_efficient_attention_backward(g, q, k, v, None, *rest, 0.0, [True, True, True, False], True)[:3]


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def plain(q, k, v):
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(torch.ones(TOKENS, TOKENS).tril() == 0, -float("inf"))
    return torch.softmax(scores, -1) @ v


BLOCK = {"norm1": (WIDTH,), "qkv": (3 * WIDTH, WIDTH), "out": (WIDTH, WIDTH), "norm2": (WIDTH,), "up": (2 * WIDTH, WIDTH), "down": (WIDTH, 2 * WIDTH)}
SHAPES = [(f"{k}.{n}", s) for k in range(3) for n, s in BLOCK.items()] + [("head", (WORDS, WIDTH))]


def loss_of(parameters, x, words, attentions):
    parts = parameters.split([int(np.prod(s)) for _, s in SHAPES])
    p = {n: t.view(s) for (n, s), t in zip(SHAPES, parts)}
    for k, attention in enumerate(attentions):
        y = F.rms_norm(x, (WIDTH,)) * p[f"{k}.norm1"]
        q, key, v = F.linear(y, p[f"{k}.qkv"]).view(BATCH, TOKENS, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        x = x + F.linear(attention(q, key, v).transpose(1, 2).reshape(x.shape), p[f"{k}.out"])
        x = x + F.linear(F.gelu(F.linear(F.rms_norm(x, (WIDTH,)) * p[f"{k}.norm2"], p[f"{k}.up"])), p[f"{k}.down"])
    return F.cross_entropy(F.linear(x, p["head"]).view(-1, WORDS), words.view(-1))


def step(attentions):
    def run(x, words, parameters):
        parameters = parameters.requires_grad_()
        loss = loss_of(parameters, x, words, attentions)
        (gradient,) = torch.autograd.grad(loss, [parameters])
        return loss.detach(), parameters.detach() - RATE * gradient
    return run


def save(program, path):
    """Deflated, and without the example inputs."""
    torch.export.save(program, path + ".all")
    with zipfile.ZipFile(path + ".all") as whole, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as small:
        for name in whole.namelist():
            if "sample_inputs" not in name:
                small.writestr(zipfile.ZipInfo(name), whole.read(name), zipfile.ZIP_DEFLATED)
    os.remove(path + ".all")


def main():
    folder = os.path.join(ROOT, "tests", "models", "attention_step")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    torch.manual_seed(7)
    parameters = torch.cat([torch.ones(s) if len(s) == 1 else torch.randn(s).flatten() * s[1] ** -0.5 for _, s in SHAPES])
    inputs = torch.randn(BATCH, TOKENS, WIDTH), torch.randint(0, WORDS, (BATCH, TOKENS)), parameters
    module = make_fx(step([causal, Flash.apply, Efficient.apply]), tracing_mode="fake")(*inputs)
    for node in module.graph.nodes:  # half of the file, and of no use
        node.meta.pop("stack_trace", None)
    save(torch.export.export(module, inputs), os.path.join(folder, "model.pt2"))
    expected = step([plain] * 3)(inputs[0].double(), inputs[1], parameters.detach().double())
    for k, t in enumerate(inputs):
        np.save(os.path.join(folder, f"input_{k}.npy"), t.detach().numpy())
    for k, t in enumerate(expected):
        np.save(os.path.join(folder, f"output_{k}.npy"), t.float().numpy())


if __name__ == "__main__":
    assert operators.OPERATORS  # code for the operators that CPUs do not have
    main()
