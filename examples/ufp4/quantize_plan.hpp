// ufp4 - what of a file is quantized, what is copied and why, and which layout can hold it: before anything is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <vector>

#include "../common/arguments.hpp"
#include "quantize_rows.hpp"
#include "stored_formats.hpp"
#include "tensor_input.hpp"

namespace tool {

/// What the command line asks for.
struct quantize_request {
  std::string output;                                  ///< a .gguf file if it ends so, else .safetensors
  std::string format;                                  ///< its name
  std::vector<std::string> chosen, skipped;            ///< patterns; no `chosen`: all
  std::optional<ufp4::interop::tensor_layout> layout;  ///< none: the first that can hold every weight
  std::uint64_t seed = 0;                              ///< of the transform's signs and the random bits
  quantize_settings with;
  std::function<void(std::size_t at, std::size_t of, const std::string& what)> progress;

  bool to_gguf() const { return output.ends_with(".gguf"); }
};

namespace detail {

using ufp4::interop::number_type;
using ufp4::interop::printable;
using ufp4::interop::stored_tensor;
using ufp4::interop::tensor_layout;

/// What is to become of one tensor.
struct planned_tensor {
  const stored_tensor* from;
  std::string name;
  std::string kept;  ///< why it is copied; empty: it is quantized
};

/// What a weight that is quantized already is made of, here or by another project: quantizing that would destroy it.
inline std::string why_a_part(const ufp4::interop::tensor_file& file, const std::set<std::string>& parts,
                              const std::string& name) {
  if (parts.contains(name)) return "is part of a quantized weight";
  const stored_tensor* const beside = scaled_by(file, name);
  return beside == nullptr ? "" : "has the scales of " + printable(beside->name) + " by its name";
}

template <class F>
std::string why_kept(const stored_tensor& t, const std::string& name, const quantize_request& request) {
  if (matches_any(request.skipped, name)) return "by --skip";
  if (!request.chosen.empty() && !matches_any(request.chosen, name)) return "not chosen by --tensor";
  if (t.shape.size() != 2)
    return "has " + std::to_string(t.shape.size()) + " dimension" + (t.shape.size() == 1 ? "" : "s");
  if (t.type != number_type::f32 && t.type != number_type::f16 && t.type != number_type::bf16)
    return "is not F32, F16 or BF16";
  if (t.shape[0] == 0 || t.shape[1] == 0) return "is empty";
  if (t.shape[1] < F::block_size)
    return std::to_string(t.shape[1]) + " columns are fewer than a block of " + std::to_string(F::block_size);
  return {};
}

/// A message for each pattern that no tensor's name matches.
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

/// Why the first tensor that was to be quantized is not, and how many share its lot;
/// empty where there is something to do.
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

template <class F>
std::vector<planned_tensor> plan_of(tensor_input& in, const quantize_request& request) {
  const std::vector<std::string> wrong = unmatched(in, "--tensor", request.chosen);
  if (!wrong.empty()) throw common::usage_error(wrong.front());
  std::vector<planned_tensor> plan;
  const std::set<std::string> parts = in.safetensors() != nullptr ? parts_of_weights(*in.safetensors())
                                      : in.gguf() != nullptr      ? parts_of_weights(*in.gguf())
                                                                  : std::set<std::string>{};
  for (const stored_tensor& t : in.file().tensors()) {
    const std::string name = in.name_of(t);
    const std::string part = why_a_part(in.file(), parts, name);
    plan.push_back({&t, name, part.empty() ? why_kept<F>(t, name, request) : part});
    check_copy(in, t, request.to_gguf());
  }
  if (plan.empty()) in.file().fail("holds no tensors");
  return plan;
}

/// What the plan may have other than was meant. A --skip that matches nothing, and nothing to quantize, are right for
/// some files of a model in several: a loop over them wants those copied.
/// file_error for the latter where what to quantize was named.
inline std::vector<std::string> notes_of(tensor_input& in, const std::vector<planned_tensor>& plan,
                                         const quantize_request& request) {
  std::vector<std::string> notes = unmatched(in, "--skip", request.skipped);
  const std::string nothing = nothing_to_do(plan, request);
  if (nothing.empty()) return notes;
  if (!request.chosen.empty() || in.npy() != nullptr) in.file().fail(nothing);
  notes.push_back(printable(in.file().path()) + " " + nothing);
  return notes;
}

/// Why a layout cannot hold what is planned; empty where it can.
template <class F>
std::string layout_mismatch(tensor_layout layout, const std::vector<planned_tensor>& plan,
                            const quantize_request& request) {
  if (layout == tensor_layout::ufp4) return {};
  if (!ufp4::interop::is_shared_format<F>) return "holds nvfp4 and mxfp4 alone, not " + request.format;
  if (request.with.transform.n != 1) return "does not record a Hadamard transform (--rht)";
  for (const planned_tensor& p : plan)
    if (p.kept.empty() && p.from->shape[1] % F::block_size != 0)
      return "has no padding, but tensor " + printable(p.name) + " has " + std::to_string(p.from->shape[1]) +
             " columns, no multiple of " + std::to_string(F::block_size) + " (--skip copies it)";
  return {};
}

inline const char* name_of(tensor_layout layout) {
  return layout == tensor_layout::ufp4 ? "ufp4" : layout == tensor_layout::modelopt ? "modelopt" : "compressed_tensors";
}

template <class F>
tensor_layout layout_for(const std::vector<planned_tensor>& plan, const quantize_request& request) {
  if (!request.layout)
    return layout_mismatch<F>(ufp4::interop::usual_layout<F>, plan, request).empty() ? ufp4::interop::usual_layout<F>
                                                                                     : tensor_layout::ufp4;
  const std::string wrong = layout_mismatch<F>(*request.layout, plan, request);
  if (!wrong.empty())
    throw common::usage_error("layout " + std::string(name_of(*request.layout)) + " " + wrong +
                              "; --layout ufp4 holds everything");
  return *request.layout;
}

/// The strings that FILE has, which OUT gets: without what the ufp4 layout says of weights that are not there, or are
/// now quantized anew.
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

/// GGUF holds ggml's own blocks, in whole, and no transform.
template <class F>
void check_gguf(const std::vector<planned_tensor>& plan, const quantize_request& request) {
  if constexpr (!ufp4::interop::ggml_format<F>) {
    throw common::usage_error("a .gguf file holds nvfp4 and mxfp4, not " + request.format);
  } else {
    if (request.layout) throw common::usage_error("--layout is of .safetensors files; a .gguf file has ggml's blocks");
    if (request.with.transform.n != 1)
      throw common::usage_error("a .gguf file does not record a Hadamard transform (--rht)");
    constexpr std::size_t whole = ufp4::interop::ggml_block<F>::elements;
    for (const planned_tensor& p : plan)
      if (p.kept.empty() && p.from->shape[1] % whole != 0)
        throw common::usage_error("tensor " + printable(p.name) + " has " + std::to_string(p.from->shape[1]) +
                                  " columns, no multiple of ggml's " + std::to_string(whole) + "; --skip copies it");
  }
}

}  // namespace detail

}  // namespace tool
