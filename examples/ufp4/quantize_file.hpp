// ufp4 - a file of tensors becomes a file of quantized weights, by chunks of rows.
// SPDX-License-Identifier: Apache-2.0
/// | quantized | matrices of F32, F16 and BF16 with at least one block of columns                               |
/// | copied    | everything else, and what the patterns leave out, as it is                                     |
/// | memory    | a chunk of rows and what becomes of it; the header                                             |
/// | bits      | of ufp4::quantize on the whole matrix; stochastic random bits come from stream i for the i-th tensor |
/// | failure   | interop::file_error; OUT is then what it was                                                   |
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <utility>
#include <vector>

#include "conversion_report.hpp"
#include "output_path.hpp"
#include "placed_safetensors.hpp"
#include "quantize_plan.hpp"
#include "quantize_rows.hpp"
#include "tensor_input.hpp"

namespace tool {

namespace detail {

/// The settings and the progress of one tensor of the plan.
inline quantize_settings settings_of(const quantize_request& request, std::size_t at) {
  quantize_settings with = request.with;
  with.rounding.random_bits.stream = at;
  return with;
}
inline row_progress progress_of(const quantize_request& request, std::size_t at, std::size_t of,
                                const std::string& name) {
  return [&request, at, of, name](std::uint64_t done, std::uint64_t rows) {
    if (request.progress)
      request.progress(at + 1, of, printable(name) + ", row " + std::to_string(done) + " of " + std::to_string(rows));
  };
}

inline std::function<void()> copy_progress_of(const quantize_request& request, std::size_t at, std::size_t of,
                                              const std::string& name) {
  return [&request, at, of, name] {
    if (request.progress) request.progress(at + 1, of, printable(name));
  };
}

/// Every tensor as it is before anything happens to it.
inline std::vector<converted_tensor> rows_of(const std::vector<planned_tensor>& plan) {
  std::vector<converted_tensor> rows;
  for (const planned_tensor& p : plan) {
    converted_tensor& row = rows.emplace_back();
    row.name = p.name;
    row.shape = p.from->shape;
    row.type = p.from->type_name;
    row.kept = p.kept;
    row.bytes_before = row.bytes_after = p.from->bytes;
  }
  return rows;
}
inline void note(converted_tensor& row, const quantized_error& error) {
  row.has_error = true;
  row.sqnr_db = error.sqnr_db();
  row.blocks = error.blocks;
  row.nonfinite_blocks = error.nonfinite_blocks;
  row.underflowed_blocks = error.underflowed_blocks;
}

/// Where the parts of one tensor are in the output.
struct written_numbers {
  std::size_t codes = 0, scales = 0, tensor_scale = 0;  ///< codes: the tensor itself where it is copied
};

template <class F>
written_numbers add_weight(placed_safetensors& out, const planned_tensor& p, tensor_layout layout,
                           const ufp4::transform_spec& transform) {
  const ufp4::interop::quantized_names names = ufp4::interop::names_of(p.name, layout);
  const std::uint64_t rows = p.from->shape[0], cols = p.from->shape[1], height = F::block.rows;
  const std::uint64_t padded = ufp4::quantized_matrix<F>(0, static_cast<std::size_t>(cols), transform).padded_cols();
  const number_type scale = ufp4::interop::scale_number(ufp4::spec_of<F>.scale, layout);
  written_numbers numbers;
  numbers.codes = out.add(names.codes, number_type::u8, {rows, padded / 2});
  numbers.scales = out.add(names.scales, scale, {(rows + height - 1) / height, padded / F::block_size});
  if (F::two_level) {
    const bool scalar = layout == tensor_layout::modelopt;
    numbers.tensor_scale = out.add(names.tensor_scale, number_type::f32,
                                   scalar ? std::vector<std::uint64_t>{} : std::vector<std::uint64_t>{1});
  }
  if (layout == tensor_layout::ufp4)
    out.set_metadata(ufp4::interop::own_mark + p.name,
                     ufp4::interop::format_text<F>() + ufp4::interop::extent_text(cols, transform));
  return numbers;
}

/// Codes and scales of one matrix to their places, the tensor scale with the first of them.
template <class F>
quantized_error write_weight(placed_safetensors& out, const written_numbers& numbers, tensor_layout layout,
                             ufp4::interop::tensor_file& file, const stored_tensor& t, const quantize_settings& with,
                             const row_progress& progress) {
  return quantize_rows<F>(file, t, with, progress, [&](std::size_t first, const ufp4::quantized_view<F>& q) {
    constexpr auto height = static_cast<std::size_t>(F::block.rows);
    const std::size_t padded = q.padded_cols(), strip = padded / F::block_size * sizeof(typename F::scale_type);
    out.write(numbers.codes, std::uint64_t{first} * padded / 2, q.codes().data(), q.codes().size_bytes());
    out.write(numbers.scales, std::uint64_t{first / height} * strip, q.scales().data(), q.scales().size_bytes());
    if (!F::two_level || first != 0) return;
    const bool divides = layout == tensor_layout::compressed_tensors;
    const float scale = divides ? ufp4::interop::divisor_of(q.tensor_scale()) : q.tensor_scale();
    if (scale == 0)
      file.fail("tensor " + printable(t.name) + " has the tensor scale " + ufp4::detail::concat(q.tensor_scale()) +
                ", which is no float's reciprocal; --layout modelopt keeps it as it is");
    out.write(numbers.tensor_scale, 0, &scale, sizeof scale);
  });
}

template <class F>
void write_safetensors(tensor_input& in, const std::vector<planned_tensor>& plan, tensor_layout layout,
                       const quantize_request& request, std::vector<converted_tensor>& rows) {
  placed_safetensors out(request.output);
  for (const auto& [key, value] : kept_strings(in, plan)) out.set_metadata(key, value);
  std::vector<written_numbers> numbers;
  numbers.reserve(plan.size());
  for (const planned_tensor& p : plan) {
    copy_progress_of(request, numbers.size(), plan.size(), p.name)();
    numbers.push_back(p.kept.empty() ? add_weight<F>(out, p, layout, request.with.transform)
                                     : written_numbers{out.add(p.name, *p.from), 0, 0});
  }
  out.open();
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const planned_tensor& p = plan[i];
    const row_progress progress = progress_of(request, i, plan.size(), p.name);
    if (!p.kept.empty()) {
      out.write(numbers[i].codes, bytes_of(in.file(), *p.from, copy_progress_of(request, i, plan.size(), p.name)));
      continue;
    }
    note(rows[i], write_weight<F>(out, numbers[i], layout, in.file(), *p.from, settings_of(request, i), progress));
    rows[i].bytes_after = out.bytes_of(numbers[i].codes) + out.bytes_of(numbers[i].scales) + (F::two_level ? 4 : 0);
  }
  out.finish();
}

/// ggml's blocks of one matrix, row by row, and its tensor scale once they are written.
template <class F>
void add_blocks(ufp4::interop::gguf_writer& out, tensor_input& in, const planned_tensor& p,
                const quantize_settings& with, const row_progress& progress, converted_tensor& row) {
  using block = ufp4::interop::ggml_block<F>;
  const std::uint64_t row_bytes = p.from->shape[1] / block::elements * block::bytes;
  row.bytes_after = p.from->shape[0] * row_bytes + (F::two_level ? 4 : 0);
  const auto tensor_scale = std::make_shared<float>(1.0f);
  out.add(p.name, {block::type, p.from->shape, [=, &in, &p, &row](const ufp4::interop::byte_sink& sink) {
                     std::vector<std::uint8_t> blocks(static_cast<std::size_t>(row_bytes));
                     note(row, quantize_rows<F>(in.file(), *p.from, with, progress,
                                                [&](std::size_t, const ufp4::quantized_view<F>& q) {
                                                  *tensor_scale = q.tensor_scale();
                                                  for (std::size_t i = 0; i < q.rows(); ++i) {
                                                    ufp4::interop::to_ggml_row(q, i, blocks.data());
                                                    sink(blocks.data(), blocks.size());
                                                  }
                                                }));
                   }});
  if (F::two_level)
    out.add(ufp4::interop::ggml_scale_name(p.name),
            {number_type::f32, {1}, [tensor_scale](const ufp4::interop::byte_sink& sink) {
               sink(tensor_scale.get(), sizeof *tensor_scale);
             }});
}

template <class F>
void write_gguf(tensor_input& in, const std::vector<planned_tensor>& plan, const quantize_request& request,
                std::vector<converted_tensor>& rows) {
  ufp4::interop::gguf_writer out;
  if (in.gguf() != nullptr) out.keep_pairs(*in.gguf());
  describe_gguf(request.output, [&] {
    if (in.safetensors() != nullptr)
      for (const auto& [key, value] : kept_strings(in, plan)) out.set_string(key, value);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const planned_tensor& p = plan[i];
      const std::function<void()> told = copy_progress_of(request, i, plan.size(), p.name);
      told();
      if (p.kept.empty())
        add_blocks<F>(out, in, p, settings_of(request, i), progress_of(request, i, plan.size(), p.name), rows[i]);
      else
        out.add_copy(p.name, *p.from, bytes_of(in.file(), *p.from, told));
    }
  });
  out.write(request.output);
}

inline void note_settings(const quantize_request& request, const std::string& layout, conversion& report) {
  const auto& [transform, rounding, ctx, chunk] = request.with;
  report.settings = {{"format", request.format}, {"layout", layout}};
  if (transform.n != 1) report.settings.push_back({"rht", std::to_string(transform.n), true});
  const bool stochastic = rounding.what == ufp4::rounding_spec::kind::stochastic;
  if (stochastic) report.settings.push_back({"rounding", "stochastic"});
  if (stochastic || transform.n != 1) report.settings.push_back({"seed", std::to_string(request.seed), true});
}

}  // namespace detail

/// Quantizes what of `in` the request says into request.output, which is written only if all of it can be.
template <class F>
conversion quantize_file(tensor_input& in, const quantize_request& request) {
  conversion report{in.file().path(), request.output, {}, {}, {}};
  const std::vector<detail::planned_tensor> plan = detail::plan_of<F>(in, request);
  report.notes = detail::notes_of(in, plan, request);
  report.tensors = detail::rows_of(plan);
  for (std::size_t i = 0; i < plan.size(); ++i)
    if (plan[i].kept.empty()) report.tensors[i].after = request.format;
  if (request.to_gguf()) {
    detail::check_gguf<F>(plan, request);
    detail::note_settings(request, "gguf", report);
    if constexpr (ufp4::interop::ggml_format<F>) detail::write_gguf<F>(in, plan, request, report.tensors);
    return report;
  }
  const ufp4::interop::tensor_layout layout = detail::layout_for<F>(plan, request);
  detail::note_settings(request, detail::name_of(layout), report);
  detail::write_safetensors<F>(in, plan, layout, request, report.tensors);
  return report;
}

}  // namespace tool
