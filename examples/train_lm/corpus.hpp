// ufp4 - the text a model learns from: files in, a training stream and a validation stream of bytes out.
// SPDX-License-Identifier: Apache-2.0
/// | documents  | the files given and those in the folders given, each content once; a zero byte ends each   |
/// | validation | whole files, about a tenth of the bytes, chosen by a hash of their paths in the folder. Where |
/// |            | files are too few or too unequal in size, the last tenth of each                             |
/// | batches    | windows whose offsets depend on data seed, step and row only: every recipe has the same data  |
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <ufp4/round/philox.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../common/text_files.hpp"
#include "../compare/text.hpp"
#include "errors.hpp"
#include "fingerprint.hpp"
#include "model.hpp"

namespace train_lm {

struct corpus {
  std::string source;  ///< printable: the number of files and the folder
  std::size_t files = 0;
  std::vector<std::uint8_t> train, validation;

  /// Of both streams. A run cannot be resumed on another text.
  std::string hash() const {
    return fingerprint{}.add(train.data(), train.size()).add(validation.data(), validation.size()).text();
  }
};

namespace detail {

struct document {
  std::uint64_t order;  ///< a hash of its path relative to the folder given
  std::string text;
};

inline std::vector<document> read_documents(const std::vector<std::string>& places) {
  std::vector<document> documents;
  std::unordered_set<std::string> seen;
  for (const std::string& place : places) {
    const auto files = common::files_under(place);
    if (files.empty()) throw file_error(compare::printable(place) + ": no readable file");
    for (const auto& file : files) {
      const std::string name = file.lexically_relative(place).generic_string();
      std::string text = common::read_text(file, std::numeric_limits<std::size_t>::max());
      if (text.empty() && files.size() == 1)
        throw file_error(compare::printable(file.string()) + ": the file is empty or cannot be read");
      if (!text.empty() && seen.insert(text).second)
        documents.push_back(
            {fingerprint{}.add(name == "." ? file.filename().string() : name).value(), std::move(text)});
    }
  }
  if (documents.empty()) throw file_error(compare::printable(places.front()) + ": all files are empty");
  return documents;
}

inline void append(std::vector<std::uint8_t>& stream, std::string_view text) {
  stream.insert(stream.end(), text.begin(), text.end());
  stream.push_back(0);
}

/// The documents for validation: in hash order, those that fit into a tenth of all bytes.
inline std::vector<bool> choose_validation(const std::vector<document>& documents) {
  std::vector<std::size_t> order(documents.size());
  std::size_t all = 0, taken = 0;
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i, all += documents[i].text.size();
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(documents[a].order, a) < std::pair(documents[b].order, b);
  });
  std::vector<bool> validates(documents.size());
  for (const std::size_t i : order) {
    if (taken + documents[i].text.size() > all / 10) continue;
    validates[i] = true;
    taken += documents[i].text.size();
  }
  if (taken < all / 20) validates.assign(documents.size(), false);
  return validates;
}

}  // namespace detail

/// Throws file_error unless both streams have at least one window of `sequence` bytes and its last target.
inline corpus read_corpus(const std::vector<std::string>& places, std::size_t sequence) {
  const auto documents = detail::read_documents(places);
  const auto validates = detail::choose_validation(documents);
  const bool by_file = std::find(validates.begin(), validates.end(), true) != validates.end();
  corpus c;
  c.files = documents.size();
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string_view text = documents[i].text;
    if (by_file) {
      detail::append(validates[i] ? c.validation : c.train, text);
      continue;
    }
    const std::size_t kept = text.size() - text.size() / 10;
    detail::append(c.train, text.substr(0, kept));
    if (kept < text.size()) detail::append(c.validation, text.substr(kept));
  }
  std::string where = compare::printable(places.front());
  if (places.size() > 1) where += " and " + std::to_string(places.size() - 1) + " more";
  if (std::min(c.train.size(), c.validation.size()) <= sequence)
    throw file_error(where + ": too short: " + compare::grouped(c.train.size()) + " bytes for training and " +
                     compare::grouped(c.validation.size()) + " for validation; --sequence " + std::to_string(sequence) +
                     " needs " + std::to_string(sequence + 1) + " each");
  c.source = compare::grouped(documents.size()) + (documents.size() == 1 ? " file at " : " files at ") + where;
  return c;
}

/// The default: the C++ standard library's headers.
inline corpus read_standard_headers(std::size_t sequence) {
  const auto directories = common::standard_header_directories();
  if (directories.empty())
    throw file_error("--text: no C++ standard headers found on this machine; give a file or folder");
  return read_corpus(directories, sequence);
}

namespace detail {

inline void append_window(std::vector<std::uint8_t>& bytes, const std::vector<std::uint8_t>& stream, std::size_t offset,
                          std::size_t sequence) {
  const auto begin = stream.begin() + static_cast<std::ptrdiff_t>(offset);
  bytes.insert(bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(sequence + 1));
}

}  // namespace detail

/// The offset of row `row` of step `step`, below `places`: the upper half of 64 random bits times `places`. The bias is
/// below 2^-32 for streams of up to 4 GiB. The counter's last word is "DATA" in ASCII.
inline std::size_t window_offset(std::size_t places, std::uint64_t data_seed, std::uint64_t step, std::uint32_t row) {
  const ufp4::detail::philox_counter r = ufp4::philox4x32(
      {{static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), row, 0x44415441u}}, data_seed);
  const std::uint64_t low = std::uint64_t{r.word[0]} * places >> 32;  // places < 2^32
  return static_cast<std::size_t>((std::uint64_t{r.word[1]} * places + low) >> 32);
}

/// A rank's part of a batch of `sequences` windows: `here` of `microbatches` equal parts, from part `first` on.
struct batch_share {
  index sequences, microbatches, first, here;
};

inline token_batch training_batch(const corpus& c, index sequence, const batch_share& share, std::uint64_t data_seed,
                                  std::uint64_t step) {
  const index rows = share.sequences / share.microbatches;
  token_batch batch{rows * share.here, sequence, share.here, share.microbatches, {}};
  const auto length = static_cast<std::size_t>(sequence);
  for (index row = rows * share.first; row < rows * (share.first + share.here); ++row)
    detail::append_window(batch.bytes, c.train,
                          window_offset(c.train.size() - length, data_seed, step, static_cast<std::uint32_t>(row)),
                          length);
  return batch;
}

/// At most `windows` windows that do not overlap, evenly spaced over the validation stream, in batches of at most
/// `at_once` windows. Each batch is one microbatch.
inline std::vector<token_batch> validation_batches(const corpus& c, index sequence, std::size_t windows,
                                                   std::size_t at_once) {
  const auto length = static_cast<std::size_t>(sequence);
  const std::size_t places = (c.validation.size() - 1) / length, used = std::min(places, windows);
  std::vector<token_batch> batches;
  for (std::size_t i = 0; i < used; ++i) {
    if (i % at_once == 0) batches.push_back({0, sequence, 1, 1, {}});
    detail::append_window(batches.back().bytes, c.validation, i * places / used * length, length);
    ++batches.back().sequences;
  }
  return batches;
}

}  // namespace train_lm
