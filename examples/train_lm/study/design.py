# ufp4 - the second design of the study: what it trains, and in which order. docs/study_plan.md states it.
# SPDX-License-Identifier: Apache-2.0
"""A trunk is a run of bf16, which keeps its checkpoint at WARM steps. A branch starts with this checkpoint and trains the
other steps under a recipe. The runs of a seed share its trunk, so their differences have no part of the first steps,
where most of the variation of the first design began.
"""

import claims
import grid

STEPS, WARM = 600, 200
SEEDS_AT_LOOKS = (12, 24)
FIRST_SEED = 201  # 101 to 112 are those of the noise measurements
METRIC = "valid_loss"
MODELS = ("nano", "micro", "micro-moe")
HELD_OUT = {"nano": 4096, "micro": 2048, "micro-moe": 2048}  # windows, 262,144 bytes
MINUTES = {"nano": 0.2, "micro": 2, "micro-moe": 3}


def trunk(model):
    return f"trunk-{model}"


def branch(model):
    return f"branch-{model}"


def size(model):
    return ["--size", "micro", "--moe"] if model == "micro-moe" else ["--size", model]


def evaluation(model):
    return ["--ema", 0.98, "--eval-windows", HELD_OUT[model]]


def shape(model):
    return [*size(model), "--steps", STEPS, "--lr-floor", 0, *evaluation(model)]


def trunk_block(model, seeds, priority):
    return {
        "model": trunk(model),
        "arguments": [*shape(model), "--keep-at", WARM],
        "recipes": ["bf16"],
        "seeds": list(seeds),
        "priority": priority,
        "minutes": MINUTES[model],
        "uses": ["trunk"],
    }


def branch_block(model, name, recipes, seeds, priority, use):
    """Branches of the trunk's checkpoint, named `name`."""
    return {
        "model": name,
        "arguments": shape(model),
        "recipes": recipes,
        "seeds": list(seeds),
        "priority": priority,
        "trunk": {"model": trunk(model), "recipe": "bf16", "step": WARM},
        "minutes": MINUTES[model],
        "uses": [use],
    }


def orderings(model="nano"):
    """The model's orderings, those with the largest difference in the paper first. The mixture has three."""
    some = claims.ORDERINGS[:3] if model == "micro-moe" else claims.ORDERINGS
    return sorted(some, key=lambda o: claims.paper_difference(o[1], o[2]) or 0.0)


def seeds_of_look(look):
    """The seeds that look 0, 1 adds."""
    begin = 0 if look == 0 else SEEDS_AT_LOOKS[look - 1]
    return range(FIRST_SEED + begin, FIRST_SEED + SEEDS_AT_LOOKS[look])


def orderings_grid(model="nano", pairs=None, looks=len(SEEDS_AT_LOOKS)):
    """pairs: of recipes; None: all orderings of the model."""
    chosen = [pair for _, *pair in orderings(model)] if pairs is None else pairs
    recipes = list(dict.fromkeys(recipe for pair in chosen for recipe in pair))
    blocks = []
    for look in range(looks):
        seeds = seeds_of_look(look)
        blocks.append(trunk_block(model, seeds, look + 1))
        blocks.append(branch_block(model, branch(model), recipes, seeds, look + 1, "second"))
    return blocks


# ---- Noise: the standard deviation of a pair under several settings, measured before the orderings

NOISE_SEEDS = range(101, 113)
NOISE_PAIR = ["e2m1-baseline", "ufp4"]


def noise_grid(model="nano"):
    """nano: also from initial weights, with the first design's learning rate and with a smaller one that decays to zero."""
    blocks = [
        trunk_block(model, NOISE_SEEDS, 1),
        branch_block(model, f"noise-branch-{WARM}" + _suffix(model), NOISE_PAIR, NOISE_SEEDS, 1, "noise"),
    ]
    whole = [("noise-lr-1e-3-to-0", ["--lr", "1e-3", "--lr-floor", 0], 2), ("noise-first-design", [], 3)]
    for name, more, priority in whole if model == "nano" else []:
        blocks.append(
            {
                "model": name,
                "arguments": [*size(model), "--steps", STEPS, *more, *evaluation(model)],
                "recipes": NOISE_PAIR,
                "seeds": list(NOISE_SEEDS),
                "priority": priority,
                "minutes": MINUTES[model],
                "uses": ["noise"],
            }
        )
    return blocks


def _suffix(model):
    return "" if model == "nano" else f"-{model}"


# ---- Gradients: at the trunk's checkpoint, without an update

GRADIENTS = "gradients-nano"
BATCHES, DRAWS = 4, 8
GRADIENT_SEEDS = range(101, 107)
GRADIENT_RECIPES = [
    *("ufp4", "e2m1-baseline", "ufp4-rht-none", "e2m1-rht-all", "e2m1-rht-none", "ufp4-no-sr", "ufp4-rht-wgrad"),
    *("ufp4-rht-fprop+wgrad", "ufp4-rht-dgrad+wgrad", "e2m1-no-sr", "e2m1-clip-2", "e2m1-clip-3", "e2m1-clip-4"),
]


def gradients_grid():
    """A learning rate of 1e-30 changes no weight, so all batches and recipes are measured at the same weights."""
    measured = ["--steps", WARM + BATCHES, "--lr", "1e-30", "--eval-windows", 64]
    measured += ["--probe-every", 1, "--gradient-draws", DRAWS]
    branches = branch_block("nano", GRADIENTS, GRADIENT_RECIPES, GRADIENT_SEEDS, 1, "gradients")
    return [trunk_block("nano", GRADIENT_SEEDS, 1), {**branches, "arguments": [*size("nano"), *measured]}]


# ---- The batch: the same at several numbers of sequences, against the variance of the batch itself

BATCH_SIZES = {16: 4, 64: 2, 256: 1}  # sequences: batches measured
BATCH_DRAWS = 4
BATCH_RECIPES = ["ufp4", "ufp4-no-sr", "e2m1-baseline", "e2m1-no-sr"]


def batches(sequences):
    return f"batches-nano-{sequences}"


def batches_grid():
    blocks = [trunk_block("nano", GRADIENT_SEEDS, 1)]
    for sequences, count in BATCH_SIZES.items():
        measured = ["--batch", sequences, "--steps", WARM + count, "--lr", "1e-30", "--eval-windows", 64]
        measured += ["--probe-every", 1, "--gradient-draws", BATCH_DRAWS]
        branches = branch_block("nano", batches(sequences), BATCH_RECIPES, GRADIENT_SEEDS, 2, "gradients")
        blocks.append({**branches, "arguments": [*size("nano"), *measured]})
    return blocks


# ---- SR on dY: trainings with another learning rate, or with more steps

SR_RECIPES = BATCH_RECIPES
SR_SETTINGS = {  # arguments that replace those of the orderings
    "base": {},
    "lr": {"--lr": "1e-3"},
    "steps": {"--steps": WARM + 3 * (STEPS - WARM)},
}


def sr_setting(name):
    return f"sr-nano-{name}"


def sr_grid():
    blocks = [trunk_block("nano", NOISE_SEEDS, 1)]
    for name, changes in SR_SETTINGS.items():
        flags = {"--steps": STEPS, "--lr-floor": 0, "--eval-windows": HELD_OUT["nano"], **changes}
        branches = branch_block("nano", sr_setting(name), SR_RECIPES, NOISE_SEEDS, 1, "sr")
        blocks.append({**branches, "arguments": [*size("nano"), *(word for pair in flags.items() for word in pair)]})
    return blocks


# ---- Forks: short branches with several draws of the random bits and signs

FORK_STEPS = 50
FORK_DRAWS = {"nano": 3, "micro": 1, "micro-moe": 1}
FORK_WINDOWS = {"nano": 2048, "micro": 1024, "micro-moe": 1024}  # 131,072 bytes
OTHER_RECIPES = [
    *("nvfp4", "nv-uniform", "mxfp4", "ufp4-rht-64", "ufp4-signs-step", "ufp4-sr-dgrad", "ufp4-sr-wgrad", "ufp4-sr-all"),
    *("e2m1-no-sr", "e2m1-rht-none", "te-four-over-six", "quartet2", "tetrajet2", "if4", "hif4"),
]


def forks(model):
    return f"forks-{model}"


def forks_grid(model="nano", recipes=None):
    """From the trunk's checkpoint, with a learning rate that decays to zero over the steps of the branch. recipes: None
    for those of the model's orderings."""
    shape = [*size(model), "--steps", WARM + FORK_STEPS, "--lr-floor", 0, "--eval-windows", FORK_WINDOWS[model]]
    recipes = recipes or list(dict.fromkeys(recipe for _, *pair in orderings(model) for recipe in pair))
    some = lambda recipes, draws: {
        **branch_block(model, forks(model), recipes, GRADIENT_SEEDS, 1, "forks"),
        "arguments": shape,
        "draws": draws,
        "minutes": MINUTES[model] / 4,
    }
    return [trunk_block(model, GRADIENT_SEEDS, 1), some(["bf16"], 1), some(recipes, FORK_DRAWS[model])]


GRIDS = {
    "noise": noise_grid,
    "noise-micro": lambda: noise_grid("micro"),
    "noise-micro-moe": lambda: noise_grid("micro-moe"),
    "gradients": gradients_grid,
    "batches": batches_grid,
    "sr": sr_grid,
    "forks": forks_grid,
    "forks-other": lambda: forks_grid("nano", OTHER_RECIPES),
    "forks-micro": lambda: forks_grid("micro"),
    "forks-micro-moe": lambda: forks_grid("micro-moe"),
    "orderings": orderings_grid,
    "orderings-micro": lambda: orderings_grid("micro"),
    "orderings-micro-moe": lambda: orderings_grid("micro-moe"),
}


def runs(name):
    return grid.runs_of(GRIDS[name]())
