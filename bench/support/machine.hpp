// ufp4 - benches: the machine and compiler of a measurement.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <ufp4/cpu/isa.hpp>
#include <utility>
#include <vector>

namespace bench {

/// cpu, cores, caches, tiers, compiler, flags, version: for the head of a report. Contains no host or user name.
std::vector<std::pair<std::string, std::string>> machine_facts();

/// Every tier of this machine, scalar first.
std::vector<ufp4::cpu::isa> tiers();

/// 64KB, 8MB.
std::string size_name(std::size_t bytes);

}  // namespace bench
