"""Makes the models that the benchmarks run, with random weights and a fixed seed:

    make_models.py DIRECTORY [NAME]...

DIRECTORY/NAME/ gets model.pt2 (torch.export.export, nothing decomposed), model.onnx, input_K.npy and output_K.npy. The
outputs are what PyTorch computes in double precision, rounded: its single precision is no reference for another
implementation (on resnet50 it is off by 4.5e-5, more than the tolerance of a comparison). A model whose files are all
there is left alone. Sizes are those of the published configurations; weights do not matter for speed, only that
activations stay in the range that trained ones have.
"""

import pathlib
import shutil
import sys
import time
import warnings

import numpy as np
import torch

SEED = 7
TOKENS = 128


class Logits(torch.nn.Module):
    """A transformers model as a function from token ids to one tensor."""

    def __init__(self, model, field):
        super().__init__()
        self.model = model
        self.field = field

    def forward(self, input_ids):
        return getattr(self.model(input_ids=input_ids, use_cache=False, return_dict=True), self.field)


class Encoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, return_dict=True).last_hidden_state


class Block(torch.nn.Module):
    """A transformer block in which everything is spelt out, so that it has many nodes."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.gate, self.down = (
            torch.nn.Linear(width, 2 * width),
            torch.nn.Linear(width, 2 * width),
            torch.nn.Linear(2 * width, width),
        )

    def split(self, x):
        batch, tokens, width = x.shape
        return x.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x):
        y = self.norm1(x)
        query, key, value = self.split(self.query(y)), self.split(self.key(y)), self.split(self.value(y))
        scores = torch.matmul(query, key.transpose(-2, -1)) * query.shape[-1] ** -0.5
        mixed = torch.matmul(torch.softmax(scores, dim=-1), value)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


class Stack(torch.nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def token_ids(vocabulary):
    return torch.randint(0, vocabulary, (1, TOKENS))


def image():
    return torch.randn(1, 3, 224, 224)


def settle_batch_norms(model):
    """Running statistics of a random batch: with the initial ones activations grow from block to block."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    momenta = [m.momentum for m in norms]
    for norm in norms:
        norm.momentum = 1.0
    model.train()
    with torch.no_grad():
        model(torch.randn(4, 3, 224, 224))
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    return model


def gpt2_124m():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(attn_implementation="sdpa")
    return Logits(GPT2LMHeadModel(config), "logits"), token_ids(config.vocab_size)


def gpt2_tiny():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=257, n_positions=128, n_embd=64, n_layer=2, n_head=4, attn_implementation="sdpa")
    return Logits(GPT2LMHeadModel(config), "logits"), torch.randint(0, 257, (2, 32))


def bert_base():
    from transformers import BertConfig, BertModel

    config = BertConfig(attn_implementation="sdpa")
    return Encoder(BertModel(config, add_pooling_layer=False)), token_ids(config.vocab_size)


def llama_8x1024():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=1024,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=16,
        intermediate_size=2816,
        vocab_size=32000,
        attn_implementation="sdpa",
    )
    return Logits(LlamaForCausalLM(config), "logits"), token_ids(config.vocab_size)


def vision(name):
    import torchvision

    return settle_batch_norms(getattr(torchvision.models, name)(weights=None)), image()


def mobilenet_v3():
    return vision("mobilenet_v3_small")[0], torch.randn(2, 3, 96, 96)


def vit_b_16():
    model, example = vision("vit_b_16")
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)  # torchvision starts from zeros: any output would be right
    return model, example


# 26 nodes a block.
def stack(layers):
    return Stack(layers, 16, 2), torch.randn(1, 8, 16)


MODELS = {
    "gpt2_124m": gpt2_124m,
    "bert_base": bert_base,
    "resnet50": lambda: vision("resnet50"),
    "vit_b_16": vit_b_16,
    "mobilenet_v3_large": lambda: vision("mobilenet_v3_large"),
    "llama_8x1024": llama_8x1024,
    # for start-up and compile time only
    "gpt2_tiny": gpt2_tiny,
    "mobilenet_v3": mobilenet_v3,
    "stack_1250": lambda: stack(48),
    "stack_2500": lambda: stack(96),
    "stack_5000": lambda: stack(192),
    "stack_10000": lambda: stack(385),
}


def has_onnx(name):
    return not name.startswith("stack_") and name not in ("gpt2_tiny", "mobilenet_v3")


def complete(directory, name):
    names = ["model.pt2", "input_0.npy", "output_0.npy"] + (["model.onnx"] if has_onnx(name) else [])
    return all((directory / n).exists() for n in names)


def reference(model, example):
    """Casts `model` itself: nothing else may use it afterwards."""
    with torch.no_grad():
        return model.double()(example.double() if example.is_floating_point() else example).float()


def make(name, directory):
    torch.manual_seed(SEED)
    model, example = MODELS[name]()
    model = model.eval()
    with torch.no_grad():
        program = torch.export.export(model, (example,), strict=False)
    torch.export.save(program, directory / "model.pt2")
    if has_onnx(name):
        torch.onnx.export(model, (example,), str(directory / "model.onnx"), dynamo=True, external_data=True, verbose=False)
    np.save(directory / "input_0.npy", example.numpy())
    nodes = sum(1 for node in program.graph.nodes if node.op == "call_function")
    del program
    np.save(directory / "output_0.npy", reference(model, example).contiguous().numpy())
    return nodes


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    root, names = pathlib.Path(arguments[0]), arguments[1:] or list(MODELS)
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        sys.exit(f"unknown model {unknown[0]!r}; there are {', '.join(MODELS)}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(2)
    for name in names:
        if complete(root / name, name):
            continue
        begin = time.perf_counter()
        partial = root / (name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        nodes = make(name, partial)
        shutil.rmtree(root / name, ignore_errors=True)
        partial.rename(root / name)
        print(f"{name}: {nodes} nodes, {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
