# ufp4 - the target ufp4::hip, for files that hipcc compiles: ufp4::ufp4, and whatever find_package(hip) says they need.
# SPDX-License-Identifier: Apache-2.0
#
# Included by the installed package for find_package(ufp4 COMPONENTS hip), and by our own build where UFP4_HIP is on. The compiler is
# CXX=hipcc; AMDGPU_TARGETS or GPU_TARGETS (gfx90a, ...) say what for. Sets ufp4_hip_missing to a message where there is no target.
set(ufp4_hip_missing "")
if(NOT TARGET ufp4::hip)
  if(NOT CMAKE_CXX_COMPILER MATCHES "hipcc" AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(ufp4_hip_missing "ufp4::hip needs hipcc as the C++ compiler (CXX=hipcc), and this one is ${CMAKE_CXX_COMPILER}")
  else()
    find_package(hip QUIET CONFIG)
    if(NOT TARGET hip::device)
      set(ufp4_hip_missing "ufp4::hip needs HIP, which find_package(hip) does not find")
    else()
      add_library(ufp4::hip INTERFACE IMPORTED)
      target_link_libraries(ufp4::hip INTERFACE ufp4::ufp4 hip::device)
    endif()
  endif()
endif()
