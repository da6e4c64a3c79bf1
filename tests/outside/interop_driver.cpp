// ufp4 - writes files for other projects' readers, and reads theirs, for interop_check.py.
// SPDX-License-Identifier: Apache-2.0
//
// usage: interop_driver write FOLDER          every kind of file, and beside each tensor its values as NAME.f32
//        interop_driver read KIND FILE NAME   the values as float32 on standard output
//
// KIND: npy; safetensors, gguf (plain numbers); safetensors/nvfp4, safetensors/mxfp4; gguf/nvfp4, gguf/ggml_nvfp4,
// gguf/mxfp4; gguf/values (Q4_0, Q4_1, Q4_K, IQ4_NL); safetensors/slices, gguf/slices (a weight of any format and
// shape, as it is stored); int4/awq, int4/gptq, int4/gptq_v2.
#include <ufp4/interop/gguf.hpp>
#include <ufp4/interop/gguf_values.hpp>
#include <ufp4/interop/int4_groups.hpp>
#include <ufp4/interop/npy.hpp>
#include <ufp4/interop/safetensors.hpp>
#include <ufp4/ufp4.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../examples/ufp4/quantize_model.hpp"

namespace {

using namespace ufp4;
using interop::tensor_layout;

struct matrix {
  std::size_t rows, cols;
  std::vector<float> values;
  matrix(std::size_t r, std::size_t c) : rows(r), cols(c), values(r * c) {}
  matrix_view<const float> view() const { return {values.data(), rows, cols}; }
  matrix_view<float> view() { return {values.data(), rows, cols}; }
};

/// Magnitudes over eight powers of two, every sign, some zeros.
matrix example(std::size_t rows, std::size_t cols) {
  matrix m(rows, cols);
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    const auto mixed = static_cast<std::uint32_t>(i * 2654435761u);
    m.values[i] =
        std::ldexp(static_cast<float>(static_cast<int>(mixed >> 20) - 2048), static_cast<int>(mixed >> 8 & 7u) - 12);
  }
  return m;
}

template <class T>
std::vector<T> rounded(const matrix& m) {
  std::vector<T> values;
  for (const float v : m.values) values.push_back(ufp4::detail::round_to<T>(v));
  return values;
}

class folder {
 public:
  explicit folder(std::string path) : path_(std::move(path)) {}
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  void expect(const std::string& name, const std::vector<float>& values) const {
    std::ofstream file(*this / (name + ".f32"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    if (!file) throw std::runtime_error(name + ".f32 could not be written");
  }
  template <ufp4::detail::quantized Q>
  void expect(const std::string& name, const Q& q) const {
    matrix m(q.rows(), q.cols());
    dequantize(q, m.view());
    expect(name, m.values);
  }

 private:
  std::string path_;
};

void write_npy_files(const folder& to, const matrix& m, const std::vector<fp16>& halves,
                     const std::vector<bf16>& brains) {
  interop::write_npy(to / "f32.npy", interop::source_of(m.view()));
  interop::write_npy(to / "f16.npy", interop::source_of(matrix_view<const fp16>(halves.data(), m.rows, m.cols)));
  interop::write_npy(to / "bf16.npy", interop::source_of(matrix_view<const bf16>(brains.data(), m.rows, m.cols)));
  const auto q = quantize<nvfp4>(m.view());
  interop::write_npy(to / "codes.npy", interop::codes_of(q));
}

void write_safetensors_files(const folder& to, const matrix& m, const std::vector<fp16>& halves,
                             const std::vector<bf16>& brains) {
  interop::safetensors_writer plain;
  const std::uint8_t odd[3] = {1, 2, 255};
  plain.add("odd", interop::source_of(interop::number_type::u8, {3}, odd));
  plain.add("f32", interop::source_of(m.view()));
  plain.add("f16", interop::source_of(matrix_view<const fp16>(halves.data(), m.rows, m.cols)));
  plain.add("bf16 \"quoted\"\n", interop::source_of(matrix_view<const bf16>(brains.data(), m.rows, m.cols)));
  plain.set_metadata("made", "by\n\"hand\"");
  plain.write(to / "plain.safetensors");

  const auto nv = quantize<nvfp4>(m.view());
  const auto mx = quantize<mxfp4>(m.view());
  const matrix ragged = example(5, 41);
  const auto own = quantize<e1m2_f32>(ragged.view());
  const auto square_blocks = quantize<block_format<int4, e8m0, square(16)>>(ragged.view());
  interop::safetensors_writer out;
  interop::add_quantized(out, "nv.weight", nv);
  interop::add_quantized(out, "nv_modelopt.weight", nv, tensor_layout::modelopt);
  interop::add_quantized(out, "mx.weight", mx);
  interop::add_quantized(out, "own.weight", own);
  interop::add_quantized(out, "square.weight", square_blocks);
  out.write(to / "quantized.safetensors");
  interop::safetensors_writer f4;
  interop::add_quantized(f4, "nv_f4.weight", nv, tensor_layout::f4);
  interop::add_quantized(f4, "mx_f4.weight", mx, tensor_layout::f4);
  interop::add_quantized(f4, "mx_pair", mx, tensor_layout::gpt_oss);
  f4.write(to / "f4.safetensors");
  to.expect("nv", nv);
  to.expect("mx", mx);
  to.expect("own", own);
  to.expect("square", square_blocks);
}

void write_gguf_file(const folder& to, const matrix& m, const std::vector<bf16>& brains) {
  const auto nv = quantize<nvfp4>(m.view());
  const auto one_level = quantize<compat::ggml_nvfp4>(m.view());
  const auto mx = quantize<compat::ggml_mxfp4>(m.view());
  interop::gguf_writer out;
  out.set_string("general.architecture", "llama");
  out.set_string("general.name", "h\xC3\xA9");
  interop::add_quantized(out, "nv.weight", nv);
  interop::add_quantized(out, "one_level.weight", one_level);
  interop::add_quantized(out, "mx.weight", mx);
  out.add("f32.weight", interop::source_of(m.view()));
  out.add("bf16.weight", interop::source_of(matrix_view<const bf16>(brains.data(), m.rows, m.cols)));
  out.write(to / "all.gguf");
  to.expect("one_level", one_level);
  to.expect("ggml_mx", mx);
}

/// What `ufp4 quantize` makes of f32.npy.
void write_tool_files(const folder& to) {
  tool::tensor_input in(to / "f32.npy");
  for (const char* name : {"tool.safetensors", "tool.gguf"}) {
    tool::quantize_request request;
    request.output = to / name;
    request.format = "nvfp4";
    request.spec = spec_of<nvfp4>;
    request.with.chunk = 400;  // two rows
    tool::quantize_file(in, request);
  }
}

/// The folder of a model in two files, and what `ufp4 quantize` makes of it in nvfp4, mxfp4 and for GPT-OSS.
void write_models(const folder& to) {
  const matrix m = example(6, 192);
  const std::string from = to / "model";
  std::filesystem::create_directories(from);
  for (const std::string layer : {"0", "1"}) {
    interop::safetensors_writer out;
    out.add("layers." + layer + ".up.weight", interop::source_of(m.view()));
    out.add("layers." + layer + ".gate.weight", interop::source_of(m.view()));
    out.write(from + "/part" + layer + ".safetensors");
  }
  std::ofstream(from + "/config.json") << R"({"architectures": ["Llama"]})";
  for (const char* name : {"nvfp4", "mxfp4", "gpt_oss"}) {
    tool::conversion_command<tool::quantize_request> c;
    c.input = from;
    c.request.output = to / name;
    c.request.format = name == std::string("nvfp4") ? "nvfp4" : "mxfp4";
    c.request.spec = preset(c.request.format);
    c.request.skipped = {"*.gate.weight"};
    if (name == std::string("gpt_oss")) c.request.layout = tensor_layout::gpt_oss;
    std::ostringstream text;
    tool::run_model(c, tool::quantize_method(), text, text);
  }
}

void write_all(const std::string& path) {
  const folder to(path);
  const matrix m = example(6, 192);
  const auto halves = rounded<fp16>(m);
  const auto brains = rounded<bf16>(m);
  to.expect("f32", m.values);
  write_npy_files(to, m, halves, brains);
  write_safetensors_files(to, m, halves, brains);
  write_gguf_file(to, m, brains);
  write_tool_files(to);
  write_models(to);
}

std::vector<float> plain(interop::tensor_file& file, const interop::stored_tensor& t) {
  file.check_matrix(t);
  matrix m(t.shape[0], t.shape[1]);
  file.read_rows(t, 0, m.view());
  return m.values;
}

template <class Format, class Reader>
std::vector<float> dequantized(const std::string& path, const std::string& name) {
  Reader file(path);
  const auto q = interop::read_quantized<Format>(file, name);
  matrix m(q.rows(), q.cols());
  dequantize(q, m.view());
  return m.values;
}

template <class Reader>
std::vector<float> slices(const std::string& path, const std::string& name) {
  Reader file(path);
  const interop::stored_weight weight = interop::find_weight(file, name);
  matrix m(weight.rows, weight.cols);
  for (std::size_t i = 0; i < weight.parts(); ++i)
    dequantize(interop::read_part(file, weight, i), row_range(m.view(), i * weight.part_rows(), weight.part_rows()));
  return m.values;
}

std::vector<float> ggml_values(const std::string& path, const std::string& name) {
  interop::gguf_reader file(path);
  const interop::stored_tensor& t = file.at(name);
  matrix m(static_cast<std::size_t>(interop::row_count(t.shape).value()), static_cast<std::size_t>(t.shape.back()));
  interop::read_ggml_values(file, t, 0, m.view());
  return m.values;
}

std::vector<float> int4(const std::string& path, const std::string& name, interop::int4_layout gptq) {
  interop::safetensors_reader file(path);
  const auto weight = interop::read_int4_groups(file, name, interop::int4_layout_of(file, name, gptq));
  matrix m(weight.rows, weight.cols);
  interop::dequantize(weight, m.view());
  return m.values;
}

std::vector<float> read(const std::string& kind, const std::string& path, const std::string& name) {
  if (kind == "npy") {
    interop::npy_reader file(path);
    return plain(file, file.array());
  }
  if (kind == "safetensors") {
    interop::safetensors_reader file(path);
    return plain(file, file.at(name));
  }
  if (kind == "gguf") {
    interop::gguf_reader file(path);
    return plain(file, file.at(name));
  }
  if (kind == "safetensors/nvfp4") return dequantized<nvfp4, interop::safetensors_reader>(path, name);
  if (kind == "safetensors/mxfp4") return dequantized<mxfp4, interop::safetensors_reader>(path, name);
  if (kind == "gguf/nvfp4") return dequantized<nvfp4, interop::gguf_reader>(path, name);
  if (kind == "gguf/ggml_nvfp4") return dequantized<interop::ggml_nvfp4, interop::gguf_reader>(path, name);
  if (kind == "gguf/mxfp4") return dequantized<mxfp4, interop::gguf_reader>(path, name);
  if (kind == "gguf/values") return ggml_values(path, name);
  if (kind == "safetensors/slices") return slices<interop::safetensors_reader>(path, name);
  if (kind == "gguf/slices") return slices<interop::gguf_reader>(path, name);
  if (kind == "int4/awq" || kind == "int4/gptq") return int4(path, name, interop::int4_layout::gptq);
  if (kind == "int4/gptq_v2") return int4(path, name, interop::int4_layout::gptq_v2);
  throw std::invalid_argument("'" + kind + "' is no kind of file");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 2 && words[0] == "write") {
      write_all(words[1]);
      return 0;
    }
    if (words.size() == 4 && words[0] == "read") {
      const auto values = read(words[1], words[2], words[3]);
      const bool whole = std::fwrite(values.data(), sizeof(float), values.size(), stdout) == values.size();
      return whole && std::fflush(stdout) == 0 ? 0 : 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "interop_driver: %s\n", error.what());
    return 1;
  }
  std::fputs("usage: interop_driver write FOLDER | read KIND FILE NAME\n", stderr);
  return 2;
}
