"""What the nodes of a graph do that has nothing to do with tensors, and the walk over them."""

import operator

from henry.graph import map_nodes


def solve(value, coefficient, rest, low, high, name):
    """The size `name` from coefficient * size + rest = value."""
    size, remainder = divmod(value - rest, coefficient)
    if remainder:
        raise ValueError(f"{value} is not {coefficient}*{name} + {rest} for a whole {name}")
    if not low <= size <= high:
        raise ValueError(f"{name} is {size}, must be in [{low}, {high}]")
    return size


_RELATIONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le}


def guard(left, relation, right, text):
    if not _RELATIONS[relation](left, right):
        raise ValueError(f"the program was compiled for {text}, not for {left} {relation} {right}")


def require(value, text, where):
    if not value:
        raise ValueError(f"{where}: assertion failed: {text}")


def comment(text):
    """What the program says of the call behind it."""


def check_value(given, value):
    if given is not None and given != value:
        raise ValueError(f"the model was exported with {value}, not {given}")


def pick(sizes, ranges, otherwise):
    """The variant of the range that has all sizes, both ends included; None is no bound."""
    for variant, bounds in ranges:
        if all((low is None or size >= low) and (high is None or size <= high)
               for size, (low, high) in zip(sizes, bounds)):
            return variant
    return otherwise


def taken(operands, takes):
    """Those of a line's operands that a kernel gets."""
    return operands if takes is None else tuple(operands[k] for k in takes)


NUMBERS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
           "mod": operator.mod, "min": min, "max": max, "guard": guard, "require": require,
           "check_value": check_value, "comment": comment, "value": int, "pick": pick}


def walk(graph, functions, given, captured=()):
    """Runs the nodes: functions[op](*args). `given`: for placeholders. Gives the arguments of `output`."""
    values = {}
    stand_ins = iter(captured)
    for node in graph.nodes:
        args = map_nodes(node.args, lambda used: values[used])
        if node.op == "placeholder":
            values[node] = given[args[0]]
        elif node.op == "captured":
            values[node] = next(stand_ins)
        elif node.op == "output":
            return args[0]
        elif node.op == "solve":
            values[node] = solve(*args, node.name)
        else:
            values[node] = functions[node.op](*args)
    return ()
