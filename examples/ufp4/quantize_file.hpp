// ufp4 - a file of tensors becomes a file of quantized weights, in chunks of rows.
// SPDX-License-Identifier: Apache-2.0
/// | quantized | matrices of F32, F16 and BF16 with at least one block of columns                                     |
/// | copied    | everything else, and what the patterns leave out, unchanged                                          |
/// | memory    | a chunk of rows with its intermediate results; the header                                            |
/// | bits      | of ufp4::quantize on the whole matrix; stochastic rounding of tensor i draws from stream i           |
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
  with.rounding.random_bits.stream = at;
  return with;
}

/// The rows of the report before anything is quantized.
inline std::vector<converted_tensor> rows_of(const std::vector<planned_tensor>& plan, const quantize_request& request) {
  std::vector<converted_tensor> rows;
  for (const planned_tensor& p : plan) {
    converted_tensor& row = rows.emplace_back();
    row.name = p.name;
    row.shape = p.from->shape;
    row.type = p.from->type_name;
    row.kept = p.kept;
    if (p.kept.empty()) row.after = request.format;
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
    const ufp4::format_spec& format = request_.spec;
    const std::uint64_t rows = p.from->shape[0], cols = p.from->shape[1];
    const std::uint64_t padded =
        ufp4::detail::padded_length(static_cast<std::size_t>(cols), format.block, request_.with.transform);
    written_numbers numbers;
    numbers.codes = out_.add(names.codes, number_type::u8, {rows, padded / 2});
    numbers.scales = out_.add(
        names.scales, ufp4::interop::scale_number(format.scale, layout_),
        {ufp4::detail::scale_rows(static_cast<std::size_t>(rows), format.block), padded / request_.block_size()});
    if (format.has_tensor_scale())
      numbers.tensor_scale = out_.add(names.tensor_scale, number_type::f32,
                                      std::vector<std::uint64_t>(layout_ == tensor_layout::modelopt ? 0 : 1, 1));
    if (layout_ == tensor_layout::ufp4)
      out_.set_metadata(ufp4::interop::own_mark + p.name,
                        ufp4::interop::format_text(format) + ufp4::interop::extent_text(cols, request_.with.transform));
    return numbers;
  }

  /// Codes and scales to their places, the tensor scale with the first chunk.
  quantized_error write_weight(const written_numbers& numbers, ufp4::interop::tensor_file& file, const stored_tensor& t,
                               std::size_t at, const tensor_progress& progress) {
    const auto height = static_cast<std::size_t>(request_.spec.block.rows);
    return quantize_rows(
        file, t, request_.spec, settings_of(request_, at), progress,
        [&](std::size_t first, const ufp4::any_quantized_view& q) {
          const std::size_t strip = q.scale_bytes().size() / ufp4::detail::scale_rows(q.rows(), q.spec().block);
          out_.write(numbers.codes, std::uint64_t{first} * q.padded_cols() / 2, q.codes().data(), q.codes().size());
          out_.write(numbers.scales, std::uint64_t{first / height} * strip, q.scale_bytes().data(),
                     q.scale_bytes().size());
          if (q.spec().has_tensor_scale() && first == 0) write_tensor_scale(numbers, file, t, q.tensor_scale());
        });
  }

 private:
  void write_tensor_scale(const written_numbers& numbers, ufp4::interop::tensor_file& file, const stored_tensor& t,
                          float factor) {
    const bool divides = layout_ == tensor_layout::compressed_tensors;
    const float scale = divides ? ufp4::interop::divisor_of(factor) : factor;
    if (scale == 0)
      file.fail("tensor " + printable(t.name) + " has the tensor scale " + ufp4::detail::concat(factor) +
                ", which is not the reciprocal of a float; --layout modelopt stores the scale itself");
    out_.write(numbers.tensor_scale, 0, &scale, sizeof scale);
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
    note(rows[i], output.write_weight(numbers[i], in.file(), *p.from, i, progress));
    rows[i].bytes_after =
        out.bytes_of(numbers[i].codes) + out.bytes_of(numbers[i].scales) + (request.spec.has_tensor_scale() ? 4 : 0);
  }
  out.finish();
}

/// One matrix as ggml's blocks, and its tensor scale, which is known once the blocks are written.
inline void add_blocks(ufp4::interop::gguf_writer& out, tensor_input& in, const planned_tensor& p,
                       const quantize_request& request, std::size_t at, const tensor_progress& progress,
                       const ufp4::interop::ggml_block& block, converted_tensor& row) {
  const std::size_t row_bytes = block.row_bytes(static_cast<std::size_t>(p.from->shape[1]));
  row.bytes_after = p.from->shape[0] * row_bytes + (request.spec.has_tensor_scale() ? 4 : 0);
  const auto tensor_scale = std::make_shared<float>(1.0f);
  out.add(p.name, {block.type, p.from->shape, [=, &in, &p, &request, &row](const ufp4::interop::byte_sink& sink) {
                     std::vector<std::uint8_t> blocks(row_bytes);
                     note(row, quantize_rows(in.file(), *p.from, request.spec, settings_of(request, at), progress,
                                             [&](std::size_t, const ufp4::any_quantized_view& q) {
                                               *tensor_scale = q.tensor_scale();
                                               for (std::size_t i = 0; i < q.rows(); ++i) {
                                                 ufp4::interop::to_ggml_row(q, i, blocks.data());
                                                 sink(blocks.data(), blocks.size());
                                               }
                                             }));
                   }});
  if (request.spec.has_tensor_scale())
    out.add(ufp4::interop::ggml_scale_name(p.name),
            {number_type::f32, {1}, [tensor_scale](const ufp4::interop::byte_sink& sink) {
               sink(tensor_scale.get(), sizeof *tensor_scale);
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
  const auto& [transform, rounding, ctx, chunk] = request.with;
  report.settings = {{"format", request.format}, {"layout", layout}};
  if (transform.n != 1) report.settings.push_back({"rht", std::to_string(transform.n), true});
  const bool stochastic = rounding.what == ufp4::rounding_spec::kind::stochastic;
  if (stochastic) report.settings.push_back({"rounding", "stochastic"});
  if (stochastic || transform.n != 1) report.settings.push_back({"seed", std::to_string(request.seed), true});
}

}  // namespace detail

/// Quantizes what the request selects of `in` into request.output, which is written only if all of it can be.
inline conversion quantize_file(tensor_input& in, const quantize_request& request) {
  conversion report{in.file().path(), request.output, {}, {}, {}};
  const std::vector<detail::planned_tensor> plan = detail::plan_of(in, request);
  report.notes = detail::notes_of(in, plan, request);
  report.tensors = detail::rows_of(plan, request);
  if (request.to_gguf()) {
    const ufp4::interop::ggml_block& block = detail::ggml_block_for(plan, request);
    detail::note_settings(request, "gguf", report);
    detail::write_gguf(in, plan, block, request, report.tensors);
    return report;
  }
  const ufp4::interop::tensor_layout layout = detail::layout_for(plan, request);
  detail::note_settings(request, name_of(layout), report);
  detail::write_safetensors(in, plan, layout, request, report.tensors);
  return report;
}

}  // namespace tool
