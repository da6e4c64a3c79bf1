// ufp4 - the library's JSON reader, under the name that examples know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ufp4/interop/json_cursor.hpp>

namespace compare {

using ufp4::interop::json_cursor;

}  // namespace compare
