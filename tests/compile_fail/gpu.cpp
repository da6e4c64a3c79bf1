// ufp4 - mistakes in programs for GPUs that must not compile, each with the compiler's error message.
// SPDX-License-Identifier: Apache-2.0
//
// As host.cpp. The device is the CPU simulator of tests/gpu, so that any compiler can compile this file.
#define UFP4_SIMT_HEADER "gpu/simt.hpp"

#include <ufp4/block/presets.hpp>
#include <ufp4/cpu/context.hpp>
#include <ufp4/gpu/device_policies.hpp>
#include <ufp4/gpu/matrix.hpp>
#include <ufp4/hip/mfma_scale_gfx950.hpp>
#include <ufp4/hip/wmma.hpp>

using namespace ufp4;

extern quantize_report seen;

// error: count_into is in host memory, which a kernel cannot write: use count_at{a quantize_report in device memory}
void count_in_host_memory() {
#if defined(MISTAKE)
  (void)gpu::detail::collect(count_into{seen});
#else
  (void)gpu::detail::collect(gpu::count_at{&seen});
#endif
}

void context_of_the_cpu() {  // error: a cpu::context has no effect on a GPU
#if defined(MISTAKE)
  (void)gpu::detail::collect(cpu::context{});
#else
  (void)gpu::detail::collect(stochastic{42});
#endif
}

void two_tensor_amaxes(const float* amax) {  // error: two values of tensor_amax in one call
#if defined(MISTAKE)
  (void)gpu::detail::collect(tensor_amax{1}, gpu::tensor_amax_at{amax});
#else
  (void)gpu::detail::collect(gpu::tensor_amax_at{amax});
#endif
}

// error: tensor_amax has no effect: the format has no tensor scale
void host_amax_without_tensor_scale() {
#if defined(MISTAKE)
  (void)gpu::detail::collect_for<e1m2_f32>(tensor_amax{1});
#else
  (void)gpu::detail::collect_for<nvfp4>(tensor_amax{1});
#endif
}

// error: a shard of a format with a tensor scale needs the tensor_amax of the whole operand
void shard_without_amax([[maybe_unused]] const float* amax) {
#if defined(MISTAKE)
  (void)gpu::detail::collect_for<nvfp4>(shard{0, 0, 64});
#else
  (void)gpu::detail::collect_for<nvfp4>(shard{0, 0, 64}, gpu::tensor_amax_at{amax});
#endif
}

// error: tensor_amax_at has no effect: the format has no tensor scale
void amax_without_tensor_scale(const float* amax) {
#if defined(MISTAKE)
  (void)gpu::detail::collect_for<e1m2_f32>(gpu::tensor_amax_at{amax});
#else
  (void)gpu::detail::collect_for<nvfp4>(gpu::tensor_amax_at{amax});
#endif
}

void elements_of_one_byte() {  // error: formats with elements of one byte (int8_f32, mxint8) run on the CPU only
#if defined(MISTAKE)
  (void)gpu::quantized_view<int8_f32>{};
#else
  (void)gpu::quantized_view<nvfp4>{};
#endif
}

// A view of a temporary would refer to freed memory in the next statement.

void view_of_a_temporary_device_matrix() {  // error: deleted
#if defined(MISTAKE)
  const gpu::quantized_view<nvfp4> v = gpu::quantized_matrix<nvfp4>(4, 16);
#else
  const gpu::quantized_matrix<nvfp4> q(4, 16);
  const gpu::quantized_view<nvfp4> v = q;
#endif
  (void)v;
}

void view_member_of_a_temporary_device_matrix() {  // error: deleted
#if defined(MISTAKE)
  (void)gpu::quantized_matrix<nvfp4>(4, 16).view();
#else
  const gpu::quantized_matrix<nvfp4> q(quantized_matrix<nvfp4>(4, 16));
  (void)q.view();
#endif
}

void span_of_a_temporary_buffer() {  // error: deleted
#if defined(MISTAKE)
  (void)gpu::buffer<float>(16).span();
#else
  const gpu::buffer<float> memory(16);
  (void)memory.span();
#endif
}

// error: mfma_scale_gfx950: 8-bit elements have another order along K than those of 6 and 4 bits: both operands must
//        have 8 bits, or neither
void bytes_against_nibbles() {
  using gpu::mma::f8f6f4;
#if defined(MISTAKE)
  (void)gpu::mma::mfma_scale_gfx950<f8f6f4::e4m3, f8f6f4::e2m1>::depth;
#else
  (void)gpu::mma::mfma_scale_gfx950<f8f6f4::e2m3, f8f6f4::e2m1>::depth;
#endif
}

void products_of_64_columns() {  // error: wmma_iu4_gfx12: gfx12 multiplies 16 or 32 columns of 4-bit integers at once
#if defined(MISTAKE)
  (void)gpu::mma::wmma_iu4_gfx12<64>::words;
#else
  (void)gpu::mma::wmma_iu4_gfx12<32>::words;
#endif
}
