// ufp4 - a matrix from text files: one document per row, hashed trigram counts, TF-IDF.
// SPDX-License-Identifier: Apache-2.0
/// The default documents are the headers of the C++ standard library, which exist on every machine that built this.
///
/// | trigram  | three consecutive bytes, letters lowered, a run of white space counted as one blank  |
/// | column   | the trigram's multiplicative hash, one of 1024                                       |
/// | value    | count * (1 + ln((1 + N) / (1 + documents with that column))), each row of length 1   |
/// | order    | by path inside the given directory; a file equal to an earlier one is left out       |
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../common/text_files.hpp"
#include "matrix.hpp"

namespace compare {

inline constexpr std::size_t corpus_columns = 1024;

namespace detail {

/// 24 bits of trigram to 10 bits: the upper bits of a product with 2^32 / golden ratio.
inline std::size_t trigram_column(std::uint32_t trigram) { return (trigram * 0x9E3779B9u) >> 22; }

inline std::array<float, corpus_columns> count_trigrams(std::string_view text) {
  std::array<float, corpus_columns> counts{};
  std::uint32_t trigram = 0;
  std::size_t letters = 0;
  for (char c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == ' ' && (trigram & 0xFF) == ' ') continue;
    trigram = (trigram << 8 | static_cast<unsigned char>(c)) & 0xFFFFFF;
    if (++letters >= 3) ++counts[trigram_column(trigram)];
  }
  return counts;
}

/// Replaces counts by TF-IDF with rows of length 1.
inline void weigh(matrix& counts) {
  std::vector<double> weight(counts.cols);
  for (std::size_t k = 0; k < counts.cols; ++k) {
    std::size_t documents = 0;
    for (std::size_t i = 0; i < counts.rows; ++i) documents += counts.values[i * counts.cols + k] > 0;
    weight[k] = 1 + std::log((1.0 + static_cast<double>(counts.rows)) / (1.0 + static_cast<double>(documents)));
  }
  for (std::size_t i = 0; i < counts.rows; ++i) {
    float* const row = counts.values.data() + i * counts.cols;
    double squares = 0;
    for (std::size_t k = 0; k < counts.cols; ++k) squares += row[k] * weight[k] * (row[k] * weight[k]);
    if (squares == 0) continue;  // a text of white space only
    for (std::size_t k = 0; k < counts.cols; ++k) row[k] = static_cast<float>(row[k] * weight[k] / std::sqrt(squares));
  }
}

}  // namespace detail

/// At most `row_limit` documents (0: all), evenly spaced, out of the files at and under `places`.
inline matrix read_corpus(const std::vector<std::string>& places, std::size_t row_limit) {
  std::vector<std::string> texts;
  std::unordered_set<std::string> seen;
  for (const std::string& place : places) {
    const auto files = common::files_under(place);
    if (files.empty()) throw input_error(printable(place) + ": has no file that can be read");
    for (const auto& file : files) {
      std::string text = common::read_text(file);
      if (text.size() >= 256 && seen.insert(text).second)
        texts.push_back(std::move(text));  // shorter files are left out
    }
  }
  std::string where = printable(places.front());
  if (places.size() > 1) where += " and " + std::to_string(places.size() - 1) + " more";
  if (texts.size() < 2) throw input_error(where + ": compare needs at least two different texts of 256 bytes or more");

  matrix m;
  m.rows = rows_used(texts.size(), row_limit);
  m.cols = corpus_columns;
  m.source = (m.rows == texts.size() ? grouped(m.rows) : grouped(m.rows) + " of " + grouped(texts.size())) +
             " files under " + where + ", TF-IDF of hashed trigrams";
  for (std::size_t i = 0; i < m.rows; ++i) {
    const auto counts = detail::count_trigrams(texts[spaced_row(i, m.rows, texts.size())]);
    m.values.insert(m.values.end(), counts.begin(), counts.end());
  }
  detail::weigh(m);
  require_some_value(m);
  return m;
}

/// The default: the standard library's headers.
inline matrix read_standard_headers(std::size_t row_limit) {
  const auto directories = common::standard_header_directories();
  if (directories.empty())
    throw input_error(
        "no C++ standard headers were found on this machine; give text with --text DIR, or a matrix with --npy or "
        "--safetensors");
  return read_corpus(directories, row_limit);
}

}  // namespace compare
