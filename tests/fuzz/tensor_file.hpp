// ufp4 - common part of the fuzz targets of file readers: an input as a file, and every call of a reader.
// SPDX-License-Identifier: Apache-2.0
//
// For any bytes, a reader gives tensors inside the file, which can be read to their last byte, or throws a file_error
// whose message names the file. It throws nothing else, and allocates no more than the file's size requires.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <ufp4/interop/quantized_weight.hpp>
#include <ufp4/interop/tensor_file.hpp>

#include "input.hpp"

namespace fuzz {

/// A file of this process, rewritten for each input.
inline const std::string& scratch_file() {
  struct file {
    std::string path = (std::filesystem::temp_directory_path() / ("ufp4_fuzz_" + std::to_string(getpid()))).string();
    ~file() {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  };
  static const file f;
  return f.path;
}

inline void write_input(const std::uint8_t* data, std::size_t size) {
  std::ofstream out(scratch_file(), std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
}

/// Runs f, which may throw a file_error that names the file; returns false if it did.
template <class F>
bool may_reject(const F& f) {
  try {
    f();
    return true;
  } catch (const ufp4::interop::file_error& error) {
    const std::string message = error.what();
    require(message.find(scratch_file()) != std::string::npos, "a message without the file's name: " + message);
    bool printable = ufp4::interop::is_utf8(message);
    for (const char c : message) printable = printable && static_cast<unsigned char>(c) >= ' ' && c != '\x7F';
    require(printable, "a message that cannot be printed: " + message);
    return false;
  }
}

constexpr std::uint64_t most_elements = 1 << 16;

/// A matrix of plain numbers as float, and by halves.
template <class Reader>
void read_matrix(Reader& file, const ufp4::interop::stored_tensor& t) {
  const std::size_t rows = t.shape[0], cols = t.shape[1];
  std::vector<float> all(rows * cols), half(all.size() / rows * ((rows + 1) / 2));
  file.read_rows(t, 0, ufp4::matrix_view<float>(all.data(), rows, cols));
  const std::size_t first = rows / 2;
  file.read_rows(t, first, ufp4::matrix_view<float>(half.data(), rows - first, cols));
  require(std::memcmp(half.data(), all.data() + first * cols, half.size() * sizeof(float)) == 0, "halves differ");
}

/// The weight of that name in format F and in the format that the file states.
template <class F, class Reader>
void read_weight(Reader& file, const std::string& name, std::size_t size) {
  may_reject([&] {
    const auto q = ufp4::interop::read_quantized<F>(file, name);
    require(q.codes().size() <= size, "more codes than the file has");
  });
  may_reject([&] {
    const auto q = ufp4::interop::read_quantized(file, name);
    require(q.codes().size() <= size, "more codes than the file has");
  });
}

/// The slices of the weight of that name, and its first rows.
template <class Reader>
void read_slices(Reader& file, const std::string& name, std::size_t size) {
  may_reject([&] {
    const ufp4::interop::stored_weight weight = ufp4::interop::find_weight(file, name);
    for (std::size_t i = 0; i < weight.parts() && i < 4; ++i) {
      const auto slice = ufp4::interop::read_part(file, weight, i);
      require(slice.codes().size() <= size, "more codes than the file has");
    }
  });
}

/// Every tensor of a reader.
template <class Reader>
void read_all(Reader& file, std::size_t size) {
  for (const ufp4::interop::stored_tensor& t : file.tensors()) {
    if (t.type == ufp4::interop::number_type::other) continue;
    if (t.bytes != 0) require(t.offset <= size && t.bytes <= size - t.offset, "a tensor outside the file");
    std::vector<unsigned char> bytes(static_cast<std::size_t>(t.bytes));
    file.read_bytes(t, 0, bytes.data(), bytes.size());
    if (!may_reject([&] { file.check_matrix(t); })) continue;
    require(t.shape.size() == 2, "check_matrix accepted another shape");
    if (t.shape[0] <= most_elements && t.shape[1] <= most_elements / t.shape[0]) read_matrix(file, t);
  }
}

}  // namespace fuzz
