"""Runs an emitted project line by line, with the standard library alone:

    python3 -m henry.program DIR --input F.npy ... --output-dir OUT

DIR is what `henry compile MODEL --emit source -o DIR` wrote. Inputs are in the order of the model's signature;
results go to OUT/output_K.npy and OUT/mutated_NAME.npy, as those of `henry run -d`. It is a readable reference of
what docs/program-json.md says, and as slow as that: henry.fx does the same with PyTorch's tensors."""

import argparse
import ast
import ctypes
import itertools
import json
import os
import struct
import sys

from henry import device
from henry.graph import build
from henry.project import Project
from henry.run import NUMBERS, check_value, taken, walk

_ALIGN = 64
_NPY = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "|i1",
        "u8": "|u1", "bool": "|b1"}
_NUMBER = {"f64": "d", "f32": "f", "f16": "e", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "u8": "B", "bool": "?"}


class Memory:
    """Bytes at an aligned address, all zero at first."""

    def __init__(self, count):
        self._bytes = ctypes.create_string_buffer(max(count, 0) + _ALIGN)
        self.count = max(count, 0)
        self.address = (ctypes.addressof(self._bytes) + _ALIGN - 1) // _ALIGN * _ALIGN


class Array:
    """A tensor in a memory, from byte `at` on; strides in elements."""

    def __init__(self, memory, dtype, sizes, strides, at=0):
        self.memory, self.dtype, self.sizes, self.strides, self.at = memory, dtype, sizes, strides, at

    @property
    def address(self):
        return self.memory.address + self.at


def packed(sizes):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class Runner:
    """What the nodes of a graph do, with arrays in place of tensors."""

    def __init__(self, document, folder):
        self.document, self.project = document, Project(folder, document)
        self.graph = build(document, self.project.target)
        self.bytes_of = {row["name"]: row["bytes"] for row in document["dtypes"]}
        self.weights = {}
        with open(os.path.join(folder, document["weights"]["file"]), "rb") as file:
            for row in document["weights"]["storages"]:
                memory = Memory(row["bytes"])
                file.seek(row["offset"])
                ctypes.memmove(memory.address, file.read(row["bytes"]), row["bytes"])
                self.weights[row["storage"]] = memory
        own = ("to_device", "to_host", "device_allocate", "launch", "operation", "wait", "size", "value", "check_value", "input", "weight", "allocate", "reuse", "view", "free", "kernel", "kernels", "extern", "copy", "zero", "item",
               "cond", "loop", "clone", "assign")
        self.functions = {**NUMBERS, **{name: getattr(self, name) for name in own}}

    def __call__(self, *inputs):
        """Gives the outputs. Inputs that the program writes to are changed."""
        missing = len(self.document["program"]["inputs"]) - len(inputs)
        return walk(self.graph, self.functions, tuple(inputs) + (None,) * missing)

    def changed(self, inputs):
        """Name and content of all that the program has written to."""
        for name, node in self.graph.changed:
            yield name, inputs[node.args[0]] if node.op == "placeholder" else self.weight(*node.args)

    # --- memory ---

    def move(self, to, source):
        """Element by element; one call where both are packed alike."""
        size = self.bytes_of[to.dtype]
        count = 1
        for extent in to.sizes:
            count *= extent
        if to.strides == source.strides == packed(to.sizes):
            ctypes.memmove(to.address, source.address, count * size)
            return
        for index in itertools.product(*(range(extent) for extent in to.sizes)):
            ctypes.memmove(to.address + size * sum(i * s for i, s in zip(index, to.strides)),
                           source.address + size * sum(i * s for i, s in zip(index, source.strides)), size)

    def extent(self, dtype, sizes, strides):
        if 0 in sizes:
            return 0
        return (1 + sum((n - 1) * s for n, s in zip(sizes, strides))) * self.bytes_of[dtype]

    def size(self, array, dimension):
        return array.sizes[dimension]

    def value(self, array):
        return None if array is None else self.item(array, 0, array.dtype)

    def check_value(self, array, value):
        check_value(self.value(array), value)

    def input(self, given, dtype, sizes, strides):
        if given.dtype != dtype or tuple(given.sizes) != sizes:
            raise ValueError(f"an input is {given.dtype}{list(given.sizes)}, must be {dtype}{list(sizes)}")
        laid_out = Array(Memory(self.extent(dtype, sizes, strides)), dtype, sizes, strides)
        self.move(laid_out, given)
        return laid_out

    def weight(self, storage, byte_offset, dtype, sizes, strides, offset=0):
        return Array(self.weights[storage], dtype, sizes, strides, byte_offset + offset * self.bytes_of[dtype])

    def allocate(self, count, dtype, sizes, strides):
        return Array(Memory(count), dtype, sizes, strides)

    def reuse(self, array, dtype, sizes, strides):
        if isinstance(array, device.Array):
            return device.Array(array.memory, dtype, self.bytes_of[dtype], sizes, strides)
        return Array(array.memory, dtype, sizes, strides)

    def view(self, array, dtype, sizes, strides, offset):
        if isinstance(array, device.Array):
            return array.view(dtype, self.bytes_of[dtype], sizes, strides, offset)
        return Array(array.memory, dtype, sizes, strides, array.at + offset * self.bytes_of[dtype])

    def clone(self, array):
        strides = packed(array.sizes)
        copy = Array(Memory(self.extent(array.dtype, array.sizes, strides)), array.dtype, array.sizes, strides)
        self.move(copy, array)
        return copy

    def free(self, array):
        pass

    def assign(self, to, content):
        self.move(to, content)

    # --- steps ---

    def addresses(self, operands):
        return [o[0].address + o[1] if o else None for o in operands]

    def kernel(self, name, operands, *rest):
        self.project.kernel(name, self.addresses(operands), *rest)

    def kernels(self, variant, launches, operands, where):
        name, takes, *rest = launches[variant]
        self.kernel(name, taken(operands, takes), *rest, where)

    def extern(self, index, operation, operands, *rest):
        self.project.extern(index, operation, self.addresses(operands), *rest)

    def copy(self, to, source):
        sides = isinstance(to, device.Array), isinstance(source, device.Array)
        move = {(False, False): ctypes.memmove}.get(sides) or getattr(self.project.device, device.MOVES[sides])
        move(to.address, source.address, min(self.room(to), self.room(source)))

    def room(self, array):
        return array.room if isinstance(array, device.Array) else array.memory.count - array.at

    def zero(self, buffer):
        if isinstance(buffer, device.Array):
            self.project.device.zero(buffer)
            return
        ctypes.memset(buffer.address, 0, buffer.memory.count - buffer.at)

    def item(self, array, byte_offset, dtype):
        count = self.bytes_of[dtype]
        raw = ctypes.create_string_buffer(count)
        if isinstance(array, device.Array):
            self.project.device.copy_out(ctypes.addressof(raw), array.address + byte_offset, count)
        else:
            ctypes.memmove(raw, array.address + byte_offset, count)
        return struct.unpack("<" + _NUMBER[dtype], raw.raw)[0]

    # --- a device ---

    def device_allocate(self, count, dtype, sizes, strides):
        return device.Array(device.Memory(self.project.device, count), dtype, self.bytes_of[dtype], sizes, strides)

    def to_device(self, array):
        """Memory of the device with the same bytes."""
        count = array.memory.count - array.at
        copy = self.device_allocate(count, array.dtype, array.sizes, array.strides)
        self.project.device.copy_in(copy.address, array.address, count)
        return copy

    def to_host(self, array):
        """A tensor of its own."""
        whole = Array(Memory(array.extent), array.dtype, array.sizes, array.strides)
        self.project.device.copy_out(whole.address, array.address, array.extent)
        return self.clone(whole)

    def launch(self, step, variant, launches, operands, scratch, where):
        self.project.device.launch(step, variant, launches, self.addresses(operands),
                                   scratch.address if scratch else None, where)

    def operation(self, index, operation, operands, dtypes, params, step, launch, scratch, where, forms, pick):
        self.project.device.operation(index, operation, self.addresses(operands), dtypes, params, step, launch,
                                      scratch.address if scratch else None, where, forms, pick)

    def wait(self):
        self.project.device.wait()

    def cond(self, predicate, then, then_captured, otherwise, otherwise_captured):
        body, captured = (then, then_captured) if predicate else (otherwise, otherwise_captured)
        walk(body, self.functions, (), captured)

    def loop(self, rounds, predicate, test, test_captured, body, body_captured):
        done = 0
        while rounds is None or done < rounds:
            walk(test, self.functions, (), test_captured)
            if predicate and not self.item(*predicate):
                break
            walk(body, self.functions, (), body_captured)
            done += 1


# --- files ---


def array_of(dtype, sizes, content):
    memory = Memory(len(content))
    ctypes.memmove(memory.address, content, len(content))
    return Array(memory, dtype, tuple(sizes), packed(sizes))


def bf16_of_f32(content):
    """To the nearest, ties to even, as everywhere."""
    halves = []
    for bits in struct.unpack(f"<{len(content) // 4}I", content):
        is_nan = bits & 0x7FFFFFFF > 0x7F800000
        halves.append(bits >> 16 | 0x40 if is_nan else bits + 0x7FFF + (bits >> 16 & 1) >> 16)
    return struct.pack(f"<{len(halves)}H", *halves)


def f32_of_bf16(content):
    halves = struct.unpack(f"<{len(content) // 2}H", content)
    return struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves))


def npy_read(path, wanted=None):
    """An array; of float32 also one of the dtype bf16, which .npy does not have, if that is wanted."""
    with open(path, "rb") as file:
        head = file.read(8)
        if head[:6] != b"\x93NUMPY":
            raise ValueError(f"'{path}' is no .npy file")
        wide = head[6] > 1
        length = struct.unpack("<I" if wide else "<H", file.read(4 if wide else 2))[0]
        facts = ast.literal_eval(file.read(length).decode("latin1"))
        content = file.read()
    dtype = {descr: name for name, descr in _NPY.items()}[facts["descr"]]
    if facts["fortran_order"]:
        raise ValueError(f"'{path}' is in Fortran's order; save a contiguous array")
    if wanted == "bf16" and dtype == "f32":
        dtype, content = "bf16", bf16_of_f32(content)
    return array_of(dtype, facts["shape"], content)


def npy_write(path, dtype, sizes, content):
    if dtype == "bf16":
        dtype, content = "f32", f32_of_bf16(content)
    facts = f"{{'descr': '{_NPY[dtype]}', 'fortran_order': False, 'shape': {tuple(sizes)}, }}"
    facts += " " * (-(len(facts) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(facts)) + facts.encode("latin1") + content)


def content_of(result, runner):
    """dtype, sizes and bytes of a tensor or number; None of what is neither."""
    if isinstance(result, Array):
        whole = runner.clone(result)
        return result.dtype, result.sizes, ctypes.string_at(whole.address, whole.memory.count)
    for kind, dtype in ((bool, "bool"), (int, "i64"), (float, "f64")):
        if isinstance(result, kind):
            return dtype, (), struct.pack("<" + _NUMBER[dtype], result)
    return None


def main(argv):
    parser = argparse.ArgumentParser(prog="python3 -m henry.program", description="runs an emitted project line by line")
    parser.add_argument("folder", help="what `henry compile --emit source -o FOLDER` wrote")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="F.npy")
    parser.add_argument("--output-dir", "-d", metavar="DIR")
    options = parser.parse_args(argv)
    with open(os.path.join(options.folder, "program.json"), encoding="utf-8") as file:
        document = json.load(file)
    runner = Runner(document, options.folder)
    wanted = [described.get("dtype") for described in document["program"]["inputs"]]
    inputs = [npy_read(path, dtype) for path, dtype in zip(options.input, wanted)]
    results = {f"output_{k}": result for k, result in enumerate(runner(*inputs))}
    results.update({f"mutated_{name}": content for name, content in runner.changed(inputs)})
    for name, result in results.items():
        content = content_of(result, runner)
        print(f"{name}  {content[0]}{list(content[1])}" if content else f"{name}  {result!r}")
        if options.output_dir and content:
            os.makedirs(options.output_dir, exist_ok=True)
            npy_write(os.path.join(options.output_dir, f"{name}.npy"), *content)
    runner.project.close()


if __name__ == "__main__":
    main(sys.argv[1:])
