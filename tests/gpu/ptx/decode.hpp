// ufp4 - the PTX interpreter: from a statement's text to an instruction. Each family of instructions has a decoder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/ptx/state.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

/// The parts of an instruction's text: `ld.global.v2.u32 {%r1, %r2}, [%rd1+8]`.
struct statement {
  std::string guard;               ///< %p1, !%p1 or nothing
  std::vector<std::string> parts;  ///< of the opcode, between the dots
  std::vector<std::string> operands;
  unsigned line = 0;

  const std::string& op() const { return parts.front(); }
  const std::string& type() const { return parts.back(); }
  bool has(std::string_view part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
  /// The one of the words that is a part, or nothing.
  std::string one_of(std::initializer_list<std::string_view> words) const {
    for (const auto w : words)
      if (has(w)) return std::string(w);
    return "";
  }
};

/// f32 is {'f', 32}; b16 has the letter b; bf16x2 is {'B', 32}, f16x2 {'H', 32}, bf16 {'B', 16}, f16 {'H', 16}.
struct type_name {
  char letter = 0;
  unsigned bits = 0;
  bool is_float() const { return letter == 'f' || letter == 'H' || letter == 'B'; }
};
type_name type_of(std::string_view name);

/// Finds the registers of a statement's operands.
class scope {
 public:
  virtual ~scope() = default;
  virtual unsigned reg(const std::string& operand) = 0;        ///< a register, a constant, a variable's address
  virtual unsigned predicate(const std::string& operand) = 0;  ///< with constants of all lanes; `!%p` is not possible
  virtual unsigned unused() = 0;                               ///< a register that nothing reads
};

std::vector<std::string> split_list(std::string_view text);    ///< at commas outside brackets
std::vector<std::string> members(const std::string& operand);  ///< of {a, b}; of anything else itself
std::vector<unsigned> registers_of(scope& s, const std::string& operand);
/// Of [base+offset]: the base's register; the offset goes to the instruction.
unsigned address_of(scope& s, const std::string& operand, instruction& i);

/// Each returns false if it does not know the opcode.
bool decode_arithmetic(scope& s, const statement& t, instruction& i);
bool decode_bits(scope& s, const statement& t, instruction& i);
bool decode_predicates(scope& s, const statement& t, instruction& i);
bool decode_conversion(scope& s, const statement& t, instruction& i);
bool decode_memory(scope& s, const statement& t, instruction& i);
bool decode_warp(scope& s, const statement& t, instruction& i);
bool decode_barrier(scope& s, const statement& t, instruction& i);
bool decode_mma(scope& s, const statement& t, instruction& i);
bool decode_wgmma(scope& s, const statement& t, instruction& i);
bool decode_tcgen05(scope& s, const statement& t, instruction& i);
bool decode_copy(scope& s, const statement& t, instruction& i);
bool decode_tensor_copy(scope& s, const statement& t, instruction& i);

}  // namespace ptx
