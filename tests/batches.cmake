# ufp4 - several test files in one compilation, so that what they share is parsed and instantiated once: half of the time.
# SPDX-License-Identifier: Apache-2.0
#
# A batch includes the headers of all its files, then each file in a namespace of its own; the #include lines in the files then have
# nothing left to do. A file that cannot stand in a namespace (it specializes a template of the library), or that has #include lines in
# a string, has the word `separate` on its ctest line. -D UFP4_TEST_BATCH=1 compiles every file by itself, which is quicker for somebody
# who changes one test.
set(UFP4_TEST_BATCH 8 CACHE STRING "How many test files are compiled together")

# ufp4_batch_includes(OUT SOURCE): the #include directives of a file as lines that no missing header stops. Those of its own folder
# become absolute paths.
function(ufp4_batch_includes out source)
  cmake_path(GET source PARENT_PATH folder)
  file(STRINGS ${source} directives REGEX "^#include [<\"]")
  set(lines "")
  foreach(directive IN LISTS directives)
    string(REGEX REPLACE "^#include ([<\"][^>\"]*[>\"]).*" "\\1" header "${directive}")
    string(REGEX REPLACE "^\"(.*)\"$" "${folder}/\\1" local "${header}")
    if(EXISTS "${local}")
      set(header "\"${local}\"")
    endif()
    list(APPEND lines "#if __has_include(${header})\n#include ${header}\n#endif")
  endforeach()
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

# ufp4_write_batch(BATCH SOURCE...): writes the file BATCH, which compiles the sources.
function(ufp4_write_batch batch)
  set(includes "")
  set(files "")
  foreach(source IN LISTS ARGN)
    ufp4_batch_includes(lines ${source})
    list(APPEND includes ${lines})
    cmake_path(GET source STEM stem)
    string(APPEND files "namespace in_${stem} {\n#include \"${source}\"\n}\n")
  endforeach()
  list(REMOVE_DUPLICATES includes)
  list(JOIN includes "\n" includes)
  file(CONFIGURE OUTPUT ${batch} CONTENT "${includes}\n${files}" @ONLY)
endfunction()

# ufp4_batch(PROGRAM SOURCE...): adds one generated file to the program.
function(ufp4_batch program)
  list(LENGTH ARGN count)
  if(count EQUAL 1)
    target_sources(${program} PRIVATE ${ARGN})
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN}) # their #include and ctest lines
  list(GET ARGN -1 last)
  cmake_path(GET last STEM last)
  set(batch ${CMAKE_CURRENT_BINARY_DIR}/batches/${program}_to_${last}.cpp)
  ufp4_write_batch(${batch} ${ARGN})
  target_sources(${program} PRIVATE ${batch})
endfunction()

# ufp4_add_batches(PROGRAM SOURCE...)
function(ufp4_add_batches program)
  set(rest ${ARGN})
  while(rest)
    list(SUBLIST rest 0 ${UFP4_TEST_BATCH} batch)
    list(REMOVE_ITEM rest ${batch})
    ufp4_batch(${program} ${batch})
  endwhile()
endfunction()
