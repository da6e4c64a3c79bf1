# ufp4 - the README's program is examples/readme.cpp, and what it prints is what the README says it prints.
# SPDX-License-Identifier: Apache-2.0
#
# cmake -D README=README.md -D SOURCE=examples/readme.cpp -D PROGRAM=built/readme -P readme.cmake
file(READ ${README} page)
file(READ ${SOURCE} source)
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with status ${status}")
endif()
string(FIND "${page}" "```cpp\n${source}```" program_at)
if(program_at EQUAL -1)
  message(FATAL_ERROR "README.md does not show ${SOURCE} as it is")
endif()
string(FIND "${page}" "```text\n${printed}```" output_at)
if(output_at EQUAL -1)
  message(FATAL_ERROR "README.md does not show what the program prints:\n${printed}")
endif()
