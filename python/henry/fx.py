"""A compiled program as a torch.fx.GraphModule that runs the same kernels:

    import henry.fx
    module = henry.fx.load("DIR")     # what `henry compile MODEL --emit source -o DIR` wrote
    module.graph.print_tabular()
    outputs = module(x)               # a tuple

Every line of the program is a node: kernels and operations are calls of modules (`module.kernels`,
`module.operations`), allocations and views are calls of the functions below, sizes are arithmetic, a conditional
has a GraphModule for each branch. What a GPU has is a henry.device.Array, and its allocations are calls of
`module.memory`; inputs, outputs and weights are tensors of the host. Weights are buffers of the module, those that the program changes among them.
A node's meta["henry"] has the model's nodes that it does (`origins`)."""

import json
import mmap
import os

import torch
import torch.fx

from henry import device
from henry.graph import Node, build, map_nodes
from henry.project import Project
from henry.run import NUMBERS, solve, taken

_DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
           "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
           "bool": torch.bool}


# --- what nodes call ---


def size(tensor, dimension):
    return tensor.shape[dimension]


def laid_out(tensor, dtype, sizes, strides):
    """An input as the program wants it: itself when its strides fit."""
    if tensor.dtype != dtype or tuple(tensor.shape) != tuple(sizes):
        raise ValueError(f"an input is {tensor.dtype}{list(tensor.shape)}, must be {dtype}{list(sizes)}")
    if tensor.numel() == 0 or all(n <= 1 or a == b for n, a, b in zip(sizes, tensor.stride(), strides)):
        return tensor.detach()
    copy = torch.empty_strided(sizes, strides, dtype=dtype)
    return copy.copy_(tensor.detach())


def allocate(count, dtype, sizes, strides):
    """Memory of `count` bytes, and the tensor in it."""
    memory = torch.empty(max(count, 0) // dtype.itemsize, dtype=dtype)
    return memory.as_strided(sizes, strides)


def reuse(tensor, dtype, sizes, strides):
    """Another tensor in the memory of one that nobody reads any more."""
    if isinstance(tensor, device.Array):
        return device.Array(tensor.memory, dtype, dtype.itemsize, sizes, strides)
    memory = torch.empty(0, dtype=dtype).set_(tensor.untyped_storage())
    return memory.as_strided(sizes, strides, 0)


def view(tensor, dtype, sizes, strides, offset):
    if isinstance(tensor, device.Array):
        return tensor.view(dtype, dtype.itemsize, sizes, strides, offset)
    memory = torch.empty(0, dtype=dtype).set_(tensor.untyped_storage())
    at = tensor.storage_offset() * tensor.dtype.itemsize // dtype.itemsize
    return memory.as_strided(sizes, strides, at + offset)


def free(tensor):
    """The end of a tensor's life in the program's memory plan."""


def clone(tensor):
    return tensor.clone(memory_format=torch.contiguous_format)


def copy(to, source):
    sides = isinstance(to, device.Array), isinstance(source, device.Array)
    count = min(_room(to), _room(source))
    if any(sides):
        there = to if sides[0] else source
        getattr(there.memory.device, device.MOVES[sides])(_address(to), _address(source), count)
    else:
        _bytes_behind(to)[:count].copy_(_bytes_behind(source)[:count])


def zero(buffer):
    if isinstance(buffer, device.Array):
        buffer.memory.device.zero(buffer)
    else:
        _bytes_behind(buffer).zero_()


def to_host(array):
    """A tensor of the host with the elements of one of a device."""
    whole = torch.empty_strided(array.sizes, array.strides, dtype=array.dtype)
    array.memory.device.copy_out(whole.data_ptr(), array.address, array.extent)
    return clone(whole)


def _room(tensor):
    return tensor.room if isinstance(tensor, device.Array) else _bytes_behind(tensor).numel()


def _address(tensor):
    return tensor.address if isinstance(tensor, device.Array) else tensor.data_ptr()


def _bytes_behind(tensor):
    memory = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return memory[tensor.storage_offset() * tensor.dtype.itemsize:]


def item(tensor, byte_offset, dtype):
    element = view(tensor, dtype, (), (), byte_offset // dtype.itemsize)
    return int((to_host(element) if isinstance(element, device.Array) else element).item())


def assign(to, content):
    to.detach().copy_(content)


def cond(predicate, then, then_operands, otherwise, otherwise_operands):
    if predicate:
        then(*then_operands)
    else:
        otherwise(*otherwise_operands)


def loop(rounds, predicate, test, test_operands, body, body_operands):
    done = 0
    while rounds is None or done < rounds:
        test(*test_operands)
        if predicate is not None and not item(*predicate):
            break
        body(*body_operands)
        done += 1


_FUNCTIONS = {**NUMBERS, "size": size, "input": laid_out, "allocate": allocate, "reuse": reuse, "view": view,
              "free": free, "clone": clone, "copy": copy, "zero": zero, "item": item, "assign": assign, "cond": cond, "to_host": to_host,
              "solve": solve}


def _addresses(operands):
    return [_address(o[0]) + o[1] if o is not None else None for o in operands]


class Kernel(torch.nn.Module):
    """A generated kernel of the project."""

    def __init__(self, project, name):
        super().__init__()
        self.project, self.kernel = project, name

    def forward(self, operands, params, extent, grain, scratch_bytes, where):
        self.project.kernel(self.kernel, _addresses(operands), params, extent, grain, scratch_bytes, where)


class Variants(torch.nn.Module):
    """The kernels of a line that has several, of which one runs."""

    def __init__(self, project):
        super().__init__()
        self.project = project

    def forward(self, variant, launches, operands, where):
        name, takes, *rest = launches[variant]
        self.project.kernel(name, _addresses(taken(operands, takes)), *rest, where)


class Operation(torch.nn.Module):
    """A call of an operation such as a matrix product, with what is prepared for it."""

    def __init__(self, project, index, operation, dtypes, constants):
        super().__init__()
        self.project, self.index, self.operation = project, index, operation
        self.dtypes, self.constants = dtypes, constants

    def forward(self, operands, params, where, forms, pick):
        self.project.extern(self.index, self.operation, _addresses(operands), self.dtypes, self.constants,
                            params, where, forms, pick)


class Allocate(torch.nn.Module):
    """Memory of the device, and the tensor in it."""

    def __init__(self, project):
        super().__init__()
        self.project = project

    def forward(self, count, dtype, sizes, strides):
        return device.Array(device.Memory(self.project.device, count), dtype, dtype.itemsize, sizes, strides)


class ToDevice(torch.nn.Module):
    """The bytes of a tensor in memory of the device."""

    def __init__(self, project):
        super().__init__()
        self.project = project

    def forward(self, tensor):
        memory = device.Memory(self.project.device, _room(tensor))
        self.project.device.copy_in(memory.address, tensor.data_ptr(), memory.count)
        return device.Array(memory, tensor.dtype, tensor.dtype.itemsize, tensor.shape, tensor.stride())


class Wait(torch.nn.Module):
    """Until the device has done all before."""

    def __init__(self, project):
        super().__init__()
        self.project = project

    def forward(self):
        self.project.device.wait()


class Launch(torch.nn.Module):
    """A kernel on the device, of one or several that compute the same."""

    def __init__(self, project, step):
        super().__init__()
        self.project, self.step = project, step

    def forward(self, variant, launches, operands, scratch, where):
        self.project.device.launch(self.step, variant, launches, _addresses(operands),
                                   None if scratch is None else scratch.address, where)


class DeviceOperation(torch.nn.Module):
    """An operation on the device: by a library, or by a kernel."""

    def __init__(self, project, index, operation, dtypes):
        super().__init__()
        self.project, self.index, self.operation, self.dtypes = project, index, operation, dtypes

    def forward(self, operands, params, step, launch, scratch, where, forms, pick):
        self.project.device.operation(self.index, self.operation, _addresses(operands), self.dtypes, params, step, launch,
                                      None if scratch is None else scratch.address, where, forms, pick)


_MEMORY = {"device_allocate": ("allocate", Allocate), "to_device": ("to_device", ToDevice), "wait": ("wait", Wait)}


# --- from the program's graph ---


class _Translator:
    def __init__(self, document, folder):
        self.root = torch.nn.Module()
        self.root.kernels = torch.nn.Module()
        self.root.operations = torch.nn.Module()
        self.project = Project(folder, document)
        if self.project.device:
            self.root.memory = torch.nn.Module()
            for name, kind in _MEMORY.values():
                self.root.memory.add_module(name, kind(self.project))
        self.weights = self._map(folder, document)

    def _map(self, folder, document):
        """The weights' file, as pages of its own where they are written to."""
        rows = {row["storage"]: row for row in document["weights"]["storages"]}
        path = os.path.join(folder, document["weights"]["file"])
        with open(path, "rb") as file:
            self.pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return {k: torch.frombuffer(self.pages, dtype=torch.uint8, count=row["bytes"], offset=row["offset"])
                for k, row in rows.items() if row["bytes"]}

    def module(self, graph):
        """A GraphModule; its nodes are those of `graph`, one for one."""
        made = torch.fx.Graph()
        known = {}
        for node in graph.nodes:
            known[node] = self.node(made, node, lambda value: self.argument(value, known))
            if isinstance(known[node], torch.fx.Node):
                known[node].meta["henry"] = {k: v for k, v in node.meta.items() if v}
        return torch.fx.GraphModule(self.root, made)

    def argument(self, value, known):
        value = map_nodes(value, lambda node: known[node])
        return _typed(value)

    def node(self, made, node, argument):
        op, args = node.op, node.args
        if op in ("placeholder", "captured"):
            return made.placeholder(node.name, **({"default_value": None} if node.meta.get("may_lack") else {}))
        if op == "output":
            return made.output(argument(args[0]))
        if op == "weight":
            return self.weight(made, node, args)
        if op == "kernel":
            if not hasattr(self.root.kernels, args[0]):
                self.root.kernels.add_module(args[0], Kernel(self.project, args[0]))
            return made.call_module(f"kernels.{args[0]}", argument(args[1:]))
        if op == "kernels":
            name = f"{node.name}_forms"
            self.root.kernels.add_module(name, Variants(self.project))
            return made.call_module(f"kernels.{name}", argument(args))
        if op == "extern":
            index, operation, operands, dtypes, constants = args[:5]
            self.root.operations.add_module(node.name, Operation(self.project, index, operation, dtypes, constants))
            return made.call_module(f"operations.{node.name}", argument((operands,) + args[5:]))
        if op in _MEMORY:
            return made.call_module(f"memory.{_MEMORY[op][0]}", argument(args))
        if op == "launch":
            self.root.kernels.add_module(node.name, Launch(self.project, args[0]))
            return made.call_module(f"kernels.{node.name}", argument(args[1:]))
        if op == "operation":
            index, operation, operands, dtypes = args[:4]
            self.root.operations.add_module(node.name, DeviceOperation(self.project, index, operation, dtypes))
            return made.call_module(f"operations.{node.name}", argument((operands,) + args[4:]))
        if op == "cond":
            return self.conditional(made, node, argument)
        if op == "loop":
            return self.loop(made, node, argument)
        if op == "solve":
            args = args + (node.name,)
        fx_node = made.create_node("call_function", _FUNCTIONS[op], argument(args), name=node.name)
        return fx_node

    def weight(self, made, node, args):
        storage, byte_offset, dtype, sizes, strides = args[:5]
        if any(isinstance(n, Node) for n in sizes + strides):
            raise ValueError(f"the weight '{node.name}' has no fixed size")
        dtype = _DTYPES[dtype]
        memory = self.weights.get(storage, torch.empty(0, dtype=torch.uint8))
        whole = torch.empty(0, dtype=dtype).set_(memory.untyped_storage())
        first = memory.storage_offset() + byte_offset
        offset = first // dtype.itemsize + (args[5] if len(args) > 5 else 0)
        self.root.register_buffer(node.name, whole.as_strided(sizes, strides, offset))
        return made.get_attr(node.name)

    def bodies(self, made, node, **graphs):
        given = []
        for name, graph in graphs.items():
            name = f"{node.name}_{name}"
            self.root.add_module(name, self.module(graph))
            given.append(made.get_attr(name))
        return given

    def loop(self, made, node, argument):
        rounds, predicate, test, test_operands, body, body_operands = node.args
        bodies = self.bodies(made, node, test=test, body=body)
        return made.call_function(loop, (argument(rounds), argument(predicate), bodies[0],
                                         argument(test_operands), bodies[1], argument(body_operands)))

    def conditional(self, made, node, argument):
        predicate, then, then_operands, otherwise, otherwise_operands = node.args
        bodies = self.bodies(made, node, then=then, otherwise=otherwise)
        return made.call_function(cond, (argument(predicate), bodies[0], argument(then_operands), bodies[1],
                                         argument(otherwise_operands)))


def _typed(value):
    """PyTorch's dtypes in place of their names, where these stand in front of a shape."""
    if isinstance(value, tuple):
        return tuple(_DTYPES[v] if isinstance(v, str) and v in _DTYPES else _typed(v) for v in value)
    return value


def load(folder):
    """The program in `folder` as a GraphModule. It takes the model's inputs and gives a tuple of its outputs.
    `module.changed`: for each name of what a call writes to, the placeholder or buffer. It is for looking and for
    tools, and takes some microseconds a node. Raises henry.graph.Unsupported for a line that
    has no node. One thread at a time."""
    with open(os.path.join(folder, "program.json"), encoding="utf-8") as file:
        document = json.load(file)
    translator = _Translator(document, folder)
    graph = build(document, translator.project.target)
    module = translator.module(graph)
    module.changed = {name: node.name for name, node in graph.changed}
    return module
