// ufp4 - nothing: the file that CMake asks for beside a precompiled header.
// SPDX-License-Identifier: Apache-2.0
