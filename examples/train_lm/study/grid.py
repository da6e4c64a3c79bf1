# ufp4 - the runs of the study and their order.
# SPDX-License-Identifier: Apache-2.0
"""A grid is a list of blocks, here or in a JSON file of the same form:

| member    | meaning                                                                                                |
|-----------|--------------------------------------------------------------------------------------------------------|
| model     | a name for the shape and the training length: runs of one model may be compared                        |
| arguments | the arguments of train_lm that make that model                                                         |
| recipes   | names of train_lm, or {"name": ..., "arguments": [...]} for a recipe made with its options             |
| seeds     | N for the seeds 1 to N, or a list                                                                       |
| priority  | blocks of priority 1 run before those of 2; within a priority, all runs of seed 1, then of seed 2, ...  |
| uses      | "orderings": compared with the paper's orderings; "scaling": a size of the scaling law                  |
| minutes   | estimated minutes per run, for the first estimate of the time left                                     |
| trunk     | {"model": ..., "recipe": ..., "step": N}: each run starts with the checkpoint that the run of this model, |
|           | recipe and of the same data seed kept at step N (train_lm --keep-at N)                                 |
| draws     | runs of each seed S, which is then the data seed; their own seeds are S * 1000 + 1, ... (default: one  |
|           | run, whose seed is S)                                                                                  |

In this order the study can be stopped at any time: every recipe has the same seeds, or one seed fewer.
"""

import dataclasses
import json

OUT = "{out}"  # in the arguments of a run: the folder of the runs

CORE = ["bf16", "e2m1-baseline", "ufp4", "ufp4-rht-none", "e2m1-rht-all"]
SCALED = ["bf16", "e2m1-baseline", "ufp4"]
ABLATION = [
    "ufp4-rht-wgrad",
    "ufp4-rht-fprop+wgrad",
    "ufp4-rht-dgrad+wgrad",
    "ufp4-no-sr",
    "e2m1-rht-none",
    "e2m1-clip-2",
    "e2m1-clip-3",
    "e2m1-clip-4",
]
VARIANTS = ["ufp4-int4", "nv-uniform", "mxfp4"]


# Nine probes and two validation losses in the 600 steps of micro take about a tenth of a run's time.
MICRO = ["--size", "micro", "--eval-every", 300, "--probe-every", 75]


def scaled(layers, width, heads):
    """A size of the scaling law: another shape with the batch, sequence, learning rate and number of steps of micro. With
    half the steps, training would end where the loss falls fastest, and two runs of one recipe would differ by percents
    (docs/study.md, "How many seeds")."""
    return [
        "--size",
        "micro",
        "--layers",
        layers,
        "--width",
        width,
        "--heads",
        heads,
        "--ffn",
        3 * width,
    ]


def orderings(recipes, seeds, priority, moe=False, uses=("orderings",)):
    return {
        "model": "micro-moe" if moe else "micro",
        "arguments": MICRO + (["--moe"] if moe else []),
        "recipes": recipes,
        "seeds": seeds,
        "priority": priority,
        "uses": list(uses),
        "minutes": 5 if moe else 4,
    }


def powered(recipes, seeds):
    """Short runs with many seeds. Seeds 1 to 5 are those of the pilots, which determined the length, and are not used here.
    The standard deviation of ufp4 - e2m1-baseline was 0.33% of the loss in the 5 pilots and 0.88% in the first 12 pairs,
    which needs 35 seeds; it was 0.97% in those 35, which needs 42."""
    return {
        "model": "nano-600",
        "arguments": ["--size", "nano", "--steps", 600],
        "recipes": recipes,
        "seeds": list(seeds),
        "priority": 2,
        "uses": ["orderings"],
        "minutes": 0.3,
    }


def scaling(name, arguments, minutes):
    return {
        "model": name,
        "arguments": arguments,
        "recipes": SCALED,
        "seeds": 5,
        "priority": 5,
        "uses": ["scaling"],
        "minutes": minutes,
    }


# From size to size compute grows two- to threefold, and about 20-fold in total.
DEFAULT = [
    orderings(CORE, 5, 1, uses=("orderings", "scaling")),
    orderings(CORE, 5, 1, moe=True),
    orderings(["nvfp4"], 3, 1),
    orderings(["nvfp4"], 3, 1, moe=True),
    powered(CORE, range(6, 18)),
    powered(["e2m1-baseline", "ufp4"], range(18, 48)),
    powered([*ABLATION, "nvfp4", *VARIANTS], range(6, 18)),
    orderings(ABLATION, 2, 3),
    orderings(VARIANTS, 2, 4),
    scaling("scale-32", scaled(2, 32, 2), 0.3),
    scaling("scale-48", scaled(3, 48, 3), 0.5),
    scaling("scale-64", scaled(4, 64, 4), 1.5),
    scaling("scale-96", scaled(4, 96, 6), 3),
]

# The pilots of `power`: runs of seconds, which estimate the standard deviation of a paired difference. scale-48 is also a
# size of the grid, which uses these runs.
PILOT = ["e2m1-baseline", "ufp4"]
PILOTS = [
    {
        "model": "pilot-nano",
        "arguments": ["--size", "nano"],
        "recipes": PILOT,
        "seeds": 5,
        "uses": ["power"],
        "minutes": 0.2,
    },
    {
        "model": "pilot-nano-600",
        "arguments": ["--size", "nano", "--steps", 600],
        "recipes": PILOT,
        "seeds": 5,
        "uses": ["power"],
        "minutes": 0.6,
    },
    {
        "model": "scale-48",
        "arguments": scaled(3, 48, 3),
        "recipes": PILOT,
        "seeds": 5,
        "uses": ["scaling"],
        "minutes": 0.8,
    },
]


@dataclasses.dataclass(frozen=True)
class Run:
    """One call of train_lm. `arguments` are all that determine its bits; threads and folders are not among them."""

    model: str
    recipe: str
    seed: int
    shape: tuple  # the part of the arguments that makes the model, the same for every recipe
    arguments: tuple
    uses: tuple
    minutes: float
    needs: str = ""  # a file below the folder of the runs without which the run cannot start

    @property
    def key(self):
        return f"{self.model}.{self.recipe}.s{self.seed}"


class GridError(ValueError):
    pass


def runs_of(blocks, core_seeds=None):
    """The runs of a grid in the order in which they are made. core_seeds: of blocks that have 5 seeds or more."""
    made, ordered = {}, []
    for place, block in enumerate(blocks):
        model, seeds = _field(block, place, "model", str), _field(block, place, "seeds", (int, list))
        if core_seeds and isinstance(seeds, int) and seeds >= 5:
            seeds = core_seeds
        for rank, recipe in enumerate(_field(block, place, "recipes", list)):
            name, flags = _recipe(recipe, place)
            for seed, data_seed in _seeds(range(1, seeds + 1) if isinstance(seeds, int) else seeds, block):
                shape_flags = tuple(map(str, block.get("arguments", [])))
                needs = _trunk(block, place, data_seed)
                start = ("--from", f"{OUT}/{needs}") if needs else ()
                arguments = (*shape_flags, *flags, *start, "--seed", str(seed), "--data-seed", str(data_seed))
                run = Run(
                    model,
                    name,
                    seed,
                    shape_flags,
                    arguments,
                    tuple(block.get("uses", ["orderings"])),
                    float(block.get("minutes", 3)),
                    needs,
                )
                if run.key in made:
                    if made[run.key].arguments != run.arguments:
                        raise GridError(f"grid: two runs named {run.key} have different arguments")
                    continue
                made[run.key] = run
                ordered.append(((block.get("priority", 1), data_seed, seed, place, rank), run))
    return [run for _, run in sorted(ordered, key=lambda pair: pair[0])]


def _seeds(seeds, block):
    """(seed, data seed) of each run."""
    draws = block.get("draws", 0)
    return [(1000 * s + d, s) for s in seeds for d in range(1, draws + 1)] if draws else [(s, s) for s in seeds]


def _trunk(block, place, data_seed):
    trunk = block.get("trunk")
    if trunk is None:
        return ""
    try:
        return f"{trunk['model']}.{trunk['recipe']}.s{data_seed}/checkpoint-{int(trunk['step'])}.safetensors"
    except (TypeError, KeyError, ValueError):
        raise GridError(
            f"grid: block {place + 1}: trunk must be {{model, recipe, step}}, got {trunk!r}"
        ) from None


def _field(block, place, name, kind):
    if not isinstance(block, dict) or not isinstance(block.get(name), kind):
        raise GridError(f"grid: block {place + 1}: member '{name}' is missing or of the wrong type")
    value = block[name]
    if name == "model" and (not value or not all(c.isalnum() or c in "-_+" for c in value)):
        raise GridError(f"grid: block {place + 1}: a model name must have letters, digits, - _ + only, got '{value}'")
    return value


def _recipe(recipe, place):
    if isinstance(recipe, str) and recipe:
        return recipe, ["--recipe", recipe]
    if isinstance(recipe, dict) and isinstance(recipe.get("name"), str) and isinstance(recipe.get("arguments"), list):
        return recipe["name"], [str(a) for a in recipe["arguments"]]
    raise GridError(f"grid: block {place + 1}: a recipe must be a name or {{name, arguments}}, got {recipe!r}")


def read(path):
    if path is None:
        return DEFAULT
    try:
        with open(path, encoding="utf-8") as file:
            blocks = json.load(file)
    except (OSError, ValueError) as error:
        raise GridError(f"grid: cannot read {path}: {error}") from None
    if not isinstance(blocks, list):
        raise GridError(f"grid: {path} must have a list of blocks")
    return blocks
