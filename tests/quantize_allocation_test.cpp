// ufp4 - quantize_into allocates nothing, and a quantized_matrix is not filled before it is written.
// SPDX-License-Identifier: Apache-2.0
// ctest: alone
#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "support/catch.hpp"

namespace {

std::atomic<std::size_t> allocations{0};
constexpr std::uint8_t dirt = 0xA5;  // what fresh memory holds

void* dirty_memory(std::size_t size, std::size_t alignment) {
  ++allocations;
  const std::size_t whole = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (memory == nullptr) throw std::bad_alloc();
  return std::memset(memory, dirt, whole);
}

}  // namespace

void* operator new(std::size_t size) { return dirty_memory(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return dirty_memory(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return dirty_memory(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

using namespace ufp4;

template <class Call>
std::size_t allocations_of(const Call& call) {
  const std::size_t before = allocations;
  call();
  return allocations - before;
}

template <class F>
void check_no_allocation() {
  const std::size_t rows = 300, cols = 1000;  // several tasks
  const std::vector<float> values(rows * cols, 1.25f);
  const matrix_view<const float> x{values.data(), rows, cols};
  quantized_matrix<ufp4::detail::format_of<F>> memory(rows, cols, random_hadamard<64>{1}.spec());
  std::vector<float> out(rows * cols);
  const matrix_view<float> to{out.data(), rows, cols};
  const cpu::context one_thread{.threads = 1};
  quantize_report report;
  const auto into = [&] {
    quantize_into<F>(x, memory.codes(), memory.scales(), random_hadamard<64>{1}, count_into{report}, one_thread);
  };
  into();  // finds out once what the machine has
  CHECK(allocations_of(into) == 0);
  CHECK(allocations_of([&] { fake_quantize<F>(x, to, random_hadamard<64>{1}, undo_transform{}, one_thread); }) == 0);
  CHECK(allocations_of([&] { dequantize(memory, to, one_thread); }) == 0);
  CHECK(allocations_of([&] { amax(x, hadamard<16>{}, one_thread); }) == 0);
  CHECK(allocations_of([&] { quantize<F>(x, one_thread); }) == 2);  // codes and scales
}

}  // namespace

TEST_CASE("on one thread quantize_into, fake_quantize, dequantize and amax allocate nothing, quantize its two arrays") {
  check_no_allocation<e1m2_f32>();
  check_no_allocation<nvfp4>();
  check_no_allocation<mxint4>();
  check_no_allocation<compat::ggml_mxfp4>();
}

TEST_CASE("quantize_into uses a matrix's memory again") {
  const std::vector<float> values(64, 2.0f);
  const matrix_view<const float> x{values.data(), 2, 32};
  quantized_matrix<nvfp4> q(2, 32);
  const std::uint8_t* codes = q.codes().data();
  const auto into = [&] { quantize_into(x, q, toward_zero{}, cpu::context{.threads = 1}); };
  into();
  CHECK(allocations_of(into) == 0);
  CHECK(q.codes().data() == codes);
  CHECK(q == quantize<nvfp4>(x, toward_zero{}));
}

TEST_CASE("a new quantized_matrix holds what its memory held") {
  const quantized_matrix<mxfp4> q(5, 100);
  for (const std::uint8_t byte : q.codes()) REQUIRE(byte == dirt);
  for (const e8m0 scale : q.scales()) REQUIRE(scale.bits() == dirt);
}
