// ufp4 - how exactly a matrix instruction adds: what the error bound of `fast` (numerics 6) assumes, measured.
// SPDX-License-Identifier: Apache-2.0
//
// All rows of A are the same, and all columns of B, so every element of D is the same sum of K products and c, whatever
// the layout of the fragments. A probe sets a few of the products to +-2^e or +-1.5 * 2^e and the others to zero:
//
// | line "probe"       | the sum                            | the answer                                            |
// |--------------------|------------------------------------|-------------------------------------------------------|
// | kept_bits          | 2^p - 2^p + 2^(p - n)              | the largest n for which the small product is not lost |
// | kept_bits_with_sum | the same with -2^p as c            | the same                                              |
// | rounding           | +-(2^p + 1.5 * 2^(p - 24))         | "nearest" if the result is rounded up, "truncated" if |
// |                    |                                    | the small product is cut off                          |
// | subnormals         | the smallest subnormal operand * 1 | whether it is kept                                    |
// | exact              | s8: 32 products of -128 * -128 + c | whether the sum is exact                              |
//
// Tests hold `fast` to its bound with kept_bits = 23 and truncation (tests/gpu/simt_mma.hpp), so the bound is settled
// for an instruction if both numbers are at least 23: "bound".
#pragma once

#include "gpu/wgmma_unswizzled.hpp"

#include <ufp4/cuda/block_mma_sm120.hpp>
#include <ufp4/cuda/mma_sm80.hpp>

namespace bench {

/// One row of A, one column of B, their scales, and c, as bits: words in the order of K, elements from the low bits.
struct probe_job {
  std::uint32_t a[8] = {}, b[8] = {}, scales_a = 0, scales_b = 0, c = 0;
  std::uint32_t* out = nullptr;
};

/// An operand type. K is 32 bytes of elements; scales: blocks along K, 0 if there are none.
struct operand_type {
  unsigned exponent_bits, mantissa_bits;
  int bias;
  unsigned scales, scale_mantissa;
  int scale_bias;
  int p;  ///< the exponent of the largest product of a probe

  constexpr unsigned bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr unsigned k() const { return 256 / bits(); }
};
inline constexpr operand_type bf16_operand{8, 7, 127, 0, 0, 0, 0}, f16_operand{5, 10, 15, 0, 0, 0, 0},
    e4m3_operand{4, 3, 7, 0, 0, 0, 16}, ue4m3_scaled{2, 1, 1, 4, 3, 7, 16}, ue8m0_scaled{2, 1, 1, 2, 0, 127, 0},
    e4m3_scaled{4, 3, 7, 1, 0, 127, 16};

// ---- The instructions ----

/// mma.sync: a lane holds words t and t + 4 of K, whatever the type.
template <auto multiply, class Sum>
UFP4_DEVICE std::uint32_t by_mma(const probe_job& job) {
  const unsigned t = gpu::lane() % 4;
  const std::uint32_t a[4] = {job.a[t], job.a[t], job.a[t + 4], job.a[t + 4]}, b[2] = {job.b[t], job.b[t + 4]};
  Sum d[4];
  for (Sum& sum : d) std::memcpy(&sum, &job.c, 4);
  if constexpr (requires { multiply(d, a, b, 0u, 0u); })
    multiply(d, a, b, job.scales_a, job.scales_b);
  else
    multiply(d, a, b);
  std::uint32_t bits;
  std::memcpy(&bits, &d[0], 4);
  return bits;
}
template <auto multiply, class Sum>
UFP4_KERNEL(32)
probe_mma(const probe_job job) {
  const std::uint32_t bits = by_mma<multiply, Sum>(job);
  if (gpu::lane() == 0) *job.out = bits;
}

#if defined(__CUDACC__)
UFP4_DEVICE void mma_e4m3(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}

/// wgmma: one core matrix row of 16 bytes is words 0 to 3 of K, the next words 4 to 7.
template <auto multiply, class Sum>
UFP4_KERNEL(128)
probe_wgmma(const probe_job job) {
  auto* shared = reinterpret_cast<std::uint32_t*>(gpu::shared_memory());
  const unsigned thread = gpu::thread_index().x;
  for (unsigned i = thread; i < 64; i += 128) {
    const unsigned word = i % 4 + i / 32 * 4;
    shared[i] = job.a[word], shared[64 + i] = job.b[word];
  }
  Sum d[4];
  for (Sum& sum : d) std::memcpy(&sum, &job.c, 4);
  publish_operands();
  gpu::sync_block();
  wgmma_begin();
  multiply(d, unswizzled_operand(shared, 0), unswizzled_operand(shared + 64, 0));
  wgmma_end();
  if (thread == 0) std::memcpy(job.out, &d[0], 4);
}
#endif

// ---- The probes ----

/// Sets product k of a job to +-2^e, or +-1.5 * 2^e. Its block of scales, if there are any, becomes its own.
inline void set_product(probe_job& job, const operand_type& type, unsigned k, int e, bool half = false,
                        bool negative = false) {
  const int left = e >= 0 ? e / 2 : -(-e / 2), right = e - left;
  const auto element = [&](int exponent, bool more) {
    return static_cast<std::uint32_t>(exponent + type.bias) << type.mantissa_bits |
           (more ? 1u << (type.mantissa_bits - 1) : 0u);
  };
  const bool scaled = type.scales > 1;
  const std::uint32_t sign = negative ? 1u << (type.bits() - 1) : 0u;
  const unsigned at = k * type.bits() / 32, shift = k * type.bits() % 32;
  job.a[at] |= (element(scaled ? 0 : left, half) | sign) << shift;
  job.b[at] |= element(scaled ? 0 : right, false) << shift;
  if (type.scales == 0) return;
  const unsigned byte = 8 * (k * type.scales / type.k());
  const auto scale = [&](int exponent) {
    return static_cast<std::uint32_t>((scaled ? exponent : 0) + type.scale_bias) << type.scale_mantissa << byte;
  };
  job.scales_a = (job.scales_a & ~(0xFFu << byte)) | scale(left);
  job.scales_b = (job.scales_b & ~(0xFFu << byte)) | scale(right);
}
inline std::uint32_t bits_of(double x) {
  const auto f = static_cast<float>(x);
  std::uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}
inline double value_of(std::uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return static_cast<double>(f);
}
inline double power(int e) { return ldexp(1.0, e); }

/// The bits that a kernel gives for a job.
class prober {
 public:
  prober(void (*kernel)(const probe_job), unsigned threads) : kernel_(kernel), threads_(threads) {}
  std::uint32_t operator()(probe_job job) const {
    job.out = out_.data();
    require(gpu::launch(kernel_, {1}, {threads_}, 1024, gpu::stream{}, job), "a probe");
    std::vector<std::uint32_t> bits(1);
    out_.download(bits);
    return bits[0];
  }

 private:
  void (*kernel_)(const probe_job);
  unsigned threads_;
  gpu::buffer<std::uint32_t> out_{1};
};

inline int kept_bits(const prober& probe, const operand_type& type, bool with_sum) {
  int kept = 0;
  for (int n = 1; n <= 28; ++n) {
    probe_job job;
    set_product(job, type, 0, type.p);
    if (with_sum)
      job.c = bits_of(-power(type.p));
    else
      set_product(job, type, 1, type.p, false, true);
    set_product(job, type, type.k() / 2, type.p - n);
    if (value_of(probe(job)) == power(type.p - n)) kept = n;
  }
  return kept;
}

inline const char* rounding(const prober& probe, const operand_type& type) {
  int up = 0, cut = 0;
  for (const bool negative : {false, true}) {
    probe_job job;
    const double sign = negative ? -1 : 1;
    job.c = bits_of(sign * power(type.p));
    set_product(job, type, type.k() / 2, type.p - 24, true, negative);
    const double got = sign * value_of(probe(job));
    up += got == power(type.p) + power(type.p - 23);
    cut += got == power(type.p);
  }
  return up == 2 ? "nearest" : cut == 2 ? "truncated" : "other";
}

/// Is the smallest subnormal operand times 1 (times a large power of two where the product would be subnormal) kept?
inline bool keeps_subnormals(const prober& probe, const operand_type& type) {
  probe_job job;
  const int by = type.bias - 1 < 60 ? 0 : 60;
  const int smallest = 1 - type.bias - static_cast<int>(type.mantissa_bits);
  set_product(job, type, 0, 2 * by);
  job.b[0] = static_cast<std::uint32_t>(by + type.bias) << type.mantissa_bits;
  job.a[0] = 1;
  return value_of(probe(job)) == power(smallest + by);
}

/// A line for an instruction with binary32 sums.
inline void print_probe(const char* instruction, void (*kernel)(const probe_job), unsigned threads,
                        const operand_type& type) {
  if (!is_wanted(std::string("probe/") + instruction)) return;
  const prober probe(kernel, threads);
  const int alone = kept_bits(probe, type, false), with_sum = kept_bits(probe, type, true);
  line row("probe");
  row.text("name", std::string("probe/") + instruction)
      .number("kept_bits", alone)
      .number("kept_bits_with_sum", with_sum);
  row.text("rounding", rounding(probe, type));
  if (type.scales == 0) row.truth("subnormals", keeps_subnormals(probe, type));
  row.truth("bound", alone >= 23 && with_sum >= 23).print();
}

/// A line for an instruction with 32-bit integer sums.
inline void print_integer_probe(const char* instruction, void (*kernel)(const probe_job), unsigned threads) {
  if (!is_wanted(std::string("probe/") + instruction)) return;
  const prober probe(kernel, threads);
  probe_job job;
  for (unsigned i = 0; i < 8; ++i) job.a[i] = job.b[i] = 0x80808080u;
  bool exact = true;
  for (const std::uint32_t c : {0u, 1u, 0x01000001u, 0x4B400000u}) {
    job.c = c;
    exact = exact && probe(job) == c + 32 * 128 * 128;
  }
  line("probe").text("name", std::string("probe/") + instruction).truth("exact", exact).truth("bound", exact).print();
}

/// Every instruction that the device has.
inline void probe_accumulators(const gpu::device_facts& device) {
  namespace mma = gpu::mma;
  if (device.has(80)) {
    print_probe("mma.sync.bf16", &probe_mma<&mma::mma_bf16, float>, 32, bf16_operand);
    print_probe("mma.sync.f16", &probe_mma<&mma::mma_f16, float>, 32, f16_operand);
    print_integer_probe("mma.sync.s8", &probe_mma<&mma::mma_s8_k32, std::int32_t>, 32);
  }
#if defined(__CUDACC__)
  if (device.has(89)) print_probe("mma.sync.e4m3", &probe_mma<&mma_e4m3, float>, 32, e4m3_operand);
  if (device.has_specific(9)) {
    print_probe("wgmma.bf16", &probe_wgmma<&wgmma_bf16, float>, 128, bf16_operand);
    print_probe("wgmma.f16", &probe_wgmma<&wgmma_f16, float>, 128, f16_operand);
    print_probe("wgmma.e4m3", &probe_wgmma<&wgmma_e4m3, float>, 128, e4m3_operand);
    print_integer_probe("wgmma.s8", &probe_wgmma<&wgmma_s8, std::int32_t>, 128);
  }
#endif
  if (device.has_specific(12)) {
    print_probe("mma.sync.mxf4nvf4", &probe_mma<&mma::mma_mxf4nvf4, float>, 32, ue4m3_scaled);
    print_probe("mma.sync.mxf4", &probe_mma<&mma::mma_mxf4, float>, 32, ue8m0_scaled);
    print_probe("mma.sync.mxf8f6f4", &probe_mma<&mma::mma_mxf8f6f4, float>, 32, e4m3_scaled);
  }
}

}  // namespace bench
