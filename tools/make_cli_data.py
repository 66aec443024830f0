#!/usr/bin/env python3
"""Makes tests/cli/data: two small models and their arrays. Needs PyTorch 2.11; run it from the root of the repository.

bf16.pt2    a type that .npy files lack
mutate.pt2  writes to its input and to a buffer, and has a Python number in its signature
"""
import numpy as np
import torch

# Compiled under a name of its own, so that the files do not record where this script lies.
SOURCE = '''
class Bf16(torch.nn.Module):
    def forward(self, x, y):
        return x * 2 + 1, x.float() - y


class Mutate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x, n: int = 3):
        self.total.add_(x.sum(0))
        x.mul_(2)
        return self.total * 1.0, x.argmax(1)
'''
exec(compile(SOURCE, "model.py", "exec"))
FOLDER = "tests/cli/data/"

x = torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.25, 100.0]], dtype=torch.bfloat16)
y = torch.ones(2, 3)
torch.export.save(torch.export.export(Bf16(), (x, y)), FOLDER + "bf16.pt2")
a, b = Bf16()(x, y)
for name, array in ("x", x.float()), ("y", y), ("out0", a.float()), ("out1", b):
    np.save(f"{FOLDER}bf16_{name}.npy", array.numpy())

x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 6.0, 5.0]])
torch.export.save(torch.export.export(Mutate(), (x.clone(), 3)), FOLDER + "mutate.pt2")
np.save(FOLDER + "mutate_x.npy", x.numpy())
