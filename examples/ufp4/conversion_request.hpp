// ufp4 - what quantize and dequantize have in common: the request, and its progress.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <ufp4/interop/text.hpp>
#include <vector>

namespace tool {

/// What the command line asks for.
struct conversion_request {
  std::string output;                        ///< its ending decides the kind of file; .safetensors is the default
  std::vector<std::string> chosen, skipped;  ///< patterns; an empty `chosen` is every tensor
  bool dry_run = false;                      ///< report the sizes and write nothing
  bool part_of_model = false;  ///< one of several files: patterns need not match, nor tensors be converted
  /// Called with one of the tensors, what is done, and the part of it that is done; may throw to stop.
  std::function<void(std::size_t at, std::size_t of, const std::string& what, double part)> progress;

  bool to_npy() const { return output.ends_with(".npy"); }
  bool to_gguf() const { return output.ends_with(".gguf"); }
};

/// Calls the request's progress function with one of `of` tensors and, where there are any, its rows.
class tensor_progress {
 public:
  tensor_progress(const conversion_request& request, std::size_t at, std::size_t of, const std::string& name)
      : request_(&request), at_(at), of_(of), name_(ufp4::interop::printable(name)) {}

  void operator()() const {
    if (request_->progress) request_->progress(at_ + 1, of_, name_, 0);
  }
  void operator()(std::uint64_t row, std::uint64_t rows) const {
    if (request_->progress)
      request_->progress(at_ + 1, of_, name_ + ", row " + std::to_string(row) + " of " + std::to_string(rows),
                         static_cast<double>(row) / static_cast<double>(rows));
  }

 private:
  const conversion_request* request_;
  std::size_t at_, of_;
  std::string name_;
};

}  // namespace tool
