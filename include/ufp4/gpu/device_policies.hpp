// ufp4 - what the GPU's quantizers take beside the host's policies: numbers that lie in device memory.
// SPDX-License-Identifier: Apache-2.0
//
// A operation neither reads nor waits for the device, so what only the device knows comes and goes by address.
#pragma once

#include <concepts>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <ufp4/gpu/vendor.hpp>
#include <ufp4/matrix/policies.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// tensor_amax in device memory, as amax() leaves it: read when the kernel runs. Nobody can reject a number that is not
/// finite or is negative by then: the tensor scale becomes a NaN, and so does whatever is decoded with it.
struct tensor_amax_at {
  const float* value = nullptr;
};

/// count_into for a report in device memory, which the kernel adds to.
struct count_at {
  quantize_report* report = nullptr;
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <class P>
concept device_policy = std::same_as<P, tensor_amax_at> || std::same_as<P, count_at>;

/// Everything the policies of one call said.
template <rounding_policy Rounding>
struct options {
  quantize_options<Rounding> host{};
  bool has_amax_at = false;
  const float* amax_at = nullptr;
  bool counts = false;
  quantize_report* report = nullptr;
};

template <class O>
void apply_device_policy(O& all, const tensor_amax_at& policy) {
  all.has_amax_at = true;
  all.amax_at = policy.value;
}
template <class O>
void apply_device_policy(O& all, const count_at& policy) {
  all.counts = true;
  all.report = policy.report;
}

template <class P>
auto host_part(const P& policy) {
  if constexpr (device_policy<P>)
    return std::tuple<>{};
  else
    return std::tuple<P>{policy};
}

template <class... Policies>
auto collect(const Policies&... policies) {
  static_assert(!(std::same_as<Policies, count_into> || ...),
                "count_into counts in host memory, which a kernel cannot reach: use count_at{a quantize_report in "
                "device memory}");
  static_assert((0 + ... + int{std::same_as<Policies, tensor_amax> || std::same_as<Policies, tensor_amax_at>}) <= 1,
                "two tensor maxima in one call");
  const auto host =
      std::apply([](const auto&... p) { return ufp4::detail::collect(p...); }, std::tuple_cat(host_part(policies)...));
  options<decltype(host.rounding)> all{host};
  [[maybe_unused]] const auto apply = [&all](const auto& policy) {
    if constexpr (device_policy<std::remove_cvref_t<decltype(policy)>>) apply_device_policy(all, policy);
  };
  (apply(policies), ...);
  return all;
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
