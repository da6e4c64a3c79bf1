# ufp4 - libtorch where there is one, for examples/torch_linear and its tests: the target ufp4_torch.
# SPDX-License-Identifier: Apache-2.0
#
# Included by each directory that wants it: the targets of find_package belong to a directory.
# -D CMAKE_DISABLE_FIND_PACKAGE_Torch=ON does without.

# QUIET does not reach the files that Torch's own file includes: they tell what they find, and one warns developers.
set(ufp4_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
set(FPHSA_NAME_MISMATCHED TRUE)
find_package(Torch QUIET)
unset(FPHSA_NAME_MISMATCHED)
set(CMAKE_MESSAGE_LOG_LEVEL "${ufp4_log_level}")

# In C++20 std::vector is constexpr, and clang then wants c10::IValue complete where the headers of 1.13 have declared it.
if(Torch_FOUND AND CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND Torch_VERSION VERSION_LESS 2)
  message(STATUS "ufp4: clang does not compile the headers of libtorch ${Torch_VERSION} as C++20; g++ does")
elseif(Torch_FOUND)
  add_library(ufp4_torch INTERFACE IMPORTED)
  target_link_libraries(ufp4_torch INTERFACE ${TORCH_LIBRARIES})
  find_package(OpenMP COMPONENTS CXX QUIET) # without it at::parallel_for, a template of a header, is one thread
  if(TARGET OpenMP::OpenMP_CXX)
    target_link_libraries(ufp4_torch INTERFACE OpenMP::OpenMP_CXX)
  endif()
endif()
