# ufp4 - kernel tests on other processors, under QEMU: code for a newer processor that is reached by mistake stops there with an illegal
# instruction. Level full; at the level nightly every test named here runs on every x86-64 processor.
# SPDX-License-Identifier: Apache-2.0
#
# | processor    | build                | tier         | tests                               |
# |--------------|----------------------|--------------|-------------------------------------|
# | Haswell      | preset full          | avx2         | the tier's own kernels, and explain |
# | Nehalem      | preset full          | scalar       | kernels                             |
# | max          | preset aarch64-qemu  | neon_bf16    | products                            |
# | neoverse-n1  | preset aarch64-qemu  | neon_dotprod | products                            |
# | cortex-a53   | preset aarch64-qemu  | neon         | kernels, all products included      |
# gemm_mixed_bf16 runs on max alone, which has every tier. Of quantize_kernels the x86-64 processors run the bytes of one seed: its other
# test cases compare tiers, which needs no emulator there, and take five minutes.
set(ufp4_emulated_avx2 "^cpu/(dispatch|gemm_lanes|(quantize|dequantize|hadamard)_kernels)|^explain_test")
set(ufp4_emulated_scalar "^cpu/(dispatch|gemm_lanes|.*kernels|extended_formats)")
set(ufp4_emulated_products "^cpu/(dispatch|.*gemm)")
set(ufp4_emulated_kernels "^cpu/(dispatch|.*gemm|.*kernels|extended_formats)")
set(ufp4_emulated_operations "^(explain|gemm_(exact|plain|prepacked|grouped|bias|range|wide)|hadamard|dequantize|quantize_transform)_test")

set(ufp4_processors "")
if(CMAKE_CROSSCOMPILING)
  set(ufp4_qemu ${CMAKE_CROSSCOMPILING_EMULATOR})
  set(ufp4_processors max neoverse-n1 cortex-a53)
  set(ufp4_tiers neon_bf16 neon_dotprod neon)
  set(ufp4_emulated ufp4_emulated_products ufp4_emulated_products ufp4_emulated_kernels)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64 AND UFP4_TEST_LEVEL MATCHES "^(full|nightly)$" AND NOT UFP4_TEST_MODULES AND NOT UFP4_TEST_LABEL)
  find_program(UFP4_QEMU_X86_64 NAMES qemu-x86_64-static qemu-x86_64)
  mark_as_advanced(UFP4_QEMU_X86_64)
  set(ufp4_qemu ${UFP4_QEMU_X86_64})
  set(ufp4_processors Haswell Nehalem)
  set(ufp4_tiers avx2 scalar)
  set(ufp4_emulated ufp4_emulated_avx2 ufp4_emulated_scalar)
endif()

# ufp4_emulated_test(NAME PROCESSOR COMMAND...): skipped, with the reason, where there is no emulator.
function(ufp4_emulated_test name processor)
  if(ufp4_qemu)
    add_test(NAME ${name} COMMAND ${ufp4_qemu} -cpu ${processor} ${ARGN})
  else()
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: no qemu-user-static, so no other processor is emulated")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS emulated TIMEOUT 1800 SKIP_REGULAR_EXPRESSION "SKIPPED: no qemu"
                       ENVIRONMENT_MODIFICATION UFP4_ISA=unset:)
endfunction()

# ufp4_add_emulated(PROGRAM PATH TEST SPEC): a test file on the processors that are to run it.
function(ufp4_add_emulated program path test spec)
  if(path MATCHES "amx" OR (CMAKE_CROSSCOMPILING AND path MATCHES "avx_vnni"))
    return() # nothing to run there
  elseif(path MATCHES "dispatch")
    string(APPEND spec "[tiers]") # its other test cases start the program anew, outside the emulator
  endif()
  foreach(processor tier patterns IN ZIP_LISTS ufp4_processors ufp4_tiers ufp4_emulated)
    if(UFP4_TEST_LEVEL STREQUAL nightly)
      set(patterns ufp4_emulated_kernels ufp4_emulated_operations)
    elseif(CMAKE_CROSSCOMPILING AND path MATCHES "gemm_mixed_bf16" AND NOT processor STREQUAL max)
      continue()
    endif()
    foreach(pattern IN LISTS patterns)
      if(path MATCHES "${${pattern}}")
        set(cases "")
        if(path MATCHES "^cpu/quantize_kernels" AND NOT CMAKE_CROSSCOMPILING AND NOT UFP4_TEST_LEVEL STREQUAL nightly)
          set(cases "[hash]")
        endif()
        ufp4_emulated_test(emulated_${processor}_${test} ${processor} $<TARGET_FILE:${program}> --filenames-as-tags ${spec}${cases})
        set_tests_properties(emulated_${processor}_${test} PROPERTIES SKIP_RETURN_CODE 77)
      endif()
    endforeach()
    if(test STREQUAL cpu_dispatch) # the tier that the library detects there
      ufp4_emulated_test(emulated_${processor}_tier ${processor} $<TARGET_FILE:${program}> "[.answer]")
      set_tests_properties(emulated_${processor}_tier PROPERTIES PASS_REGULAR_EXPRESSION "<tier>${tier}</tier>")
    endif()
  endforeach()
endfunction()

# Two files compiled for different processors, linked in both orders: of an inline function that both emit, the older one's copy must be
# kept (detail/odr_key.hpp). The programs print the hash of their results, cpu/odr/baseline.cpp. Other flags: cpu/odr/pairs.sh.
if("Nehalem" IN_LIST ufp4_processors)
  set(ufp4_odr_first newer baseline)
  set(ufp4_odr_second baseline newer)
  file(STRINGS /proc/cpuinfo ufp4_cpu_flags REGEX "^flags.* avx512_vnni" LIMIT_COUNT 1)
  foreach(level IN ITEMS O0 O2)
    foreach(unit IN ITEMS baseline newer)
      add_library(odr_${unit}_${level} OBJECT cpu/odr/${unit}.cpp)
      target_link_libraries(odr_${unit}_${level} PRIVATE ufp4::ufp4)
      target_compile_options(odr_${unit}_${level} PRIVATE -${level})
    endforeach()
    target_compile_options(odr_newer_${level} PRIVATE -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c)
    foreach(first second IN ZIP_LISTS ufp4_odr_first ufp4_odr_second)
      set(program odr_${first}_first_${level})
      add_executable(${program} $<TARGET_OBJECTS:odr_${first}_${level}> $<TARGET_OBJECTS:odr_${second}_${level}>)
      target_link_libraries(${program} PRIVATE ufp4::ufp4)
      ufp4_emulated_test(emulated_Nehalem_${program} Nehalem $<TARGET_FILE:${program}>)
      set_tests_properties(emulated_Nehalem_${program} PROPERTIES PASS_REGULAR_EXPRESSION "^2b7cf5b653b640a0\n$")
      if(ufp4_cpu_flags)
        add_test(NAME ${program} COMMAND ${program} both)
        set_tests_properties(${program} PROPERTIES PASS_REGULAR_EXPRESSION "^2b7cf5b653b640a0\n2b7cf5b653b640a0\n$" LABELS emulated)
      endif()
    endforeach()
  endforeach()
endif()
