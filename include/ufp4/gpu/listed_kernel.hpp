// ufp4 - listed<&kernel>: a kernel as launch takes it; and the list of a program's kernels, which gpu::prepare() loads.
// SPDX-License-Identifier: Apache-2.0
//
// A runtime may load the code of a kernel when it is first launched, which waits for the device and invalidates a graph
// that is being captured. So every kernel that compiled code can launch is in a list from the start of the program:
//
//   launch(listed<&kernel>, blocks, threads, shared_bytes, where, job);
//   const auto& chosen = condition ? listed<&one> : listed<&other>;
//
// To name listed<&kernel> in a function that is compiled puts the kernel into the list, whether or not the function is
// called. A shared library's kernels are in the list while it is loaded.
#pragma once

#include <cstddef>
#include <mutex>
#include <ufp4/gpu/vendor.hpp>

namespace ufp4::gpu::detail::inline UFP4_GPU {

/// Whether a file with UFP4_COMPILE_GPU_KERNELS has the kernels of this file's operations.
#if defined(UFP4_EXTERNAL_GPU_KERNELS)
constexpr bool kernels_are_external = true;
#else
constexpr bool kernels_are_external = false;
#endif

/// A list of kernels. Constant-initialised, because objects of static storage duration enter it.
class kernel_list {
 public:
  struct node {
    const void* entry;
    node* next;
  };

  void add(node& n) {
    const std::lock_guard held(busy_);
    n.next = first_;
    first_ = &n;
  }
  void remove(const node& n) {
    const std::lock_guard held(busy_);
    node** at = &first_;
    while (*at != &n) at = &(*at)->next;
    *at = n.next;
  }
  /// Loads all of them onto the current device; the first error ends it.
  error load_all() {
    const std::lock_guard held(busy_);
    for (const node* n = first_; n != nullptr; n = n->next)
      if (const error e = load(n->entry); e != success) return e;
    return success;
  }

 private:
  std::mutex busy_;
  node* first_ = nullptr;
};
inline constinit kernel_list program_kernels;

class kernel_entry {
 public:
  explicit kernel_entry(const void* entry) : node_{entry, nullptr} { program_kernels.add(node_); }
  kernel_entry(const kernel_entry&) = delete;
  kernel_entry& operator=(const kernel_entry&) = delete;
  ~kernel_entry() { program_kernels.remove(node_); }

 private:
  kernel_list::node node_;
};

template <auto kernel>
inline const kernel_entry entry_of{reinterpret_cast<const void*>(kernel)};

}  // namespace ufp4::gpu::detail::inline UFP4_GPU

namespace ufp4::gpu::inline UFP4_GPU {

/// A kernel in the program's list. `entry` ties the two together: who has a listed_kernel has had it listed.
template <class... Parameters>
struct listed_kernel {
  void (*kernel)(Parameters...);      ///< the kernel
  const detail::kernel_entry* entry;  ///< its place in the list
};

/// From a kernel and its place.
template <class... Parameters>
listed_kernel(void (*)(Parameters...), const detail::kernel_entry*) -> listed_kernel<Parameters...>;

/// The kernel, listed.
template <auto kernel>
inline constexpr listed_kernel listed{kernel, &detail::entry_of<kernel>};

/// launch of gpu/vendor.hpp, for a listed kernel.
template <class... Parameters, class... Arguments>
error launch(const listed_kernel<Parameters...>& which, index3 blocks, index3 threads, std::size_t shared_bytes,
             stream where, const Arguments&... arguments) {
  return launch(which.kernel, blocks, threads, shared_bytes, where, arguments...);
}

}  // namespace ufp4::gpu::inline UFP4_GPU
