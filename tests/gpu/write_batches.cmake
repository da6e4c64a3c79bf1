# ufp4 - the GPU tests in a few source files for a device's compiler:
# cmake -D SOURCES=FILE;... -D COUNT=N -D PREFIX=NAME -D OUT=FOLDER -P this.
# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/../batches.cmake)
set(number 0)
while(SOURCES)
  list(SUBLIST SOURCES 0 ${COUNT} batch)
  list(REMOVE_ITEM SOURCES ${batch})
  ufp4_write_batch(${OUT}/${PREFIX}${number}.cpp ${batch})
  math(EXPR number "${number} + 1")
endwhile()
