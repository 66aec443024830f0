"""Attention with a log-sum-exp, and its gradients, in the operators of each of PyTorch's kernels.

Those of CUDA have no code for CPUs. They get one here: what they are to compute, in double precision."""
import math

import torch
from torch import library

S = "_scaled_dot_product_"
INF = float("inf")


def parts(q, k, v, bias, causal, scale):
    """The operands in double precision, heads of keys repeated, with scores and the log-sum-exp of their rows."""
    q, k, v = (t.double() for t in (q, k, v))
    group = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ k.mT * scale
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -INF)
    if bias is not None:
        scores = scores + bias.double()
    return q, k, v, scale, scores, torch.logsumexp(scores, -1), group


def forward(q, k, v, bias, causal, scale):
    _, _, v, _, scores, lse, _ = parts(q, k, v, bias, causal, scale)
    weights = (scores - lse[..., None]).exp().nan_to_num(0)
    return (weights @ v).to(q.dtype), lse.float()


def backward(g, q, k, v, bias, out, lse, causal, scale):
    dtype, keys = q.dtype, k.shape
    q, k, v, scale, scores, _, group = parts(q, k, v, bias, causal, scale)
    g, lse = g.double(), lse.double().reshape(*lse.shape[:2], -1, 1)[:, :, :q.shape[-2]]
    p = (scores - lse).exp().masked_fill(scores == -INF, 0)
    ds = p * (g @ v.mT - (g * out.double()).sum(-1, keepdim=True))
    shared = lambda t: t.reshape(keys[0], keys[1], group, *t.shape[-2:]).sum(2).to(dtype)
    db = None if bias is None else ds.sum_to_size(bias.shape).to(bias.dtype)
    return (ds @ k * scale).to(dtype), shared(ds.mT @ q * scale), shared(p.mT @ g), db


def state():
    return torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)


def flash(q, k, v, dropout=0.0, causal=False, debug=False, *, scale=None):
    return *forward(q, k, v, None, causal, scale), None, None, q.shape[2], k.shape[2], *state(), q.new_empty(0)


def flash_backward(g, q, k, v, out, lse, cq, ck, mq, mk, dropout, causal, seed, offset, *, scale=None):
    return backward(g, q, k, v, None, out, lse, causal, scale)[:3]


def efficient(q, k, v, bias, wants, dropout=0.0, causal=False, *, scale=None):
    out, lse = forward(q, k, v, bias, causal, scale)
    rows = -(-q.shape[2] // 32) * 32
    lse = torch.nn.functional.pad(lse, (0, rows - q.shape[2]), value=INF) if wants else lse[..., :0]
    return out, lse, *state()


def efficient_backward(g, q, k, v, bias, out, lse, seed, offset, dropout, wanted, causal=False, *, scale=None):
    grads = backward(g, q, k, v, bias, out, lse, causal, scale)
    return *grads[:3], grads[3] if wanted[3] else None


def cudnn(q, k, v, bias, wants, dropout=0.0, causal=False, debug=False, *, scale=None):
    out, lse = forward(q, k, v, bias, causal, scale)
    return out, lse[..., None], None, None, q.shape[2], k.shape[2], *state(), None


def cudnn_backward(g, q, k, v, out, lse, seed, offset, bias, cq, ck, mq, mk, dropout, causal, *, scale=None):
    return backward(g, q, k, v, bias, out, lse, causal, scale)[:3]


def fused(q, k, v, bias=None, dropout=0.0, causal=False, debug=False, *, scale=None):
    return *forward(q, k, v, bias, causal, scale), None, None, q.shape[2], k.shape[2], *state(), None


def fused_backward(g, q, k, v, bias, wanted, out, lse, cq, ck, mq, mk, dropout, causal, seed, offset, *, scale=None):
    return backward(g, q, k, v, bias, out, lse, causal, scale)


OPERATORS = library.Library("aten", "IMPL")
for name, functions in {"flash_attention": (flash, flash_backward), "efficient_attention": (efficient, efficient_backward),
                        "cudnn_attention": (cudnn, cudnn_backward), "fused_attention_overrideable": (fused, fused_backward)}.items():
    OPERATORS.impl(S + name, functions[0], "CPU", allow_override=True)
    OPERATORS.impl(S + name + "_backward", functions[1], "CPU", allow_override=True)

TOLERANCE = {torch.float32: {"rtol": 1e-4, "atol": 1e-5}, torch.float64: {"rtol": 1e-4, "atol": 1e-5},  # the log-sum-exp is f32
             torch.float16: {"rtol": 4e-3, "atol": 2e-3}, torch.bfloat16: {"rtol": 3e-2, "atol": 1.6e-2}}


def operands(c, heads, keys, m, n, d, dv, dtype=torch.float32, batch=1):
    r = lambda *s, seed: c.ramp((batch, *s), dtype, seed=seed)
    return r(heads, m, dv, seed=9), r(heads, m, d, seed=0), r(keys, n, d, seed=3), r(keys, n, dv, seed=6)


def add(c, kind, g, q, k, v, bias=None, causal=False, scale=None, wanted=(True,) * 4):
    """The forward operator, and its gradient with what that gave."""
    name, tol, seeds = f"aten.{S}{kind}", TOLERANCE[q.dtype], state()
    sequences = (None, None, q.shape[2], k.shape[2])
    if kind == "flash_attention_for_cpu":
        out, lse = c.add(name + ".default", q, k, v, 0.0, causal, attn_mask=bias, scale=scale, **tol)
        c.add(name + "_backward.default", g, q, k, v, out.contiguous(), lse.contiguous(), 0.0, causal, attn_mask=bias, scale=scale, **tol)
    if kind == "flash_attention":
        out, lse = c.add(name + ".default", q, k, v, 0.0, causal, scale=scale, keep=2, **tol)[:2]
        c.add(name + "_backward.default", g, q, k, v, out, lse, *sequences, 0.0, causal, *seeds, scale=scale, **tol)
    if kind == "efficient_attention":
        out, lse = c.add(name + ".default", q, k, v, bias, True, 0.0, causal, scale=scale, **tol)[:2]
        keep = 4 if bias is not None and wanted[3] else 3
        c.add(name + "_backward.default", g, q, k, v, bias, out, lse, *seeds, 0.0, list(wanted), causal, scale=scale, keep=keep, **tol)
    if kind == "cudnn_attention":
        out, lse = c.add(name + ".default", q, k, v, bias, True, 0.0, causal, scale=scale, keep=2, **tol)[:2]
        c.add(name + "_backward.default", g, q, k, v, out, lse, *seeds, bias, *sequences, 0.0, causal, scale=scale, **tol)
    if kind == "fused_attention_overrideable":
        out, lse = c.add(name + ".default", q, k, v, bias, 0.0, causal, scale=scale, keep=2, **tol)[:2]
        c.add(name + "_backward.default", g, q, k, v, bias, list(wanted), out, lse, *sequences, 0.0, causal, *seeds, scale=scale, keep=3 if bias is None else 4, **tol)


def cases(c):
    """Numbers of operands are up to 4, so that most scales are small."""
    small = {"scale": 0.0625}
    dead = c.ramp((3, 5))
    dead[1], dead[0, 2] = -INF, -INF
    flash_cpu, flash, efficient, cudnn, fused = kinds = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")
    for kind in kinds:
        add(c, kind, *operands(c, 2, 2, 3, 5, 4, 4), **small)
        add(c, kind, *operands(c, 4, 2, 3, 3, 8, 8, torch.bfloat16), causal=True, **small)  # shared heads of keys
    for kind in (flash_cpu, flash, efficient):
        add(c, kind, *operands(c, 2, 2, 3, 5, 4, 4, torch.float16), **small)
        add(c, kind, *operands(c, 1, 1, 5, 5, 4, 4, batch=2), causal=True)
        add(c, kind, *operands(c, 4, 1, 2, 3, 2, 2), **small)
    for kind in (flash, efficient, cudnn, fused):
        add(c, kind, *operands(c, 1, 1, 3, 5, 4, 6), **small)  # values of another size
    for kind in (flash_cpu, efficient, cudnn, fused):  # which have masks, and triangles of any shape
        add(c, kind, *operands(c, 1, 1, 3, 5, 4, 4), causal=True, **small)
        add(c, kind, *operands(c, 2, 2, 3, 5, 4, 4), bias=dead.reshape(1, 1, 3, 5), **small)
    for bias in (dead[None, None].expand(2, 2, 3, 5).contiguous(), c.ramp((2, 1, 1, 5))):
        add(c, efficient, *operands(c, 2, 2, 3, 5, 4, 4, batch=2), bias=bias, **small)
    for kind in (efficient, cudnn):
        add(c, kind, *operands(c, 2, 1, 3, 5, 4, 4, torch.float16), bias=dead.half().reshape(1, 1, 3, 5), wanted=(True, True, True, False), **small)
    add(c, flash_cpu, *operands(c, 1, 1, 3, 5, 4, 4, torch.float64), **small)
    g, q, k, v = operands(c, 1, 1, 33, 3, 4, 2)
    add(c, efficient, g, q, k, v, **small)
    c.add(f"aten.{S}efficient_attention.default", q[:, :, :3], k, v, None, False, atol=1e-5)
    add(c, efficient, *operands(c, 1, 1, 3, 5, 4, 4), bias=dead[None, None], wanted=(True, True, True, False), **small)
    many = c.ramp((1, 1, 3, 521))
    many[..., 5] = -INF
    add(c, flash_cpu, *operands(c, 1, 1, 1, 1, 1, 1))
    add(c, flash_cpu, *operands(c, 2, 2, 7, 13, 5, 5, batch=3), bias=c.ramp((7, 13)), scale=0.125)
    add(c, flash_cpu, *operands(c, 6, 3, 5, 5, 3, 3, torch.float16), bias=c.ramp((1, 1, 5, 5), torch.float16), **small)
    add(c, flash_cpu, *operands(c, 1, 1, 3, 521, 2, 2), bias=many, **small)  # keys in several blocks
    add(c, flash_cpu, *operands(c, 1, 1, 521, 523, 1, 1, torch.bfloat16), causal=True, **small)
