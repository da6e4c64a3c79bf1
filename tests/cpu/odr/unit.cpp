// ufp4 - one translation unit of pairs.sh, compiled with flags of its own as UFP4_TEST_UNIT.
// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"

#include <typeinfo>
#include <ufp4/explain.hpp>

#include "units.hpp"

#define UFP4_TEST_PASTE(name) unit_##name
#define UFP4_TEST_FUNCTION(name) UFP4_TEST_PASTE(name)

unit_result UFP4_TEST_FUNCTION(UFP4_TEST_UNIT)(bool run) {
  using namespace ufp4;
  unit_result r{};
  const std::size_t sizes[] = {sizeof(cpu::context),
                               sizeof(gemm_options),
                               sizeof(quantized_matrix<nvfp4>),
                               sizeof(quantized_view<mxfp4>),
                               sizeof(prepacked_matrix<nvfp4>),
                               sizeof(cpu::detail::pool_state),
                               sizeof(cpu::detail::pool_job),
                               sizeof(cpu::detail::gemm_job),
                               sizeof(cpu::detail::quantize_job),
                               sizeof(cpu::detail::gemm_kernel)};
  static_assert(sizeof sizes <= sizeof r.sizes);
  for (std::size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) r.sizes[i] = sizes[i];
  const std::size_t calls[] = {typeid(cpu::detail::quantize_function*).hash_code(),
                               typeid(decltype(cpu::detail::quantize_row::takes)).hash_code(),
                               typeid(cpu::detail::amax_function*).hash_code(),
                               typeid(cpu::detail::dequantize_function*).hash_code(),
                               typeid(cpu::detail::hadamard_function*).hash_code(),
                               typeid(decltype(cpu::detail::gemm_kernel::takes)).hash_code(),
                               typeid(decltype(cpu::detail::gemm_kernel::multiply)).hash_code(),
                               typeid(cpu::detail::compiled_kernels).hash_code()};
  static_assert(sizeof calls == sizeof r.calls);
  for (std::size_t i = 0; i < sizeof calls / sizeof *calls; ++i) r.calls[i] = calls[i];
  r.pool = &cpu::detail::pool;
  if (run) r.hash = hash_of_operations();
  return r;
}
