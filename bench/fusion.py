"""Kernels and their bytes, of Henry and of TorchInductor, for the same graphs:

    fusion.py --henry PROGRAM [-o RESULTS.jsonl] [--steps] MODEL.pt2...

Both get the exported graph as it is, for the CPU, and are asked what they made of it; nothing is run. A kernel is a loop nest
that the compiler wrote, with all that it has fused: for Inductor a node of its schedule that is no call of a library, where
loops that share their outer loops are one. Bytes are counted by one rule (docs/metrics.md): in a kernel each element counts
once if the kernel reads it before it writes it, and once if it writes it, however often it does so; temporaries that never
leave the kernel do not count. Where an index comes from data, accesses count, and at most the buffer's elements. Sets of
elements are those of the index expressions of Inductor's dependencies. Calls of libraries and of operations (matrix products,
convolutions, attention, sort) are outside of both; the table has their number. Inductor counts twice: as it has scheduled,
and by the loop nests of its C++ ("its nests"), which are more where loops could not share their outer ones in the end.

--steps prints Inductor's kernels, too.
"""

import argparse
import json
import math
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np

HEAD = """\
| model | kernels | Inductor | its nests | calls | Inductor | bytes | Inductor | its nests | ratio |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""
CHUNK = 1 << 22  # points of an iteration space that are looked at together


# --- what Inductor does ---


class Stop(Exception):
    """Raised when the schedule is known: nothing needs to be compiled."""


def number(value):
    """A size: the graphs have no symbols, since they are compiled for their example inputs."""
    return int(value)


def strides_of(index, names):
    """The stride of each variable and the first element; None where the index is no such sum."""
    import sympy

    index = sympy.expand(index)
    strides = []
    for name in names:
        stride = index.coeff(name, 1)
        if stride.free_symbols:
            return None
        strides.append(int(stride))
        index = index - stride * name
    index = sympy.expand(index)
    return (strides, int(index)) if index.is_Integer else None


def has_no_doubles(dims):
    span = 0
    for stride, size in sorted((abs(s), n) for s, n in dims):
        if stride <= span:
            return False
        span += stride * (size - 1)
    return True


def points_of(names, sizes, index):
    """The elements of an access, as arrays of at most about CHUNK numbers."""
    import sympy

    modules = [
        {"FloorDiv": lambda a, b: a // b, "ModularIndexing": lambda a, b, c: a // b % c, "Mod": np.mod, "PythonMod": np.mod},
        "numpy",
    ]
    function = sympy.lambdify(names, index, modules)
    inner = len(sizes)
    while inner and math.prod(sizes[inner - 1 :]) <= CHUNK:
        inner -= 1
    grids = np.meshgrid(*(np.arange(n, dtype=np.int64) for n in sizes[inner:]), indexing="ij", sparse=True)
    for outer in np.ndindex(*sizes[:inner]):
        yield np.broadcast_to(function(*outer, *grids), sizes[inner:]).ravel()


class Elements:
    """A set of elements of one buffer."""

    def __init__(self, elems):
        self.elems = elems
        self.is_all, self.list, self.most = False, [], 0

    def add(self, dep):
        import torch._inductor.dependencies as dependencies

        if isinstance(dep, dependencies.StarDep):
            self.is_all = True
            return
        sizes = [number(s) for s in dep.size]
        points = math.prod(sizes)
        if dep.is_indirect():
            self.most += points
        elif points:
            used = [(n, s) for n, s in zip(dep.var_names, sizes) if n in dep.index.free_symbols and s > 1]
            index = dep.index.subs({n: 0 for n, s in zip(dep.var_names, sizes) if s == 1})
            self.add_region(tuple(n for n, _ in used), tuple(s for _, s in used), index)

    def add_region(self, names, sizes, index):
        strides = strides_of(index, names)
        dims = list(zip(strides[0], sizes)) if strides else None
        if dims is not None and has_no_doubles(dims) and math.prod(sizes) == self.elems:
            self.is_all = True
        elif (names, sizes, index) not in self.list:
            self.list.append((names, sizes, index))

    def marks(self):
        marks = np.zeros(self.elems, dtype=bool)
        for names, sizes, index in self.list:
            for points in points_of(names, sizes, index):
                marks[points[(points >= 0) & (points < self.elems)]] = True
        return marks

    def count(self):
        if self.is_all:
            return self.elems
        return min(self.elems, self.most + (int(self.marks().sum()) if self.list else 0))


def elements_of(graph, name):
    """Elements of the memory of a buffer, and the bytes of one; 0, 0 for what has no memory."""
    buffer = graph.get_buffer(name) if hasattr(graph, "get_buffer") else None
    buffer = buffer if buffer is not None else graph.graph_inputs.get(name)
    try:
        layout = buffer.get_layout()
        sizes, strides = [number(s) for s in layout.size], [number(s) for s in layout.stride]
    except (AttributeError, NotImplementedError):
        return 0, 0
    if not math.prod(sizes):
        return 0, 0
    extent = 1 + number(layout.offset) + sum((n - 1) * s for n, s in zip(sizes, strides))
    return extent, layout.dtype.itemsize


def users_outside(scheduler, name, members):
    buffer = scheduler.name_to_buf.get(name)
    return buffer is None or any(u.get_name() not in members for u in buffer.users)


def traffic(scheduler, graph, members):
    """Bytes read and written by a kernel that is made of the nodes `members`."""
    names = {s.get_name() for s in members}
    read, written, stored = {}, {}, set()
    for snode in members:
        for dep in snode.read_writes.reads:  # a node never reads what it stores itself
            name = scheduler.mutation_real_name.get(dep.name, dep.name)
            if dep.name not in stored:  # what the kernel has written itself comes from there
                read.setdefault(name, []).append(dep)
        for dep in snode.read_writes.writes:
            stored.add(dep.name)
            if dep.name not in graph.removed_buffers and users_outside(scheduler, dep.name, names):
                written.setdefault(scheduler.mutation_real_name.get(dep.name, dep.name), []).append(dep)
    sums = []
    for side in (read, written):
        bytes_ = {}
        for name, deps in side.items():
            elems, size = elements_of(graph, name)
            if name in graph.constants and not elems:
                continue
            elements = Elements(elems)
            for dep in deps:
                elements.add(dep)
            bytes_[name] = elements.count() * size
        sums.append(bytes_)
    return sums


def nests_of(node, merged):
    """The loop nests that are written for a node of the schedule: several where loops were to share outer ones and could not."""
    from torch._inductor.codegen.cpp import OuterLoopFusedSchedulerNode

    if isinstance(node, OuterLoopFusedSchedulerNode) and id(node) not in merged:
        return [list(n.get_nodes()) for n in node.get_outer_nodes()]
    return [list(node.get_nodes())]


def name_of_call(node):
    ir = node.node
    return str(getattr(ir, "op_overload", None) or getattr(ir, "python_kernel_name", None) or type(ir).__name__)


def inspect(scheduler, graph, merged):
    """Kernels as scheduled, and as they are written in the end."""
    from torch._inductor import scheduler as s

    def kernel(members):
        read, written = traffic(scheduler, graph, members)
        origins = sorted({str(o.target) for m in members for o in getattr(m.node, "origins", ())})
        return {"nodes": [m.get_name() for m in members], "origins": origins, "read": read, "written": written}

    found = {"kernels": [], "nests": [], "calls": []}
    for node in scheduler.nodes:
        if isinstance(node, s.NopKernelSchedulerNode):
            continue
        if node.is_extern() or node.is_template():
            if type(node.node).__name__ != "MultiOutput":
                found["calls"].append(name_of_call(node))
            continue
        found["kernels"].append(kernel(list(node.get_nodes())))
        found["nests"] += [kernel(members) for members in nests_of(node, merged)]
    return found


def hook(found):
    """Looks at each schedule when its code has been written, which tells what was merged, and ends the compilation."""
    from torch._inductor import graph, scheduler
    from torch._inductor.codegen import cpp

    merged, keep = set(), []
    merge, codegen = cpp.OuterLoopFusedSchedulerNode.merge_outer_fusion_kernels, scheduler.Scheduler.codegen

    def note_merge(self, kernels):
        merged.add(id(self))
        keep.append(self)
        return merge(self, kernels)

    def note_schedule(self):
        from torch._inductor.virtualized import V

        codegen(self)
        found.append(inspect(self, V.graph, merged))
        if not isinstance(V.graph, graph.SubgraphLowering):
            raise Stop

    cpp.OuterLoopFusedSchedulerNode.merge_outer_fusion_kernels = note_merge
    scheduler.Scheduler.codegen = note_schedule


def inductor(path):
    import torch
    import torch._inductor.config

    warnings.filterwarnings("ignore")
    torch.set_num_threads(2)
    torch._inductor.config.force_disable_caches = True
    found = []
    hook(found)
    program = torch.export.load(path)
    arguments, keywords = program.example_inputs
    module = program.module(check_guards=False)
    with torch.no_grad():
        try:
            torch.compile(module, fullgraph=True, dynamic=False)(*arguments, **keywords)
        except Exception as error:  # Stop, wrapped by whatever was on the way
            if not found:
                raise error
    return {key: [item for f in found for item in f[key]] for key in found[0]}


def inductor_apart(path):
    """In a process of its own: what it sets does not reach the next model."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(inductor, (path,))


# --- what Henry does ---


def henry(program, path):
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run(
            [program, "compile", path, "-o", pathlib.Path(folder) / "m.hnb", "-t", "2", "--weights", "pt2", "--json", "--no-cache"],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    return json.loads(out.stdout)["metrics"]


def bytes_of(kernels):
    return sum(sum(k["read"].values()) + sum(k["written"].values()) for k in kernels)


def compare(options, path):
    metrics, other = henry(options.henry, path), inductor_apart(path)
    if options.steps:
        for k, kernel in enumerate(other["kernels"]):
            print(k, sum(kernel["read"].values()), sum(kernel["written"].values()), json.dumps(kernel), file=sys.stderr)
        print(other["calls"], file=sys.stderr)
    name = path.parent.name + ("" if path.stem == "model" else " " + path.stem)
    return {
        "model": name,
        "henry": {
            "kernels": metrics["kernels_generated"],
            "calls": metrics["kernels_extern"],
            "bytes": metrics["bytes_read"] + metrics["bytes_written"],
        },
        "inductor": {
            "kernels": len(other["kernels"]),
            "calls": len(other["calls"]),
            "bytes": bytes_of(other["kernels"]),
            "nests": len(other["nests"]),
            "bytes_of_nests": bytes_of(other["nests"]),
        },
    }


def ratio(result):
    return result["henry"]["bytes"] / result["inductor"]["bytes"]


def row(result):
    ours, theirs = result["henry"], result["inductor"]
    cells = [ours["kernels"], theirs["kernels"], theirs["nests"], ours["calls"], theirs["calls"]]
    cells += [f"{n:,}" for n in (ours["bytes"], theirs["bytes"], theirs["bytes_of_nests"])]
    return f"| {result['model']} | " + " | ".join(map(str, cells)) + f" | {ratio(result):.3f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--henry", required=True)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    print(HEAD)
    results = []
    for path in options.models:
        results.append(compare(options, path))
        print(row(results[-1]), flush=True)
    mean = math.exp(sum(math.log(ratio(r)) for r in results) / len(results))
    print(f"\ngeometric mean of the bytes' ratios {mean:.3f}")
    if options.output:
        options.output.write_text("".join(json.dumps(r) + "\n" for r in results))


if __name__ == "__main__":
    main()
