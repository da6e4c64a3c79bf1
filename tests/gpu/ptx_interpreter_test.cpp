// ufp4 - the PTX interpreter: results of small kernels that are known, and errors for code whose order is wrong.
// SPDX-License-Identifier: Apache-2.0
// ctest: separate
#include "gpu/ptx/bulk.hpp"
#include "gpu/ptx/memory.hpp"
#include "gpu/ptx/state.hpp"

#include "support/catch.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace {

using ufp4_word = std::uint32_t;

/// A kernel with one parameter, the address of words.
std::string kernel(const std::string& body) {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 128 .b8 memory[];\n"
         ".visible .entry k(.param .u64 k_param_0)\n{\n"
         ".reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<99>;\n.reg .f32 %f<99>;\n.reg .b64 %rd<99>;\n"
         "ld.param.u64 %rd1, [k_param_0];\ncvta.to.global.u64 %rd1, %rd1;\n"
         "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n" +
         body + "\nret;\n}\n";
}

struct memory {
  std::vector<ufp4_word> words;
  explicit memory(std::size_t n) : words(n, 0) { ptx::device_memory::here().add(words.data(), n * sizeof(ufp4_word)); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  ~memory() { ptx::device_memory::here().remove(words.data()); }
};

/// Runs the body with so many threads, and returns the first words: one for each thread.
std::vector<ufp4_word> run(const std::string& body, unsigned threads = 32, unsigned order = 0,
                           ptx::index3 cluster = {}) {
  memory m(1024);
  for (std::size_t i = 0; i < m.words.size(); ++i) m.words[i] = static_cast<ufp4_word>(i * 3);
  ptx::code_module code(kernel(body));
  const void* address = m.words.data();
  ptx::launch call{&code.find("k"), cluster, {threads}, cluster, 8192, std::vector<unsigned char>(8)};
  std::memcpy(call.parameters.data(), &address, sizeof address);
  (void)ptx::run(call, 1, order);
  return {m.words.begin(), m.words.begin() + threads * cluster.x};
}
/// The same for each thread.
ufp4_word one(const std::string& body) {
  const std::vector<ufp4_word> all = run(body + "st.global.u32 [%rd3], %r9;");
  for (const ufp4_word w : all) REQUIRE(w == all[0]);
  return all[0];
}
std::string error_of(const std::string& body, unsigned threads = 32, unsigned order = 0) {
  try {
    (void)run(body, threads, order);
  } catch (const std::exception& e) {
    const std::string text = e.what();
    const std::size_t colon = text.find(": ");
    return text.substr(colon + 2);
  }
  return "";
}

const std::string shared_word = "mov.u32 %r2, memory;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\n";

}  // namespace

TEST_CASE("integer instructions give the results of the PTX manual's definitions") {
  REQUIRE(one("mov.u32 %r2, 0x01234567; mov.u32 %r3, 0x89ABCDEF; prmt.b32 %r9, %r2, %r3, 0x7531;") == 0x89CD0145u);
  REQUIRE(one("mov.u32 %r2, 0xF0; mov.u32 %r3, 0xCC; mov.u32 %r4, 0xAA; lop3.b32 %r9, %r2, %r3, %r4, 0x96;") == 0x96u);
  REQUIRE(one("mov.u32 %r2, 0x80000001; shf.l.wrap.b32 %r9, %r2, %r2, 4;") == 0x18u);
  REQUIRE(one("mov.u32 %r2, 0xFF7F0102; mov.u32 %r3, 0x01020304; dp4a.s32.s32 %r9, %r2, %r3, -1;") ==
          static_cast<ufp4_word>(-1 + 254 + 3 + 8 - 1));
  REQUIRE(one("mov.u32 %r2, -7; shr.s32 %r3, %r2, 1; div.s32 %r4, %r2, 2; sub.s32 %r9, %r4, %r3;") == 1u);
  REQUIRE(one("mov.u32 %r2, 5; mov.u32 %r3, 0x12345678; bfi.b32 %r9, %r2, %r3, 8, 4;") == 0x12345578u);
  REQUIRE(one("mov.u32 %r2, 0xFFFFFFFF; mul.wide.u32 %rd4, %r2, %r2; mov.b64 {%r3, %r9}, %rd4;") == 0xFFFFFFFEu);
}

TEST_CASE("floats round as their instructions specify") {
  // 1 + 2^-24 is half way: to nearest even 1, upwards the next.
  REQUIRE(one("mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f33800000; add.rn.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;") ==
          0x3F800000u);
  REQUIRE(one("mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f33800000; add.rp.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;") ==
          0x3F800001u);
  REQUIRE(one("mov.f32 %f1, 0f3F808000; mov.f32 %f2, 0f3F818000; cvt.rn.bf16x2.f32 %r9, %f1, %f2;") == 0x3F803F82u);
  REQUIRE(one("mov.f32 %f1, 0f477FF000; mov.f32 %f2, 0f33000000; cvt.rn.f16x2.f32 %r9, %f1, %f2;") == 0x7C000000u);
  REQUIRE(one("mov.f32 %f1, 0f43E00001; mov.f32 %f2, 0fBF800000; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; "
              "cvt.u32.u16 %r9, %h1;") == 0x7EB8u);
  REQUIRE(one("mov.u32 %r2, 0x3F803F80; mov.u32 %r3, 0x3F813F81; fma.rn.bf16x2 %r9, %r2, %r3, %r2;") == 0x40004000u);
  REQUIRE(one("mov.f32 %f1, 0fC0200000; cvt.rni.s32.f32 %r9, %f1;") == static_cast<ufp4_word>(-2));
  // The larger number, and with .NaN a NaN.
  REQUIRE(one("mov.f32 %f1, 0f7FC00001; mov.f32 %f2, 0f3F800000; max.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;") ==
          0x3F800000u);
  REQUIRE(one("mov.f32 %f1, 0f7FC00001; mov.f32 %f2, 0f3F800000; max.NaN.f32 %f3, %f1, %f2; mov.b32 %r9, %f3;") ==
          0x7FFFFFFFu);
  REQUIRE(one("mov.u32 %r2, 0x3F807FC1; mov.u32 %r3, 0x40003F80; max.NaN.bf16x2 %r9, %r2, %r3;") == 0x40007FFFu);
}

TEST_CASE("lanes that diverge meet again, and shuffles exchange their values") {
  const auto all =
      run("and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra EVEN;\nmov.u32 %r3, 100;\nbra "
          "JOIN;\nEVEN:\nmov.u32 %r3, 7;\n"
          "JOIN:\nshfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;\nadd.u32 %r4, %r4, %r1;\nst.global.u32 [%rd3], %r4;");
  for (ufp4_word l = 0; l < 32; ++l) REQUIRE(all[l] == (l % 2 == 0 ? 100 : 7) + l);
  REQUIRE(run("setp.lt.u32 %p1, %r1, 5;\nvote.sync.ballot.b32 %r2, %p1, -1;\nst.global.u32 [%rd3], %r2;")[31] == 31u);
}

TEST_CASE("mma.sync multiplies matrices whose fragments are those of the PTX manual") {
  // a has 1 in row 3, column 5; b has 2 in row 5, column 6: the product has 2 in row 3, column 6, which is sum 0 of
  // lane 15.
  const auto all =
      run("mov.u32 %r2, 0; mov.u32 %r3, 0;\nsetp.eq.u32 %p1, %r1, 14;\n@%p1 mov.u32 %r2, 0x3F800000;\n"
          "setp.eq.u32 %p2, %r1, 26;\n@%p2 mov.u32 %r3, 0x40000000;\nmov.u32 %r4, 0; mov.f32 %f1, 0f3F800000;\n"
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2, %f3, %f4, %f5}, {%r2, %r4, %r4, %r4}, {%r3, %r4}, "
          "{%f1, %f1, %f1, %f1};\nmov.b32 %r5, %f2;\nst.global.u32 [%rd3], %r5;");
  for (ufp4_word l = 0; l < 32; ++l) REQUIRE(all[l] == (l == 15 ? 0x40400000u : 0x3F800000u));
}

TEST_CASE("mma.sync with block scales multiplies each block by the scales of its row and its column") {
  // a has 1 in row 3, column 37, in the third block of 16; b has 2 in row 37, column 6. The scales of that block are 2
  // for row 3, in byte 2 of lane 12, and 3 for column 6, in byte 2 of lane 24: 1 + 12 is sum 0 of lane 15.
  const auto product = [](const std::string& selector) {
    return "mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u32 %r5, 0x38383838; mov.u32 %r6, 0x38383838;\n"
           "setp.eq.u32 %p1, %r1, 12;\n@%p1 mov.u32 %r2, 0x00200000;\n@%p1 mov.u32 %r5, 0x38403838;\n"
           "setp.eq.u32 %p2, %r1, 24;\n@%p2 mov.u32 %r3, 0x00400000;\n@%p2 mov.u32 %r6, 0x38443838;\n"
           "mov.f32 %f1, 0f3F800000;\n"
           "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
           "{%f2, %f3, %f4, %f5}, {%r4, %r4, %r2, %r4}, {%r4, %r3}, {%f1, %f1, %f1, %f1}, {%r5}, {0,0}, {%r6}, " +
           selector + ";\nmov.b32 %r7, %f2;\nst.global.u32 [%rd3], %r7;";
  };
  const auto all = run(product("{0,0}"));
  for (unsigned l = 0; l < 32; ++l) REQUIRE(all[l] == (l == 15 ? 0x41500000u : 0x3F800000u));
  REQUIRE_THROWS(run(product("{0,1}")));
}

TEST_CASE("a barrier of shared memory completes when its arrivals and bytes have come") {
  const std::string body =
      "mov.u32 %r2, memory;\nadd.u32 %r3, %r2, 128;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra READY;\n"
      "mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, "
      "[%r2];\nREADY:\nbar.warp.sync -1;\n";
  const std::string wait = "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra WAIT;\n";
  const std::string read =
      "shl.b32 %r4, %r1, 2;\nadd.u32 %r4, %r4, %r3;\nld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd3], %r5;";
  const auto all = run(body + wait + read);
  for (ufp4_word l = 0; l < 32; ++l) REQUIRE(all[l] == 3 * l);
  REQUIRE(error_of(body + read).find("reads bytes of a copy that has not been waited for") == 0);
}

TEST_CASE("blocks of a cluster read each other's shared memory") {
  const auto all = run(shared_word +
                           "mov.u32 %r5, %cluster_ctarank;\nadd.u32 %r6, %r5, 40;\nst.shared.u32 [%r4], %r6;\n"
                           "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nxor.b32 %r7, %r5, "
                           "1;\nmapa.shared::cluster.u32 %r8, %r4, %r7;\n"
                           "ld.shared::cluster.u32 %r9, [%r8];\nmul.wide.u32 %rd4, %r5, 128;\nadd.s64 %rd5, %rd3, "
                           "%rd4;\nst.global.u32 [%rd5], %r9;",
                       32, 0, {2, 1, 1});
  REQUIRE(all[0] == 41u);
  REQUIRE(all[63] == 40u);
}

TEST_CASE("what is undefined is an error that names it") {
  REQUIRE(error_of(shared_word + "ld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd3], %r5;") ==
          "uses an uninitialized value as what is stored");
  REQUIRE(error_of("setp.eq.u32 %p1, %r50, 0;\n@%p1 bra END;\nEND:") == "uses an uninitialized value as a condition");
  REQUIRE(error_of("ld.global.u32 %r2, [%rd1+1048576];").find("accesses 4 bytes at 0x") == 0);
  REQUIRE(error_of("ld.global.u32 %r2, [%rd1+2];") == "accesses an address that is not a multiple of 4");
  REQUIRE(error_of("mov.u32 %r2, memory;\nadd.u32 %r2, %r2, 8192;\nld.shared.u32 %r3, [%r2];") ==
          "accesses shared memory out of range: 0x2400");
  REQUIRE(error_of("setp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\nWAIT:\nbra WAIT2;\nWAIT2:\nbar.sync 0, 64;\nEND:")
              .find("no warp can go on") == 0);
  REQUIRE(error_of("trap;") == "executes trap");
  REQUIRE(error_of("frob.u32 %r1, %r2;").find("frob.u32 %r1, %r2: is not an instruction that the interpreter knows") ==
          0);
  REQUIRE(error_of("max.xorsign.abs.f32 %f1, %f2, %f3;").find("that the interpreter knows") != std::string::npos);
}

// ---- wgmma: 64 x 8 sums of a (64 x 16) and b (8 x 16), both without a swizzle, at 0 and 2048 of shared memory ----

namespace {

/// Every thread stores 16 bytes of a, the first 16 threads of b; all elements are 1.
const std::string fill =
    "mov.u32 %r2, memory;\nshl.b32 %r3, %r1, 4;\nadd.u32 %r4, %r2, %r3;\nmov.u32 %r5, 0x3F803F80;\n"
    "st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};\nsetp.lt.u32 %p1, %r1, 16;\n"
    "@%p1 st.shared.v4.u32 [%r4+2048], {%r5, %r5, %r5, %r5};\n";
const std::string fence_async = "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
/// The rows of 8 are 128 bytes apart along K and 256 along rows.
const std::string descriptors =
    "shr.u32 %r6, %r2, 4;\ncvt.u64.u32 %rd4, %r6;\nor.b64 %rd4, %rd4, 0x0000001000080000;\nadd.s64 %rd5, %rd4, 128;\n"
    "mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n";
const std::string fence = "wgmma.fence.sync.aligned;\n";
const std::string multiply =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd4, %rd5, 1, 1, -1, 0, 0;\n"
    "wgmma.commit_group.sync.aligned;\n";
const std::string wait_for_all = "wgmma.wait_group.sync.aligned 0;\n";
const std::string store_sum = "mov.b32 %r7, %f4;\nst.global.u32 [%rd3], %r7;\n";

}  // namespace

TEST_CASE("wgmma multiplies operands in shared memory that its descriptors name") {
  for (const ufp4_word w : run(fill + fence_async + descriptors + fence + multiply + wait_for_all + store_sum, 128))
    REQUIRE(w == 0xC1700000u);  // 1 - 16
}

TEST_CASE("wgmma without one of its fences or waits is an error") {
  const auto error = [](const std::string& body) { return error_of(body, 128); };
  REQUIRE(error(fill + "bar.sync 0;\n" + descriptors + fence + multiply + wait_for_all + store_sum) ==
          "wgmma reads what thread 0 stored without fence.proxy.async: 0xc00");
  REQUIRE(error(fill + fence_async + descriptors + multiply + wait_for_all + store_sum) ==
          "comes before the first wgmma.fence");
  REQUIRE(error(fill + fence_async + descriptors + fence + "add.f32 %f1, %f2, %f3;\n" + multiply + wait_for_all +
                store_sum) == "uses a register that was written after the last wgmma.fence");
  REQUIRE(error(fill + fence_async + descriptors + fence + multiply + "add.f32 %f5, %f1, %f1;\n" + wait_for_all) ==
          "reads a sum of a wgmma that has not been waited for");
  REQUIRE(error(fill + fence_async + descriptors + fence + multiply + "st.shared.u32 [%r4], %r5;\n" + wait_for_all) ==
          "overwrites an operand of an asynchronous product that has not been waited for");
  REQUIRE(error(fill + fence_async + descriptors + "add.s64 %rd4, %rd4, 64;\n" + fence + multiply + wait_for_all)
              .find("wgmma reads uninitialized shared memory") == 0);
}

TEST_CASE("a swizzle permutes the 16-byte pieces of its span by the row") {
  REQUIRE(ptx::swizzled(0, 128) == 0u);
  REQUIRE(ptx::swizzled(3 * 128 + 2 * 16, 128) == 3 * 128 + 1 * 16u);
  REQUIRE(ptx::swizzled(128 + 16, 32) == 128u);
  REQUIRE(ptx::swizzled(2 * 128 + 16, 64) == 2 * 128 + 48u);
  REQUIRE(ptx::swizzled(7 * 128 + 80, 0) == 7 * 128 + 80u);
}

// ---- tcgen05: 128 x 8 sums of a (128 x 64), b (8 x 64) and their scales, without a swizzle, at 0, 4096, 5120 and 5632
// of shared memory; a barrier at 6144, the address of tensor memory at 6152 ----

namespace {

/// Elements of a are 1, but 0.5 in row 37; those of b are 2. Scales are 1, those of b 4.
const std::string tensor_fill =
    "mov.u32 %r2, memory;\nshl.b32 %r3, %r1, 4;\nadd.u32 %r4, %r2, %r3;\nmov.u32 %r5, 0x22222222;\n"
    "setp.eq.u32 %p1, %r1, 37;\n@%p1 mov.u32 %r5, 0x11111111;\nmov.u32 %r6, 0x44444444;\n"
    "st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};\nst.shared.v4.u32 [%r4+2048], {%r5, %r5, %r5, %r5};\n"
    "setp.lt.u32 %p1, %r1, 16;\n@%p1 st.shared.v4.u32 [%r4+4096], {%r6, %r6, %r6, %r6};\n"
    "mov.u32 %r5, 0x38383838;\nmov.u32 %r6, 0x48484848;\nsetp.lt.u32 %p1, %r1, 32;\n"
    "@%p1 st.shared.v4.u32 [%r4+5120], {%r5, %r5, %r5, %r5};\n"
    "@%p1 st.shared.v4.u32 [%r4+5632], {%r6, %r6, %r6, %r6};\n";
const std::string tensor_start =
    "setp.ge.u32 %p1, %r1, 32;\n@%p1 bra ALLOCATED;\nadd.u32 %r7, %r2, 6152;\n"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 64;\n"
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nALLOCATED:\nadd.u32 %r8, %r2, 6144;\n"
    "setp.ne.u32 %p2, %r1, 0;\n@%p2 bra READY;\nmbarrier.init.shared::cta.b64 [%r8], 1;\n"
    "fence.mbarrier_init.release.cluster;\nREADY:\nfence.proxy.async.shared::cta;\nbar.sync 0;\n";
const std::string tensor_after = "tcgen05.fence::after_thread_sync;\n";
/// Sums in columns 0 to 7, scales of a in 32 to 35, those of b in 36 to 39. The instruction descriptor has 8 columns.
const std::string tensor_multiply =
    "ld.shared.u32 %r10, [%r2+6152];\n@%p2 bra STARTED;\nadd.u32 %r11, %r10, 32;\nadd.u32 %r12, %r10, 36;\n"
    "shr.u32 %r13, %r2, 4;\ncvt.u64.u32 %rd4, %r13;\nor.b64 %rd5, %rd4, 0x0000400800800000;\n"
    "or.b64 %rd6, %rd4, 0x0000400800080000;\nadd.s64 %rd6, %rd6, 256;\nor.b64 %rd7, %rd4, 0x0000400800000000;\n"
    "add.s64 %rd8, %rd7, 352;\nadd.s64 %rd7, %rd7, 320;\nmov.u32 %r14, 0x08020480;\nsetp.ne.u32 %p3, %r1, 0;\n"
    "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r11], %rd7;\ntcgen05.cp.cta_group::1.32x128b.warpx4 [%r12], %rd8;\n"
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%r10], %rd5, %rd6, %r14, [%r11], [%r12], "
    "%p3;\n";
const std::string tensor_commit =
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nSTARTED:\n";
const std::string tensor_wait = "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], 0;\n@!%p4 bra WAIT;\n";
const std::string tensor_load =
    "and.b32 %r15, %r1, 96;\nshl.b32 %r15, %r15, 16;\nadd.u32 %r15, %r15, %r10;\n"
    "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}, [%r15];\n";
const std::string tensor_loaded = "tcgen05.wait::ld.sync.aligned;\n";
const std::string tensor_before = "tcgen05.fence::before_thread_sync;\n";
const std::string tensor_store = "st.global.u32 [%rd3], %r27;\n";
const std::string tensor_end =
    "bar.sync 0;\nsetp.ge.u32 %p1, %r1, 32;\n@%p1 bra END;\n"
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 64;\nEND:\n";
const std::string tensor_begin = tensor_fill + tensor_start + tensor_after;
const std::string tensor_product = tensor_begin + tensor_multiply + tensor_commit + tensor_wait + tensor_after;
const std::string tensor_finish = tensor_loaded + tensor_before + tensor_store + tensor_end;

}  // namespace

TEST_CASE("tcgen05 multiplies operands and scales that its descriptors name, into tensor memory") {
  const auto all = run(tensor_product + tensor_load + tensor_finish, 128);
  for (ufp4_word t = 0; t < 128; ++t) REQUIRE(all[t] == (t == 37 ? 0x43800000u : 0x44000000u));  // 64 * 2 * 4
}

TEST_CASE("a pair of thread blocks shares a product of tcgen05: each has its rows of a and half of the rows of b") {
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return text;
  };
  // 256 x 16 sums. Elements of b are 2 in the first block, 3 in the second.
  std::string body = "mov.u32 %r40, %cluster_ctarank;\nmul.wide.u32 %rd9, %r40, 512;\nadd.s64 %rd3, %rd3, %rd9;\n" +
                     tensor_fill + tensor_start + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" +
                     tensor_after + "setp.ne.or.u32 %p2, %r40, 0, %p2;\n" + tensor_multiply + tensor_commit +
                     tensor_wait + tensor_after + tensor_load + tensor_loaded + tensor_before +
                     "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" + tensor_store + tensor_end;
  body = replaced(body, "cta_group::1", "cta_group::2");
  body = replaced(body, "0x08020480", "0x10040480");
  body = replaced(body, "shared::cluster.b64 [%r8];", "shared::cluster.multicast::cluster.b64 [%r8], 3;");
  body = replaced(body, "mov.u32 %r6, 0x44444444;", "mad.lo.u32 %r6, %r40, 0x11111111, 0x44444444;");
  const auto columns = [&](const std::string& offset) {  // the last of 8 columns from the offset on
    const std::string from = "add.u32 %r15, %r15, %r10;\n";
    return run(replaced(body, from, from + "add.u32 %r15, %r15, " + offset + ";\n"), 128, 0, {2, 1, 1});
  };
  const auto first = columns("0"), second = columns("8");
  for (ufp4_word t = 0; t < 256; ++t) {
    REQUIRE(first[t] == (t % 128 == 37 ? 0x43800000u : 0x44000000u));   // 64 * 2 * 4
    REQUIRE(second[t] == (t % 128 == 37 ? 0x43C00000u : 0x44400000u));  // 64 * 3 * 4
  }
}

TEST_CASE("tcgen05 without one of its waits, commits or fences is an error") {
  const auto error = [](const std::string& body) { return error_of(body, 128); };
  REQUIRE(error(tensor_begin + tensor_multiply + tensor_commit + "bar.sync 0;\n" + tensor_after + tensor_load +
                tensor_finish) == "reads columns of tensor memory whose writers have not been waited for");
  REQUIRE(error(tensor_product + tensor_load + tensor_before + tensor_store + tensor_end) ==
          "reads a result of tcgen05.ld that has not been waited for");
  REQUIRE(error(tensor_product + tensor_load + tensor_loaded + tensor_store + tensor_end) ==
          "arrives at a barrier after tcgen05.ld without tcgen05.fence::before_thread_sync");
  REQUIRE(error(tensor_begin + tensor_multiply + tensor_commit + tensor_wait + tensor_load + tensor_finish) ==
          "comes after a barrier without tcgen05.fence::after_thread_sync");
  REQUIRE(error(tensor_begin + tensor_multiply + "STARTED:\n" + tensor_wait).find("no warp can go on") == 0);
  REQUIRE(error(tensor_begin + tensor_multiply + tensor_commit + "bar.sync 0;\nst.shared.u32 [%r4], %r5;\n") ==
          "overwrites an operand of an asynchronous product that has not been waited for");
  REQUIRE(error(tensor_product + tensor_load + tensor_loaded) == "a thread block exits without tcgen05.dealloc");
  REQUIRE(error(tensor_product + "add.u32 %r10, %r10, 64;\n" + tensor_load + tensor_finish) ==
          "uses column 64 of tensor memory, which is not allocated");
  REQUIRE(error(tensor_product + "xor.b32 %r10, %r10, 0x200000;\n" + tensor_load + tensor_finish) ==
          "reads lanes of tensor memory that belong to another warp");
}
