# ufp4 - the results of the UFP4 paper that the study compares its own with.
# SPDX-License-Identifier: Apache-2.0
"""Source: "Rethinking Shrinkage Bias in LLM FP4 Pretraining: Geometric Origin, Systemic Impact, and UFP4 Recipe",
arXiv 2606.20381. The ablation's losses are of Dense 1.5B; only order and relative distances can be compared with ours.
"""

# Language-model loss of the ablation's rows, by our recipe's name.
ABLATION = [
    ("no RHT", "ufp4-rht-none", 1.89202),
    ("RHT on wgrad", "ufp4-rht-wgrad", 1.88721),
    ("RHT on fprop and wgrad", "ufp4-rht-fprop+wgrad", 1.88558),
    ("RHT on dgrad and wgrad", "ufp4-rht-dgrad+wgrad", 1.88912),
    ("RHT on all three, no SR", "ufp4-no-sr", 1.88535),
    ("RHT on all three, SR on dY", "ufp4", 1.88079),
]

# BF16-relative loss error in percent that the paper reports, by its model.
DENSE, MIXTURES = "Dense 1.5B", ("MoE 7.9B", "MoE 124B")
REPORTED_ERROR = {
    "Dense 1.5B": {"e2m1-baseline": 1.257, "ufp4": 0.967},
    "MoE 7.9B": {"e2m1-baseline": 2.360, "ufp4": 1.847},
    "MoE 124B": {"e2m1-baseline": 1.731, "ufp4": 1.386},
}

# (the paper's result, the better recipe, the worse one)
ORDERINGS = [
    ("UFP4 is better than the E2M1 baseline", "ufp4", "e2m1-baseline"),
    ("UFP4 is better with RHT than without", "ufp4", "ufp4-rht-none"),
    ("E2M1 is better with RHT on wgrad only than on all three", "e2m1-baseline", "e2m1-rht-all"),
    ("E2M1 clipped to 2 is worse than E2M1", "e2m1-baseline", "e2m1-clip-2"),
    ("E2M1 clipped to 3 is worse than E2M1", "e2m1-baseline", "e2m1-clip-3"),
    ("E2M1 clipped to 4 is worse than E2M1", "e2m1-baseline", "e2m1-clip-4"),
    ("SR on dY is better than none", "ufp4", "ufp4-no-sr"),
    ("RHT on wgrad is better than on none", "ufp4-rht-wgrad", "ufp4-rht-none"),
    ("RHT on fprop and wgrad is better than on wgrad", "ufp4-rht-fprop+wgrad", "ufp4-rht-wgrad"),
    ("RHT on wgrad is better than on dgrad and wgrad", "ufp4-rht-wgrad", "ufp4-rht-dgrad+wgrad"),
    ("RHT on dgrad and wgrad is better than on none", "ufp4-rht-dgrad+wgrad", "ufp4-rht-none"),
    ("RHT on all three is better than on fprop and wgrad", "ufp4", "ufp4-rht-fprop+wgrad"),
    ("RHT on all three is better than on dgrad and wgrad", "ufp4", "ufp4-rht-dgrad+wgrad"),
]

ABOUT = {
    "bf16": "operands rounded to bf16: the reference",
    "e2m1-baseline": "E2M1, RHT on wgrad, SR on dY",
    "ufp4": "E1M2, RHT on all three GEMMs, SR on dY",
    "ufp4-rht-none": "UFP4 without RHT",
    "e2m1-rht-all": "E2M1 with RHT on all three GEMMs",
    "nvfp4": "NVFP4 as in Transformer Engine: E4M3 scales, W in 16 x 16 blocks",
    "mxfp4": "e2m1-baseline with blocks of 32, power-of-two scales",
    "ufp4-int4": "UFP4 on int4",
    "nv-uniform": "UFP4 with NVFP4's scales",
    "ufp4-rht-wgrad": "UFP4, RHT on wgrad",
    "ufp4-rht-fprop+wgrad": "UFP4, RHT on fprop and wgrad",
    "ufp4-rht-dgrad+wgrad": "UFP4, RHT on dgrad and wgrad",
    "ufp4-no-sr": "UFP4 without SR",
    "e2m1-rht-none": "E2M1 without RHT",
    "e2m1-clip-2": "E2M1 without 3, 4, 6",
    "e2m1-clip-3": "E2M1 without 4, 6",
    "e2m1-clip-4": "E2M1 without 6",
}


def is_mixture(shape):
    return "--moe" in shape or "--experts" in shape


def models_beside(moe):
    """The paper's models that a dense model of ours, or a mixture of experts, is compared with."""
    return MIXTURES if moe else (DENSE,)


def paper_difference(better, worse, moe=False):
    """The paper's difference of a pair in percent of the worse loss, for Dense 1.5B or MoE 7.9B; None if unknown."""
    errors = REPORTED_ERROR[models_beside(moe)[0]]
    if moe:
        return _between(errors, better, worse)
    losses = {recipe: loss for _, recipe, loss in ABLATION}
    if better in losses and worse in losses:
        return 100 * (losses[better] - losses[worse]) / losses[worse]
    return _between(errors, better, worse)


def _between(errors, better, worse):
    if better in errors and worse in errors:
        return 100 * ((100 + errors[better]) / (100 + errors[worse]) - 1)
    return None
