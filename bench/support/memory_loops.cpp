// ufp4 - benches: the loops of memory_loops.inl at 16, 32 and 64 bytes a vector.
// SPDX-License-Identifier: Apache-2.0
#include "memory_loops.hpp"

#include <cstdint>
#include <ufp4/cpu/simd/target.hpp>

namespace bench {

#if defined(__x86_64__)

UFP4_BEGIN_TARGET("avx512f")
namespace wide {
constexpr std::size_t width = 64;
#include "memory_loops.inl"
}  // namespace wide
UFP4_END_TARGET

UFP4_BEGIN_TARGET("avx2")
namespace middle {
constexpr std::size_t width = 32;
#include "memory_loops.inl"
}  // namespace middle
UFP4_END_TARGET
#endif

namespace narrow {
constexpr std::size_t width = 16;
#include "memory_loops.inl"
}  // namespace narrow

using ufp4::cpu::isa;

#if defined(__x86_64__)
const memory_loops& avx512_loops() {
  static constexpr memory_loops loops{isa::avx512, &wide::read, &wide::write, &wide::update, &wide::copy};
  return loops;
}
const memory_loops& avx2_loops() {
  static constexpr memory_loops loops{isa::avx2, &middle::read, &middle::write, &middle::update, &middle::copy};
  return loops;
}
#else
const memory_loops& avx512_loops() {
  static constexpr memory_loops loops{isa::avx512, nullptr, nullptr, nullptr, nullptr};
  return loops;
}
const memory_loops& avx2_loops() { return avx512_loops(); }
#endif
const memory_loops& baseline_loops() {
  static constexpr memory_loops loops{isa::scalar, &narrow::read, &narrow::write, &narrow::update, &narrow::copy};
  return loops;
}

}  // namespace bench
