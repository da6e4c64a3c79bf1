// ufp4 - explain, can_run, prepare: which kernel multiplies on which device, by what was compiled, and why.
// SPDX-License-Identifier: Apache-2.0
// ctest: amd
#include "gpu/gemm_check.hpp"

using namespace ufp4;
using support::exactly;
using support::text_of;

namespace {

/// Operands of a shape; no kernel runs, so what they hold does not matter.
template <class A, class B = A>
struct operands {
  gpu::quantized_matrix<A> a;
  gpu::quantized_matrix<B> b;
  gpu::buffer<float> c;
  std::size_t m, n;

  operands(std::size_t m_, std::size_t n_, std::size_t k) : a(m_, k), b(n_, k), c(m_ * n_), m(m_), n(n_) {}
  gpu::explanation explain(const gemm_options& options = exactly) const {
    return gpu::explain(gpu::context{}, a, b, matrix_view<float>{c.data(), m, n}, options);
  }
  std::string kernel(const gemm_options& options = exactly) const { return explain(options).kernel; }
};

#if defined(UFP4_SIMT_HEADER)
using support::simulated_device;

gpu::device_facts device_of(int architecture, int processors = 4) {
  gpu::device_facts d;
  d.architecture = architecture;
  d.processors = processors;
  d.shared_bytes = 99 * 1024;
  return d;
}
#endif

}  // namespace

TEST_CASE("an explanation names operation, kernel, instruction, tile and mode, in one line", "[gpu]") {
  const operands<e1m2_f32> o(64, 300, 64);
  const gpu::explanation e = o.explain();
  CHECK(std::string(e.operation) == "quantized_gemm");
  CHECK(e.mode == accumulate::exact_blocks);
  CHECK(e.tile_rows > 0);
  CHECK(e.tile_cols > 0);
  CHECK(e.text().starts_with(std::string("quantized_gemm: ") + e.kernel + " (" + e.instruction + "), tiles of " +
                             std::to_string(e.tile_rows) + " x " + std::to_string(e.tile_cols) +
                             ", accumulate exact_blocks"));
  CHECK(gpu::can_run(gpu::context{}, o.a, o.b, matrix_view<float>{o.c.data(), 64, 300}));
  CHECK(text_of(gpu::prepare()) == "");
}

TEST_CASE("in fast, a kernel that gives the bits of exact_blocks is explained as exact_blocks", "[gpu]") {
  using blocks_of_8 = block_format<fp4<E1M2>, float, 8>;
  const operands<blocks_of_8> o(70, 70, 64);
  CHECK(o.kernel({}) == "gemm_simt");
  CHECK(o.explain({}).mode == accumulate::exact_blocks);
}

#if defined(UFP4_SIMT_HEADER)
TEST_CASE("exact_blocks runs on tensor cores from compute capability 8.0 on, in tiles that fill the device", "[gpu]") {
  const operands<e1m2_f32> few(200, 300, 64), many(1024, 1024, 64);
  for (const int architecture : {80, 86, 89, 90, 100, 120}) {
    CAPTURE(architecture);
    const simulated_device device{device_of(architecture, 64)};
    CHECK(few.kernel() == "gemm_blocks_small_sm80");
    CHECK(many.kernel() == "gemm_blocks_sm80");
    CHECK(std::string(many.explain().instruction) == "mma.sync.s8");
  }
  const simulated_device old{device_of(75)};
  CHECK(few.kernel() == "gemm_simt");
  CHECK(many.explain().note.empty());
}

TEST_CASE("products that tensor cores cannot compute exactly, or at all, run the kernel for any architecture",
          "[gpu]") {
  const simulated_device device{device_of(80)};
  CHECK(operands<block_format<nf4, float, 16>>(64, 64, 64).kernel() == "gemm_simt");
  CHECK(operands<block_format<nf4, float, 16>, e1m2_f32>(64, 64, 64).kernel() == "gemm_simt");
  CHECK(operands<block_format<fp4<E2M1>, float, 8>>(64, 64, 64).kernel() == "gemm_simt");
  CHECK(operands<block_format<fp4<E2M1>, float, 256>>(64, 64, 256).kernel() == "gemm_blocks_small_sm80");
  const operands<e1m2_f32> o(64, 64, 64);
  const gpu::buffer<float> x(64 * 64);
  const gpu::explanation e = gpu::explain(gpu::context{}, matrix_view<const float>{x.data(), 64, 64}, o.b,
                                          matrix_view<float>{o.c.data(), 64, 64}, exactly);
  CHECK(std::string(e.kernel) == "gemm_simt");
}

TEST_CASE("without code for the device's instructions, the explanation names the missing architecture", "[gpu]") {
  const operands<e1m2_f32> o(200, 300, 64);
  gpu::device_facts device = device_of(80);
  device.compiled = 75;
  device.specific = false;
  const simulated_device now{device};
  const gpu::explanation e = o.explain();
  CHECK(std::string(e.kernel) == "gemm_simt");
  CHECK(e.note.find("gemm_blocks_small_sm80 needs code compiled for sm_80, which this program lacks") !=
        std::string::npos);
  CHECK(e.text().find("; ") != std::string::npos);
}

TEST_CASE("family-specific instructions are used only by programs compiled for that family", "[gpu]") {
  gpu::device_facts device = device_of(120);
  CHECK(device.has(80));
  CHECK(device.has(120));
  CHECK(device.has_specific(12));
  CHECK_FALSE(device.has_specific(10));
  device.specific = false;
  CHECK_FALSE(device.has_specific(12));
  device.compiled = 80;
  CHECK(device.has(80));
  CHECK_FALSE(device.has(90));
  device.compiled = 90;  // sm_90a code does not run on compute capability 12, so this is sm_90's
  device.specific = true;
  CHECK_FALSE(device.has_specific(12));
}
#endif
