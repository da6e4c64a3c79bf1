# ufp4 - trains a small model of text with PyTorch under three recipes and plots the losses.
# SPDX-License-Identifier: Apache-2.0
#
#   python examples/python/train_text.py [--steps N] [--folder FOLDER]     # needs torch and matplotlib
"""A network predicts each character of English text from the 32 before it. The text is that of Python's own manual, which
is part of its standard library. The same weights and batches are trained with products in bf16, and with the recipes
e2m1-baseline and ufp4; the plot shows what 4 bits cost."""
import argparse
import os
import pydoc_data.topics
import time

import torch
from torch import nn

import ufp4.torch

CONTEXT, WIDTH, BATCH = 32, 256, 256
RECIPES = {"bf16": "#555555", "e2m1-baseline": "#d9822b", "ufp4": "#2a6f97"}


def load_text():
    """The text as numbers of characters, and how many characters there are."""
    text = "".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    text = "".join(c for c in text if c.isascii())
    alphabet = {c: i for i, c in enumerate(sorted(set(text)))}
    return torch.tensor([alphabet[c] for c in text]), len(alphabet)


def make_model(characters):
    """Embedding, two hidden layers, and an output layer that stays in its own precision."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Embedding(characters, 16), nn.Flatten(), nn.Linear(16 * CONTEXT, WIDTH), nn.GELU(),
                         nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, characters))


def batch(text, generator, count=BATCH):
    at = torch.randint(len(text) - CONTEXT - 1, (count,), generator=generator)
    return text[at[:, None] + torch.arange(CONTEXT)], text[at + CONTEXT]


def train(recipe, text, characters, steps):
    """The losses of every step, and of text that was not trained on."""
    model = ufp4.torch.quantize_model(make_model(characters), recipe=recipe, skip=["7"], seed=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator, losses = torch.Generator().manual_seed(2), []
    split = len(text) * 9 // 10
    for step in range(steps):
        ufp4.torch.set_step(model, step)
        x, y = batch(text[:split], generator)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    with torch.no_grad():
        x, y = batch(text[split:], torch.Generator().manual_seed(4), 4096)
        return losses, nn.functional.cross_entropy(model(x), y).item()


def plot(losses, path):
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ufp4", "font.size": 9, "axes.spines.top": False,
                         "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 2.8), layout="constrained")
    window = max(1, len(losses["bf16"]) // 25)
    smooth = {recipe: torch.tensor(values).unfold(0, window, window).mean(1) for recipe, values in losses.items()}
    for recipe, values in smooth.items():
        steps = [window * (i + 0.5) for i in range(len(values))]
        left.plot(steps, values, color=RECIPES[recipe], label=recipe)
        right.plot(steps, values - smooth["bf16"], color=RECIPES[recipe])
    left.set(xlabel="step", ylabel="loss, nats a character")
    left.legend(frameon=False)
    right.set(xlabel="step", ylabel="loss above that of bf16")
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--folder", default=".", help="where losses.svg is written")
    arguments = parser.parse_args()
    text, characters = load_text()
    losses = {}
    for recipe in RECIPES:
        began = time.monotonic()
        losses[recipe], final = train(recipe, text, characters, arguments.steps)
        print(f"{recipe:14} loss on other text {final:.3f}, {time.monotonic() - began:.0f} s", flush=True)
    os.makedirs(arguments.folder, exist_ok=True)
    plot(losses, os.path.join(arguments.folder, "losses.svg"))


if __name__ == "__main__":
    main()
