"""Peak memory of a training step of GPT-2, on the CPU or a GPU: Henry, PyTorch eager and Inductor.

    training_memory.py export DIRECTORY [--small] [--tokens=N]   writes DIRECTORY/model.pt2, input_K.npy, output_0.npy (the loss)
    training_memory.py eager|inductor [--small] [--tokens=N]     prints the peak
    training_memory.py henry DIRECTORY HENRY                     the same of Henry's program
    --cuda                                                       on the GPU

The step is the forward pass, the loss and the backward pass; 1024 tokens in sequences of N (256), f32, no dropout. Gradients are its
results. What counts is the peak of all memory beyond weights and gradients, which every implementation has: the most
bytes that are allocated at a time, less those of weights and gradients. For PyTorch these are the events of its CPU
allocator ("[memory]" of the profiler), so memory of its libraries is not in it. For Henry it is the plan: workspace
and outputs, without scratch memory of threads and packed weights. On a GPU it is what was really taken of the device,
without weights: by PyTorch's allocator, and by a run of `henry run`, which has the libraries' workspaces in both.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ALL_TOKENS, SEED = 1024, 7


def make_model(small, tokens):
    """GPT-2 as published (124M: 12 layers, 768 wide, 12 heads, tied embeddings), with random weights."""
    import torch
    from torch.nn import functional

    layers, width, heads, vocabulary = (2, 64, 4, 257) if small else (12, 768, 12, 50257)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.attention, self.projection = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x):
            batch, tokens, _ = x.shape
            parts = self.attention(self.norm1(x)).split(width, dim=2)
            query, key, value = (p.view(batch, tokens, heads, width // heads).transpose(1, 2) for p in parts)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.projection(mixed.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(1024, width)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(layers))
            self.norm = torch.nn.LayerNorm(width)

        def forward(self, ids):
            x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.words.weight)
            return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    torch.manual_seed(SEED)
    model = Model()
    for value in model.parameters():
        if value.dim() > 1:
            torch.nn.init.normal_(value, std=0.02)
    return model, torch.randint(0, vocabulary, (ALL_TOKENS // tokens, tokens))


def loss_of(model, ids):
    return model(ids)


def export(folder, small, tokens):
    import numpy as np
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    model, ids = make_model(small, tokens)
    names = [name for name, _ in model.named_parameters()]
    values = [value.detach() for _, value in model.named_parameters()]

    def step(ids, *weights):
        weights = [w.detach().requires_grad_() for w in weights]
        loss = torch.func.functional_call(model, dict(zip(names, weights)), (ids,))
        return loss.detach(), *torch.autograd.grad(loss, weights)

    graph = make_fx(step)(ids, *values)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.graph = graph
            self.weights = torch.nn.ParameterList(torch.nn.Parameter(v, requires_grad=False) for v in values)

        def forward(self, ids):
            return self.graph(ids, *self.weights)

    program = torch.export.export(Step(), (ids,), strict=False)
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, folder / "model.pt2")
    np.save(folder / "input_0.npy", ids.numpy())
    for k, value in enumerate(step(ids, *values)):
        np.save(folder / f"output_{k}.npy", value.detach().numpy())


def peak_of(run):
    """The most bytes that PyTorch's CPU allocator has given at a time, beyond what there was before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    live = most = 0
    for event in sorted(
        (e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"), key=lambda e: e.start_ns()
    ):
        live += event.nbytes()
        most = max(most, live)
    return most, live


def peak_of_gpu(run):
    """The same of the GPU's allocator."""
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before


def torch_peak(kind, small, tokens, on_gpu):
    import torch

    torch.set_num_threads(2)
    model, ids = make_model(small, tokens)
    if on_gpu:
        model, ids = model.cuda(), ids.cuda()
    run = loss_of
    if kind == "inductor":
        run = torch.compile(loss_of)

    def step():
        model.zero_grad(set_to_none=True)
        run(model, ids).backward()

    for _ in range(2):
        step()
    model.zero_grad(set_to_none=True)
    most, _ = (peak_of_gpu if on_gpu else peak_of)(step)
    gradients = sum(p.grad.nbytes for p in model.parameters())
    report(kind, most, gradients)


def report(kind, most, gradients):
    print(
        f"{kind}: peak {most / 1e6:.1f} MB beyond weights, {(most - gradients) / 1e6:.1f} MB beyond weights and "
        f"gradients of {gradients / 1e6:.1f} MB",
        flush=True,
    )


def henry_gpu_peak(folder, henry):
    """Of a run, whose results are held against those of eager PyTorch."""
    run = [henry, "run", folder / "model.pt2", "-i", folder / "input_0.npy", "--device", "cuda", "--pool", "combined"]
    outputs = sorted(folder.glob("output_*.npy"), key=lambda p: int(p.stem.split("_")[1]))
    run += ["--json", "-q", "--rtol", "1e-3", "--atol", "1e-4"]
    for path in outputs:
        run += ["--expect", path]
    done = subprocess.run(run, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    facts = json.loads(done.stdout)["metrics"]
    gradients = sum(path.stat().st_size - 128 for path in outputs[1:])
    report("henry", facts["device_peak_bytes"] - facts["device_weights_bytes"] - facts["device_states_bytes"], gradients)
    print(f"plan {facts['plan_bytes'] / 1e6:.1f} MB, scratch {facts['scratch_bytes'] / 1e6:.1f} MB", flush=True)


def henry_peak(folder, henry):
    path = folder / "model.pt2"
    with tempfile.TemporaryDirectory() as folder:
        plan, bundle = pathlib.Path(folder) / "plan.json", pathlib.Path(folder) / "step.hnb"
        subprocess.run(
            [henry, "compile", path, "-o", bundle, "-q", "--weights", "pt2", "-t", "2", "--pool", "combined"]
            + ["--memory-plan", plan],
            check=True,
        )
        facts = json.loads(plan.read_text())
    gradients = sum(b["bytes"] for b in facts["buffers"] if b["kind"] == "output")
    report("henry", facts["bytes"] + facts["output_bytes_apart"], gradients)


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    small, on_gpu = "--small" in sys.argv, "--cuda" in sys.argv
    tokens = next((int(w[9:]) for w in sys.argv if w.startswith("--tokens=")), 256)
    if words[:1] == ["export"] and len(words) == 2:
        return export(pathlib.Path(words[1]), small, tokens)
    if words[:1] in (["eager"], ["inductor"]):
        return torch_peak(words[0], small, tokens, on_gpu)
    if words[:1] == ["henry"] and len(words) == 3:
        return (henry_gpu_peak if on_gpu else henry_peak)(pathlib.Path(words[1]), words[2])
    sys.exit(__doc__)


if __name__ == "__main__":
    main()
