"""Recurrent layers and cells."""
import torch

T = {"rtol": 1e-5, "atol": 1e-5}
HALF = {"rtol": 3e-2, "atol": 3e-2}
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def weights(c, gates, inputs, hidden, layers, ways, biases, projection=0, dtype=torch.float32):
    """Small numbers, so that no gate is shut."""
    params, state, seed = [], projection or hidden, 1
    for layer in range(layers):
        for way in range(ways):
            shapes = [(gates * hidden, inputs if layer == 0 else state * ways), (gates * hidden, state)]
            shapes += [(gates * hidden,)] * 2 if biases else []
            shapes += [(projection, hidden)] if projection else []
            for shape in shapes:
                params.append((c.ramp(shape, seed=seed) / 8).to(dtype))
                seed = (seed + 5) % 23
    return params


def layer(c, name, length=3, batch=2, inputs=3, hidden=2, layers=1, ways=1, biases=True, projection=0, batch_first=False,
          dropout=0.0, train=False, dtype=torch.float32):
    x = c.ramp((batch, length, inputs) if batch_first else (length, batch, inputs), dtype)
    states = [c.ramp((layers * ways, batch, projection or hidden), seed=3)]
    if name == "lstm":
        states.append(c.ramp((layers * ways, batch, hidden), seed=9))
    states = [(s / 4).to(dtype) for s in states]
    params = weights(c, GATES[name], inputs, hidden, layers, ways, biases, projection, dtype)
    hx = states if name == "lstm" else states[0]
    c.add(f"aten.{name}.input", x, hx, params, biases, layers, dropout, train, ways == 2, batch_first,
          **(T if dtype in (torch.float32, torch.float64) else HALF))


def cases(c):
    for name in GATES:
        layer(c, name)
        layer(c, name, biases=False, length=1)
        layer(c, name, layers=2, batch_first=True, dropout=0.5)
        layer(c, name, layers=2, ways=2, length=4)
        layer(c, name, ways=2, biases=False, batch_first=True, batch=1)
        layer(c, name, train=True)
        layer(c, name, dtype=torch.float64)
        layer(c, name, dtype=torch.bfloat16)
    layer(c, "lstm", projection=1)
    layer(c, "lstm", projection=3, hidden=4, ways=2, layers=2, biases=False, batch_first=True)
    for name, gates in GATES.items():
        for biases in (True, False):
            x, h, memory = c.ramp((2, 3)), c.ramp((2, 2), seed=3) / 4, c.ramp((2, 2), seed=9)
            hx = [h, memory] if name == "lstm" else h
            c.add(f"aten.{name}_cell.default", x, hx, *weights(c, gates, 3, 2, 1, 1, biases), **T)
