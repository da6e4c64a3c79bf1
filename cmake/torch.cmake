# ufp4 - libtorch where there is one, for examples/torch_linear and its tests: the target ufp4_torch.
# SPDX-License-Identifier: Apache-2.0
#
# Included by each directory that needs it: the targets of find_package belong to a directory.
# -D CMAKE_DISABLE_FIND_PACKAGE_Torch=ON leaves it out.
include(${CMAKE_CURRENT_LIST_DIR}/optional.cmake)
ufp4_find_optional(Torch "examples/torch_linear")
if(Torch_FOUND)
  add_library(ufp4_torch INTERFACE IMPORTED)
  target_link_libraries(ufp4_torch INTERFACE ${TORCH_LIBRARIES})
  ufp4_find_optional(OpenMP "OpenMP in examples/torch_linear") # without it at::parallel_for, a template, is one thread
  if(OpenMP_FOUND)
    target_link_libraries(ufp4_torch INTERFACE OpenMP::OpenMP_CXX)
  endif()
endif()
