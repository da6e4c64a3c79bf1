// ufp4 - start_ranks: starts the N processes of --ranks N with mpirun, and makes the object they communicate through.
// SPDX-License-Identifier: Apache-2.0
//
// | started as                | result                                                                           |
// |---------------------------|----------------------------------------------------------------------------------|
// | train_lm                  | one process, without MPI                                                         |
// | train_lm --ranks N        | mpirun -n N of itself with the same arguments                                    |
// | mpirun -n N train_lm      | a rank of N; --ranks, if given, must be N                                        |
//
// Only this file depends on TRAIN_LM_MPI, which CMake defines where it finds MPI.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "errors.hpp"
#include "ranks.hpp"
#if defined(TRAIN_LM_MPI)
#include "mpi_ranks.hpp"
#endif

namespace train_lm {

/// The number of processes that mpirun of OpenMPI or MPICH started; 0 without mpirun.
inline int ranks_of_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name)) return std::atoi(size);
  return 0;
}
/// The number of this process, for messages before MPI is initialized.
inline int rank_of_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  return 0;
}

namespace detail {

/// Settings of Open MPI that the user has not set, by their names in version 4 (OMPI) and from version 5 on (PRTE).
/// MPICH does not read them.
inline void choose_mpirun_settings() {
  const auto unless_set = [](const char* name, const char* value) { setenv(name, value, 0); };
  // More ranks than cores: slow, but the same bits.
  unless_set("OMPI_MCA_rmaps_base_oversubscribe", "1");
  unless_set("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
  unless_set("OMPI_MCA_mpi_yield_when_idle", "1");
  // A rank has threads.
  unless_set("OMPI_MCA_hwloc_base_binding_policy", "none");
  unless_set("PRTE_MCA_hwloc_default_binding_policy", "none");
  // Seconds that the processes have to write a checkpoint after Ctrl-C.
  unless_set("OMPI_MCA_odls_base_sigkill_timeout", "5");
  unless_set("PRTE_MCA_odls_base_sigkill_timeout", "5");
  if (geteuid() != 0) return;
  unless_set("OMPI_ALLOW_RUN_AS_ROOT", "1");
  unless_set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
}

inline std::string own_path(const char* fallback) {
  std::string path(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) == path.size()) return fallback;
  path.resize(static_cast<std::size_t>(length));
  return path;
}

/// Replaces this process by mpirun.
[[noreturn]] inline void become_mpirun(int count, int argument_count, const char* const* arguments) {
  choose_mpirun_settings();
  std::string program = "mpirun", flag = "-n", number = std::to_string(count), self = own_path(arguments[0]);
  std::vector<std::string> own(arguments + 1, arguments + argument_count);
  std::vector<char*> words{program.data(), flag.data(), number.data(), self.data()};
  for (std::string& word : own) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const std::string why = errno == ENOENT ? ", which is not on the PATH (Debian: apt-get install openmpi-bin)"
                                          : std::string(", which cannot be started: ") + std::strerror(errno);
  throw usage_error("--ranks " + number + ": needs mpirun" + why);
}

}  // namespace detail

/// asked: --ranks, or 0. plain: --all-reduce plain.
inline std::unique_ptr<ranks> start_ranks(int asked, bool plain, int argument_count, const char* const* arguments) {
  const int started = ranks_of_mpirun();
  if (started > 0 && asked > 0 && asked != started)
    throw usage_error("--ranks must be the number of processes that mpirun started, " + std::to_string(started) +
                      ", got " + std::to_string(asked));
#if defined(TRAIN_LM_MPI)
  if (started > 0) return std::make_unique<mpi_ranks>(plain ? gradient_sums::all_reduce : gradient_sums::microbatch);
  if (asked > 1) detail::become_mpirun(asked, argument_count, arguments);
#else
  (void)plain, (void)argument_count, (void)arguments;
  if (started > 1 || asked > 1)
    throw usage_error("--ranks " + std::to_string(started > 1 ? started : asked) +
                      ": needs MPI, and this program was built without it (Debian: apt-get install libopenmpi-dev "
                      "openmpi-bin, then build again)");
#endif
  return std::make_unique<ranks>();
}

}  // namespace train_lm
