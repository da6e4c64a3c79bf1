# ufp4 - tests: the cases of check.cmake, dependencies_<case>. Included by tests/CMakeLists.txt.
# SPDX-License-Identifier: Apache-2.0
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/check.cmake)
execute_process(COMMAND ${CMAKE_COMMAND} -P ${CMAKE_CURRENT_LIST_DIR}/check.cmake OUTPUT_VARIABLE cases
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" cases "${cases}")
foreach(case IN LISTS cases)
  add_test(NAME dependencies_${case} COMMAND ${CMAKE_COMMAND}
           -D CASE=${case} -D SOURCE=${PROJECT_SOURCE_DIR} -D WORK=${CMAKE_CURRENT_BINARY_DIR}/dependencies/${case}
           -D COMPILER=${CMAKE_CXX_COMPILER} -P ${CMAKE_CURRENT_LIST_DIR}/check.cmake)
  set_tests_properties(dependencies_${case} PROPERTIES LABELS dependencies TIMEOUT 300
                       SKIP_REGULAR_EXPRESSION "(^|\n)SKIPPED: ${case}:")
endforeach()
