// ufp4 - Format, Transform and Stochastic in Python, and arguments that name them.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/operators.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <ufp4/c/convert.hpp>

#include "policies.hpp"

namespace ufp4::python {
namespace {

constexpr const char* rounding_names[] = {"nearest_even", "nearest_away", "toward_zero"};
constexpr const char* accumulate_names[] = {"fast", "exact_blocks", "folded_bf16"};

format_spec make_format(const char* operation, const std::array<float, 16>& values, nb::handle scale,
                        const std::tuple<int, int>& block, bool tensor_scale,
                        std::int32_t element = UFP4_ELEMENT_4_BITS) {
  ufp4_format f{{},
                static_cast<std::int32_t>(chosen(operation, "scale", scale, std::span(scale_names).first(5))),
                std::get<0>(block),
                std::get<1>(block),
                tensor_scale ? 1 : 0,
                element};
  for (std::size_t i = 0; i < 16; ++i) f.values[i] = values[i];
  const c::detail::called as(operation);  // in messages
  return c::detail::format_of(&f);
}

std::array<float, 16> values_of(const format_spec& f) {
  std::array<float, 16> values{};
  for (std::uint8_t i = 0; i < 16; ++i) values[i] = ufp4::detail::value_of(f, i);
  return values;
}

/// The values of the codes on every grid, with its factor.
std::vector<std::array<float, 16>> grids_of(const format_spec& f) {
  std::vector<std::array<float, 16>> all{values_of(f)};
  for (int g = 1; g <= f.choice.count; ++g) {
    std::array<float, 16>& values = all.emplace_back();
    for (std::size_t c = 0; c < 16; ++c)
      values[c] = ufp4::detail::nth_grid(f, g).value[c] * ufp4::detail::factor_of(f, g);
  }
  return all;
}

double bits_of(const format_spec& f) {
  const int scale = ufp4::detail::block_bytes(f.scale, f.choice.count, f.block);
  const int outer = f.outer.segment == 0 ? 0 : ufp4::detail::scale_bytes(f.outer.type);
  return (f.has_bytes() ? 8.0 : 4.0) + 8.0 * scale / (f.block.rows * f.block.cols) +
         (outer == 0 ? 0.0 : 8.0 * outer / (f.block.rows * f.outer.segment));
}

/// Whether a preset has parts that no argument of Format describes.
bool is_known_by_name_only(const format_spec& f) {
  return !f.has_bytes() && (ufp4::detail::has_extended_blocks(f) || f.outer.type != scale_kind::f32);
}

/// None, or the type of the outer scales and "tensor", "row" or the columns that one covers.
nb::object outer_of(const format_spec& f) {
  const char* const type = scale_names[static_cast<int>(f.outer.type)];
  switch (f.outer.span) {
    case outer_scale::kind::none: break;
    case outer_scale::kind::tensor: return nb::make_tuple(type, "tensor");
    case outer_scale::kind::row: return nb::make_tuple(type, "row");
    case outer_scale::kind::segment: return nb::make_tuple(type, f.outer.segment);
  }
  return nb::none();
}

std::vector<int> groups_of(const format_spec& f) {
  std::vector<int> groups;
  for (int level = 0; level < ufp4::detail::exponent_levels(f.block); ++level) groups.push_back(f.block.group[level]);
  return groups;
}

nb::tuple state_of(const format_spec& f) {
  if (is_known_by_name_only(f)) return nb::make_tuple(name_of(f));
  return nb::make_tuple(values_of(f), scale_names[static_cast<int>(f.scale)],
                        nb::make_tuple(f.block.rows, f.block.cols), f.has_tensor_scale(), static_cast<int>(f.byte));
}
format_spec format_of_state(const nb::tuple& state) {
  if (nb::len(state) == 1) return format_of("Format", state[0]);
  using parts = std::tuple<std::array<float, 16>, nb::object, std::tuple<int, int>, bool, int>;
  const auto [values, scale, block, tensor_scale, wide] = nb::cast<parts>(state);
  return make_format("Format", values, scale, block, tensor_scale, wide);
}

format_spec with_block(const format_spec& f, int rows, int cols) {
  expects(!is_known_by_name_only(f), "with_block: the blocks of ", text_of(f), " cannot have another shape, got ", rows,
          " x ", cols);
  format_spec out = f;
  out.block = {rows, cols};
  ufp4::detail::check_format("with_block", out);
  return out;
}

transform_spec make_hadamard(const char* operation, std::int64_t n) {
  transform_spec t{.n = n < 0 || n > 256 ? 3u : static_cast<std::uint32_t>(n)};
  expects(t.valid_length() && t.n != 1, operation, ": n must be 16, 32, 64, 128 or 256, got ", n);
  return t;
}
transform_spec make_random(const char* operation, std::int64_t n, std::uint64_t seed, bool to_bf16) {
  transform_spec t = transform_spec::random(make_hadamard(operation, n).n, seed);
  t.rounds_to_bf16 = to_bf16;
  return t;
}
transform_spec make_signed(const std::vector<int>& signs, bool to_bf16) {
  constexpr const char* operation = "signed_hadamard";
  transform_spec t = make_hadamard(operation, static_cast<std::int64_t>(signs.size()));
  for (std::size_t j = 0; j < signs.size(); ++j) {
    expects(signs[j] == 1 || signs[j] == -1, operation, ": signs must be +1 or -1, got ", signs[j]);
    if (signs[j] < 0) t.signs[j / 32] |= 1u << (j % 32);
  }
  t.rounds_to_bf16 = to_bf16;
  return t;
}
std::vector<int> signs_of(const transform_spec& t) {
  std::vector<int> signs;
  for (unsigned j = 0; t.n > 1 && j < t.n; ++j) signs.push_back(t.negative(j) ? -1 : 1);
  return signs;
}

shard shard_of(const char* operation, nb::handle given) {
  if (!nb::isinstance<nb::tuple>(given) || nb::len(given) != 3)
    reject(concat(operation, ": shard must be a tuple (first_row, first_col, total_cols), got ", argument_text(given)));
  std::size_t value[3] = {};
  for (std::size_t i = 0; i < 3; ++i)
    if (!nb::try_cast(nb::object(given[i]), value[i], false))
      reject(concat(operation, ": shard must be a tuple of three numbers that are not negative, got ",
                    argument_text(given)));
  return {value[0], value[1], value[2]};
}

void bind_format(nb::module_& m) {
  nb::class_<format_spec>(
      m, "Format",
      "A block format: the values of the sixteen codes, the type of the block scales, and the shape of a block.\n\n"
      "`formats()` lists the presets; `format(name)` is one of them. Formats are values: they can be compared,\n"
      "pickled and used as keys.")
      .def(
          "__init__",
          [](format_spec* self, const std::array<float, 16>& values, nb::handle scale,
             const std::tuple<int, int>& block,
             bool tensor_scale) { new (self) format_spec(make_format("Format", values, scale, block, tensor_scale)); },
          nb::arg("values"), nb::arg("scale") = "f32", nb::arg("block") = nb::make_tuple(1, 16),
          nb::arg("tensor_scale") = false,
          nb::sig("def __init__(self, values: collections.abc.Sequence[float], scale: str = 'f32', block: tuple[int, "
                  "int] = (1, 16), "
                  "tensor_scale: bool = False) -> None"),
          "A format of your own.\n\n"
          "values: sixteen finite numbers, one of them zero; the number that each code means.\n"
          "scale: 'f32', 'bf16', 'e4m3', 'ue5m3' or 'e8m0'.\n"
          "block: (rows, columns), powers of two; rows up to 128, columns from 2 to 256.\n"
          "tensor_scale: a float32 scale of the whole matrix besides; with e4m3 and ue5m3 only.\n"
          "ValueError: a value out of these ranges.")
      .def_prop_ro(
          "name", [](const format_spec& f) { return name_of(f); }, "The preset's name; '' for another format.")
      .def_prop_ro("values", &values_of, nb::sig("def values(self) -> list[float]"),
                   "The values of the codes 0 to 15, of 8-bit formats too; of several grids those of the first.")
      .def_prop_ro("grids", &grids_of, nb::sig("def grids(self) -> list[list[float]]"),
                   "The values of the codes 0 to 15 on each grid that a block may choose: one list, or several.")
      .def_prop_ro(
          "code_bits", [](const format_spec& f) { return f.has_bytes() ? 8 : 4; },
          "Bits of a code in memory: 4, or 8 for elements of one byte.")
      .def_prop_ro(
          "scale", [](const format_spec& f) { return scale_names[static_cast<int>(f.scale)]; },
          "The type of the block scales: 'f32', 'bf16', 'e4m3', 'ue5m3', 'e8m0' or 'e6m2'.")
      .def_prop_ro(
          "block", [](const format_spec& f) { return std::tuple(f.block.rows, f.block.cols); },
          "Rows and columns of a block. The columns extend along the contraction axis.")
      .def_prop_ro(
          "has_tensor_scale", [](const format_spec& f) { return f.has_tensor_scale(); },
          "Whether a float32 scale of the whole matrix multiplies the block scales.")
      .def_prop_ro(
          "outer_scale", &outer_of, nb::sig("def outer_scale(self) -> tuple[str, str | int] | None"),
          "The scales that multiply block scales: their type, and 'tensor', 'row' or the columns of a segment; "
          "None without.")
      .def_prop_ro("exponent_groups", &groups_of, nb::sig("def exponent_groups(self) -> list[int]"),
                   "The columns that share a one-bit exponent, level by level; empty without.")
      .def_prop_ro("bits", &bits_of, "Bits of an element with its share of what is stored for its block and segment.")
      .def("with_block", &with_block, nb::arg("rows"), nb::arg("cols"),
           "The same format with blocks of another shape, as 16 x 16 for weights.\n\n"
           "ValueError: a preset with several grids, outer scales of segments or one-bit exponents.")
      .def(
          "__eq__", [](const format_spec& a, const format_spec& b) { return a == b; }, nb::arg("other"),
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const format_spec& f) { return nb::hash(nb::str(text_of(f).c_str())); })
      .def("__repr__",
           [](const format_spec& f) { return name_of(f).empty() ? text_of(f) : "ufp4.format('" + name_of(f) + "')"; })
      .def("__getstate__", &state_of, nb::sig("def __getstate__(self) -> tuple[typing.Any, ...]"))
      .def(
          "__setstate__", [](format_spec& f, const nb::tuple& state) { new (&f) format_spec(format_of_state(state)); },
          nb::sig("def __setstate__(self, state: tuple[typing.Any, ...], /) -> None"));

  m.def(
      "formats",
      [] {
        std::vector<format_spec> all;
        const auto add = [&all](auto row) { all.push_back(row.spec); };
        detail::for_every_preset(add);
        return all;
      },
      "The preset formats: those of 4 bits, then those with elements of one byte.");
  m.def(
      "format", [](const nb::str& name) { return format_of("format", name); }, nb::arg("name"),
      "The preset of that name. ValueError, which lists the names, for any other.");
}

void bind_transform(nb::module_& m) {
  nb::class_<transform_spec>(
      m, "Transform",
      "A Hadamard transform of runs of n elements along the rows: signs, then the orthogonal matrix.\n\n"
      "Made by `hadamard`, `random_hadamard` and `signed_hadamard`. Both operands of a product need the same.")
      .def_prop_ro(
          "n", [](const transform_spec& t) { return t.n; }, "Length of a run; 1 for no transform.")
      .def_prop_ro("signs", &signs_of, "The n signs, +1 or -1; empty for no transform.")
      .def_prop_ro(
          "rounds_to_bf16", [](const transform_spec& t) { return t.rounds_to_bf16; },
          "Whether the result is rounded to bfloat16, as Transformer Engine does.")
      .def(
          "__eq__",
          [](const transform_spec& a, const transform_spec& b) {
            return same_map(a, b) && a.rounds_to_bf16 == b.rounds_to_bf16;
          },
          nb::arg("other"), nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const transform_spec& t) { return nb::hash(nb::str(text_of(t).c_str())); })
      .def("__repr__", [](const transform_spec& t) { return "<ufp4.Transform " + text_of(t) + ">"; })
      .def(
          "__getstate__", [](const transform_spec& t) { return nb::make_tuple(t.n, signs_of(t), t.rounds_to_bf16); },
          nb::sig("def __getstate__(self) -> tuple[typing.Any, ...]"))
      .def(
          "__setstate__",
          [](transform_spec& t, const std::tuple<std::uint32_t, std::vector<int>, bool>& s) {
            new (&t)
                transform_spec(std::get<0>(s) == 1 ? transform_spec{} : make_signed(std::get<1>(s), std::get<2>(s)));
          },
          nb::sig("def __setstate__(self, state: tuple[typing.Any, ...], /) -> None"));

  m.def(
      "hadamard",
      [](std::int64_t n, bool to_bf16) {
        transform_spec t = make_hadamard("hadamard", n);
        t.rounds_to_bf16 = to_bf16;
        return t;
      },
      nb::arg("n"), nb::kw_only(), nb::arg("to_bf16") = false,
      "The Hadamard transform of runs of n elements (16, 32, 64, 128 or 256), without signs.");
  m.def(
      "random_hadamard",
      [](std::int64_t n, std::uint64_t seed, bool to_bf16) { return make_random("random_hadamard", n, seed, to_bf16); },
      nb::arg("n"), nb::arg("seed") = 0, nb::kw_only(), nb::arg("to_bf16") = false,
      "The Hadamard transform of runs of n elements with random signs. Equal seeds give equal signs everywhere.");
  m.def("signed_hadamard", &make_signed, nb::arg("signs"), nb::kw_only(), nb::arg("to_bf16") = false,
        "The Hadamard transform of runs of len(signs) elements with these signs, each +1 or -1.");
}

/// Stochastic and Eden: a rounding that is a seed and a stream.
template <class Rounding>
void bind_random_rounding(nb::module_& m, const char* name, const char* doc) {
  nb::class_<Rounding>(m, name, doc)
      .def(
          "__init__",
          [](Rounding* self, std::uint64_t seed, std::uint64_t stream) {
            new (self) Rounding{.seed = seed, .stream = stream};
          },
          nb::arg("seed"), nb::arg("stream") = 0)
      .def_prop_ro(
          "seed", [](const Rounding& r) { return r.seed; }, "The key of the random bits.")
      .def_prop_ro(
          "stream", [](const Rounding& r) { return r.stream; }, "Distinguishes operands with the same seed.")
      .def(
          "__eq__", [](const Rounding& a, const Rounding& b) { return a.seed == b.seed && a.stream == b.stream; },
          nb::arg("other"), nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Rounding& r) { return nb::hash(nb::make_tuple(r.seed, r.stream)); })
      .def("__repr__",
           [name](const Rounding& r) { return concat("ufp4.", name, "(", r.seed, ", stream=", r.stream, ")"); })
      .def("__getstate__", [](const Rounding& r) { return std::tuple(r.seed, r.stream); })
      .def("__setstate__", [](Rounding& r, const std::tuple<std::uint64_t, std::uint64_t>& state) {
        new (&r) Rounding{.seed = std::get<0>(state), .stream = std::get<1>(state)};
      });
}

void bind_random_roundings(nb::module_& m) {
  bind_random_rounding<stochastic>(
      m, "Stochastic",
      "Stochastic rounding: to one of the two neighbours, with the probability that makes the mean right.\n\n"
      "The random bits depend on seed, stream and the place of the element only, so the result is the same on\n"
      "every machine. Two operands of a product need different streams or seeds.");
  bind_random_rounding<eden>(
      m, "Eden",
      "Nearest codes, and scales that make the gain 1: a rounding for every format with blocks of one row,\n"
      "after a transform of at least the block's length. Two operands of a product need different streams or seeds.");
}

}  // namespace

std::string list_of(std::span<const char* const> names) {
  std::string all;
  for (const char* name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

std::size_t chosen(const char* operation, const char* argument, nb::handle value, std::span<const char* const> names) {
  const std::string name = nb::cast<std::string>(nb::str(value));
  for (std::size_t i = 0; i < names.size(); ++i)
    if (name == names[i]) return i;
  reject(concat(operation, ": unknown ", argument, ": ", name, "; it is one of ", list_of(names)));
}

std::string name_of(const format_spec& format) { return std::string(detail::preset_name(format)); }

std::string text_of(const format_spec& f) {
  if (const std::string name = name_of(f); !name.empty()) return name;
  std::string values;
  for (const float v : values_of(f)) values += concat(values.empty() ? "" : ", ", v);
  constexpr const char* wide_names[] = {"", "int8", "fp8_e4m3", "fp8_e5m2", "fp6_e3m2", "fp6_e2m3"};
  if (f.has_bytes()) values += concat(", ... as ", wide_names[static_cast<int>(f.byte)]);
  return concat("ufp4.Format([", values, "], '", scale_names[static_cast<int>(f.scale)], "', (", f.block.rows, ", ",
                f.block.cols, "), ", f.has_tensor_scale() ? "True" : "False", ")");
}

std::string text_of(const transform_spec& t) {
  if (t.n == 1) return "none";
  std::string signs;
  for (const int s : signs_of(t)) signs += s < 0 ? '-' : '+';
  return concat("hadamard<", t.n, "> ", signs, t.rounds_to_bf16 ? " to bf16" : "");
}

format_spec format_of(const char* operation, nb::handle format) {
  if (nb::isinstance<format_spec>(format)) return nb::cast<const format_spec&>(format);
  if (!nb::isinstance<nb::str>(format))
    reject(concat(operation, ": format must be a name or a Format, got ", nb::cast<std::string>(nb::repr(format))));
  const auto name = nb::cast<std::string>(format);
  const format_spec* const found = detail::find_preset(name);
  expects(found != nullptr, operation, ": unknown format: ", name, "; the presets are ", detail::preset_names());
  return *found;
}

transform_spec transform_of(const char* operation, nb::handle rht) {
  if (rht.is_none()) return {};
  if (nb::isinstance<transform_spec>(rht)) return nb::cast<const transform_spec&>(rht);
  std::int64_t n = 0;
  if (!nb::try_cast(rht, n, false))
    reject(concat(operation, ": rht must be a length or a Transform, got ", nb::cast<std::string>(nb::repr(rht))));
  return n == 0 ? transform_spec{} : make_random(concat(operation, ": rht").c_str(), n, 0, false);
}

rounding_spec rounding_of(const char* operation, nb::handle rounding) {
  if (rounding.is_none()) return {};
  if (nb::isinstance<stochastic>(rounding)) return nb::cast<const stochastic&>(rounding);
  if (nb::isinstance<eden>(rounding)) return nb::cast<const eden&>(rounding);
  const std::string name = nb::cast<std::string>(nb::str(rounding));
  for (int i = 0; i < 3; ++i)
    if (name == rounding_names[i]) {
      rounding_spec out;
      out.what = static_cast<rounding_spec::kind>(i);
      return out;
    }
  reject(concat(operation, ": unknown rounding: ", name, "; it is ufp4.Stochastic(seed), ufp4.Eden(seed) or one of ",
                list_of(rounding_names)));
}

detail::quantize_options<> options_of(const char* operation, const policies& given) {
  detail::quantize_options<> out;
  out.transform = transform_of(operation, given.rht);
  out.rounding = rounding_of(operation, given.rounding);
  out.rule = rule_of(operation, given.rule);
  add_search(operation, given.search, out.rule);
  out.rule.grids = grid_error_of(operation, given.choose_grid);
  if (!given.tensor_amax.is_none()) {
    out.has_amax = true;
    if (!nb::try_cast(given.tensor_amax, out.global_amax))
      reject(concat(operation, ": tensor_amax must be a number, got ",
                    nb::cast<std::string>(nb::repr(given.tensor_amax))));
  }
  if (!given.shard.is_none()) {
    out.has_shard = true;
    out.place = shard_of(operation, given.shard);
  }
  return out;
}

accumulate accumulate_of(const char* operation, nb::handle mode) {
  return static_cast<accumulate>(chosen(operation, "accumulate", mode, accumulate_names));
}

void bind_formats(nb::module_& m) {
  bind_format(m);
  bind_transform(m);
  bind_random_roundings(m);
}

}  // namespace ufp4::python
