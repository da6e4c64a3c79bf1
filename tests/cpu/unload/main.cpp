// ufp4 - loads each library of the command line, calls it and unloads it, while its threads still poll; twice.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <unistd.h>
#include <cstddef>
#include <cstdio>

int main(int argc, char** argv) {
  for (int i = 0; i < 2 * (argc - 1); ++i) {
    void* library = dlopen(argv[1 + i % (argc - 1)], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    const auto tasks_run = reinterpret_cast<std::size_t (*)(std::size_t)>(dlsym(library, "tasks_run"));
    if (tasks_run == nullptr || tasks_run(100) != 100) return 1;
    dlclose(library);
    usleep(i % 2 == 0 ? 0 : 2000);  // longer than the threads poll
  }
  std::puts("unloaded");
}
