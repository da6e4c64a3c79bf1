// ufp4 - QuantizedMatrix in .safetensors files, in the layouts of the library.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ufp4/interop/safetensors.hpp>

#include "quantized.hpp"

namespace ufp4::python {
namespace {

using interop::number_type, interop::tensor_layout;

/// As interop::tensor_layout lists them.
constexpr const char* layout_names[] = {"compressed_tensors", "modelopt", "ufp4", "f4", "gpt_oss"};
static_assert(std::size(layout_names) == std::size(interop::tensor_layouts));

/// The type of an element in a file.
number_type number_of(element type) {
  constexpr number_type types[] = {number_type::f32,     number_type::bf16, number_type::f16, number_type::f8_e4m3,
                                   number_type::f8_e8m0, number_type::u8,   number_type::i8,  number_type::f64,
                                   number_type::i64,     number_type::i32};
  return type < element::f4 ? types[static_cast<int>(type)] : number_type::other;
}

/// An array as a tensor; `kept` holds its memory until the file is written.
interop::tensor_source tensor_of(const std::string& name, nb::handle from, std::vector<array>& kept) {
  const array& x = kept.emplace_back("save", name.c_str(), from);
  const number_type type = number_of(x.type());
  expects(type != number_type::other, "save: ", name,
          " has elements of a type that the file cannot have: ", type_text(x.type()));
  expects(x.is_contiguous(), "save: ", name, " must be C-contiguous, got ", x.layout_text());
  std::vector<std::uint64_t> shape(x.ndim());
  for (std::size_t i = 0; i < x.ndim(); ++i) shape[i] = x.shape(i);
  return interop::source_of(type, std::move(shape), x.data());
}

void save(const std::string& path, const nb::dict& tensors, nb::handle layout,
          const std::map<std::string, std::string>& metadata) {
  interop::safetensors_writer file;
  std::vector<array> kept;
  kept.reserve(nb::len(tensors));
  for (const auto& [key, value] : tensors) {
    if (!nb::isinstance<nb::str>(key)) reject("save: the names of tensors must be strings");
    const auto name = nb::cast<std::string>(key);
    if (!nb::isinstance<quantized>(value)) {
      file.add(name, tensor_of(name, value, kept));
      continue;
    }
    const any_quantized_view& q = nb::cast<const quantized&>(value).view;
    const auto chosen_layout = layout.is_none()
                                   ? tensor_layout::ufp4
                                   : static_cast<tensor_layout>(chosen("save", "layout", layout, layout_names));
    interop::add_quantized(file, name, q, chosen_layout);
  }
  for (const auto& [key, value] : metadata) file.set_metadata(key, value);
  const nb::gil_scoped_release released;
  file.write(path);
}

quantized load_one(const std::string& path, const std::string& name) {
  any_quantized q;
  {
    const nb::gil_scoped_release released;
    interop::safetensors_reader file(path);
    q = interop::read_quantized(file, name);
  }
  return quantized(std::move(q));
}

/// The weights whose tensors have the names of the layouts ufp4 and compressed_tensors.
std::vector<std::string> names_in(const std::string& path) {
  const interop::safetensors_reader file(path);
  constexpr std::string_view end = "_packed";
  std::vector<std::string> names;
  for (const interop::stored_tensor& t : file.tensors())
    if (t.name.ends_with(end)) names.push_back(t.name.substr(0, t.name.size() - end.size()));
  return names;
}

}  // namespace

void bind_files(nb::module_& m) {
  using namespace nb::literals;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const interop::file_error& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    }
  });
  m.def("save_file", &save, "path"_a, "tensors"_a, "layout"_a, "metadata"_a,
        nb::sig(
            "def save_file(path: str, tensors: dict[str, typing.Any], layout: str, metadata: dict[str, str]) -> None"),
        "ufp4.save, with contiguous arrays.");
  m.def("load_matrix", &load_one, "path"_a, "name"_a, "The quantized matrix of that name in a file.");
  m.def("matrix_names", &names_in, "path"_a, "The names of the quantized matrices in a file.");
}

}  // namespace ufp4::python
