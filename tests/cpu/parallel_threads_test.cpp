// ufp4 - parallel: each task once, whatever runs them; the operations' bytes do not depend on it.
// SPDX-License-Identifier: Apache-2.0
#include <ufp4/cpu/parallel.hpp>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <ufp4/dequantize.hpp>
#include <ufp4/quantize.hpp>

#include "support/catch.hpp"
#include "support/hostile.hpp"
#include "support/matrices.hpp"
#include "support/seed.hpp"
#include "support/threads.hpp"

namespace {

using namespace ufp4;

/// How often each of n indices was called on a context, which must be once.
std::vector<int> calls_on(const cpu::context& ctx, std::size_t n) {
  std::vector<std::atomic<int>> calls(n);
  cpu::detail::parallel_for(ctx, n, [&](std::size_t i) { ++calls[i]; });
  return {calls.begin(), calls.end()};
}

}  // namespace

TEST_CASE("every index is called once, on any number of threads and on a caller's executor") {
  for (const std::size_t n : {0u, 1u, 2u, 3u, 7u, 8u, 1000u})
    support::on_every_context([&](const cpu::context& ctx) { REQUIRE(calls_on(ctx, n) == std::vector<int>(n, 1)); });
  CHECK(calls_on(cpu::context{}, 100) == std::vector<int>(100, 1));
  CHECK(calls_on(cpu::context{.threads = 64}, 5) == std::vector<int>(5, 1));
}

TEST_CASE("at most `threads` threads take part, the caller's among them; one means the caller's alone") {
  for (const int threads : {1, 2, 5}) {
    std::mutex mutex;
    std::set<std::thread::id> seen;
    cpu::detail::parallel_for(cpu::context{.threads = threads}, 200, [&](std::size_t) {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    CHECK((!seen.empty() && seen.size() <= static_cast<std::size_t>(threads)));
    if (threads == 1) CHECK(seen.count(std::this_thread::get_id()) == 1);
  }
  // A single task needs no second thread.
  std::thread::id where;
  cpu::detail::parallel_for(cpu::context{.threads = 8}, 1, [&](std::size_t) { where = std::this_thread::get_id(); });
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE("a const executor serves, and a copy of a reference refers to the executor itself") {
  const auto run = [](std::size_t n, cpu::task_ref task) {
    for (std::size_t i = 0; i < n; ++i) task(i);
  };
  std::size_t sum = 0;
  const auto add = [&](std::size_t i) { sum += i; };
  const cpu::task_ref task{&add, [](const void* object, std::size_t i) {
                             (*static_cast<const std::remove_const_t<decltype(add)>*>(object))(i);
                           }};
  cpu::executor_ref copy;
  {
    cpu::executor_ref first(run);
    copy = cpu::executor_ref(first);
  }
  copy(5, task);
  CHECK(sum == 10);
}

TEST_CASE("an executor gets every task of a call, and is used instead of threads") {
  support::backwards executor;
  const cpu::context ctx{.threads = 7, .executor = executor};
  std::vector<std::size_t> order;
  cpu::detail::parallel_for(ctx, 4, [&](std::size_t i) { order.push_back(i); });
  CHECK(order == std::vector<std::size_t>{3, 2, 1, 0});
  CHECK(executor.tasks == 4);
}

TEST_CASE("an exception of a task reaches the caller after all have ended, on every context") {
  support::on_every_context([](const cpu::context& ctx) {
    std::atomic<int> ended{0};
    bool caught = false;
    try {
      cpu::detail::parallel_for(ctx, 50, [&](std::size_t i) {
        if (i % 10 == 3) throw std::runtime_error("task");
        ++ended;
      });
    } catch (const std::runtime_error& e) {
      caught = std::string(e.what()) == "task";
    }
    REQUIRE(caught);
    REQUIRE(ended == 45);
  });
}

namespace {

template <class F>
void check_operations(std::size_t rows, std::size_t cols) {
  INFO(support::seed_note());
  CAPTURE(rows, cols);
  support::hostile source(support::seed(rows));
  const std::vector<float> values = source.values(rows * cols);
  const matrix_view<const float> x{values.data(), rows, cols};
  const stochastic random_bits{.seed = 4};
  const random_hadamard<32> t{2};
  quantize_report first_report;
  const cpu::context alone{.threads = 1, .isa = cpu::isa::scalar};
  const auto first = quantize<F>(x, random_bits, t, count_into{first_report}, alone);
  std::vector<float> first_fake(values.size()), first_back(values.size());
  fake_quantize<F>(x, matrix_view<float>{first_fake.data(), rows, cols}, random_bits, t, undo_transform{}, alone);
  dequantize(first, matrix_view<float>{first_back.data(), rows, cols}, alone);
  const float first_amax = amax(x, t, alone).value;
  support::on_every_context([&](const cpu::context& ctx) {
    quantize_report report;
    std::vector<float> fake(values.size()), back(values.size());
    REQUIRE(quantize<F>(x, random_bits, t, count_into{report}, ctx) == first);
    REQUIRE(report == first_report);
    fake_quantize<F>(x, matrix_view<float>{fake.data(), rows, cols}, random_bits, t, undo_transform{}, ctx);
    dequantize(first, matrix_view<float>{back.data(), rows, cols}, ctx);
    REQUIRE(support::same_numbers(fake, first_fake));
    REQUIRE(support::same_numbers(back, first_back));
    REQUIRE(model::bits_of(amax(x, t, ctx).value) == model::bits_of(first_amax));
  });
}

using square = block_format<fp4<E2M1>, e4m3, ufp4::square(16), float>;

}  // namespace

TEMPLATE_TEST_CASE("the operations' bytes and counts are the same on every number of threads, tier and executor", "",
                   e1m2_f32, nvfp4, square) {
  check_operations<TestType>(210, 350);  // three tasks of many rows
  check_operations<TestType>(2, 5);
  if (TestType::block.rows == 1) check_operations<TestType>(2, 33000);  // a row is a task
}

TEST_CASE("calls from several threads at once do not disturb each other") {
  const std::size_t rows = 200, cols = 256;
  std::vector<float> values(rows * cols);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) - 48;
  const matrix_view<const float> x{values.data(), rows, cols};
  const auto want = quantize<nvfp4>(x, cpu::context{.threads = 1});
  std::vector<int> same(4, 0);
  std::vector<std::thread> callers;
  for (std::size_t c = 0; c < 4; ++c)
    callers.emplace_back([&, c] { same[c] = quantize<nvfp4>(x, cpu::context{.threads = 2}) == want; });
  for (std::thread& caller : callers) caller.join();
  CHECK(same == std::vector<int>(4, 1));
}
