"""Activations, forward."""
import torch


def cases(c):
    plain = "relu relu6 hardtanh gelu silu hardsigmoid hardswish leaky_relu elu celu selu softplus mish log_sigmoid_forward softshrink hardshrink"
    for name in plain.split():
        c.add(f"aten.{name}.default", c.edges())
        for dtype in (torch.float64, torch.bfloat16, torch.float16):
            c.attempt(f"aten.{name}.default", c.tensor([0.75, -2.5], dtype))
    for dtype in (torch.float32, torch.bfloat16):
        x = c.ramp((2, 4), dtype)
        c.add("aten.gelu.default", x, approximate="tanh")
        c.add("aten.hardtanh.default", x, -0.5, 2.5)
        c.add("aten.leaky_relu.default", x, 0.2)
        c.add("aten.elu.default", x, 1.5, 1.1, 0.9)
        c.add("aten.celu.default", x, 0.7)
        c.add("aten.softplus.default", x, 2.0, 5.0)
        c.add("aten.softshrink.default", x, 1.25)
        c.add("aten.hardshrink.default", x, 1.25)
        c.add("aten.threshold.default", x, 0.5, -7.0)
        c.add("aten.glu.default", x)
        c.add("aten.glu.default", x, 0)
        c.add("aten.prelu.default", x, c.tensor([0.25, -0.5, 0.1, 2], dtype))
        c.add("aten.prelu.default", x, c.tensor([0.3], dtype))
        c.add("aten._prelu_kernel.default", x, c.tensor([[0.3]], dtype))
    c.add("aten.prelu.default", c.ramp((2, 3, 2)), c.tensor([0.25, -0.5, 0.1]))
    c.add("aten.prelu.default", c.ramp((3,)), c.tensor([0.25]))
    c.add("aten.prelu.default", c.tensor(-2.0), c.tensor([0.25]))
    for dtype in (torch.int64, torch.int32, torch.uint8):
        c.add("aten.relu.default", c.edges(dtype))
        c.attempt("aten.hardtanh.default", c.edges(dtype), 0, 3)
        c.add("aten.threshold.default", c.edges(dtype), 1, 5)
    c.attempt("aten.relu6.default", c.edges(torch.int64))
    c.add("aten.gelu.default", torch.zeros(2, 0))
    c.add("aten.silu.default", c.tensor(-1.5))
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        c.attempt("aten.rrelu_with_noise_functional.default", c.edges(dtype), torch.zeros(12, dtype=dtype), 0.25, 0.5)
