// ufp4 - places beyond 2^31 elements and 2^32 bytes: views, codes and random bits are indexed with 64 bits.
// SPDX-License-Identifier: Apache-2.0
/// Memory is reserved, not used: only the pages that the few elements lie on are ever touched.
#include <ufp4/cpu/kernels/kernels_scalar.hpp>
#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include <vector>

#include <sys/mman.h>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

namespace {

using namespace ufp4;

class reserved {
 public:
  explicit reserved(std::size_t bytes) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  reserved(const reserved&) = delete;
  reserved& operator=(const reserved&) = delete;
  ~reserved() {
    if (*this) munmap(memory_, bytes_);
  }
  explicit operator bool() const { return memory_ != MAP_FAILED; }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_;
  std::size_t bytes_;
};

constexpr const char* no_room = "this machine does not let a process reserve the addresses";

/// x's elements through a view with huge strides: the packed matrix's bits, there and back.
template <class F, class T>
void check_view(matrix_view<T> x, const std::vector<T>& packed) {
  const matrix_view<const T> plain{packed.data(), x.rows(), x.cols()};
  for (std::size_t i = 0; i < x.rows(); ++i)
    for (std::size_t j = 0; j < x.cols(); ++j) x(i, j) = plain(i, j);
  const auto want = quantize<F>(plain);
  REQUIRE(quantize<F>(x) == want);
  REQUIRE(model::bits_of(amax(x).value) == model::bits_of(amax(plain).value));
  std::vector<T> decoded(packed.size());
  dequantize(want, matrix_view<T>{decoded.data(), x.rows(), x.cols()});
  const auto same = [&] {
    bool all = true;
    for (std::size_t i = 0; i < x.rows(); ++i)
      for (std::size_t j = 0; j < x.cols(); ++j)
        all = all && std::memcmp(&x(i, j), &decoded[i * x.cols() + j], sizeof(T)) == 0;
    return all;
  };
  fake_quantize<F>(x, x);
  REQUIRE(same());
  for (std::size_t i = 0; i < x.rows(); ++i)
    for (std::size_t j = 0; j < x.cols(); ++j) x(i, j) = T{};
  dequantize(want, x);
  REQUIRE(same());
}

}  // namespace

TEST_CASE("rows and columns more than 2^31 elements apart, forwards and backwards") {
  INFO(support::seed_note());
  constexpr std::ptrdiff_t far = (std::ptrdiff_t{1} << 31) + 20;
  const reserved memory(static_cast<std::size_t>(2 * far + 64) * sizeof(float));
  if (!memory) return support::skip(no_room);
  support::hostile source(support::seed());
  const std::vector<float> values = source.values(3 * 20, false, false);
  auto* first = memory.as<float>();
  check_view<nvfp4>(matrix_view<float>{first, 3, 20, far}, values);
  check_view<nvfp4>(matrix_view<float>{first + 2 * far, 3, 20, -far}, values);
  check_view<mxfp4>(matrix_view<float>{first, 20, 3, 1, far}, values);
  check_view<mxfp4>(matrix_view<float>{first + 2 * far, 20, 3, 1, -far}, values);
  auto* half = memory.as<bf16>();
  check_view<e1m2_f32>(matrix_view<bf16>{half, 3, 20, 2 * far}, support::elements<bf16>(values));
}

TEST_CASE("codes, scales and random bits of rows beyond 2^32 bytes of codes") {
  INFO(support::seed_note());
  // One row repeated 2^27 + 3 times: 2^33 elements, 2^32 bytes of codes. Only the last rows are computed.
  constexpr std::size_t rows = (std::size_t{1} << 27) + 3, cols = 64, first = rows - 3;
  const reserved codes(rows * cols / 2), scales(rows * (cols / 16) * sizeof(float));
  if (!codes || !scales) return support::skip(no_room);
  support::hostile source(support::seed(1));
  const std::vector<float> row = source.values(cols, false, false);
  const matrix_view<const float> x{row.data(), rows, cols, 0, 1};
  const stochastic random_bits{.seed = 3, .stream = 4};

  const auto options = detail::collect(random_bits);
  const cpu::detail::quantize_job job = detail::make_job(detail::source_of(x), spec_of<e1m2_f32>, options);
  const detail::kernel_coder coder{spec_of<e1m2_f32>, {}, {}, random_bits};
  quantize_report seen;
  REQUIRE(job.strips() == rows);
  cpu::detail::quantize_scalar(job, coder, {codes.as<std::uint8_t>(), scales.as<float>()}, first, rows, seen);

  std::vector<float> repeated;
  for (int i = 0; i < 3; ++i) repeated.insert(repeated.end(), row.begin(), row.end());
  model::request q{.rounding = {model::rounding::stochastic, 3, 4}};
  q.sharded = true, q.first_row = first, q.total_cols = cols;
  const model::result want = model::quantize(model::format_of<e1m2_f32>(), repeated, 3, cols, q);
  const std::vector<std::uint8_t> bytes = model::packed(want.codes);
  CHECK(std::memcmp(codes.as<std::uint8_t>() + first * cols / 2, bytes.data(), bytes.size()) == 0);
  for (std::size_t i = 0; i < want.scales.size(); ++i)
    CHECK(model::bits_of(scales.as<float>()[first * (cols / 16) + i]) == want.scales[i]);

  const quantized_view<e1m2_f32> view({codes.as<std::uint8_t>(), rows * cols / 2},
                                      {scales.as<float>(), rows * (cols / 16)}, 1.0f, rows, cols);
  std::vector<float> out(3 * cols);
  const detail::sink to{out.data() - first * cols, dtype::f32, rows, cols, cols, 1};
  cpu::detail::dequantize_scalar(detail::quantized_source_of(view), to, first, rows);
  CHECK(support::same_numbers(out, model::decoded(want)));
}
