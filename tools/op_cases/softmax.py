"""Softmax, log softmax and attention."""
import torch

nan, inf = float("nan"), float("inf")


def rows(c):
    yield c.ramp((2, 3))
    yield c.ramp((2, 3, 2)).double()
    yield c.tensor([[1, nan, 2], [-inf, -inf, -inf], [inf, 0, 1], [-inf, 3, 200]])
    yield c.ramp((2, 3), torch.bfloat16)
    yield c.ramp((2, 3), torch.float16)
    yield torch.zeros(2, 0)
    yield torch.zeros(0, 3)
    yield c.tensor(2.5)
    yield c.ramp((3, 1))


def softmax(c):
    for x in rows(c):
        for dim in {0, -1} if x.dim() else {0, -1}:
            # PyTorch's kernels for 16-bit floats round max + log(sum) too
            tol = {torch.float16: {"rtol": 2e-3, "atol": 2e-3}, torch.bfloat16: {"atol": 4e-3}}.get(x.dtype, {})
            for op in ("softmax", "log_softmax"):
                c.add(f"aten._{op}.default", x, dim, False, **tol)
                c.add(f"aten.{op}.int", x, dim, **tol)
                c.add(f"aten.{op}.int", x, dim, torch.float64)
            c.add("aten._safe_softmax.default", x, dim, **tol)
            if x.numel() and x.dtype != torch.float16:
                for op in ("softmax", "log_softmax"):
                    y = getattr(torch.ops.aten, "_" + op).default(x, dim, False)
                    c.add(f"aten._{op}_backward_data.default", c.ramp(tuple(x.shape), x.dtype, seed=5), y, dim, x.dtype, **({"atol": 2e-2} if x.dtype == torch.bfloat16 else {"atol": 1e-5}))
    c.add("aten.softmax.int", c.ramp((3,), torch.int64), 0, torch.float32)


def attention(c):
    r = lambda *s, seed=0, dtype=torch.float32: c.ramp(s, dtype, step=0.125, lo=-1, seed=seed)
    op, tol = "aten.scaled_dot_product_attention.default", {"rtol": 1e-5, "atol": 1e-5}
    q, k, v = r(2, 2, 3, 4), r(2, 2, 5, 4, seed=3), r(2, 2, 5, 2, seed=6)
    c.add(op, q, k, v, **tol), c.add(op, q, k, v, scale=0.3, **tol), c.add(op, q, k, v, is_causal=True, **tol)
    c.add(op, q[0], k[0], v[0], **tol), c.add(op, q[0, 0], k[0, 0], v[0, 0], is_causal=True, **tol)
    keep = c.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], torch.bool)
    for mask in (keep, keep.expand(2, 1, 3, 5), keep[:1], r(3, 5), r(1, 5), r(2, 2, 3, 5)):
        c.add(op, q, k, v, mask, **tol)
    big = r(2, 4, 3, 4)
    c.add(op, big, k, v, enable_gqa=True, **tol), c.add(op, big, k, v, enable_gqa=True, is_causal=True, **tol)
    c.add(op, q, k[:1], v[:1], **tol), c.add(op, q, k[:, :1], v[:, :1], **tol)
    c.add(op, r(1, 1, 1, 1), r(1, 1, 1, 1, seed=2), r(1, 1, 1, 1, seed=3), **tol)
    deep = [r(2, 3, 2, 3, 4, seed=1), r(2, 3, 1, 5, 4, seed=3), r(1, 3, 2, 5, 2, seed=6)]  # several batch dims
    for mask in (None, keep, keep[:, None, None].expand(3, 1, 3, 5)[:, :, :1], r(2, 1, 1, 3, 5), r(1, 1, 2, 3, 5)):
        c.add(op, *deep, mask, **tol)
    c.add(op, deep[0][None], deep[1][None], deep[2][None], is_causal=True, **tol)
    c.add(op, q.double(), k.double(), v.double()), c.add(op, q.bfloat16(), k.bfloat16(), v.bfloat16(), atol=8e-3)
    flash, v4 = "aten._scaled_dot_product_flash_attention_for_cpu.default", r(2, 2, 5, 4, seed=6)
    for kw in ({}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": r(1, 1, 3, 5)}):
        c.add(flash, q, k, v4, **kw, **tol)


def cases(c):
    softmax(c)
    attention(c)
