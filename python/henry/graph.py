"""The lines of a program as a graph of nodes, in the order in which they run: one node a line, and nodes for
inputs, weights, sizes and outputs. docs/program-json.md specifies the file that it is made from.

A node's arguments are nodes, numbers, texts, None, tuples of these, and graphs (the bodies of conditionals and
loops)."""

import ast
from dataclasses import dataclass, field


@dataclass(eq=False)
class Node:
    name: str
    op: str
    args: tuple
    meta: dict = field(default_factory=dict)


@dataclass(eq=False)
class Graph:
    """`captured`: the nodes of outer graphs that a body uses, in the order of its placeholders. `changed`: (name,
    node) of the inputs and weights that the program writes to."""

    nodes: list = field(default_factory=list)
    captured: list = field(default_factory=list)
    changed: list = field(default_factory=list)


class Unsupported(Exception):
    """A line that has no node."""


_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}


def nodes_in(value):
    """All nodes among arguments."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from nodes_in(item)


def map_nodes(value, function):
    """The same arguments with function(node) in place of each node."""
    if isinstance(value, Node):
        return function(value)
    if isinstance(value, tuple):
        return tuple(map_nodes(item, function) for item in value)
    return value


class _Scope:
    """A graph under construction. That of a body sees the buffers and sizes of the graph around it."""

    def __init__(self, shared, outer=None):
        self.shared, self.graph = shared, Graph()
        self.buffers = dict(outer.buffers) if outer else {}
        self.expressions = dict(outer.expressions) if outer else {}
        self.own, self.outer = set(), outer

    def add(self, op, *args, name=None, **meta):
        node = Node(self.shared.unique(name or op), op, map_nodes(args, self.captured), meta)
        self.own.add(node)
        self.graph.nodes.append(node)
        return node

    def captured(self, node):
        """The node that stands for `node` here: itself, or the placeholder for one of an outer graph."""
        if node in self.own:
            return node
        for at, known in enumerate(self.graph.captured):
            if known is node:
                return self.graph.nodes[at]
        stand_in = Node(self.shared.unique(node.name), "captured", (), dict(node.meta))
        self.own.add(stand_in)
        self.graph.nodes.insert(len(self.graph.captured), stand_in)
        self.graph.captured.append(node)
        return stand_in

    # --- expressions over sizes ---

    def expr(self, value):
        """A number, or the node of "4*s0 + 1"."""
        if value is None or isinstance(value, int):
            return value
        if value not in self.expressions:
            self.expressions[value] = self._evaluate(ast.parse(value, mode="eval").body)
        return self.expressions[value]

    def exprs(self, values):
        return tuple(self.expr(value) for value in values)

    def _evaluate(self, tree):
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name):
            if tree.id not in self.expressions:
                raise Unsupported(f"the size '{tree.id}' is used before it is known")
            return self.expressions[tree.id]
        if isinstance(tree, ast.UnaryOp):
            return self.add("mul", -1, self._evaluate(tree.operand))
        if isinstance(tree, ast.BinOp):
            left, right = self._evaluate(tree.left), self._evaluate(tree.right)
            return self.add(_BINARY[type(tree.op)], left, right)
        if isinstance(tree, ast.Call):
            return self.add(tree.func.id.lower(), *(self._evaluate(argument) for argument in tree.args))
        raise Unsupported(f"an expression with {ast.dump(tree)}")

    def knows(self, value):
        names = (n.id for n in ast.walk(ast.parse(str(value))) if isinstance(n, ast.Name))
        return all(name in self.expressions or name in ("min", "max") for name in names)


class _Builder:
    def __init__(self, document, target):
        self.document, self.program, self.target = document, document["program"], target
        self.table = {buffer["id"]: buffer for buffer in self.program["buffers"]}
        self.kernels = {kernel["id"]: self.of_target(kernel)["name"] for kernel in self.program["kernels"]}
        self.bytes_of = {row["name"]: row["bytes"] for row in document["dtypes"]}
        self.symbols = {symbol["name"]: symbol for symbol in document["symbols"]}
        self.changed = {s["storage"] for s in document["weights"]["storages"] if s["is_changed"]}
        self.guards = list(document["guards"])
        # calls are counted apart: operations of the host, and of the device; launches
        self.names, self.externs, self.operations, self.launches = {}, 0, 0, 0

    def of_target(self, described):
        """What holds for the target, of a kernel or of how a line calls it."""
        if self.target == 0:
            return described
        if len(described.get("others", ())) < self.target:
            raise Unsupported("program.json has one target only, though the project has several; emit it again")
        return described["others"][self.target - 1]

    def unique(self, name):
        name = "".join(c if c.isalnum() else "_" for c in name)
        name = name if name and not name[0].isdigit() else "_" + name
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return f"{name}_{count}" if count else name

    # --- what comes before the lines ---

    def build(self):
        scope = _Scope(self)
        inputs = self.program["inputs"]
        # A number that the model was exported with may be left out, as far as no tensor comes behind it.
        needed = 1 + max((k for k, i in enumerate(inputs) if "value" not in i), default=-1)
        placeholders = [scope.add("placeholder", k, name=i["name"], may_lack=k >= needed)
                        for k, i in enumerate(inputs)]
        for symbol in self.document["symbols"]:
            if "input" in symbol:
                self.solve(scope, symbol, placeholders[symbol["input"]])
        for given, described in zip(placeholders, inputs):
            self.take_input(scope, given, described)
        for buffer in self.program["buffers"]:
            if buffer["kind"] == "constant":
                self.take_weight(scope, buffer)
        self.check_guards(scope)
        self.lines(scope, self.program["lines"])
        self.results(scope)
        return scope.graph

    def solve(self, scope, symbol, given):
        if "dimension" in symbol:
            value = scope.add("size", given, symbol["dimension"])
        else:
            value = scope.add("value", given)
        rest = scope.expr(symbol.get("rest", 0))
        scope.expressions[symbol["name"]] = scope.add(
            "solve", value, symbol["coefficient"], rest, symbol["low"], symbol["high"],
            name=symbol["name"])

    def take_input(self, scope, given, described):
        if "value" in described:
            scope.add("check_value", given, self.scalar(scope, described))
            return
        buffers = [b for b in self.program["buffers"] if b["kind"] == "input" and self.program["inputs"][b["source"]] is described]
        tensor = scope.add("input", given, *self.shape(scope, described), name=described["name"])
        for buffer in buffers:  # one for each device that reads it
            if self.is_remote(buffer):
                scope.buffers[buffer["id"]] = scope.add("to_device", tensor)
            elif described.get("donated"):  # results may be written there; the caller's tensor stays as it is
                scope.buffers[buffer["id"]] = scope.add("clone", tensor)
            else:
                scope.buffers[buffer["id"]] = tensor

    def scalar(self, scope, described):
        value = described["value"]
        return scope.expr(value) if described["value_kind"] == "int" else value

    def take_weight(self, scope, buffer):
        weight = scope.add(
            "weight", buffer["source"], buffer.get("byte_offset", 0), *self.shape(scope, buffer),
            name=buffer.get("name") or "weight")
        scope.buffers[buffer["id"]] = scope.add("to_device", weight) if self.is_remote(buffer) else weight

    def is_remote(self, described):
        """Of a buffer or a line: whether the device has it, or does it."""
        return described.get("device", "cpu") != "cpu"

    def shape(self, scope, tensor):
        return tensor["dtype"], scope.exprs(tensor["sizes"]), scope.exprs(tensor["strides"])

    def check_guards(self, scope):
        """Those that can be checked by now, each once."""
        for guard in [g for g in self.guards if scope.knows(g["left"]) and scope.knows(g["right"])]:
            scope.add("guard", scope.expr(guard["left"]), guard["relation"],
                      scope.expr(guard["right"]), f"{guard['left']} {guard['relation']} {guard['right']}")
            self.guards.remove(guard)

    # --- lines ---

    def lines(self, scope, lines):
        for line in lines:
            method = getattr(self, "line_" + line["kind"], None)
            if method is None:
                raise Unsupported(f"a line of kind '{line['kind']}' has no node")
            method(scope, line)

    def line_comment(self, scope, line):
        scope.add("comment", line.get("text", ""), origins=self.origins(line))

    def line_allocate(self, scope, line):
        buffer = self.table[line["buffer"]]
        scope.buffers[buffer["id"]] = scope.add(
            "device_allocate" if self.is_remote(buffer) else "allocate", scope.expr(buffer["bytes"]), *self.shape(scope, buffer),
            name=buffer.get("name") or f"b{buffer['id']}")

    def root(self, buffer):
        """The buffer that has the memory."""
        return self.table[buffer].get("root", buffer)

    def line_view(self, scope, line):
        buffer = self.table[line["buffer"]]
        scope.buffers[buffer["id"]] = scope.add(
            "view", scope.buffers[line["from"]], *self.shape(scope, buffer),
            scope.expr(buffer.get("offset", 0)), name=buffer.get("name") or f"b{buffer['id']}")

    def line_reuse(self, scope, line):
        buffer = self.table[line["buffer"]]
        scope.buffers[buffer["id"]] = scope.add(
            "reuse", scope.buffers[line["from"]], *self.shape(scope, buffer),
            name=buffer.get("name") or f"b{buffer['id']}")

    def line_free(self, scope, line):
        scope.add("free", scope.buffers[line["buffer"]])

    def operand(self, scope, operand):
        """(buffer, bytes from its beginning); None where the call has none."""
        if operand is None:
            return None
        offset = scope.expr(operand.get("offset", 0))
        size = self.bytes_of[operand["dtype"]]
        if isinstance(offset, Node):
            offset = scope.add("mul", offset, size)
        else:
            offset *= size
        return scope.buffers[operand["buffer"]], offset

    def operands(self, scope, line):
        return tuple(self.operand(scope, o) for o in line["operands"])

    def origins(self, line):
        """The model's nodes that the line does."""
        return line.get("origins") or ([line["origin"]] if line.get("origin") else [])

    def where(self, line):
        return f"node '{line['origin']}'" if line.get("origin") else ""

    def launch(self, scope, line, launch):
        """Name, operands by number (None: all), and how the kernel is called."""
        takes = launch.get("takes")
        return (self.kernels[launch["kernel"]], None if takes is None else tuple(takes),
                scope.exprs(launch.get("params", ())), scope.expr(launch["extent"]), launch["grain"],
                scope.expr(launch.get("scratch_bytes", 0)))

    def pick(self, scope, calls):
        """The number of the variant that runs."""
        choose = calls["choose"]
        ranges = tuple((r["variant"], tuple((low, high) for low, high in r["in"])) for r in choose["ranges"])
        return scope.add("pick", scope.exprs(choose["sizes"]), ranges, choose["otherwise"])

    def device_launch(self, scope, line, launch):
        """Number and name of the kernel, operands by number (None: all), and how it is launched."""
        takes = launch.get("takes")
        return (launch["kernel"] - 1, self.kernels[launch["kernel"]], None if takes is None else tuple(takes),
                scope.exprs(launch.get("params", ())), scope.expr(launch["extent"]), launch["threads"],
                launch.get("shared_bytes", 0))

    def scratch(self, scope, line):
        return scope.buffers[line["workspace"]] if "workspace" in line else None

    def line_device_kernel(self, scope, line):
        calls = self.of_target(line)
        variants = (calls, *calls.get("variants", ()))
        scope.add("launch", self.launches, self.pick(scope, calls) if len(variants) > 1 else 0,
                  tuple(self.device_launch(scope, line, launch) for launch in variants),
                  self.operands(scope, line), self.scratch(scope, line), self.where(line),
                  name=self.kernels[line["kernel"]], origins=self.origins(line))
        self.launches += 1

    def forms(self, line):
        """That an operation is asked for, by variant; none: it decides by itself."""
        return (line["form"], *(v["form"] for v in line.get("variants", ()))) if "form" in line else ()

    def line_device_extern(self, scope, line):
        """By a library, or by the line's kernel where none does it."""
        types = tuple(o["dtype"] if o else None for o in line["operands"])
        has_kernel = "kernel" in line
        calls = self.of_target(line) if has_kernel or "choose" in line else line
        launch = self.device_launch(scope, line, calls) if has_kernel else None
        scope.add("operation", self.operations, line["operation"], self.operands(scope, line), types,
                  scope.exprs(line["params"]), self.launches, launch, self.scratch(scope, line), self.where(line),
                  self.forms(line), self.pick(scope, calls) if "choose" in calls else 0, name=line["operation"],
                  origins=self.origins(line))
        self.operations += 1
        self.launches += has_kernel

    def line_kernel(self, scope, line):
        if self.is_remote(line):
            self.line_device_kernel(scope, line)
            return
        name = self.kernels[line["kernel"]]
        if "variants" in line:
            launches = tuple(self.launch(scope, line, launch) for launch in (line, *line["variants"]))
            scope.add("kernels", self.pick(scope, line), launches, self.operands(scope, line), self.where(line),
                      name=name, origins=self.origins(line))
            return
        scope.add("kernel", name, self.operands(scope, line), scope.exprs(line.get("params", ())),
                  scope.expr(line["extent"]), line["grain"], scope.expr(line.get("scratch_bytes", 0)),
                  self.where(line), name=name, origins=self.origins(line))

    def line_extern(self, scope, line):
        if self.is_remote(line):
            self.line_device_extern(scope, line)
            return
        types = tuple(o["dtype"] if o else None for o in line["operands"])
        constants = tuple(self.is_constant(o) for o in line["operands"])
        forms = self.forms(line)
        pick = self.pick(scope, line) if len(forms) > 1 else 0
        scope.add("extern", self.externs, line["operation"], self.operands(scope, line), types,
                  constants, scope.exprs(line["params"]), self.where(line), forms, pick, name=line["operation"],
                  origins=self.origins(line))
        self.externs += 1

    def is_constant(self, operand):
        buffer = self.table[operand["buffer"]] if operand else {"kind": "none"}
        return buffer["kind"] == "constant" and buffer["source"] not in self.changed

    def line_copy(self, scope, line):
        scope.add("copy", scope.buffers[line["buffer"]], scope.buffers[line["from"]])

    def line_zero(self, scope, line):
        scope.add("zero", scope.buffers[line["buffer"]])

    def line_wait(self, scope, line):
        scope.add("wait")

    def number(self, scope, line):
        operand = line["operands"][0]
        return scope.add("item", *self.operand(scope, operand), operand["dtype"])

    def line_assert(self, scope, line):
        scope.add("require", self.number(scope, line), line.get("text", ""), self.where(line))

    def line_define(self, scope, line):
        symbol = self.symbols[line["symbol"]]
        scope.expressions[symbol["name"]] = scope.add(
            "solve", self.number(scope, line), 1, 0, symbol["low"], symbol["high"],
            name=symbol["name"])
        self.check_guards(scope)

    def bodies(self, scope, *lists):
        graphs = []
        for lines in lists:
            body = _Scope(self, scope)
            self.lines(body, lines)
            graphs.append(body.graph)
        return graphs

    def line_cond(self, scope, line):
        bodies = self.bodies(scope, line["then"], line["otherwise"])
        scope.add("cond", self.number(scope, line),
                  bodies[0], tuple(bodies[0].captured), bodies[1], tuple(bodies[1].captured),
                  origins=self.origins(line))

    def line_loop(self, scope, line):
        rounds = scope.expr(line.get("rounds"))
        operand = line["operands"][0] if rounds is None else None
        predicate = None if operand is None else (*self.operand(scope, operand), operand["dtype"])
        test, body = self.bodies(scope, line.get("test", ()), line["body"])
        scope.add("loop", rounds, predicate, test, tuple(test.captured), body, tuple(body.captured),
                  origin=line.get("origin"))

    # --- what comes behind the lines ---

    def content(self, scope, output, shared):
        """The tensor of an output. Memory that is not the output's alone is copied."""
        tensor = scope.add("view", scope.buffers[output["buffer"]], *self.shape(scope, output), 0,
                           name=output["name"] or "result")
        if self.is_remote(self.table[output["buffer"]]):
            return scope.add("to_host", tensor)
        is_own = self.table[self.root(output["buffer"])]["kind"] == "output" and not shared
        return tensor if is_own else scope.add("clone", tensor)

    def results(self, scope):
        outputs = self.program["outputs"]
        users = [self.root(o["buffer"]) for o in outputs if "buffer" in o]
        contents = [self.scalar(scope, o) if o["kind"] == "scalar"
                    else self.content(scope, o, users.count(self.root(o["buffer"])) > 1) for o in outputs]
        targets = {t["output"]: t for t in self.document["changed_weights"]}
        for k, output in enumerate(outputs):
            if output["kind"] == "mutation":
                self.change(scope, output, contents[k], targets.get(k))
        scope.add("output", tuple(c for c, o in zip(contents, outputs) if o["kind"] != "mutation"))

    def change(self, scope, output, content, target):
        if target is None:
            place = next(n for n in scope.graph.nodes
                         if n.op == "placeholder" and n.args[0] == output["target_input"])
        else:
            place = scope.add("weight", target["storage"], 0, output["dtype"],
                              scope.exprs(output["sizes"]), scope.exprs(target["strides"]),
                              scope.expr(target.get("offset", 0)), name=output["name"])
        scope.add("assign", place, content)
        scope.graph.changed.append((output["name"], place))


def build(document, target=0):
    """The graph of a program.json that json.load has read. `target`: for which of its architectures, by its
    number among those of document["target"]. Raises Unsupported."""
    devices = {buffer.get("device", "cpu") for buffer in document["program"]["buffers"]} - {"cpu"}
    if devices - {"cuda"}:
        raise Unsupported(f"programs for '{(devices - {'cuda'}).pop()}'")
    return _Builder(document, target).build()
