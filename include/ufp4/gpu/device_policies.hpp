// ufp4 - the policies of GPU quantizers besides the host's: numbers in device memory.
// SPDX-License-Identifier: Apache-2.0
//
// Operations do not wait for the device, so numbers that only the device knows are passed by address.
#pragma once

#include <tuple>
#include <ufp4/matrix/policies.hpp>

namespace ufp4::gpu::inline UFP4_GPU {

/// tensor_amax in device memory, as amax() writes it. The kernel reads it when it runs, so a value that is negative or
/// not finite cannot be rejected: it makes the tensor scale NaN, and with it everything that is decoded.
struct tensor_amax_at {
  const float* value = nullptr;  ///< in device memory
};

/// count_into for a report in device memory. The kernel adds to it.
struct count_at {
  quantize_report* report = nullptr;  ///< in device memory
};

}  // namespace ufp4::gpu::inline UFP4_GPU

namespace ufp4::gpu::detail::inline UFP4_GPU {

template <class P>
concept device_policy = std::same_as<P, tensor_amax_at> || std::same_as<P, count_at>;

/// All policies of one call: the host's, and the numbers in device memory.
template <class Host>
struct options {
  using rounding = decltype(Host::rounding);
  using rule = decltype(Host::rule);
  Host host{};
  bool has_amax_at = false;
  const float* amax_at = nullptr;
  bool counts = false;
  quantize_report* report = nullptr;  ///< in device memory
};

template <class... Policies>
auto collect(const Policies&... policies) {
  static_assert(!(std::same_as<Policies, cpu::context> || ...), "a cpu::context has no effect on a GPU");
  static_assert(!(std::same_as<Policies, count_into> || ...),
                "count_into is in host memory, which a kernel cannot write: use count_at{a quantize_report in device "
                "memory}");
  static_assert((0 + ... + int{std::same_as<Policies, tensor_amax> || std::same_as<Policies, tensor_amax_at>}) <= 1,
                "two values of tensor_amax in one call");
  [[maybe_unused]] const auto host_part = []<class P>(const P& policy) {
    if constexpr (device_policy<P>)
      return std::tuple<>{};
    else
      return std::tuple<P>{policy};
  };
  const auto host =
      std::apply([](const auto&... p) { return ufp4::detail::collect(p...); }, std::tuple_cat(host_part(policies)...));
  options<std::remove_const_t<decltype(host)>> all{host};
  [[maybe_unused]] const auto apply = [&all]<class P>(const P& policy) {
    if constexpr (std::same_as<P, tensor_amax_at>)
      all.has_amax_at = true, all.amax_at = policy.value;
    else if constexpr (std::same_as<P, count_at>)
      all.counts = true, all.report = policy.report;
  };
  (apply(policies), ...);
  return all;
}

/// collect() for a format that is known: policies without effect do not compile.
template <any_block_format F, class... Policies>
auto collect_for(const Policies&... policies) {
  constexpr bool has_amax_at = (std::same_as<Policies, tensor_amax_at> || ...);
  static_assert(F::has_tensor_scale || !has_amax_at, UFP4_NO_TENSOR_SCALE("tensor_amax_at"));
  ufp4::detail::can_apply<F, (std::same_as<Policies, tensor_amax> || ...),
                          (std::same_as<Policies, shard> || ...) && !has_amax_at>();
  return detail::collect(policies...);
}

}  // namespace ufp4::gpu::detail::inline UFP4_GPU
