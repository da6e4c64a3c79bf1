// ufp4 - the checks of a token_shard against the call that it was given to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ufp4/detail/expects.hpp>
#include <ufp4/recipe/linear_operands.hpp>

namespace ufp4::recipe::detail::inline UFP4_TYPES {

/// Whether the machine of an operation supports a token_shard.
enum class placing : std::uint8_t { whole_batches, parts };

}  // namespace ufp4::recipe::detail::inline UFP4_TYPES

namespace ufp4::recipe::detail::inline UFP4_CODE {

using ufp4::detail::expects;

/// Wgrad contracts the tokens: a piece of a part begins and ends at whole blocks and transform runs.
inline void check_contracted_part(const char* operation, const bound_recipe& now, std::size_t e, std::size_t first,
                                  std::size_t count, std::size_t total) {
  const std::size_t run = ufp4::detail::padded_length(1, block_of(now, 4), now.operand(4).transform);
  expects(first % run == 0, operation, ": token_shard.first[", e, "] must be a multiple of ", run,
          ", the longer of block and transform along the tokens, got ", first);
  expects(first + count == total || count % run == 0, operation, ": the tokens of part ", e, " must be a multiple of ",
          run, ", the longer of block and transform along the tokens, or the last of the ", "whole part: got ", first,
          " .. ", first + count, " of ", total);
}

/// Part e of a shard in the operands left and left + 1, with `count` tokens in this call.
inline void check_part(const char* operation, const bound_recipe& now, int left, std::size_t e, std::size_t count) {
  const token_shard& place = now.shard();
  const std::size_t first = e < place.first.size() ? place.first[e] : 0;
  const bool has_total = e < place.total.size();
  const std::size_t total = has_total ? place.total[e] : count;
  const std::uint32_t part = now.part(static_cast<std::uint32_t>(e));
  expects(part < 1u << 16, operation, ": token_shard.part[", e, "] must be below 65536, got ", part);
  // 16: the rows that fast kernels process together, so that they are the same rows in every part and in the whole
  expects(first % 16 == 0, operation, ": token_shard.first[", e, "] must be a multiple of 16, got ", first);
  expects(count % 16 == 0, operation, ": the tokens of part ", e,
          " must be a multiple of 16 under a token_shard (pad with rows of zeros), got ", count);
  expects(!has_total || (first <= total && count <= total - first), operation, ": token_shard.first[", e,
          "] + tokens exceeds token_shard.total[", e, "]: ", first, " + ", count, " > ", total);
  if (left == 4) return check_contracted_part(operation, now, e, first, count, total);
  const auto height = static_cast<std::size_t>(block_of(now, left).rows);
  expects(first % height == 0, operation, ": token_shard.first[", e, "] must be a multiple of ", height,
          ", the block height of ", operand_names[left], ", got ", first);
}

inline void check_entries(const char* operation, const char* name, std::size_t entries, std::size_t parts) {
  expects(entries == 0 || entries == parts, operation, ": token_shard.", name, " must have one entry per part, ", parts,
          ", got ", entries);
}

inline void check_shard(const char* operation, const bound_recipe& now, int left, const shape& s, placing can) {
  if (!now.is_sharded()) return;
  const token_shard& place = now.shard();
  expects(can == placing::parts, operation,
          ": token_shard: unsupported: the linear operations of a GPU take a whole batch");
  check_entries(operation, "first", place.first.size(), s.experts());
  check_entries(operation, "total", place.total.size(), s.experts());
  check_entries(operation, "part", place.part.size(), s.experts());
  expects(left != 4 || place.first.empty() || !place.total.empty(), operation,
          ": token_shard.first without token_shard.total: wgrad contracts the tokens, and the random bits depend on ",
          "their total number");
  for (std::size_t e = 0; e < s.experts(); ++e) check_part(operation, now, left, e, s.offsets[e + 1] - s.offsets[e]);
  for (int i = left; i < left + 2; ++i) {
    const operand_policy& o = now.recipe().operand(i);
    expects(!has_tokens(i) || !o.quantized || !o.format.two_level || place.tokens, operation,
            ": token_shard.tokens is missing: the tensor scale of ", operand_names[i],
            " needs the amax of the whole batch");
  }
}

}  // namespace ufp4::recipe::detail::inline UFP4_CODE
