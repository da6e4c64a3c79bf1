// ufp4 - the C interface allocates for the work of a call what ufp4.h states, and frees it before the call returns.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone
#include <ufp4/c/functions.hpp>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "support/catch.hpp"

namespace {

std::atomic<std::size_t> in_use{0}, large{0};

/// Counts blocks, and the bytes of those that are larger than the names and texts of a call.
void* counted(std::size_t size, std::size_t alignment) {
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (memory == nullptr) throw std::bad_alloc();
  ++in_use;
  if (size > 512) large += size;
  return memory;
}
void released(void* memory) {
  if (memory != nullptr) --in_use;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {  // AddressSanitizer's does not call the above
  return counted(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { released(memory); }
void operator delete(void* memory, std::size_t) noexcept { released(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { released(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { released(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { released(memory); }

namespace {

constexpr std::size_t rows = 96, cols = 256;

/// The bytes of large blocks that a call allocates. It must succeed and keep none.
template <class Call>
std::size_t work_memory(const Call& call) {
  const std::size_t before = in_use;
  large = 0;
  const std::int32_t status = call();
  const std::size_t after = in_use, bytes = large;
  REQUIRE(status == UFP4_OK);
  REQUIRE(after == before);
  return bytes;
}

}  // namespace

TEST_CASE("quantize, dequantize, transforms, amax and prepack allocate nothing large, products and measure do", "[c]") {
  std::vector<float> x(rows * cols, 1.25f), y(rows * cols), c(rows * rows), scales(rows * cols),
      packed_scales(rows * cols);
  std::vector<std::uint8_t> codes(rows * cols), packed_codes(rows * cols);
  const ufp4_matrix xm{x.data(), rows, cols, cols, 1, UFP4_F32}, ym{y.data(), rows, cols, cols, 1, UFP4_F32};
  const ufp4_matrix cm{c.data(), rows, rows, rows, 1, UFP4_F32};
  ufp4_transform t;
  ufp4_format format;
  ufp4_quantized q, packed;
  REQUIRE(ufp4_random_hadamard(16, 1, &t) == UFP4_OK);
  for (std::size_t i = 0; i < ufp4_preset_count(); ++i) {
    CAPTURE(ufp4_preset_name(i));
    REQUIRE(ufp4_preset(ufp4_preset_name(i), &format) == UFP4_OK);
    CHECK(work_memory([&] { return ufp4_quantized_init(&format, rows, cols, &t, &q); }) == 0);
    CHECK(work_memory([&] { return ufp4_prepacked_init(&format, rows, cols, &t, &packed); }) == 0);
    REQUIRE((q.codes_size <= codes.size() && packed.codes_size <= packed_codes.size()));
    REQUIRE((q.scales_size <= 4 * scales.size() && packed.scales_size <= 4 * packed_scales.size()));
    q.codes = codes.data(), q.scales = scales.data();
    packed.codes = packed_codes.data(), packed.scales = packed_scales.data();
    CHECK(work_memory([&] { return ufp4_quantize(nullptr, &xm, nullptr, &q); }) == 0);
    CHECK(work_memory([&] { return ufp4_fake_quantize(nullptr, &format, &xm, &t, nullptr, &ym); }) == 0);
    CHECK(work_memory([&] { return ufp4_dequantize(nullptr, &q, &ym); }) == 0);
    CHECK(work_memory([&] { return ufp4_prepack(nullptr, &q, &packed); }) == 0);
    CHECK(work_memory([&] { return ufp4_hadamard_forward(nullptr, &xm, &t, &ym); }) == 0);
    CHECK(work_memory([&] { return ufp4_hadamard_inverse(nullptr, &xm, &t, &ym); }) == 0);
    float amax = 0;
    CHECK(work_memory([&] { return ufp4_amax(nullptr, &xm, &t, &amax); }) == 0);
    CHECK(work_memory([&] { return ufp4_dequantize(nullptr, &packed, &ym); }) >= q.codes_size + q.scales_size);
    ufp4_report report;
    CHECK(work_memory([&] { return ufp4_measure(nullptr, &format, &xm, &t, nullptr, &report); }) > 0);
    CHECK(work_memory([&] { return ufp4_gemm(nullptr, &q, &packed, &cm, nullptr); }) > 0);
    CHECK(work_memory([&] { return ufp4_gemm_mixed(nullptr, &xm, &q, &cm, nullptr); }) > 0);
    CHECK(work_memory([&] { return ufp4_gemm_grouped(nullptr, 1, &q, &q, &cm, nullptr); }) > 0);
  }
  ufp4_format to;
  ufp4_quantized as;
  REQUIRE((ufp4_preset("mxfp4", &format) == UFP4_OK && ufp4_preset("nvfp4", &to) == UFP4_OK));
  REQUIRE(ufp4_quantized_init(&format, rows, cols, nullptr, &q) == UFP4_OK);
  REQUIRE(ufp4_quantized_init(&to, rows, cols, nullptr, &as) == UFP4_OK);
  q.codes = codes.data(), q.scales = scales.data(), as.codes = packed_codes.data(), as.scales = packed_scales.data();
  REQUIRE(ufp4_quantize(nullptr, &xm, nullptr, &q) == UFP4_OK);
  // 96 rows of reports; and 4 bytes an element of each row, whose codes and scales are below 512 bytes.
  CHECK(work_memory([&] { return ufp4_cast(nullptr, &q, &as, nullptr); }) == rows * (40 + 4 * cols));
  const ufp4_recipe recipe = UFP4_RECIPE_INIT;
  CHECK(work_memory([&] { return ufp4_linear_forward(nullptr, &recipe, &xm, &xm, nullptr, &cm); }) > rows * cols);
}
