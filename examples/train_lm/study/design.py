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
SHAPE = ["--size", "nano", "--steps", STEPS, "--lr-floor", 0, "--ema", 0.98, "--eval-windows", 4096]
TRUNK = "trunk-nano"
BRANCH = "branch-nano"
GRADIENTS = "gradients-nano"
METRIC = "valid_loss"

BATCHES, DRAWS = 4, 8  # of a gradient measurement
GRADIENT_SEEDS = range(101, 107)


def trunk_block(seeds, **more):
    return {
        "model": TRUNK,
        "arguments": [*SHAPE, "--keep-at", WARM],
        "recipes": ["bf16"],
        "seeds": list(seeds),
        "minutes": 0.2,
        "uses": ["trunk"],
        **more,
    }


def start(step=WARM):
    return {"model": TRUNK, "recipe": "bf16", "step": step}


def orderings():
    """The pairs, most informative first: those with the largest difference in the paper, then the rest."""
    return sorted(claims.ORDERINGS, key=lambda o: claims.paper_difference(o[1], o[2]) or 0.0)


def recipes():
    """The recipes of all orderings, in the order of the first ordering that needs each."""
    return list(dict.fromkeys(recipe for _, *pair in orderings() for recipe in pair))


def seeds_of_look(look):
    """The seeds that look 0, 1 adds."""
    begin = 0 if look == 0 else SEEDS_AT_LOOKS[look - 1]
    return range(FIRST_SEED + begin, FIRST_SEED + SEEDS_AT_LOOKS[look])


def orderings_grid(pairs=None, looks=len(SEEDS_AT_LOOKS)):
    """pairs: of recipes; None: all orderings."""
    chosen = recipes() if pairs is None else list(dict.fromkeys(recipe for pair in pairs for recipe in pair))
    blocks = []
    for look in range(looks):
        seeds = seeds_of_look(look)
        blocks.append(trunk_block(seeds, priority=look + 1))
        blocks.append(
            {
                "model": BRANCH,
                "arguments": SHAPE,
                "recipes": chosen,
                "seeds": list(seeds),
                "priority": look + 1,
                "trunk": start(),
                "minutes": 0.2,
                "uses": ["second"],
            }
        )
    return blocks


# ---- Noise: the standard deviation of a pair under several settings, measured before the orderings

NOISE_SEEDS = range(101, 113)
NOISE_PAIR = ["e2m1-baseline", "ufp4"]
EVALUATION = ["--ema", 0.98, "--eval-windows", 4096]


def noise_grid():
    settings = [
        ("noise-first-design", ["--steps", 600], None),
        ("noise-lr-1e-3-to-0", ["--steps", 600, "--lr", 1e-3, "--lr-floor", 0], None),
        ("noise-branch-200", ["--steps", 600, "--lr-floor", 0], start()),
    ]
    blocks = [trunk_block(NOISE_SEEDS, priority=1)]
    for priority, (model, arguments, trunk) in enumerate(reversed(settings), 1):
        block = {
            "model": model,
            "arguments": ["--size", "nano", *arguments, *EVALUATION],
            "recipes": NOISE_PAIR,
            "seeds": list(NOISE_SEEDS),
            "priority": priority,
            "minutes": 0.3,
            "uses": ["noise"],
        }
        blocks.append({**block, "trunk": trunk} if trunk else block)
    return blocks


# ---- Gradients: at the trunk's checkpoint, without an update

GRADIENT_RECIPES = [
    *("ufp4", "e2m1-baseline", "ufp4-rht-none", "e2m1-rht-all", "e2m1-rht-none", "ufp4-no-sr", "ufp4-rht-wgrad"),
    *("ufp4-rht-fprop+wgrad", "ufp4-rht-dgrad+wgrad", "e2m1-no-sr", "e2m1-clip-2", "e2m1-clip-3", "e2m1-clip-4"),
]


def gradients_grid():
    """A learning rate of 1e-30 changes no weight, so all batches and recipes are measured at the same weights."""
    return [
        trunk_block(GRADIENT_SEEDS, priority=1),
        {
            "model": GRADIENTS,
            "arguments": ["--size", "nano", "--steps", WARM + BATCHES, "--lr", "1e-30", "--eval-windows", 64]
            + ["--probe-every", 1, "--gradient-draws", DRAWS],
            "recipes": GRADIENT_RECIPES,
            "seeds": list(GRADIENT_SEEDS),
            "priority": 1,
            "trunk": start(),
            "minutes": 0.1,
            "uses": ["gradients"],
        },
    ]


GRIDS = {"noise": noise_grid, "orderings": orderings_grid, "gradients": gradients_grid}


def runs(name):
    return grid.runs_of(GRIDS[name]())
