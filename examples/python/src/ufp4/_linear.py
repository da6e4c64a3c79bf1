# ufp4 - a linear layer under a training recipe.
# SPDX-License-Identifier: Apache-2.0
"""The three products of a linear layer."""
import dataclasses
from typing import Any

from . import _core


@dataclasses.dataclass(frozen=True)
class Linear:
    """The three products of one linear layer under a training recipe; it holds no weights.

    T tokens, K inputs, N outputs. The random signs and bits depend on seed, layer, product and step only.
    """

    recipe: str = "ufp4"
    """One of `ufp4.recipes()`."""
    seed: int = 0
    """Of the random signs and of stochastic rounding; one for a training run."""
    layer: int = 0
    """Number of the layer, below 65536."""
    accumulate: str = "fast"
    """Mode of the products: 'fast', 'exact_blocks' or 'folded_bf16'."""
    threads: int = 0
    """At most; 0 for all cores."""

    def _arguments(self, step: int) -> dict[str, Any]:
        return {"recipe": self.recipe, "seed": self.seed, "layer": self.layer, "step": step,
                "accumulate": self.accumulate, "threads": self.threads}

    def forward(self, x: Any, w: Any, step: int = 0, *, bias: Any = None, out: Any = None) -> Any:
        """Y[T,N] = X[T,K] * W[N,K]^T + bias, in the type of x.

        x [T, K], w [N, K]; bias: float32 [N]; out: an array [T, N] to write to, which is returned.
        ValueError: shapes that do not match, an unknown recipe, or an out that overlaps an operand.
        """
        return _core.linear_forward(x, w, bias=bias, out=out, **self._arguments(step))

    def dgrad(self, dy: Any, w: Any, step: int = 0, *, out: Any = None, add: bool = False) -> Any:
        """dX[T,K] = dY[T,N] * W[N,K], in the type of dy.

        dy [T, N], w [N, K]; out: an array [T, K] to write to, which is returned; with add, the product is added to it.
        ValueError: shapes that do not match, an unknown recipe, add without out, or an out that overlaps an operand.
        """
        return _core.linear_backward_input(dy, w, out=out, add=add, **self._arguments(step))

    def wgrad(self, dy: Any, x: Any, step: int = 0, *, out: Any = None, add: bool = False) -> Any:
        """dW[N,K] = dY[T,N]^T * X[T,K], in float32.

        dy [T, N], x [T, K]; out: an array [N, K] to write to, which is returned; with add, the product is added to it.
        ValueError: shapes that do not match, an unknown recipe, add without out, or an out that overlaps an operand.
        """
        return _core.linear_backward_weight(dy, x, out=out, add=add, **self._arguments(step))
