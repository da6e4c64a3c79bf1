// ufp4 - quantized_gemm_grouped: many small products in one call, for a mixture of experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/gemm.hpp>

namespace ufp4::detail::inline UFP4_CODE {

inline void add_ranges(group_ranges& all, const quantized_source& q, std::size_t entry) {
  const std::size_t rows = q.interleaved ? prepacked_layout::filled_rows(q.rows) : q.rows;
  add_range(all, q.codes, code_bytes(q.format, rows * q.padded_cols), entry);
  add_range(all, q.scales,
            q.interleaved ? q.layout().scale_bytes(q.rows, q.strip())
                          : scale_rows(q.rows, q.format.block) * q.strip().bytes(),
            entry);
}

inline void check_group(const buffer<gemm_job>& jobs) {
  group_ranges all(5 * jobs.size());
  for (std::size_t e = 0; e < jobs.size(); ++e) {
    add_output(all, jobs[e].out, e);
    add_ranges(all, jobs[e].left.q, e);
    add_ranges(all, jobs[e].right.q, e);
  }
  check_group_memory(all);
}

}  // namespace ufp4::detail::inline UFP4_CODE

namespace ufp4::inline UFP4_CODE {

/// Many products in one call, C[e] = alpha * A[e] * B[e]^T + beta * C[e], each with the bits of its own quantized_gemm.
/// The threads share the parts of all products. For a mixture of experts: row_range() selects an expert's tokens.
///
/// | a, b, c | vectors, arrays or spans, as many of each; A and B are quantized_matrix or quantized_view, B may be |
/// |         | prepacked, C is matrix_view. Any may have no rows                                                   |
/// | C       | no two may overlap, and none an operand of any product                                              |
/// | bias    | must be empty: one row would not fit all                                                            |
template <detail::sequence As, detail::sequence Bs, detail::sequence Cs>
void quantized_gemm_grouped(const As& a, const Bs& b, const Cs& c, const gemm_options& options = {},
                            const cpu::context& ctx = {}) {
  static_assert(detail::quantized_like<typename As::value_type>,
                "a: a sequence of quantized matrices or views of them");
  static_assert(detail::quantized_like<typename Bs::value_type> || detail::prepacked_like<typename Bs::value_type>,
                "b: a sequence of quantized matrices, views of them, or prepacked matrices");
  detail::expects(a.size() == b.size() && a.size() == c.size(), "quantized_gemm_grouped: ", a.size(),
                  " left operands, ", b.size(), " right ones and ", c.size(), " outputs");
  detail::expects(options.bias.empty(), "quantized_gemm_grouped: bias has ", options.bias.size(),
                  " entries; leave it empty");
  cpu::resolve(ctx);
  const detail::buffer<detail::gemm_job> jobs(a.size());
  for (std::size_t e = 0; e < a.size(); ++e) {
    const std::string operation = detail::concat("quantized_gemm_grouped, product ", e);
    const detail::sink out = detail::sink_of(c.data()[e]);
    detail::check_gemm(operation.c_str(), a.data()[e], b.data()[e], out, options);
    ::new (jobs.data() + e) detail::gemm_job(detail::gemm_job_of(a.data()[e], b.data()[e], out, options));
  }
  detail::check_group(jobs);
  using A = typename As::value_type;
  using B = typename Bs::value_type;
  cpu::detail::run_gemms(ctx, cpu::detail::kernels::gemm<detail::features_of_product<A, B, accumulate::folded_bf16>>,
                         jobs);
}

}  // namespace ufp4::inline UFP4_CODE
