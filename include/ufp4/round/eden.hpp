// ufp4 - eden: nearest codes, and block scales that make the gain 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/round/stochastic.hpp>

namespace ufp4::inline UFP4_TYPES {

/// In place of a rounding policy, for every format with blocks of one row and every scale rule, after a transform of
/// at least the block's length. Codes are those of nearest_even. The block scales of each transform run are multiplied
/// by sum(x x) / sum(x q), which is what rounding took from the run, and rounded stochastically.
///
/// | gain      | sum(x q) is sum(x x) in every run but for the rounding of scales, whose mean is right         |
/// | bias      | of single elements over random signs: tenths of a percent of the norm of 16 Gaussian numbers, |
/// |           | less in longer runs, several percent where few elements are not 0: docs/bias.md               |
/// | error     | little more than that of nearest_even, and less than half of that of stochastic rounding      |
/// | saturated | before the correction the largest scale is a power of two below the largest of its type       |
/// | backends  | portable code: the same bits on every instruction set and by threads; on a GPU an error       |
/// | source    | EDEN, arXiv 2108.08842; scales are corrected as in MS-EDEN, arXiv 2601.22813                  |
struct eden {
  std::uint64_t seed = 0;    ///< of the random bits of the scales
  std::uint64_t stream = 0;  ///< as stochastic's
};

}  // namespace ufp4::inline UFP4_TYPES
