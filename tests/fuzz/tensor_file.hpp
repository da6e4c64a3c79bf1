// ufp4 - what the fuzz targets of file readers share: an input as a file, and everything that can be asked of a reader.
// SPDX-License-Identifier: Apache-2.0
//
// Whatever the bytes are, a reader gives tensors that lie in the file, or a file_error whose message names the file;
// what it gives can be read to its last byte. Nothing else is thrown,
// and nothing is allocated that the file does not hold.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <ufp4/interop/tensor_file.hpp>

#include "input.hpp"

namespace fuzz {

/// A file of this process's own; written anew for each input.
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

/// f, which may throw a file_error that names the file; says whether it did not.
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

/// Every tensor of a reader.
template <class Reader>
void read_all(Reader& file, std::size_t size) {
  for (const ufp4::interop::stored_tensor& t : file.tensors()) {
    if (t.type == ufp4::interop::number_type::other) continue;
    if (t.bytes != 0) require(t.offset <= size && t.bytes <= size - t.offset, "a tensor outside the file");
    std::vector<unsigned char> bytes(static_cast<std::size_t>(t.bytes));
    file.read_bytes(t, 0, bytes.data(), bytes.size());
    if (!may_reject([&] { file.check_matrix(t); })) continue;
    require(t.shape.size() == 2, "a matrix that is none");
    if (t.shape[0] <= most_elements && t.shape[1] <= most_elements / t.shape[0]) read_matrix(file, t);
  }
}

}  // namespace fuzz
