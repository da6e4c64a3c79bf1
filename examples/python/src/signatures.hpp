// ufp4 - pieces of the signatures that docstrings and type stubs show.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define UFP4_ARRAY "ufp4.Array"
#define UFP4_NEW "numpy.typing.NDArray[typing.Any]"
#define UFP4_TO "out: " UFP4_ARRAY " | None = None, dtype: numpy.typing.DTypeLike | None = None, "
#define UFP4_POLICIES                                                                        \
  "*, rht: int | Transform | None = None, rounding: str | Stochastic | Eden | None = None, " \
  "rule: str | Percentile | None = None, search: str | Search | None = None, "               \
  "choose_grid: str | None = None, "                                                         \
  "tensor_amax: float | None = None, shard: tuple[int, int, int] | None = None, "
#define UFP4_PROGRESS "progress: collections.abc.Callable[[int, int], object] | None = None, "
#define UFP4_MODE "accumulate: str = 'fast', "
#define UFP4_CALL "threads: int = 0, isa: str | None = None"
