// ufp4 - a file of tensors becomes a file of quantized weights, in chunks of rows.
// SPDX-License-Identifier: Apache-2.0
/// | quantized | tensors of F32, F16 and BF16 of two or more dimensions whose last, or that of --axis, has a block    |
/// | copied    | everything else, and what the patterns leave out, unchanged                                          |
/// | memory    | a chunk of rows with its intermediate results; the header                                            |
/// | bits      | of ufp4::quantize on the whole matrix, or on each slice (matrix_rows) of three or more dimensions;   |
/// |           | stochastic rounding of tensor i draws from stream i, at the place of a row among all rows of i       |
/// | failure   | interop::file_error; the output is then unchanged                                                    |
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <utility>
#include <vector>

#include "conversion_report.hpp"
#include "conversion_request.hpp"
#include "output_path.hpp"
#include "placed_safetensors.hpp"
#include "quantize_plan.hpp"
#include "quantize_rows.hpp"
#include "tensor_input.hpp"

namespace tool {

namespace detail {

/// The settings of one tensor of the plan.
inline quantize_settings settings_of(const quantize_request& request, std::size_t at) {
  quantize_settings with = request.with;
  with.rounding.random_bits.stream = request.first_stream + at;
  return with;
}

/// Bytes of codes, block scales and tensor scales of a weight in a .safetensors file.
inline std::uint64_t weight_bytes(const planned_tensor& p, tensor_layout layout, const quantize_request& request) {
  const auto t = ufp4::interop::tensors_of(request.spec, p.stored, request.with.transform, layout);
  const auto bytes = [](number_type type, const std::vector<std::uint64_t>& shape) {
    return ufp4::interop::byte_count(type, shape).value();
  };
  return bytes(t.codes_type, t.codes) + bytes(t.scales_type, t.scales) +
         (request.spec.has_tensor_scale() ? bytes(number_type::f32, t.tensor_scale) : 0);
}
/// The same in a .gguf file.
inline std::uint64_t weight_bytes(const planned_tensor& p, const ufp4::interop::ggml_block& block,
                                  const quantize_request& request) {
  const std::uint64_t scales = p.stored.size() < 3 ? 1 : p.stored[0];
  return p.rows() * block.row_bytes(static_cast<std::size_t>(p.cols())) +
         (request.spec.has_tensor_scale() ? 4 * scales : 0);
}

/// The rows of the report before anything is quantized, with the sizes that follow from the shapes.
template <class Layout>
std::vector<converted_tensor> rows_of(const std::vector<planned_tensor>& plan, const Layout& layout,
                                      const quantize_request& request) {
  std::vector<converted_tensor> rows;
  for (const planned_tensor& p : plan) {
    converted_tensor& row = rows.emplace_back();
    row.name = p.name;
    row.shape = p.from->shape;
    row.type = p.from->type_name;
    row.kept = p.kept;
    row.bytes_before = row.bytes_after = p.from->bytes;
    if (!p.kept.empty()) continue;
    row.after = request.format;
    if (p.axis + 1 != p.stored.size()) row.after += " along dimension " + std::to_string(p.axis);
    row.bytes_after = weight_bytes(p, layout, request);
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

/// The tensors of one weight in the output, as placed_safetensors numbers them.
struct written_numbers {
  std::size_t codes = 0, scales = 0, tensor_scale = 0;  ///< codes: the tensor itself if it is copied
};

/// Plans .safetensors output: codes, scales and tensor scale of every matrix have their places before data are written.
class safetensors_output {
 public:
  safetensors_output(const quantize_request& request, tensor_layout layout)
      : request_(request), layout_(layout), out_(request.output) {}

  placed_safetensors& file() { return out_; }

  written_numbers add_weight(const planned_tensor& p) {
    const ufp4::interop::quantized_names names = ufp4::interop::names_of(p.name, layout_);
    const ufp4::transform_spec& transform = request_.with.transform;
    const auto t = ufp4::interop::tensors_of(request_.spec, p.stored, transform, layout_);
    written_numbers numbers;
    numbers.codes = out_.add(names.codes, t.codes_type, t.codes);
    numbers.scales = out_.add(names.scales, t.scales_type, t.scales);
    if (request_.spec.has_tensor_scale())
      numbers.tensor_scale = out_.add(names.tensor_scale, number_type::f32, t.tensor_scale);
    if (layout_ == tensor_layout::ufp4)
      out_.set_metadata(ufp4::interop::own_mark + p.name, ufp4::interop::format_text(request_.spec) +
                                                              ufp4::interop::extent_text(p.cols(), transform) +
                                                              ufp4::interop::axis_text(p.axis, p.stored.size()));
    return numbers;
  }

  /// Codes and scales to their places, the tensor scale with the first chunk of each slice.
  quantized_error write_weight(const written_numbers& numbers, ufp4::interop::tensor_file& file,
                               const planned_tensor& p, std::size_t at, const tensor_progress& progress) {
    const auto height = static_cast<std::size_t>(request_.spec.block.rows);
    const std::size_t slice =
        p.stored.size() < 3 ? static_cast<std::size_t>(p.rows()) : static_cast<std::size_t>(p.rows() / p.stored[0]);
    return quantize_rows(file, *p.from, p.axis, request_.spec, settings_of(request_, at), progress,
                         [&](std::size_t first, const ufp4::any_quantized_view& q) {
                           const std::size_t strip =
                               q.scale_bytes().size() / ufp4::detail::scale_rows(q.rows(), q.spec().block);
                           out_.write(numbers.codes, ufp4::detail::code_bytes(q.spec(), first * q.padded_cols()),
                                      q.codes().data(), q.codes().size());
                           out_.write(numbers.scales, std::uint64_t{first / height} * strip, q.scale_bytes().data(),
                                      q.scale_bytes().size());
                           if (q.spec().has_tensor_scale() && first % slice == 0)
                             write_tensor_scale(numbers, file, *p.from, first / slice, q.tensor_scale());
                         });
  }

 private:
  void write_tensor_scale(const written_numbers& numbers, ufp4::interop::tensor_file& file, const stored_tensor& t,
                          std::size_t slice, float factor) {
    const bool divides = layout_ == tensor_layout::compressed_tensors;
    const float scale = divides ? ufp4::interop::divisor_of(factor) : factor;
    if (scale == 0)
      file.fail("tensor " + printable(t.name) + " has the tensor scale " + ufp4::detail::concat(factor) +
                ", which is not the reciprocal of a float; --layout modelopt stores the scale itself");
    out_.write(numbers.tensor_scale, slice * sizeof scale, &scale, sizeof scale);
  }

  const quantize_request& request_;
  tensor_layout layout_;
  placed_safetensors out_;
};

inline void write_safetensors(tensor_input& in, const std::vector<planned_tensor>& plan, tensor_layout layout,
                              const quantize_request& request, std::vector<converted_tensor>& rows) {
  safetensors_output output(request, layout);
  placed_safetensors& out = output.file();
  for (const auto& [key, value] : kept_strings(in, plan)) out.set_metadata(key, value);
  std::vector<written_numbers> numbers;
  numbers.reserve(plan.size());
  for (const planned_tensor& p : plan) {
    tensor_progress(request, numbers.size(), plan.size(), p.name)();
    numbers.push_back(p.kept.empty() ? output.add_weight(p) : written_numbers{out.add(p.name, *p.from), 0, 0});
  }
  out.open();
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const planned_tensor& p = plan[i];
    const tensor_progress progress(request, i, plan.size(), p.name);
    if (!p.kept.empty()) {
      out.write(numbers[i].codes, bytes_of(in.file(), *p.from, progress));
      continue;
    }
    note(rows[i], output.write_weight(numbers[i], in.file(), p, i, progress));
  }
  out.finish();
}

/// One weight as ggml's blocks, and its tensor scales, which are known once the blocks are written.
inline void add_blocks(ufp4::interop::gguf_writer& out, tensor_input& in, const planned_tensor& p,
                       const quantize_request& request, std::size_t at, const tensor_progress& progress,
                       const ufp4::interop::ggml_block& block, converted_tensor& row) {
  const std::size_t row_bytes = block.row_bytes(static_cast<std::size_t>(p.cols()));
  const auto slices = static_cast<std::size_t>(p.stored.size() < 3 ? 1 : p.stored[0]);
  const auto slice = static_cast<std::size_t>(p.rows()) / slices;
  const auto scales = std::make_shared<std::vector<float>>(slices, 1.0f);
  out.add(p.name, {block.type, p.stored, [=, &in, &p, &request, &row](const ufp4::interop::byte_sink& sink) {
                     std::vector<std::uint8_t> blocks(row_bytes);
                     note(row, quantize_rows(in.file(), *p.from, p.axis, request.spec, settings_of(request, at),
                                             progress, [&](std::size_t first, const ufp4::any_quantized_view& q) {
                                               if (request.spec.has_tensor_scale())
                                                 (*scales)[first / slice] = q.tensor_scale();
                                               for (std::size_t i = 0; i < q.rows(); ++i) {
                                                 ufp4::interop::to_ggml_row(q, i, blocks.data());
                                                 sink(blocks.data(), blocks.size());
                                               }
                                             }));
                   }});
  if (request.spec.has_tensor_scale())
    out.add(ufp4::interop::ggml_scale_name(p.name),
            {number_type::f32, {slices}, [scales](const ufp4::interop::byte_sink& sink) {
               sink(scales->data(), scales->size() * sizeof(float));
             }});
}

inline void write_gguf(tensor_input& in, const std::vector<planned_tensor>& plan,
                       const ufp4::interop::ggml_block& block, const quantize_request& request,
                       std::vector<converted_tensor>& rows) {
  ufp4::interop::gguf_writer out;
  if (in.gguf() != nullptr) out.keep_pairs(*in.gguf());
  describe_gguf(request.output, [&] {
    if (in.safetensors() != nullptr)
      for (const auto& [key, value] : kept_strings(in, plan)) out.set_string(key, value);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const planned_tensor& p = plan[i];
      const tensor_progress progress(request, i, plan.size(), p.name);
      progress();
      if (p.kept.empty())
        add_blocks(out, in, p, request, i, progress, block, rows[i]);
      else
        out.add_copy(p.name, *p.from, bytes_of(in.file(), *p.from, progress));
    }
  });
  out.write(request.output);
}

inline void note_settings(const quantize_request& request, const std::string& layout, conversion& report) {
  const auto& [transform, rounding, rule, ctx, chunk] = request.with;
  report.settings = {{"format", request.format}, {"layout", layout}};
  if (transform.n != 1) report.settings.push_back({"rht", std::to_string(transform.n), true});
  const bool stochastic = rounding.what == ufp4::rounding_spec::kind::stochastic;
  if (stochastic) report.settings.push_back({"rounding", "stochastic"});
  if (!request.scales.name.empty()) report.settings.push_back({"rule", request.scales.name, false});
  if (!request.scales.search.empty()) report.settings.push_back({"search", request.scales.search, false});
  if (!request.scales.grids.empty()) report.settings.push_back({"choose_grid", request.scales.grids, false});
  if (stochastic || transform.n != 1) report.settings.push_back({"seed", std::to_string(request.seed), true});
}

}  // namespace detail

/// Quantizes what the request selects of `in` into request.output, which is written only if all of it can be; with
/// request.dry_run only reports the sizes.
inline conversion quantize_file(tensor_input& in, const quantize_request& request) {
  conversion report{in.file().path(), request.output, {}, {}, {}, request.dry_run};
  const std::vector<detail::planned_tensor> plan = detail::plan_of(in, request);
  report.notes = detail::notes_of(in, plan, request);
  if (request.to_gguf()) {
    const ufp4::interop::ggml_block& block = detail::ggml_block_for(plan, request);
    report.tensors = detail::rows_of(plan, block, request);
    detail::note_settings(request, "gguf", report);
    if (!request.dry_run) detail::write_gguf(in, plan, block, request, report.tensors);
    return report;
  }
  const ufp4::interop::tensor_layout layout = detail::layout_for(plan, request);
  report.tensors = detail::rows_of(plan, layout, request);
  detail::note_settings(request, name_of(layout), report);
  if (!request.dry_run) detail::write_safetensors(in, plan, layout, request, report.tensors);
  return report;
}

}  // namespace tool
