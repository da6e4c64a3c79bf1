# ufp4 - toolchain: Debian's g++ for aarch64 (g++-aarch64-linux-gnu); QEMU runs what it makes (qemu-user-static).
# SPDX-License-Identifier: Apache-2.0
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static) # the emulator then needs no libraries of the other processor
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
