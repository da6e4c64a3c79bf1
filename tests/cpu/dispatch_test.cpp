// ufp4 - tiers, their detection, and which kernel a call runs.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <ufp4/ufp4.hpp>

#include "support/catch.hpp"
#include "support/gemm_model.hpp"
#include "support/poison.hpp"
#include "support/rejection.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"
#include "support/threads.hpp"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

using namespace ufp4;

namespace {

bool has(cpu::isa tier) { return cpu::available().has(tier); }

/// The names of what this machine has, as messages list them.
std::string names_here() {
  std::string text;
  for (const cpu::isa tier : support::runnable_isas())
    text += (text.empty() ? "" : ", ") + std::string(cpu::name(tier));
  return text;
}

cpu::isa some_absent_tier() {
  for (const cpu::isa tier : cpu::all_isas)
    if (!has(tier)) return tier;  // no machine has both NEON and AVX2
  return cpu::isa::automatic;
}

// ---- A child process runs the hidden test case "answers with its tier" and prints what it finds.

struct answer {
  bool ran = false;
  std::string text;
};

std::string this_program() {
#if defined(__linux__)
  char path[4096];
  const auto length = readlink("/proc/self/exe", path, sizeof path);
  if (length > 0) return {path, static_cast<std::size_t>(length)};
#endif
  return {};
}

/// What `command` prints between <tier> and </tier>.
answer ask(const std::string& command) {
  answer a;
  std::FILE* child = popen((command + " 2>&1").c_str(), "r");
  if (child == nullptr) return a;
  std::string output;
  for (int c = std::fgetc(child); c != EOF; c = std::fgetc(child)) output += static_cast<char>(c);
  const int status = pclose(child);
  const std::size_t first = output.find("<tier>"), last = output.find("</tier>");
  a.ran = status == 0 && first != std::string::npos && last != std::string::npos;
  a.text = a.ran ? output.substr(first + 6, last - first - 6) : output;
  return a;
}
answer ask_with(const std::string& setting) { return ask(setting + " '" + this_program() + "' '[.answer]'"); }

// ---- The machine's description of itself.

/// The words of the first "flags" line of /proc/cpuinfo; empty where there is none.
std::set<std::string> cpuinfo_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

/// Every operation whose bits are promised, on one input: their results one after the other.
std::vector<std::uint8_t> all_operations(const cpu::context& context) {
  std::mt19937_64 gen{support::seed(1)};
  const std::size_t m = 70, n = 33, k = 300;
  std::vector<float> xs = model::wide_floats(gen, m * k, 12), ws = model::wide_floats(gen, n * k);
  xs[5] = -0.0f, xs[100] = 0x1p-149f, xs[7 * k + 3] = INFINITY, xs[9 * k] = NAN;
  const matrix_view<const float> x{xs.data(), m, k}, w{ws.data(), n, k};
  std::vector<std::uint8_t> bytes;
  const auto keep = [&](const auto& range) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(range.data());
    bytes.insert(bytes.end(), first, first + range.size() * sizeof(*range.data()));
  };
  const auto keep_quantized = [&](const auto& q) {
    keep(q.codes());
    keep(q.scales());
    keep(std::vector<float>{q.tensor_scale()});
    std::vector<float> back(q.rows() * q.cols());
    dequantize(q, matrix_view<float>{back.data(), q.rows(), q.cols()}, context);
    for (float& v : back) v = std::isnan(v) ? 0x7p10f : v;  // any NaN is a NaN
    keep(back);
  };
  const random_hadamard<32> h{3};
  keep(std::vector<float>{amax(x, h, context).value});
  keep_quantized(quantize<e1m2_f32>(x, h, stochastic{.seed = 4}, context));
  keep_quantized(quantize<nvfp4>(x, four_over_six{}, context));
  keep_quantized(quantize<mxfp4>(transpose(x), mx_even{}, context));
  keep_quantized(quantize<block_format<fp4<E1M2>, e4m3, square(16), float>>(x, mse_search{}, toward_zero{}, context));
  std::vector<float> fake(m * k);
  fake_quantize<int4_f32>(w, matrix_view<float>{fake.data(), n, k}, h, undo_transform{}, context);
  keep(fake);
  std::vector<float> turned(n * 320), back(n * k);
  hadamard_forward(w, matrix_view<float>{turned.data(), n, 320}, h, context);
  hadamard_inverse(matrix_view<const float>{turned.data(), n, 320}, matrix_view<float>{back.data(), n, k}, h, context);
  keep(turned);
  keep(back);
  const auto qx = quantize<e1m2_f32>(w, h, context), qw = quantize<e1m2_f32>(w, h, stochastic{.seed = 1}, context);
  std::vector<float> c(n * n);
  quantized_gemm(qx, qw, matrix_view<float>{c.data(), n, n}, {.accumulate = accumulate::exact_blocks}, context);
  keep(c);
  quantized_gemm(unquantized(w, h), qw, matrix_view<float>{c.data(), n, n}, {.accumulate = accumulate::exact_blocks},
                 context);
  keep(c);
  return bytes;
}

}  // namespace

TEST_CASE("tiers have the parents and names of their table", "[cpu]") {
  using cpu::isa, cpu::parent;
  struct row {
    isa tier, above;
    const char* name;
  };
  const row rows[] = {{isa::scalar, isa::scalar, "scalar"},
                      {isa::avx2, isa::scalar, "avx2"},
                      {isa::avx_vnni, isa::avx2, "avx_vnni"},
                      {isa::avx512, isa::avx2, "avx512"},
                      {isa::avx512_bf16, isa::avx512, "avx512_bf16"},
                      {isa::amx, isa::avx512_bf16, "amx"},
                      {isa::neon, isa::scalar, "neon"},
                      {isa::neon_dotprod, isa::neon, "neon_dotprod"},
                      {isa::neon_i8mm, isa::neon_dotprod, "neon_i8mm"},
                      {isa::neon_bf16, isa::neon_i8mm, "neon_bf16"}};
  std::set<isa> listed;
  for (const row& r : rows) {
    CHECK(parent(r.tier) == r.above);
    CHECK(std::string(cpu::name(r.tier)) == r.name);
    listed.insert(r.tier);
  }
  CHECK(listed == std::set<isa>(std::begin(cpu::all_isas), std::end(cpu::all_isas)));
  CHECK(std::string(cpu::name(isa::automatic)) == "automatic");
  CHECK(parent(isa::automatic) == isa::scalar);
}

TEST_CASE("a machine with a tier has its parent, and the best tier is the last of the list", "[cpu]") {
  CHECK(has(cpu::isa::scalar));
  CHECK_FALSE(has(cpu::isa::automatic));
  for (const cpu::isa tier : support::runnable_isas()) CHECK(has(cpu::parent(tier)));
  CHECK(cpu::available().best() == support::runnable_isas().back());
  CHECK(cpu::isa_set{}.best() == cpu::isa::scalar);
  CHECK(cpu::isa_set{}.add(cpu::isa::avx2).best() == cpu::isa::avx2);
  CHECK_FALSE(cpu::isa_set{}.add(cpu::isa::avx2).has(cpu::isa::avx512));
}

TEST_CASE("the tiers found are those that the system's flags allow", "[cpu]") {
  const std::set<std::string> flags = cpuinfo_flags();
  if (flags.empty()) return support::skip("there is no /proc/cpuinfo with flags here");
  const auto all = [&](std::initializer_list<const char*> names) {
    bool found = true;
    for (const char* name : names) found = found && flags.count(name) != 0;
    return found;
  };
#if defined(__x86_64__)
  const bool avx2 = all({"avx", "avx2", "fma", "f16c", "bmi1", "bmi2"});
  const bool avx512 = avx2 && all({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vnni"});
  const bool bf16 = avx512 && all({"avx512_bf16"});
  CHECK(has(cpu::isa::avx2) == avx2);
  CHECK(has(cpu::isa::avx_vnni) == (avx2 && all({"avx_vnni"})));
  CHECK(has(cpu::isa::avx512) == avx512);
  CHECK(has(cpu::isa::avx512_bf16) == bf16);
  bool permitted = false;
#if defined(__linux__)
  unsigned long granted = 0;  // ARCH_GET_XCOMP_PERM after detection asked for bit 18, tile data
  cpu::available();
  permitted = syscall(SYS_arch_prctl, 0x1022, &granted) == 0 && (granted >> 18 & 1) != 0;
#endif
  CHECK(has(cpu::isa::amx) == (bf16 && permitted && all({"amx_tile", "amx_int8", "amx_bf16"})));
  CHECK_FALSE(has(cpu::isa::neon));
#elif defined(__aarch64__)
  CHECK(has(cpu::isa::neon));
  CHECK(has(cpu::isa::neon_dotprod) == all({"asimddp"}));
  CHECK(has(cpu::isa::neon_i8mm) == all({"asimddp", "i8mm"}));
  CHECK(has(cpu::isa::neon_bf16) == all({"asimddp", "i8mm", "bf16"}));
  CHECK_FALSE(has(cpu::isa::avx2));
#endif
}

TEST_CASE("a context's tier is the one that runs; one that the machine lacks is an error that lists those it has",
          "[cpu]") {
  for (const cpu::isa tier : support::runnable_isas()) CHECK(cpu::resolve(cpu::context{.isa = tier}) == tier);
  const cpu::isa absent = some_absent_tier();
  CHECK(support::rejection([&] { cpu::resolve(cpu::context{.isa = absent}); }) ==
        "cpu::context::isa: " + std::string(cpu::name(absent)) + " is not on this machine; available: " + names_here());
  std::vector<float> x(32);
  CHECK(support::rejection([&] {
          quantize<nvfp4>(matrix_view<const float>{x.data(), 1, 32}, cpu::context{.isa = absent});
        }).find("is not on this machine") != std::string::npos);
}

// Run by the test cases below in a process of its own.
TEST_CASE("answers with its tier", "[.answer]") {
  std::string text = support::rejection([] { std::printf("<tier>%s</tier>\n", cpu::name(cpu::resolve({}))); });
  if (!text.empty()) {
    // What was wrong once stays wrong: the error does not leave a half-made choice behind.
    CHECK(support::rejection([] { cpu::resolve({}); }) == text);
    CHECK(cpu::resolve(cpu::context{.isa = cpu::isa::scalar}) == cpu::isa::scalar);
    std::printf("<tier>%s</tier>\n", text.c_str());
  }
  CHECK(has(cpu::isa::scalar));
}

TEST_CASE("UFP4_ISA chooses the tier of contexts that name none", "[cpu]") {
  if (this_program().empty()) return support::skip("this system does not say which file a process runs");
  const std::string best = cpu::name(cpu::available().best());
  for (const char* setting : {"env -u UFP4_ISA", "UFP4_ISA="}) {
    const answer unset = ask_with(setting);
    CHECK(unset.ran);
    CHECK(unset.text == best);
  }
  for (const cpu::isa tier : support::runnable_isas()) {
    const answer a = ask_with("UFP4_ISA=" + std::string(cpu::name(tier)));
    CHECK(a.ran);
    CHECK(a.text == cpu::name(tier));
  }
  const std::string absent = cpu::name(some_absent_tier());
  CHECK(ask_with("UFP4_ISA=" + absent).text ==
        "UFP4_ISA: " + absent + " is not on this machine; available: " + names_here());
  for (const std::string unknown : {"avx9", "AVX2", "automatic", "scalar "}) {
    CHECK(ask_with("UFP4_ISA='" + unknown + "'").text ==
          "UFP4_ISA: " + unknown + " is not an instruction set of ufp4; available: " + names_here());
  }
}

TEST_CASE("a tier without a kernel runs its nearest ancestor's", "[cpu]") {
  using cpu::isa;
  using kernel = int();
  const cpu::detail::kernel_row<kernel> table[] = {{isa::scalar, "scalar kernel", [] { return 0; }},
                                                   {isa::avx512, "avx512 kernel", [] { return 1; }},
                                                   {isa::neon_dotprod, "dotprod kernel", [] { return 2; }}};
  const auto runs = [&](isa tier) { return cpu::detail::kernel_for(cpu::detail::kernel_table(table), tier).kernel(); };
  CHECK(runs(isa::scalar) == 0);
  CHECK(runs(isa::avx2) == 0);
  CHECK(runs(isa::avx512) == 1);
  CHECK(runs(isa::avx512_bf16) == 1);
  CHECK(runs(isa::amx) == 1);
  CHECK(runs(isa::neon) == 0);
  CHECK(runs(isa::neon_dotprod) == 2);
  CHECK(runs(isa::neon_i8mm) == 2);
  CHECK(runs(isa::neon_bf16) == 2);
  CHECK(runs(isa::automatic) == 0);
  CHECK(std::string(cpu::detail::kernel_for(cpu::detail::kernel_table(table), isa::amx).name) == "avx512 kernel");
}

TEST_CASE("the library's tables hold a scalar kernel and no tier twice", "[cpu]") {
  const auto check = [](const auto& table) {
    std::set<cpu::isa> seen;
    for (const auto& row : table) {
      CHECK(seen.insert(row.tier).second);
      CHECK(row.kernel != nullptr);
      CHECK_FALSE(std::string(row.name).empty());
    }
    CHECK(seen.count(cpu::isa::scalar) == 1);
    CHECK(seen.count(cpu::isa::automatic) == 0);
  };
  check(cpu::detail::kernels::amax<ufp4::detail::features::all>);
  check(cpu::detail::kernels::quantize<ufp4::detail::features::all>);
  check(cpu::detail::kernels::dequantize<ufp4::detail::features::all>);
  check(cpu::detail::kernels::hadamard<ufp4::detail::features::all>);
}

TEST_CASE("the GEMM table names every kernel once, and its scalar kernel takes every job", "[cpu]") {
  std::set<std::string> names;
  int scalar = 0;
  for (const cpu::detail::gemm_kernel* row : cpu::detail::kernels::gemm<ufp4::detail::features::all>) {
    CAPTURE(row->name);
    CHECK(names.insert(row->name).second);
    CHECK(row->part_rows % row->tile_rows == 0);
    CHECK(row->part_cols % row->tile_cols == 0);
    if (row->tier != cpu::isa::scalar) continue;
    ++scalar;
    CHECK(row->takes({}));
  }
  CHECK(scalar == 1);
}

TEST_CASE("a product that is compiled with the integer kernels alone runs the same kernel as with all", "[cpu]") {
  using namespace cpu::detail;
  int products = 0, pairs = 0;
  const auto check = [&](const format_spec& left, const format_spec& right) {
    ++pairs;
    for (const accumulate mode : {accumulate::fast, accumulate::exact_blocks, accumulate::folded_bf16}) {
      if (!cpu::detail::integers_suffice(left, right, mode)) continue;
      ++products;
      for (const std::size_t rows : {1u, 4u, 5u, 9u, 200u})
        for (const bool interleaved : {false, true})
          for (const cpu::isa tier : cpu::all_isas) {
            if (!cpu::available().has(tier)) continue;  // the question itself is compiled for the tier
            detail::gemm_job job{.left = {.q = {nullptr, nullptr, left, rows, 256, 256, 1.0f, {}, false}},
                                 .right = {.q = {nullptr, nullptr, right, 64, 256, 256, 1.0f, {}, interleaved}}};
            job.out.rows = rows, job.out.cols = 64, job.mode = mode;
            job.block = static_cast<std::size_t>(left.block.cols);
            CAPTURE(cpu::name(tier), ufp4::detail::name(mode), rows, interleaved);
            CHECK(std::string(gemm_kernel_for(kernels::gemm<~features::any_product>, job, tier).name) ==
                  gemm_kernel_for(kernels::gemm<features::all>, job, tier).name);
          }
    }
  };
  const auto with_blocks = [](format_spec f, int cols) { return f.block = block_shape{1, cols}, f; };
  ufp4::detail::for_each_row(ufp4::detail::presets{}, [&](auto a) {
    ufp4::detail::for_each_row(ufp4::detail::presets{}, [&](auto b) {
      for (const int cols : {2, 16, 32, 64, 128, 256})
        check(with_blocks(spec_of<typename decltype(a)::format>, cols),
              with_blocks(spec_of<typename decltype(b)::format>, cols));
    });
  });
  CHECK(products > pairs);
  CHECK(cpu::detail::integers_suffice(spec_of<nvfp4>, spec_of<nv_e1m2>, accumulate::folded_bf16));
  CHECK(cpu::detail::integers_suffice(spec_of<e1m2_f32>, spec_of<int4_f32>, accumulate::fast));
  CHECK_FALSE(cpu::detail::integers_suffice(spec_of<e1m2_f32>, spec_of<int4_f32>, accumulate::folded_bf16));
  CHECK_FALSE(cpu::detail::integers_suffice(spec_of<nvfp4>, spec_of<mxfp4>, accumulate::fast));
}

TEST_CASE("every tier of this machine gives the scalar bits for every operation", "[cpu][tiers]") {
  INFO(support::seed_note());
  const std::vector<std::uint8_t> scalar = all_operations(cpu::context{.threads = 1, .isa = cpu::isa::scalar});
  support::on_every_context([&](const cpu::context& context) {
    CAPTURE(cpu::name(context.isa), context.threads);
    REQUIRE(all_operations(context) == scalar);
  });
}

TEST_CASE("an older processor gets fewer tiers and the same bits", "[cpu]") {
#if defined(__AVX__) || defined(UFP4_TEST_ASAN) || defined(__SANITIZE_THREAD__)
  return support::skip("built for newer processors, or with a sanitizer that an emulator does not run");
#elif !defined(__x86_64__)
  return support::skip("the emulated processors are x86-64");
#else
  const std::string emulator = "qemu-x86_64-static";
  if (std::system((emulator + " --version > /dev/null 2>&1").c_str()) != 0)
    return support::skip("there is no qemu-x86_64-static (package qemu-user-static)");
  const std::string program = " '" + this_program() + "' ";
  struct processor {
    const char* name;
    const char* best;
  };
  for (const processor& p :
       {processor{"Nehalem", "scalar"}, processor{"SandyBridge", "scalar"}, processor{"Haswell,-fma", "scalar"},
        processor{"Haswell,-f16c", "scalar"}, processor{"Haswell,-bmi2", "scalar"}, processor{"Haswell", "avx2"}}) {
    CAPTURE(p.name);
    const std::string run = "env -u UFP4_ISA " + emulator + " -cpu " + p.name + program;
    const answer a = ask(run + "'[.answer]'");
    CHECK(a.ran);
    CHECK(a.text == p.best);
    if (p.name == std::string("Nehalem") || p.name == std::string("Haswell"))
      CHECK(std::system((run + "'[tiers]' > /dev/null 2>&1").c_str()) == 0);
  }
#endif
}
