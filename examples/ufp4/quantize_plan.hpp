// ufp4 - the plan of `ufp4 quantize`: which tensors are quantized, which are copied and why, and in which layout.
// SPDX-License-Identifier: Apache-2.0
/// Everything is checked here, before the output is created.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <vector>

#include "../common/arguments.hpp"
#include "conversion_request.hpp"
#include "quantize_rows.hpp"
#include "scale_rule_options.hpp"
#include "stored_formats.hpp"
#include "tensor_input.hpp"

namespace tool {

/// --axis: the dimension along which tensors are quantized.
struct axis_choice {
  std::string pattern;  ///< of names; empty: every tensor of three or more dimensions
  std::size_t axis = 0;
};

/// The value of --axis: "N" or "PATTERN=N". usage_error for another text.
inline axis_choice parse_axis(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const std::string number = equals == std::string::npos ? text : text.substr(equals + 1);
  if (number.size() != 1 || number[0] < '0' || number[0] > '9' || equals == 0)
    throw common::usage_error("--axis takes N or PATTERN=N, N from 0 to 9, not " + ufp4::interop::printable(text));
  return {equals == std::string::npos ? "" : text.substr(0, equals), static_cast<std::size_t>(number[0] - '0')};
}

/// The dimension along which a tensor of at least two dimensions is quantized: that of the last choice for it, else its
/// last. usage_error if it has no such dimension.
inline std::size_t axis_of(const ufp4::interop::stored_tensor& t, const std::string& name,
                           const std::vector<axis_choice>& choices) {
  std::size_t axis = t.shape.size() - 1;
  for (const axis_choice& c : choices) {
    if (c.pattern.empty() ? t.shape.size() < 3 : !matches(c.pattern, name)) continue;
    axis = c.axis;
  }
  if (axis >= t.shape.size())
    throw common::usage_error("--axis " + std::to_string(axis) + ": tensor " + ufp4::interop::printable(name) +
                              " has " + std::to_string(t.shape.size()) + " dimensions, 0 to " +
                              std::to_string(t.shape.size() - 1) + "; --axis PATTERN=N chooses tensors");
  return axis;
}

/// What the command line asks for.
struct quantize_request : conversion_request {
  std::string format;                                  ///< its name
  ufp4::format_spec spec{};                            ///< the same as data
  std::optional<ufp4::interop::tensor_layout> layout;  ///< none: the first that can represent every weight
  std::uint64_t seed = 0;                              ///< of the transform's signs and the random bits
  scale_choice scales;                                 ///< --rule and --search, also in `with`
  std::uint64_t first_stream = 0;                      ///< of the random bits: that of the file's first tensor
  std::vector<axis_choice> axes;
  quantize_settings with;

  std::uint64_t block_size() const { return static_cast<std::uint64_t>(spec.block.cols); }
};

namespace detail {

using ufp4::interop::number_type;
using ufp4::interop::printable;
using ufp4::interop::stored_tensor;
using ufp4::interop::tensor_layout;

/// A tensor of the input.
struct planned_tensor {
  const stored_tensor* from;
  std::string name;
  std::string kept;                     ///< why it is copied; empty if it is quantized
  std::size_t axis = 0;                 ///< of a tensor that is quantized: along which dimension
  std::vector<std::uint64_t> stored{};  ///< its shape with that dimension at the end

  std::uint64_t cols() const { return stored.back(); }
  std::uint64_t rows() const { return ufp4::interop::row_count(stored).value(); }
};

/// Why a tensor is taken for a part of a quantized weight, ours or another project's; empty if it is not. Such a tensor
/// must not be quantized again.
inline std::string why_a_part(const ufp4::interop::tensor_file& file, const std::set<std::string>& parts,
                              const std::string& name) {
  if (parts.contains(name)) return "is part of a quantized weight";
  const stored_tensor* const beside = scaled_by(file, name);
  return beside == nullptr ? "" : "has the scales of " + printable(beside->name) + " by its name";
}

/// Why a tensor is copied; empty if it is quantized.
inline std::string why_kept(const stored_tensor& t, const std::string& name, const quantize_request& request) {
  if (matches_any(request.skipped, name)) return "by --skip";
  if (!request.chosen.empty() && !matches_any(request.chosen, name)) return "not chosen by --tensor";
  if (t.shape.size() < 2) return "has " + std::to_string(t.shape.size()) + " dimension" + (t.shape.empty() ? "s" : "");
  if (t.type != number_type::f32 && t.type != number_type::f16 && t.type != number_type::bf16)
    return "is not F32, F16 or BF16";
  if (t.bytes == 0) return "is empty";
  const std::size_t axis = axis_of(t, name, request.axes);
  if (t.shape[axis] < request.block_size())
    return std::to_string(t.shape[axis]) +
           (t.shape.size() == 2 ? " columns" : " elements along dimension " + std::to_string(axis)) +
           " are fewer than a block of " + std::to_string(request.block_size()) +
           (t.shape.size() == 2 ? "" : " (see --axis)");
  return {};
}

/// A message for each pattern that matches no tensor's name.
inline std::vector<std::string> unmatched(tensor_input& in, const std::string& flag,
                                          const std::vector<std::string>& patterns) {
  std::vector<std::string> names, messages;
  for (const stored_tensor& t : in.file().tensors()) names.push_back(in.name_of(t));
  for (const std::string& pattern : tool::unmatched(patterns, names))
    messages.push_back(printable(in.file().path()) + " has no tensor that " + flag + " " + printable(pattern) +
                       " matches; it has " +
                       (in.npy() != nullptr ? printable(in.name_of(in.npy()->array())) : in.file().names()));
  return messages;
}

/// If nothing is to be quantized: why the first tensor is copied, and how many others are. Empty otherwise.
inline std::string nothing_to_do(const std::vector<planned_tensor>& plan, const quantize_request& request) {
  const planned_tensor* first = nullptr;
  std::size_t others = 0;
  for (const planned_tensor& p : plan) {
    if (p.kept.empty()) return {};
    if (!request.chosen.empty() && !matches_any(request.chosen, p.name)) continue;
    others += first != nullptr;
    if (first == nullptr) first = &p;
  }
  return std::string("has nothing to quantize") + (request.chosen.empty() ? "" : " of what --tensor chooses") + ": " +
         printable(first->name) + " is copied (" + first->kept + ")" +
         (others == 0 ? "" : ", and so are " + std::to_string(others) + " others");
}

/// Every tensor of the input. usage_error if a pattern of --tensor matches none.
inline std::vector<planned_tensor> plan_of(tensor_input& in, const quantize_request& request) {
  std::vector<std::string> wrong = unmatched(in, "--tensor", request.chosen), patterns;
  for (const axis_choice& c : request.axes)
    if (!c.pattern.empty()) patterns.push_back(c.pattern);
  for (std::string& text : unmatched(in, "--axis", patterns)) wrong.push_back(std::move(text));
  if (!wrong.empty() && !request.part_of_model) throw common::usage_error(wrong.front());
  std::vector<planned_tensor> plan;
  const std::set<std::string> parts = in.safetensors() != nullptr ? parts_of_weights(*in.safetensors())
                                      : in.gguf() != nullptr      ? parts_of_weights(*in.gguf())
                                                                  : std::set<std::string>{};
  for (const stored_tensor& t : in.file().tensors()) {
    const std::string name = in.name_of(t);
    const std::string part = why_a_part(in.file(), parts, name);
    planned_tensor& p = plan.emplace_back(planned_tensor{&t, name, part.empty() ? why_kept(t, name, request) : part});
    check_copy(in, t, request.to_gguf());
    if (!p.kept.empty()) continue;
    p.axis = axis_of(t, name, request.axes);
    p.stored = ufp4::interop::with_axis_last(t.shape, p.axis);
  }
  if (plan.empty()) in.file().fail("holds no tensors");
  return plan;
}

/// Notes about a --skip that matches nothing, and a file with nothing to quantize. Neither is an error: both occur
/// where the files of one model are converted in a loop. file_error if nothing can be quantized of what --tensor names.
inline std::vector<std::string> notes_of(tensor_input& in, const std::vector<planned_tensor>& plan,
                                         const quantize_request& request) {
  if (request.part_of_model) return {};
  std::vector<std::string> notes = unmatched(in, "--skip", request.skipped);
  const std::string nothing = nothing_to_do(plan, request);
  if (nothing.empty()) return notes;
  if (!request.chosen.empty() || in.npy() != nullptr) in.file().fail(nothing);
  notes.push_back(printable(in.file().path()) + " " + nothing);
  return notes;
}

/// Why a layout other than ufp4 cannot represent the dimensions of a tensor that is quantized; empty if it can.
inline std::string shape_mismatch(tensor_layout layout, const planned_tensor& p) {
  const std::size_t dimensions = p.stored.size();
  const std::string has = "tensor " + printable(p.name) + " has " + std::to_string(dimensions) + " dimensions";
  if (layout == tensor_layout::compressed_tensors && dimensions != 2)
    return "has matrices only, but " + has + " (--skip copies it)";
  if (layout == tensor_layout::gpt_oss && dimensions == 3)
    return p.axis == 1 ? "" : "quantizes experts along dimension 1, but " + has + ": --axis 1 is needed";
  if (layout == tensor_layout::gpt_oss && dimensions > 3)
    return "has matrices and experts only, but " + has + " (--skip copies it)";
  if (p.axis + 1 == dimensions) return {};
  return "quantizes along the last dimension only, but tensor " + printable(p.name) + " is quantized along " +
         std::to_string(p.axis) + " (--axis)";
}

/// Why a layout cannot represent the plan; empty if it can.
inline std::string layout_mismatch(tensor_layout layout, const std::vector<planned_tensor>& plan,
                                   const quantize_request& request) {
  if (layout == tensor_layout::ufp4) return {};
  if (!ufp4::interop::has_format(layout, request.spec))
    return std::string("has ") + (layout == tensor_layout::gpt_oss ? "" : "nvfp4 and ") + "mxfp4 only, not " +
           request.format;
  if (request.with.transform.n != 1) return "does not record a Hadamard transform (--rht)";
  for (const planned_tensor& p : plan) {
    if (!p.kept.empty()) continue;
    std::string wrong = shape_mismatch(layout, p);
    if (!wrong.empty()) return wrong;
    if (p.cols() % request.block_size() != 0)
      return "has no padding, but tensor " + printable(p.name) + " has " + std::to_string(p.cols()) +
             " columns, not a multiple of " + std::to_string(request.block_size()) + " (--skip copies it)";
  }
  return {};
}

/// The layout of the output. usage_error if the one of the request cannot represent the plan.
inline tensor_layout layout_for(const std::vector<planned_tensor>& plan, const quantize_request& request) {
  const tensor_layout usual = ufp4::interop::usual_layout(request.spec);
  if (!request.layout) return layout_mismatch(usual, plan, request).empty() ? usual : tensor_layout::ufp4;
  const std::string wrong = layout_mismatch(*request.layout, plan, request);
  if (!wrong.empty())
    throw common::usage_error("layout " + std::string(name_of(*request.layout)) + " " + wrong +
                              "; --layout ufp4 represents everything");
  return *request.layout;
}

/// The metadata strings of the input without those of the ufp4 layout about weights that do not exist or are quantized
/// now.
inline std::map<std::string, std::string> kept_strings(tensor_input& in, const std::vector<planned_tensor>& plan) {
  std::map<std::string, std::string> strings;
  if (in.safetensors() != nullptr) strings = in.safetensors()->metadata();
  if (in.gguf() != nullptr) strings = in.gguf()->strings();
  if (const auto* const file = in.safetensors())
    std::erase_if(strings, [&](const auto& pair) { return is_leftover(*file, pair.first); });
  for (const planned_tensor& p : plan)
    if (p.kept.empty()) strings.erase(ufp4::interop::own_mark + p.name);
  return strings;
}

/// ggml's block of the format. usage_error if GGUF cannot represent the plan: it has whole blocks and no transform.
inline const ufp4::interop::ggml_block& ggml_block_for(const std::vector<planned_tensor>& plan,
                                                       const quantize_request& request) {
  const ufp4::interop::ggml_block* const block = ufp4::interop::find_ggml_block(request.spec);
  if (block == nullptr) throw common::usage_error("a .gguf file has nvfp4 and mxfp4, not " + request.format);
  if (request.layout)
    throw common::usage_error("--layout applies to .safetensors files; .gguf files have ggml's blocks");
  if (request.with.transform.n != 1)
    throw common::usage_error("a .gguf file does not record a Hadamard transform (--rht)");
  for (const planned_tensor& p : plan) {
    if (!p.kept.empty()) continue;
    if (p.axis + 1 != p.stored.size())
      throw common::usage_error("a .gguf file has blocks along the last dimension only, but tensor " +
                                printable(p.name) + " is quantized along " + std::to_string(p.axis) + " (--axis)");
    if (p.cols() % block->elements != 0)
      throw common::usage_error("tensor " + printable(p.name) + " has " + std::to_string(p.cols()) +
                                " columns, not a multiple of ggml's " + std::to_string(block->elements) +
                                "; --skip copies it");
  }
  return *block;
}

}  // namespace detail

}  // namespace tool
