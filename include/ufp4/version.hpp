// ufp4 - the version of this library.
// SPDX-License-Identifier: Apache-2.0
/// CMakeLists.txt and the packages read the version from here. Below 1.0 a new minor number may change the interface.
#pragma once

#define UFP4_VERSION_MAJOR 0
#define UFP4_VERSION_MINOR 1
#define UFP4_VERSION_PATCH 0

/// One number for `#if UFP4_VERSION >= 10203`.
#define UFP4_VERSION (UFP4_VERSION_MAJOR * 10000 + UFP4_VERSION_MINOR * 100 + UFP4_VERSION_PATCH)

#define UFP4_VERSION_TEXT_(major, minor, patch) #major "." #minor "." #patch
#define UFP4_VERSION_TEXT(major, minor, patch) UFP4_VERSION_TEXT_(major, minor, patch)

namespace ufp4 {

/// "major.minor.patch", zero terminated.
inline constexpr char version_string[] = UFP4_VERSION_TEXT(UFP4_VERSION_MAJOR, UFP4_VERSION_MINOR, UFP4_VERSION_PATCH);

}  // namespace ufp4

#undef UFP4_VERSION_TEXT
#undef UFP4_VERSION_TEXT_
