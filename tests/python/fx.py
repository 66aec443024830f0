"""fx.py PROJECT OUT INPUT...: runs a project as a torch.fx.GraphModule, and writes its results as `henry run -d` does.
The graph must have a node for each line of the program, and be one that torch.fx takes."""

import json
import os
import sys

import numpy
import torch

import henry.fx
import henry.run


def take(path, described):
    array = numpy.load(path)
    if "buffer" not in described:
        return array.item()
    tensor = torch.from_numpy(array)
    return tensor.bfloat16() if described["dtype"] == "bf16" else tensor


def put(folder, name, value):
    if torch.is_tensor(value):
        value = value.float() if value.dtype == torch.bfloat16 else value
        value = value.detach().contiguous().numpy()
    elif value is None or isinstance(value, str):
        return
    numpy.save(os.path.join(folder, name), value)


def count_lines(lines, kind):
    inside = sum(count_lines(line.get(body, []), kind) for line in lines for body in ("then", "otherwise", "test", "body"))
    return inside + sum(line["kind"] == kind for line in lines)


def kinds_of(lines):
    inside = (kinds_of(line.get(body, [])) for line in lines for body in ("then", "otherwise", "test", "body"))
    return {line["kind"] for line in lines}.union(*inside)


def count_nodes(module, wanted):
    graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    return sum(wanted(node) for graph in graphs for node in graph.nodes)


def is_call(function):
    return lambda node: node.op == "call_function" and node.target is function


def check_nodes(module, document):
    """A node for each line, of each kind; outputs are views, too, and sizes of inputs are solved for symbols."""
    program = document["program"]
    own = {"kernel": lambda n: n.op == "call_module" and n.target.startswith("kernels."),
           "extern": lambda n: n.op == "call_module" and n.target.startswith("operations."),
           "allocate": lambda n: is_call(henry.fx.allocate)(n) or n.target == "memory.allocate",
           "wait": lambda n: n.target == "memory.wait",
           "assert": is_call(henry.run.require), "define": is_call(henry.run.solve), "comment": is_call(henry.run.comment)}
    more = {"view": sum("buffer" in output for output in program["outputs"]),
            "define": sum("input" in symbol for symbol in document["symbols"])}
    for kind in kinds_of(program["lines"]) | {"view"}:
        wanted = own.get(kind) or is_call(getattr(henry.fx, kind))
        lines, nodes = count_lines(program["lines"], kind) + more.get(kind, 0), count_nodes(module, wanted)
        if lines != nodes:
            sys.exit(f"{lines} lines of kind '{kind}', but {nodes} nodes")


def main(project, folder, *paths):
    with open(os.path.join(project, "program.json"), encoding="utf-8") as file:
        document = json.load(file)
    program = document["program"]
    module = henry.fx.load(project)
    module.graph.lint()
    check_nodes(module, document)
    inputs = [take(path, described) for path, described in zip(paths, program["inputs"])]
    os.makedirs(folder, exist_ok=True)
    for k, value in enumerate(module(*inputs)):
        put(folder, f"output_{k}.npy", value)
    for output in program["outputs"]:
        if output["kind"] == "mutation" and output["target_input"] >= 0:
            put(folder, f"mutated_{output['name']}.npy", inputs[output["target_input"]])
        elif output["kind"] == "mutation":
            buffers = dict(module.named_buffers())
            put(folder, f"mutated_{output['name']}.npy", buffers[module.changed[output["name"]]])


main(*sys.argv[1:])
