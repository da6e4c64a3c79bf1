// ufp4 - definitions of the functions of ufp4.h that multiply, for one file of a program (functions.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/c/quantize.hpp>
#include <variant>
#include <vector>

namespace ufp4::c::detail::inline UFP4_CODE {
using right_operand = std::variant<any_quantized_view, ufp4::any_prepacked_view>;
inline right_operand right_of(const ufp4_quantized* b) {
  if (is_prepacked(b)) return view_of<ufp4::any_prepacked_view>("b", b);
  return view_of("b", b);
}

/// The checked job of one product. Refers to the formats of both operands.
template <class A>
gemm_job job_of(const A& a, const right_operand& b, const sink& c, const gemm_options& options) {
  const auto job = [&](const auto& right) {
    check_gemm(function, a, right, c, options);
    return gemm_job_of(a, right, c, options);
  };
  return std::visit(job, b);
}

/// All kernels: which of them a product can use is known at run time only.
template <features needs = features::all>
const cpu::detail::gemm_table& gemm_kernels() {
  return cpu::detail::kernels::gemm<needs>;
}

template <class A>
void gemm(const ufp4_context* context, const A& a, const ufp4_quantized* b, const ufp4_matrix* c,
          const ufp4_gemm_options* options) {
  const context_of ctx(context);
  const sink out = matrix_of("c", c);
  const right_operand right = right_of(b);
  const gemm_job job = job_of(a, right, out, options_of(options, out.cols));
  cpu::resolve(ctx);
  if (out.rows != 0 && out.cols != 0) cpu::detail::run_gemms(ctx, gemm_kernels(), {&job, 1});
}

#pragma GCC visibility push(default)  // of ufp4.h, which g++ does not apply in another namespace
extern "C" {
// NOLINTBEGIN(misc-definitions-in-headers): for one file of a program

std::int32_t ufp4_prepack(const ufp4_context* context, const ufp4_quantized* q, ufp4_quantized* to) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    const any_quantized_view from = view_of("q", q);
    ufp4_quantized& out = given("to", to);
    const format_spec format = format_of(&out.format);
    expects(format == from.spec(), "to.format is not the format of q");
    check_same_matrix(from, out);
    out.tensor_scale = prepack_into(from, storage_of("to", out, UFP4_PREPACKED, format), ctx).tensor_scale();
  });
}

std::int32_t ufp4_gemm(const ufp4_context* context, const ufp4_quantized* a, const ufp4_quantized* b,
                       const ufp4_matrix* c, const ufp4_gemm_options* options) {
  return guarded(__func__, [&] { gemm(context, view_of("a", a), b, c, options); });
}
std::int32_t ufp4_gemm_mixed(const ufp4_context* context, const ufp4_matrix* a, const ufp4_quantized* b,
                             const ufp4_matrix* c, const ufp4_gemm_options* options) {
  return guarded(__func__, [&] {
    unquantized_side side(matrix_view<const float>{});
    side.x = source_of(matrix_of("a", a));
    side.transform = transform_of(&given("b", b).transform);  // A is transformed as B was
    gemm(context, side, b, c, options);
  });
}
std::int32_t ufp4_gemm_grouped(const ufp4_context* context, std::size_t count, const ufp4_quantized* a,
                               const ufp4_quantized* b, const ufp4_matrix* c, const ufp4_gemm_options* options) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    if (count == 0) return;
    given("a", a), given("b", b), given("c", c);
    const gemm_options all = options_of(options, 0);
    expects(options == nullptr || options->bias == nullptr, "options.bias must be NULL");
    cpu::resolve(ctx);
    const buffer<gemm_job> jobs(count);
    std::vector<any_quantized_view> left;  // to whose formats the jobs refer
    std::vector<right_operand> right;
    left.reserve(count), right.reserve(count);
    for (std::size_t e = 0; e < count; ++e) {
      const std::string product = concat(function, ", product ", e);
      const called as(product.c_str());
      left.push_back(view_of("a", a + e)), right.push_back(right_of(b + e));
      ::new (jobs.data() + e) gemm_job(job_of(left[e], right[e], matrix_of("c", c + e), all));
    }
    check_group(jobs);
    cpu::detail::run_gemms(ctx, gemm_kernels(), jobs);
  });
}

std::int32_t ufp4_explain_gemm(const ufp4_context* context, const ufp4_quantized* a, const ufp4_quantized* b,
                               const ufp4_matrix* c, const ufp4_gemm_options* options, char* text, std::size_t size) {
  return guarded(__func__, [&] {
    const context_of ctx(context);
    const sink out = matrix_of("c", c);
    const any_quantized_view left = view_of("a", a);
    const right_operand right = right_of(b);
    const gemm_job job = job_of(left, right, out, options_of(options, out.cols));
    copy_text(cpu::detail::explain_gemm(ctx, gemm_kernels(), job).text(), text, size);
  });
}
// NOLINTEND(misc-definitions-in-headers)
}
#pragma GCC visibility pop

}  // namespace ufp4::c::detail::inline UFP4_CODE
