# ufp4 - checks the files of an installed tree: exactly these, and none contains the path of the build or installation.
# SPDX-License-Identifier: Apache-2.0
# cmake -D UFP4=<source> -D PREFIX=<installed> -D BUILD=<its build folder> -P check.cmake
cmake_minimum_required(VERSION 3.23)

file(GLOB_RECURSE installed RELATIVE ${PREFIX} ${PREFIX}/*)
set(expected share/licenses/ufp4/LICENSE share/pkgconfig/ufp4.pc)
foreach(name IN ITEMS Config ConfigVersion Cuda Hip Targets)
  list(APPEND expected share/cmake/ufp4/ufp4${name}.cmake)
endforeach()
file(GLOB_RECURSE headers RELATIVE ${UFP4} ${UFP4}/include/*)
list(APPEND expected ${headers})
set(missing ${expected})
list(REMOVE_ITEM missing ${installed})
set(surplus ${installed})
list(REMOVE_ITEM surplus ${expected})
if(missing OR surplus)
  message(FATAL_ERROR "cmake --install: missing: ${missing}; not expected: ${surplus}")
endif()

foreach(file IN LISTS installed)
  file(READ ${PREFIX}/${file} text)
  # Folders of the source tree and not the tree itself, whose path may be as short as a word of the text.
  foreach(folder IN ITEMS ${UFP4}/include ${UFP4}/cmake ${PREFIX} ${BUILD})
    string(FIND "${text}" "${folder}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file} names the folder ${folder}")
    endif()
  endforeach()
endforeach()
