// ufp4 - small .npy and .safetensors files for tests, well-formed and malformed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace support {

/// A temporary directory of this process, which is removed when the process ends.
class scratch_directory {
 public:
  scratch_directory() : path_(std::filesystem::temp_directory_path() / ("ufp4-files-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;
  ~scratch_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline const scratch_directory& scratch() {
  static const scratch_directory directory;
  return directory;
}

/// The path of a file with these bytes. Eight names are used cyclically, so that thousands of calls leave eight files.
inline std::string file_with(const std::string& bytes) {
  static unsigned calls = 0;
  const std::string path = scratch() / ("file" + std::to_string(calls++ % 8));
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

inline std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

inline std::string floats(const std::vector<float>& values) {
  std::string out;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    out += little_endian(bits, 4);
  }
  return out;
}

/// Little-endian 16-bit numbers.
inline std::string words(std::initializer_list<unsigned> codes) {
  std::string bytes;
  for (const unsigned code : codes) bytes += little_endian(code, 2);
  return bytes;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A few bytes of a file changed, lost or doubled.
inline std::string damaged(std::string bytes, std::mt19937_64& random) {
  for (auto damage = random() % 4 + 1; damage > 0 && !bytes.empty(); --damage) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes.erase(at, random() % 9); break;
      case 2: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 9)); break;
      default: bytes[at] = "0123456789{}[]()\"':,\\"[random() % 21];
    }
  }
  return bytes;
}

/// Everything before the data of a .npy file.
inline std::string npy_header(const std::string& dictionary, int version = 1) {
  std::string text = dictionary;
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  while ((8 + length_bytes + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  return "\x93NUMPY" + std::string{static_cast<char>(version), '\0'} + little_endian(text.size(), length_bytes) + text;
}

inline std::string npy(const std::string& descr, bool fortran, const std::string& shape, const std::string& data,
                       int version = 1) {
  return npy_header("{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
                        ", 'shape': " + shape + ", }",
                    version) +
         data;
}

inline std::string safetensors(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

}  // namespace support
