// ufp4 - the PTX interpreter: the names of types, and the operands of a statement.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/text.hpp"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace ptx {

void reject(const std::string& what) { throw std::runtime_error(what); }

type_name type_of(std::string_view name) {
  if (name == "pred") return {'p', 1};
  if (name == "bf16x2") return {'B', 32};
  if (name == "f16x2") return {'H', 32};
  if (name == "bf16") return {'B', 16};
  if (name == "f16") return {'H', 16};
  if (name.size() < 2 || std::strchr("subf", name[0]) == nullptr) return {};
  const unsigned bits = static_cast<unsigned>(std::strtoul(std::string(name.substr(1)).c_str(), nullptr, 10));
  if (name != name[0] + std::to_string(bits)) return {};
  return {name[0], bits};
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> all;
  int depth = 0;
  std::string now;
  for (const char c : text) {
    depth += c == '{' || c == '[' || c == '(';
    depth -= c == '}' || c == ']' || c == ')';
    if (c == ',' && depth == 0) {
      all.push_back(trimmed(now));
      now.clear();
    } else {
      now += c;
    }
  }
  if (!trimmed(now).empty()) all.push_back(trimmed(now));
  return all;
}

std::vector<std::string> members(const std::string& operand) {
  if (operand.empty() || operand.front() != '{') return {operand};
  return split_list(std::string_view(operand).substr(1, operand.size() - 2));
}
std::vector<unsigned> registers_of(scope& s, const std::string& operand) {
  std::vector<unsigned> all;
  for (const auto& m : members(operand)) all.push_back(m == "_" ? s.unused() : s.reg(m));
  return all;
}

unsigned address_of(scope& s, const std::string& operand, instruction& i) {
  if (operand.size() < 2 || operand.front() != '[') reject("has no address: " + operand);
  std::string inside = trimmed(std::string_view(operand).substr(1, operand.size() - 2));
  const std::size_t plus = inside.find('+');
  if (plus != std::string::npos) {
    i.offset = std::stoll(inside.substr(plus + 1), nullptr, 0);
    inside = trimmed(inside.substr(0, plus));
  }
  return s.reg(inside);
}

}  // namespace ptx
