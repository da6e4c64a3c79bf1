// ufp4 - one matrix through quantize on a GPU and on the host: the same bytes, and nothing beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/device.hpp"

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace support {

/// Memory of a device for n objects between guards.
template <class T>
class guarded_buffer {
 public:
  explicit guarded_buffer(std::size_t n) : size_(n), bytes_(n * sizeof(T) + 2 * guard) {
    bytes_.upload(std::vector<std::uint8_t>(bytes_.size(), 0xA7));
  }
  T* data() const { return reinterpret_cast<T*>(bytes_.data() + guard); }
  std::span<T> span() const { return {data(), size_}; }

  bool guards_intact() const {
    const std::vector<std::uint8_t> all = on_host(bytes_);
    bool intact = true;
    for (std::size_t i = 0; i < guard; ++i) intact = intact && all[i] == 0xA7 && all[all.size() - 1 - i] == 0xA7;
    return intact;
  }
  /// Are the objects these, byte for byte?
  bool holds(const void* want, std::size_t bytes) const {
    const std::vector<std::uint8_t> all = on_host(bytes_);
    return bytes == size_ * sizeof(T) && (bytes == 0 || std::memcmp(all.data() + guard, want, bytes) == 0);
  }

 private:
  static constexpr std::size_t guard = 256;
  std::size_t size_;
  gpu::buffer<std::uint8_t> bytes_;
};

/// Codes, scales and tensor scale on the device, uninitialised, guarded.
template <ufp4::detail::any_block_format F>
struct device_output {
  using scale_type = typename gpu::quantized_view<F>::scale_type;

  device_output(std::size_t rows, std::size_t cols, const ufp4::transform_spec& t)
      : shape(rows, cols, t),
        codes(shape.codes().size()),
        scales(shape.scale_bytes().size() / sizeof(scale_type)),
        tensor_scale(1) {}

  gpu::quantized_view<F> view() const {
    return {codes.span(), scales.span(), tensor_scale.data(), shape.rows(), shape.cols(), shape.transform()};
  }
  /// The host's bytes, and intact guards?
  template <ufp4::detail::quantized Q>
  bool matches(const Q& want) const {
    const float scale = want.tensor_scale();
    return codes.guards_intact() && scales.guards_intact() && tensor_scale.guards_intact() &&
           codes.holds(want.codes().data(), want.codes().size()) &&
           scales.holds(want.scale_bytes().data(), want.scale_bytes().size()) &&
           (!F::has_tensor_scale || tensor_scale.holds(&scale, sizeof scale));
  }

  ufp4::quantized_matrix<F> shape;
  guarded_buffer<std::uint8_t> codes;
  guarded_buffer<scale_type> scales;
  guarded_buffer<float> tensor_scale;
};

/// A copy of `memory` on the device, and the host's view of it there.
template <class T>
class device_copy {
 public:
  device_copy(const std::vector<T>& memory, const ufp4::matrix_view<const T>& x)
      : memory_(std::span<const T>(memory)),
        view_(memory_.data() + (x.data() - memory.data()), x.rows(), x.cols(), x.row_stride(), x.col_stride()) {}
  ufp4::matrix_view<const T> view() const { return view_; }

 private:
  gpu::buffer<T> memory_;
  ufp4::matrix_view<const T> view_;
};

/// 512 bytes: what quantize_both needs at most.
inline gpu::context context_with(const gpu::buffer<std::byte>& workspace) { return {{}, workspace.span()}; }

/// quantize<F>(x, policies...) on both machines, with a report each.
template <class F, class T, class... Policies>
void check_quantize(const std::vector<T>& memory, const ufp4::matrix_view<const T>& x, const Policies&... policies) {
  using namespace ufp4;
  quantize_report counted;
  const auto want = quantize<F>(x, policies..., count_into{counted}, cpu::context{.threads = 1});
  const device_copy<T> in(memory, x);
  const device_output<ufp4::detail::format_of<F>> out(x.rows(), x.cols(), want.transform());
  const gpu::buffer<std::byte> workspace(512);
  const gpu::buffer<quantize_report> report(std::span<const quantize_report>(std::vector<quantize_report>(1)));
  REQUIRE(text_of(gpu::quantize<F>(context_with(workspace), in.view(), out.view(), policies...,
                                   gpu::count_at{report.data()})) == "");
  REQUIRE(out.matches(want));
  REQUIRE(on_host(report)[0] == counted);
}
template <class F, class T, class... Policies>
void check_quantize(const std::vector<T>& packed, std::size_t rows, std::size_t cols, const Policies&... policies) {
  check_quantize<F>(packed, ufp4::matrix_view<const T>{packed.data(), rows, cols}, policies...);
}

}  // namespace support
