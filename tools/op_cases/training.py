"""Gradients that exported training steps leave in one piece: attention, gated units, resizing."""
import torch

T = {"rtol": 1e-5, "atol": 1e-5}


def attention(c, shape, keys, causal, mask, scale=None):
    q, k, v, g = c.ramp(shape), c.ramp(keys, seed=3), c.ramp(keys, seed=5), c.ramp(shape, seed=9)
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
    out, lse = out.contiguous(), lse.contiguous()
    c.add("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", g, q, k, v, out, lse, 0.0, causal, attn_mask=mask, scale=scale, rtol=1e-4, atol=1e-4)


def cases(c):
    attention(c, (1, 2, 3, 4), (1, 2, 3, 4), False, None), attention(c, (2, 1, 5, 4), (2, 1, 5, 4), True, None), attention(c, (1, 2, 3, 4), (1, 2, 6, 4), False, None, 0.25)
    attention(c, (1, 1, 3, 4), (1, 1, 5, 4), False, c.ramp((3, 5), seed=7)), attention(c, (1, 2, 1, 4), (1, 2, 1, 4), False, None)
    for dtype, tol in ((torch.float32, T), (torch.bfloat16, {"rtol": 1.6e-2, "atol": 1e-2}), (torch.float64, {})):
        x, g = c.ramp((3, 4), dtype), c.ramp((3, 2), dtype, seed=3)
        c.add("aten.glu_backward.default", g, x, 1, **tol), c.add("aten.glu_backward.default", g, x, -1, **tol)
        c.add("aten._prelu_kernel_backward.default", c.ramp((3, 4), dtype, seed=5), x, c.ramp((1, 4), dtype, seed=9), **tol)
    c.add("aten.glu_backward.default", c.ramp((1, 2)), c.ramp((2, 2)), 0, **T)
    for sizes, out in (((4, 5), (8, 10)), ((4, 5), (7, 3)), ((1, 3), (4, 1)), ((3, 3), (3, 3))):
        for align in (False, True):
            for name in ("bilinear", "bicubic"):
                g = c.ramp((1, 2) + out)
                c.add(f"aten.upsample_{name}2d_backward.default", g, list(out), [1, 2, *sizes], align, rtol=1e-4, atol=1e-4)
        c.add("aten.upsample_bilinear2d_backward.default", g, list(out), [1, 2, *sizes], False, out[0] / sizes[0], out[1] / sizes[1], rtol=1e-4, atol=1e-4)
