// ufp4 - 4-bit codes in 8-bit containers: every code of every grid is the same number as an E4M3 byte.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/device.hpp"

#include <ufp4/gpu/thread/decode.hpp>
#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <vector>

using namespace ufp4;

namespace {

namespace thread = gpu::thread;

struct expand_job {
  const std::uint32_t* codes;
  std::uint32_t* bytes;
  unsigned count;
  thread::container_table table;
};
UFP4_KERNEL(64) expand(const expand_job job) {
  const unsigned i = gpu::block_index().x * 64 + gpu::thread_index().x;
  if (i >= job.count) return;
  const thread::eight_containers eight = thread::containers_of(job.codes[i], job.table);
  job.bytes[2 * i] = eight.first;
  job.bytes[2 * i + 1] = eight.last;
}

/// The bytes of words of eight codes, made on the device.
std::vector<std::uint8_t> expanded(const std::vector<std::uint32_t>& codes, const grid4& grid) {
  const gpu::buffer<std::uint32_t> in{std::span<const std::uint32_t>(codes)};
  const gpu::buffer<std::uint32_t> out(2 * codes.size());
  const auto count = static_cast<unsigned>(codes.size());
  const expand_job job{in.data(), out.data(), count, thread::container_table_of(grid)};
  REQUIRE(gpu::launch(&expand, {(count + 63) / 64, 1, 1}, {64, 1, 1}, 0, gpu::stream{}, job) == gpu::success);
  std::vector<std::uint8_t> bytes;
  for (const std::uint32_t w : support::on_host(out))
    for (unsigned b = 0; b < 4; ++b) bytes.push_back(static_cast<std::uint8_t>(w >> (8 * b)));
  return bytes;
}

template <class E>
void check_grid() {
  constexpr grid4 grid = grid_of<E>();
  static_assert(thread::fits_containers(grid));
  // Every code at every place, beside every other code.
  std::vector<std::uint32_t> codes;
  for (std::uint32_t own = 0; own < 16; ++own)
    for (std::uint32_t other = 0; other < 16; ++other)
      for (unsigned at = 0; at < 8; ++at) codes.push_back((other * 0x11111111u & ~(15u << (4 * at))) | own << (4 * at));
  const std::vector<std::uint8_t> bytes = expanded(codes, grid);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < codes.size(); ++i)
    for (unsigned k = 0; k < 8; ++k) {
      const float value = static_cast<float>(E::from_bits(static_cast<std::uint8_t>(codes[i] >> (4 * k) & 15u)));
      const float contained = static_cast<float>(e4m3::from_bits(bytes[8 * i + k]));
      wrong += detail::to_bits(value) != detail::to_bits(contained);
    }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a code and its container are the same number, the sign of zero included", "[gpu]") {
  SECTION("E2M1") { check_grid<fp4<E2M1>>(); }
  SECTION("E1M2") { check_grid<fp4<E1M2>>(); }
  SECTION("E3M0") { check_grid<fp4<E3M0>>(); }
  SECTION("int4, -8 included") { check_grid<ufp4::int4>(); }
}

TEST_CASE("a grid that E4M3 cannot hold exactly as normal numbers has no containers", "[gpu]") {
  static_assert(!thread::fits_containers(grid_of<nf4>()));
  grid4 grid = grid_of<fp4<E2M1>>();
  grid.value[3] = 0x1p-7f;  // a subnormal of E4M3
  CHECK_FALSE(thread::fits_containers(grid));
  grid.value[3] = 17.0f;  // five significant bits
  CHECK_FALSE(thread::fits_containers(grid));
  grid.value[3] = 480.0f;  // beyond 448
  CHECK_FALSE(thread::fits_containers(grid));
  grid.value[3] = -18.0f;
  CHECK(thread::fits_containers(grid));
}
