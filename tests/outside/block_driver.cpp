// ufp4 - quantizes rows of numbers to a preset, for the comparisons with other projects' packages.
// SPDX-License-Identifier: Apache-2.0
//
// usage: block_driver PRESET COLS < floats > numbers      (uint32 or float32, in the machine's byte order)
//
// COLS: a multiple of the block length. Out: the bits of the tensor scale (of 1 without one), those of all block
// scales, and all codes, row-major.
#include <ufp4/matrix/preset_names.hpp>
#include <ufp4/quantize.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

namespace {

std::vector<float> read_floats() {
  std::vector<float> x;
  float block[4096];
  for (std::size_t n; (n = std::fread(block, sizeof(float), 4096, stdin)) != 0;) x.insert(x.end(), block, block + n);
  return x;
}

std::vector<std::uint32_t> quantized(const ufp4::format_spec& format, const std::vector<float>& x, std::size_t cols) {
  if (cols == 0 || x.size() % cols != 0) throw std::invalid_argument("COLS does not divide the count of floats");
  const ufp4::any_quantized q = quantize(format, ufp4::matrix_view<const float>{x.data(), x.size() / cols, cols});
  if (q.padded_cols() != cols) throw std::invalid_argument("COLS is not a multiple of the block length");
  const std::size_t bytes = format.scale == ufp4::scale_kind::f32 ? 4 : 1;
  std::vector<std::uint32_t> out{ufp4::detail::to_bits(q.tensor_scale())};
  for (std::size_t i = 0; i < q.scale_bytes().size(); i += bytes) {
    std::uint32_t scale = 0;
    std::memcpy(&scale, q.scale_bytes().data() + i, bytes);  // little endian
    out.push_back(scale);
  }
  for (const std::uint8_t byte : q.codes())
    if (format.has_bytes())
      out.push_back(byte);
    else
      out.push_back(byte & 15u), out.push_back(byte >> 4);
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::invalid_argument("block_driver: usage: block_driver PRESET COLS");
  const auto numbers = quantized(ufp4::preset(argv[1]), read_floats(), std::strtoull(argv[2], nullptr, 10));
  return std::fwrite(numbers.data(), sizeof numbers[0], numbers.size(), stdout) == numbers.size() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "block_driver: %s\n", error.what());
  return 2;
}
