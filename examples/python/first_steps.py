# ufp4 - first steps in Python: quantize, multiply, measure, store; plots of grids, of errors and of the Hadamard transform.
# SPDX-License-Identifier: Apache-2.0
#
#   python examples/python/first_steps.py [FOLDER]     # writes grids.svg, sqnr.svg and hadamard.svg (needs matplotlib)
import os
import sys

import numpy as np

import ufp4

# %% A weight matrix with outliers, as those of language models have: one value in a hundred is ten times as large.
rng = np.random.default_rng(0)
w = rng.standard_normal((512, 1024), np.float32) / 32
w[rng.random(w.shape) < 0.01] *= 10
x = rng.standard_normal((64, 1024), np.float32)

# %% Four bits and a scale for 16 elements. The transform is part of the matrix; codes and scales are arrays of numpy.
q = ufp4.quantize(w, "nvfp4", rht=16, rounding=ufp4.Stochastic(7))
print(q, f"{w.nbytes} bytes become {q.nbytes}")
print(f"codes {q.codes.dtype} {q.codes.shape}, scales {q.scales.dtype} {q.scales.shape}, tensor scale {q.tensor_scale:.3g}")

# %% A product with both operands in 4 bits. The transforms cancel; the result is that of x and w but for the rounding.
exact = x @ w.T
y = ufp4.matmul(x, w, format="e1m2_f32", rht=16)
print(f"relative error of the product: {np.linalg.norm(y - exact) / np.linalg.norm(exact):.3f}")
print(ufp4.explain_matmul(q, q))

# %% A file that the C++ library, the tool and other projects read.
ufp4.save("first_steps.safetensors", {"layer.weight": q})
assert ufp4.load("first_steps.safetensors", "layer.weight") == q
os.remove("first_steps.safetensors")

# %% What each format of 4 bits loses on w, without and with a random Hadamard transform of the block's length.
sqnr = {}
for f in (f for f in ufp4.formats() if f.code_bits == 4):
    sqnr[f.name] = ufp4.measure(w, f).sqnr_db, ufp4.measure(w, f, rht=f.block[1]).sqnr_db
    print(f"{f.name:9}{f.bits:6.2f} bits  SQNR {sqnr[f.name][0]:5.2f} dB, after the transform {sqnr[f.name][1]:5.2f} dB")

# %% Plots.
import matplotlib.pyplot as plt  # noqa: E402

folder = sys.argv[1] if len(sys.argv) > 1 else "."
os.makedirs(folder, exist_ok=True)
plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ufp4", "font.size": 9, "font.family": "sans-serif",
                     "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE = "#2a6f97", "#d9822b"


def store(figure, name):
    figure.savefig(os.path.join(folder, name + ".svg"), metadata={"Date": None, "Creator": None})
    plt.close(figure)


# The values that a code can mean, divided by the largest: E2M1 is fine near zero and coarse at its ends.
figure, axis = plt.subplots(figsize=(6.4, 1.7), layout="constrained")
for row, name in enumerate(("mxint4", "mx_e1m2", "mxfp4")):
    values = np.array(sorted(set(ufp4.format(name).values)))
    if name == "mxint4":
        values = values[values > -8]  # the quantizer never writes -8
    axis.vlines(values / values.max(), row - 0.3, row + 0.3, color=ORANGE if name == "mxfp4" else BLUE)
axis.set(yticks=range(3), yticklabels=["int4", "E1M2", "E2M1"], xlabel="value / largest value", xlim=(-1.05, 1.05),
         ylim=(-0.5, 2.5))
store(figure, "grids")

# The signal-to-quantization-noise ratio of w.
figure, axis = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
place = np.arange(len(sqnr))[::-1]
for shift, which, color, label in ((0.2, 0, ORANGE, "as it is"), (-0.2, 1, BLUE, "after a random Hadamard transform")):
    axis.barh(place + shift, [pair[which] for pair in sqnr.values()], 0.38, color=color, label=label)
labels = [f"{name}, {ufp4.format(name).bits:g} bits" for name in sqnr]
axis.set(yticks=place, yticklabels=labels, xlabel="SQNR in dB", ylim=(-0.6, len(sqnr) + 0.6))
axis.legend(frameon=False, loc="upper left", ncols=2)
store(figure, "sqnr")

# What the transform does to a block with an outlier: every value of a block gets a part of it, so that all of the grid's
# values are used.
t = ufp4.random_hadamard(16)
after = ufp4.hadamard_forward(w, t)
figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 2.6), layout="constrained")
block = np.argmax(np.abs(w).reshape(-1, 16).max(axis=1))
for values, color, label in ((w, ORANGE, "before"), (after, BLUE, "after")):
    blocks = values.reshape(-1, 16)
    left.plot(blocks[block], ".-", color=color, label=label)
    share = np.abs(blocks) / np.abs(blocks).max(axis=1, keepdims=True)
    share = share[np.arange(16) != np.abs(blocks).argmax(axis=1)[:, None]]  # without the amax itself, which is 1
    right.hist(share, bins=32, range=(0, 1), histtype="step", density=True, color=color)
left.set(xlabel="element of one block", ylabel="value", xticks=(0, 4, 8, 12))
left.legend(frameon=False)
right.set(xlabel="|value| / amax of its block", ylabel="density of all blocks", xlim=(0, 1))
store(figure, "hadamard")
print(f"plots in {os.path.abspath(folder)}")
