"""Models and training steps in bf16 and f16 on a device, against the same in float64 under PyTorch:

    narrow.py --subject PROGRAM [--device cuda] [--part K/N] [NAME]...

Henry's error may be twice that of PyTorch's own run in that type. Models are small, have random weights and are exported here. --part: every
Nth from the Kth. Prints a line for each that fails, and counts; without PyTorch, or a library that makes models, nothing runs.
"""

import argparse
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import torch
    import torch.nn.functional as F
    import torchvision
    import transformers
    from torch.fx.experimental.proxy_tensor import make_fx
except ImportError as error:
    print(f"skipped: {error}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import gpu_kernels  # noqa: E402 pylint: disable=wrong-import-position
import make_models  # noqa: E402 pylint: disable=wrong-import-position

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
SLACK = 1e-6  # for outputs that PyTorch has exactly


# --- what is run: functions of a type, which return a module and its inputs, in float64 ---


def tokens(rows, columns, vocabulary):
    return torch.randint(0, vocabulary, (rows, columns))


def mlp():
    sizes = [784, 128, 64, 10]
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(a, b), torch.nn.GELU())]
    return torch.nn.Sequential(*layers[:-1]), (torch.randn(32, 784),)


def gpt2():
    return make_models.gpt2_tiny()[0], (tokens(2, 32, 257),)


def bert():
    config = transformers.BertConfig(vocab_size=211, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, attn_implementation="sdpa")
    return make_models.Encoder(transformers.BertModel(config, add_pooling_layer=False)), (tokens(2, 24, 211),)


def llama():
    config = transformers.LlamaConfig(vocab_size=300, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=160, attn_implementation="sdpa")
    return make_models.Logits(transformers.LlamaForCausalLM(config), "logits"), (tokens(2, 20, 300),)


def mobilenet():
    return make_models.mobilenet_v3()[0], (torch.randn(2, 3, 96, 96),)


def resnet():
    return make_models.settle_batch_norms(torchvision.models.resnet18(weights=None)), (torch.randn(2, 3, 64, 64),)


class TrainingStep(torch.nn.Module):
    """Loss and new parameters of a step of SGD, as a function of parameters and data."""

    def __init__(self, model, loss):
        super().__init__()
        self.names = [name for name, _ in model.named_parameters()]
        self.model, self.loss = [model], loss  # in a list: its parameters are inputs

    def forward(self, *inputs):
        count = len(self.names)
        parameters = [p.detach().requires_grad_() for p in inputs[:count]]
        out = torch.func.functional_call(self.model[0], dict(zip(self.names, parameters)), inputs[count:-1])
        loss = self.loss(out, inputs[-1])
        grads = torch.autograd.grad(loss, parameters)
        return (loss.detach(), *[(p - 0.1 * g).detach() for p, g in zip(parameters, grads)])


def cross_entropy(out, target):
    return F.cross_entropy(gpu_kernels.wide(out).flatten(0, -2), target.flatten())


def mlp_step():
    model, inputs = mlp()
    return TrainingStep(model, cross_entropy), (*model.parameters(), *inputs, torch.randint(0, 10, (32,)))


class Blocks(torch.nn.Module):
    """Two transformer blocks in which everything is spelt out."""

    def __init__(self):
        super().__init__()
        self.embed, self.blocks, self.head = torch.nn.Embedding(50, 64), make_models.Stack(2, 64, 4), torch.nn.Linear(64, 50)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))


def transformer_step():
    model = Blocks()
    return TrainingStep(model, cross_entropy), (*model.parameters(), tokens(2, 24, 50), tokens(2, 24, 50))


def convolution_step():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.GroupNorm(4, 16), torch.nn.SiLU(), torch.nn.Conv2d(16, 8, 3, stride=2),
                                torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 49, 10))
    return TrainingStep(model, cross_entropy), (*model.parameters(), torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,)))


CASES = {f.__name__: f for f in (mlp, gpt2, bert, llama, mobilenet, resnet, mlp_step, transformer_step, convolution_step)}


# --- one case ---


def cast(values, dtype):
    return tuple(v.detach().to(dtype) if v.is_floating_point() else v for v in values)


def run(module, inputs):
    """Of a step, whose model is not among its modules: in the type of the inputs all the same, since these are its parameters."""
    with torch.enable_grad() if isinstance(module, TrainingStep) else torch.no_grad():
        return gpu_kernels.as_tuple(module(*inputs))


def export(module, inputs, path):
    if isinstance(module, TrainingStep):
        module = make_fx(module)(*inputs)
    with torch.no_grad():
        torch.export.save(torch.export.export(module, inputs, strict=False), path)


def check(options, name, dtype, directory):
    torch.manual_seed(make_models.SEED)
    module, inputs = CASES[name]()
    module, inputs = module.eval().to(dtype), cast(inputs, dtype)
    export(module, inputs, directory / "model.pt2")
    gpu_kernels.write_raw(directory, inputs)
    command = [options.subject, "--device", options.device, "--seconds", "0", "--inputs", directory, "--outputs", directory, directory / "model.pt2"]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        return done.stderr.strip() or f"status {done.returncode}"
    module, inputs = module.to(options.torch_device), tuple(v.to(options.torch_device) for v in inputs)
    own = run(module, inputs)
    expected = run(module.double(), cast(inputs, torch.float64))
    actual = [gpu_kernels.read_raw(directory / f"output_{k}.bin", like) for k, like in enumerate(own)]
    for k, (a, o, e) in enumerate(zip(actual, own, expected)):
        error, limit = gpu_kernels.error_of([a], [e]), 2 * gpu_kernels.error_of([o], [e]) + SLACK
        if not error <= limit:
            return f"output {k}: error {error:.2e}, at most {limit:.2e} is allowed"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--subject", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.torch_device = "cuda" if options.device.startswith("cuda") else "cpu"
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    passed = failed = 0
    part, parts = map(int, options.part.split("/"))
    for name in (options.names or list(CASES))[part::parts]:
        for title, dtype in TYPES.items():
            with tempfile.TemporaryDirectory() as directory:
                try:
                    problem = check(options, name, dtype, pathlib.Path(directory))
                except Exception as error:  # whatever PyTorch says  # pylint: disable=broad-except
                    problem = f"{type(error).__name__}: {str(error)[:300]}"
            if problem:
                failed += 1
                print(f"FAILED {name} {title}: {problem}", flush=True)
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
