#!/usr/bin/env python3
"""Runs an exported model in PyTorch, node by node, and saves the tensor of each node.

    tools/save_tensors.py model.pt2 -i x.npy -o eager
    henry run model.pt2 -i x.npy --compare eager

The second command runs the model with Henry and says which node is the first whose value differs (docs/debugging.md). The
folder has a .npy file for each tensor and manifest.json, in the form that `henry run --debug-tensors save,to=DIR` writes: a node
of the exported graph is an entry with "when": "after" and its name as "node". Types that .npy lacks (bfloat16, 8-bit floats) are
saved as float32. Needs PyTorch and NumPy, and nothing of Henry.
"""
import argparse
import fnmatch
import json
import os
import sys

import numpy as np
import torch
from torch.export.graph_signature import ConstantArgument, InputKind

# What Henry calls a type.
TYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}


def to_array(tensor):
    """The elements in row-major order; types that NumPy lacks become float32."""
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float64, torch.float32, torch.float16):
        tensor = tensor.float()
    return tensor.contiguous().numpy()


def source_of(node):
    """"model.py:12": the innermost line of code that is not PyTorch's, if the file has it."""
    lines = [line for line in (node.stack_trace or "").splitlines() if line.lstrip().startswith("File ")]
    lines = [line for line in lines if "/torch/" not in line] or lines
    if not lines:
        return ""
    path, line = lines[-1].split('"')[1], lines[-1].split("line ")[1].split(",")[0]
    return f"{os.path.basename(path)}:{line}"


class Folder:
    """A folder of its own for the files and their manifest."""

    def __init__(self, path):
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            sys.exit(f"'{path}' is not empty; tensors are saved to a folder of their own")
        self.path, self.entries = path, []

    def save(self, tensor, **facts):
        label = "".join(c if c.isalnum() and c.isascii() or c in "_-" else "_" for c in facts["node"] or facts["name"])
        file = f"{len(self.entries) + 1:06d}_{label[:80]}.npy"
        np.save(os.path.join(self.path, file), to_array(tensor))
        self.entries.append({"call": 1, **facts, "dtype": TYPES.get(tensor.dtype, str(tensor.dtype)),
                             "shape": list(tensor.shape), "strides": list(tensor.stride()), "complete": True, "file": file})

    def close(self):
        """Writes the manifest, an entry a line."""
        with open(os.path.join(self.path, "manifest.json"), "w") as out:
            entries = ",\n".join(json.dumps(entry) for entry in self.entries)
            out.write(f'{{"format": "henry tensors", "version": 1, "tensors": [\n{entries}\n]}}\n')


class Saver(torch.fx.Interpreter):
    """Runs a graph and saves what each node gives, when a pattern fits its name."""

    def __init__(self, module, folder, patterns):
        super().__init__(module)
        self.folder, self.patterns, self.step = folder, patterns, 0

    def wants(self, node):
        return any(fnmatch.fnmatchcase(node.name, pattern) for pattern in self.patterns)

    def run_node(self, node):
        value = super().run_node(node)
        if node.op == "call_function":
            self.step += 1
            if isinstance(value, torch.Tensor) and self.wants(node):
                self.folder.save(value, step=self.step, when="after", kernel=str(node.target), kernel_node=node.name,
                                 source=source_of(node), operand="", name="", node=node.name)
        return value


def user_inputs(program, files):
    """The arrays as tensors, in the order of the signature: for all inputs, or for those that are tensors."""
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    recorded = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    tensors = [spec for spec in specs if not isinstance(spec.arg, ConstantArgument)]
    if len(files) not in (len(specs), len(tensors)):
        names = ", ".join(spec.arg.name for spec in tensors)
        sys.exit(f"{len(files)} inputs are given, the model takes {len(tensors)}: {names}")
    given, values = iter(files), []
    for spec in specs:
        is_constant = isinstance(spec.arg, ConstantArgument)
        if is_constant and len(files) != len(specs):
            values.append(spec.arg.value)
            continue
        array = np.load(next(given))
        meta = recorded.get(spec.arg.name)
        if is_constant or not isinstance(meta, torch.Tensor):
            values.append(spec.arg.value if is_constant else array.item())
            continue
        tensor = torch.empty_strided(meta.shape, meta.stride(), dtype=meta.dtype) if can_copy(meta, array) else None
        values.append(torch.from_numpy(array).to(meta.dtype) if tensor is None else tensor.copy_(torch.from_numpy(array)))
    return values


def can_copy(meta, array):
    """Whether the layout that the model was exported with can be made: all sizes are numbers, those of the array."""
    return all(isinstance(n, int) for n in (*meta.shape, *meta.stride())) and tuple(meta.shape) == array.shape


def lifted_inputs(program, files):
    """What each placeholder of the graph gets: weights, buffers and constants are inputs there."""
    values, given = [], iter(user_inputs(program, files))
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            values.append(next(given))
        elif spec.target in program.state_dict:
            values.append(program.state_dict[spec.target].detach().clone())
        else:
            values.append(program.constants[spec.target])
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a .pt2 of torch.export.save")
    parser.add_argument("-i", "--input", action="append", default=[], metavar="F.npy",
                        help="an input array; repeat it in the order of the signature")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder; it is made, or is empty")
    parser.add_argument("-n", "--node", action="append", metavar="PATTERN",
                        help="save nodes with such names only, as in 'layers_3_*'; may be repeated")
    parser.add_argument("-t", "--threads", type=int, metavar="N", help="threads of PyTorch")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    program = torch.export.load(options.model)
    inputs = lifted_inputs(program, options.input)
    folder = Folder(options.output)
    saver = Saver(program.graph_module, folder, options.node or ["*"])
    try:
        with torch.no_grad():
            saver.run(*inputs)
    finally:
        folder.close()
    print(f"{len(folder.entries)} tensors of {saver.step} nodes in '{options.output}'")


if __name__ == "__main__":
    main()
