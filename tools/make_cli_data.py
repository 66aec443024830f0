#!/usr/bin/env python3
"""Makes tests/cli/data: small models and their arrays. Needs PyTorch 2.11; run it from the root of the repository.

bf16.pt2    a type that .npy files lack
mutate.pt2  writes to its input and to a buffer, and has a Python number in its signature
data.pt2    sizes and numbers that only the data tells: nonzero, masks, item, unique, a number inside a branch
number.pt2  a whole number among its inputs, as a symbol (PyTorch 2.11 exports no symbolic float or bool)
constants.pt2   a float, a bool and an int among its inputs, as constants; a tensor that is one
branch_size.pt2 a branch whose result's size depends on data: Henry refuses it
sizes.pt2   a symbolic size, results of several layouts
branch.pt2  a branch that hands its input on
loops.pt2   loops: over a symbolic number of elements, while the data says so, of many rounds, of none, one in the other, with a branch
loop_numbers.pt2  loops with whole numbers among what they take and carry, and sizes that only the data tells in their bodies
stacks.pt2  loops whose rounds are results, one beside the other: of as many rounds as the data says, and of a number that is known
combine.pt2  associative_scan: both modes, backwards, along each dimension, of trees of tensors, of a symbolic number of elements
assert.pt2  an assertion on what was computed
random.pt2  random numbers
lstm.pt2    a recurrent layer whose states are recorded with a dimension more, as PyTorch up to 2.11 does
gru.pt2     recurrent layers without a batch
low_rank.pt2  a linear layer with an update of rank 2, normalised by rows: what depends on weights alone
nan.pt2     a square root of what may be negative, between products of matrices, for debuggers

    tools/make_cli_data.py [FILE...]    all, or these by their first word
"""
import sys

import numpy as np
import torch

# Compiled under a name of its own, so that the files do not record where this script lies.
SOURCE = '''
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop, while_loop_stack_output_op


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


class Data(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

    def forward(self, x, n, p):
        rows = torch.nonzero(x[:, 0] > 0).squeeze(1)
        k = n.item()
        torch._check(k >= 1)
        torch._check(k <= x.shape[0])
        self.seen.add_(rows.shape[0])
        def some(x, n):
            m = n.item()
            return (torch.arange(6) < m).sum() + x.sum().to(torch.int64)
        chosen = torch.cond(p, some, lambda x, n: x.sum().to(torch.int64), (x, n))
        both = torch.cat([x[rows], x[:k]])
        return rows, both.cumsum(0), x[x > 0.5], torch.unique(n + rows % 2), torch.zeros(k) + k, chosen, rows.shape[0], x.sum().item()


class Number(torch.nn.Module):
    def forward(self, x, k):
        return x * k + torch.arange(k).sum(), k + 1


class Constants(torch.nn.Module):
    def forward(self, x, a: float, flag: bool, n: int):
        return (x * a if flag else x) + n + torch.tensor([10.0, 20.0, 30.0])


class Loops(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.linspace(-0.5, 0.5, 16).reshape(4, 4))

    def grow(self, x):
        """While no element is beyond 100, of any sign, and at most 40 times."""
        def test(i, done, x):
            return (i < 40) & ~done

        def body(i, done, x):
            x = x * 1.25
            return i + 1, (x.abs() > 100).any(), x

        return while_loop(test, body, (torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.bool), x))

    def table(self, x, h):
        """Rows of a table, one a round, as many as x has."""
        def test(i, table, h):
            return (i < x.shape[0]) & (i < 12)

        def body(i, table, h):
            h = h.sin() + 0.5
            return i + 1, table.index_put((i,), h), h

        return while_loop(test, body, (torch.zeros((), dtype=torch.int64), torch.zeros(12, 4), h))

    def nested(self, h):
        def inner(i, x):
            j = torch.zeros((), dtype=torch.int64)
            return while_loop(lambda j, x: j < i, lambda j, x: (j + 1, x * 0.5 + 1), (j, x))[1]

        def body(i, x):
            x = torch.cond(i % 2 == 0, lambda x: x * 2, lambda x: x - 1, (inner(i, x),))
            return i + 1, x

        return while_loop(lambda i, x: (i < 6) & (x.sum() < 1e6), body, (torch.zeros((), dtype=torch.int64), h))

    def forward(self, x, h):
        def step(h, e):
            h = torch.tanh(h @ self.w + e)
            return h, h.relu()

        last, states = scan(step, h, x)
        soft = mapped(lambda e: (e * 2).softmax(-1), x)
        count, _, grown = self.grow(h)
        _, table, _ = self.table(x, h)
        many = while_loop(lambda i, x: i < 1000, lambda i, x: (i + 1, x * 0.999 + 0.001), (torch.tensor(0), h))[1]
        none = while_loop(lambda i, x: (i < 0) & (x.sum() > 0), lambda i, x: (i + 1, x + 1), (torch.tensor(0), h.flip(0)))[1]
        return last, states, soft, count, grown, table, many, none, *self.nested(h)


class Stacks(torch.nn.Module):
    def forward(self, x, n):
        def more(i, v, n):
            return (i < n) & (i < 9)

        def step(i, v, n):
            return i + 1, torch.tanh(v * 1.5 + i)

        zero = torch.zeros((), dtype=torch.int64)
        numbers, values = while_loop_stack_output_op(more, step, (zero, x), (n,))
        ones, sums = while_loop_stack_output_op(lambda i, v: i < 20, lambda i, v: (i + 1, v + i), (zero, x), ())
        return numbers, values, values.sum(0) + x, ones, sums


class LoopNumbers(torch.nn.Module):
    """What PyTorch 2.11 saves: a literal among carried tensors, as in (0, x), it does not."""

    def taken(self, x):
        n = x.shape[0]
        zero = torch.zeros((), dtype=torch.int64)
        total = while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 0.5 + n), (zero, x.sum()))[1]
        return total, mapped(lambda y: y * n + 1, x)

    def carried(self, x):
        n = x.shape[0]
        i, y = while_loop(lambda i, y: i < 19, lambda i, y: (i + 2, y * 1.25 + i), (n, x))
        a, b = while_loop(lambda a, b: a * 2 < b, lambda a, b: (a + 3, b + a // 2), (1, n))
        count, = while_loop(lambda i: i < 40, lambda i: (i + 1,), (0,))
        return i, y, a, b, count, torch.zeros(count) + b

    def chosen(self, x, k):
        """Elements beyond 0, one fewer each round; a part whose length is the number of the round."""
        def test(i, x):
            return (i < 6) & (x[x > 0].sum() > 1)

        def body(i, x):
            rows = torch.nonzero(x > 0).squeeze(1)
            n = (i % 4 + 1).item()
            torch._check(n >= 1)
            torch._check(n <= 8)
            part = torch.cat([x.repeat(8)[:n].cumsum(0), torch.zeros(8)])[:8]
            return i + 1, x - x[rows].sum() / 16 + part.sum() / 64

        i, y = while_loop(test, body, (k, x))
        return i, y, mapped(lambda e: e[e > 0].sum() + torch.nonzero(e).shape[0], x.repeat(4).reshape(4, -1))

    def large(self, x, k):
        """Sizes without a bound, which grow and shrink."""
        def body(i, y):
            n = ((i * 7919) % 5000 + 20000).item()
            torch._check(n >= 0)
            return i + 1, y * 0.5 + torch.arange(n).cumsum(0).amax().to(torch.float32) / 1e8

        return while_loop(lambda i, y: i < 7, body, (k, x))[1]

    def forward(self, x, k):
        return *self.taken(x), *self.carried(x), *self.chosen(x, k), self.large(x, k)


class Combine(torch.nn.Module):
    """combine_mode="pointwise" stays an operator; "generic" is torch.vmap in steps, for a number of elements that is known, which run_decompositions applies."""

    def forward(self, x, h):
        def pair(a, b):
            return a[0] * b[0], a[1] * b[0] + b[1]

        def tree(a, b):
            return {"decay": a["decay"] * b["decay"], "rest": [a["rest"][0] * b["decay"] + b["rest"][0], a["rest"][1] + b["rest"][1]]}

        gates, steps = torch.sigmoid(x), x.cos()
        long = torch.sin(torch.arange(80.0)).reshape(40, 2)
        results = [
            associative_scan(torch.add, h, dim=0, combine_mode="pointwise"),
            associative_scan(torch.maximum, h, dim=1, combine_mode="pointwise", reverse=True),
            associative_scan(lambda a, b: torch.minimum(a, b), h, dim=0, combine_mode="generic", reverse=True),
            associative_scan(torch.matmul, h.reshape(6, 2, 2), dim=0, combine_mode="generic"),
            *associative_scan(pair, (torch.sigmoid(long), long), dim=0, combine_mode="pointwise"),
            *associative_scan(pair, (gates, steps), dim=0, combine_mode="pointwise"),
            *associative_scan(pair, (torch.sigmoid(h), h), dim=0, combine_mode="generic")]
        whole = associative_scan(tree, {"decay": gates, "rest": [steps, (x * 4).to(torch.int64)]}, dim=0, combine_mode="pointwise")
        return *results, whole["decay"], *whole["rest"]


class BranchSize(torch.nn.Module):
    def forward(self, x, p):
        return torch.cond(p, lambda x: torch.nonzero(x > 0).squeeze(1), lambda x: torch.nonzero(x < 0).squeeze(1), (x,))


class Sizes(torch.nn.Module):
    def forward(self, x):
        return (x * 2 + x.shape[0]).relu(), x.sum(1), x.t() + 1, (x.t() * 2).contiguous()


class Branch(torch.nn.Module):
    def forward(self, x, y):
        a, b = torch.cond(x.sum() > 0, lambda x, y: (x.clone(), y * 2), lambda x, y: (y.clone(), x + 1), (x, y))
        return a, a + b


class Assert(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        torch._assert_async(y.sum() > 0, "the sum must be positive")
        return y + 1


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.LSTM(2, 4, proj_size=3, bidirectional=True, batch_first=True)

    def forward(self, x):
        steps, (h, c) = self.layers(x)
        return steps, h[-1] * 2


class Gru(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.GRU(2, 3, num_layers=2)

    def forward(self, x):
        return self.layers(x)


class LowRank(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        numbers = torch.sin(torch.arange(n * n, dtype=torch.float32)).reshape(n, n)
        self.weight, self.scale = torch.nn.Parameter(numbers), torch.nn.Parameter(torch.arange(n) / n)
        self.a, self.b = torch.nn.Parameter(numbers[:2] / 4), torch.nn.Parameter(numbers[:, :2] / 4)

    def forward(self, x):
        merged = self.weight + 0.5 * self.b @ self.a
        unit = merged / merged.norm(dim=1, keepdim=True)
        return x @ (unit * self.scale.unsqueeze(1)).t()


class Nan(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)
        for layer in self.first, self.second:
            rows, columns = layer.weight.shape
            layer.weight.data = (torch.arange(rows * columns) % 3 / 4 - 0.25).reshape(rows, columns)
            layer.bias.data = torch.arange(rows) / 4

    def forward(self, x):
        h = self.first(x)
        root = torch.sqrt(h + 1)
        return self.second(root), torch.cat([root, h], 1)


class Random(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)
'''
exec(compile(SOURCE, "model.py", "exec"))
FOLDER = "tests/cli/data/"


def make_bf16():
    x = torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.25, 100.0]], dtype=torch.bfloat16)
    y = torch.ones(2, 3)
    torch.export.save(torch.export.export(Bf16(), (x, y)), FOLDER + "bf16.pt2")
    a, b = Bf16()(x, y)
    for name, array in ("x", x.float()), ("y", y), ("out0", a.float()), ("out1", b):
        np.save(f"{FOLDER}bf16_{name}.npy", array.numpy())


def make_nan():
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.5, 1.0, 1.5, -1.0]])
    bad = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.5, 7.0, 1.5, -1.0]])
    torch.export.save(torch.export.export(Nan(), (x,)), FOLDER + "nan.pt2")
    np.save(FOLDER + "nan_x.npy", x.numpy())
    np.save(FOLDER + "nan_bad.npy", bad.numpy())
    assert torch.isfinite(Nan()(x)[0]).all() and not torch.isfinite(Nan()(bad)[0]).all()


def make_mutate():
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 6.0, 5.0]])
    torch.export.save(torch.export.export(Mutate(), (x.clone(), 3)), FOLDER + "mutate.pt2")
    np.save(FOLDER + "mutate_x.npy", x.numpy())


def save(name, model, args, decompose=False, **options):
    program = torch.export.export(model, args, **options)
    torch.export.save(program.run_decompositions() if decompose else program, f"{FOLDER}{name}.pt2")
    for k, value in enumerate(args):
        np.save(f"{FOLDER}{name}_in{k}.npy", value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value))
    outputs = model(*args)
    for k, value in enumerate(outputs if isinstance(outputs, tuple) else (outputs,)):
        np.save(f"{FOLDER}{name}_out{k}.npy", value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value))


def make_data():
    x = torch.tensor([[1.0, -2.0, 0.5], [-1.0, 4.0, 0.25], [2.0, 0.0, 1.0], [0.75, 3.0, -3.0], [-0.5, 1.0, 2.0]])
    save("data", Data(), (x, torch.tensor(4), torch.tensor(True)))


def make_number():
    save("number", Number(), (torch.tensor([1.0, 2.0, 3.0]), 4), dynamic_shapes={"x": None, "k": torch.export.Dim.DYNAMIC})


def make_constants():
    x = torch.tensor([1.0, -2.0, 3.0])
    save("constants", Constants(), (x, 0.25, True, 3))


def make_branch_size():
    x = torch.tensor([1.0, -2.0, 3.0])
    torch.export.save(torch.export.export(BranchSize(), (x, torch.tensor(True))), FOLDER + "branch_size.pt2")


def export(name, model, args, **options):
    torch.export.save(torch.export.export(model, args, **options), f"{FOLDER}{name}.pt2")


def make_sizes():
    export("sizes", Sizes(), (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},))


def make_branch():
    export("branch", Branch(), (torch.ones(2, 3), torch.ones(2, 3)))


def make_loops():
    x = torch.linspace(-2, 2, 28).reshape(7, 4)
    save("loops", Loops(), (x, torch.tensor([0.5, -1.0, 0.25, 2.0])),
         dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)}, {}))


def make_stacks():
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    save("stacks", Stacks(), (x, torch.tensor(4)))
    np.save(FOLDER + "stacks_none.npy", np.asarray(0))


def make_loop_numbers():
    x = torch.tensor([1.0, -2.0, 0.5, 3.0, -0.25])
    save("loop_numbers", LoopNumbers(), (x, torch.tensor(1)), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)}, {}))


def make_combine():
    x = torch.linspace(-2, 2, 28).reshape(7, 4)
    save("combine", Combine(), (x, torch.linspace(-1, 1, 24).reshape(6, 4)),
         dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)}, {}), decompose=True)


def make_assert():
    export("assert", Assert(), (torch.ones(2, 3),))


def record_old_states(program):
    """Up to 2.11 the states of an LSTM are recorded as [layers, 1, batch, width]; what they are is [layers, batch, width]."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if "lstm" in str(node.target):
            with value[1].fake_mode:
                node.meta["val"] = (value[0], value[1].unsqueeze(1), value[2].unsqueeze(1))
        elif len(node.args) == 2 and "lstm" in str(getattr(node.args[0], "target", "")) and node.args[1] > 0:
            node.meta["val"] = node.args[0].meta["val"][node.args[1]]
        elif "select" in str(node.target):
            node.meta["val"] = node.args[0].meta["val"][-1]
        elif "mul" in str(node.target):
            node.meta["val"] = node.args[0].meta["val"]


def make_recurrent():
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 24).reshape(3, 4, 2)
    save("lstm", Lstm().eval(), (x,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},))
    save("gru", Gru().eval(), (x[0],))
    for name, rework in ("lstm", record_old_states), ("gru", lambda program: None):
        program = torch.export.load(f"{FOLDER}{name}.pt2")
        rework(program)
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # where PyTorch lies on the machine that made the file
        torch.export.save(program, f"{FOLDER}{name}.pt2")


def make_low_rank():
    x = torch.cos(torch.arange(160, dtype=torch.float32)).reshape(2, 80)
    save("low_rank", LowRank(80), (x,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},))
    program = torch.export.load(f"{FOLDER}low_rank.pt2")
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # where PyTorch lies on the machine that made the file
    torch.export.save(program, f"{FOLDER}low_rank.pt2")


def make_random():
    export("random", Random(), (torch.ones(2, 3),))


for made in sys.argv[1:] or ["bf16", "mutate", "data", "number", "constants", "branch_size", "sizes", "branch", "loops", "loop_numbers", "stacks", "combine", "assert", "random", "recurrent", "low_rank"]:
    globals()["make_" + made]()
