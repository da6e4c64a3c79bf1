// ufp4 - tests: examples/train_lm as a program: that it learns, its files, its bits and its error messages.
// SPDX-License-Identifier: Apache-2.0
// ctest: timeout=600
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <ufp4/interop/safetensors.hpp>
#include <vector>

#include "../../examples/train_lm/program.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/seed.hpp"
#include "support/skip.hpp"

using support::scratch;

namespace {

using arguments = std::vector<std::string>;

struct finished {
  int status;
  std::string out, err;
};

finished train_with(const arguments& given) {
  std::vector<const char*> values{"train_lm"};
  for (const std::string& argument : given) values.push_back(argument.c_str());
  std::ostringstream out, err;
  const int status = train_lm::run_program(static_cast<int>(values.size()), values.data(), out, err);
  return {status, out.str(), err.str()};
}

arguments operator+(arguments a, const arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::size_t lines_of(const std::string& path) {
  const std::string text = bytes_of(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// What follows "key": in a result.json.
std::string member(const std::string& json, const std::string& key) {
  const std::size_t at = json.find("\"" + key + "\": ");
  if (at == std::string::npos) return "(absent)";
  const std::size_t begin = at + key.size() + 4, end = json.find_first_of(",\n", begin);
  return json.substr(begin, end - begin);
}
double number(const std::string& json, const std::string& key) { return std::stod(member(json, key)); }

/// A text of few different words, which a small model learns quickly.
const std::string& some_text() {
  static const std::string path = [] {
    const char* const words[] = {"one", "block", "of", "sixteen", "values", "shares", "its", "scale", "\n"};
    std::string text;
    for (std::uint32_t i = 0; text.size() < 40000; ++i)
      text += std::string(words[ufp4::philox4x32({{i, 0, 0, 0}}, 1).word[0] % 9]) + " ";
    const std::string at = scratch() / "text";
    std::ofstream(at) << text;
    return at;
  }();
  return path;
}

/// Takes milliseconds per step, and has every kind of random bits of a recipe, and experts.
arguments tiny() {
  return {"--layers",  "1",     "--width", "32",    "--heads",        "2",    "--ffn",  "32",        "--sequence", "32",
          "--experts", "2",     "--batch", "8",     "--eval-windows", "8",    "--lr",   "1e-2",      "--steps",    "24",
          "--recipe",  "nvfp4", "--rht",   "wgrad", "--signs",        "step", "--text", some_text(), "--quiet"};
}

/// The program in a process of its own, which a signal may end.
class child {
 public:
  explicit child(const arguments& given) : pid_(fork()) {
    if (pid_ == 0) _exit(train_with(given).status);
  }
  void signal(int number) const { kill(pid_, number); }
  /// Exit status, or the negative number of the signal that ended it.
  int wait() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

bool wait_for_lines(const std::string& path, std::size_t lines) {
  for (int i = 0; i < 6000; ++i, sleep_for(0.005))
    if (lines_of(path) >= lines) return true;
  return false;
}

/// A complete run of tiny() on one thread, without interruptions.
const std::string& uninterrupted() {
  static const std::string folder = [] {
    const std::string at = scratch() / "uninterrupted";
    REQUIRE(train_with(tiny() + arguments{"--threads", "1", "--out", at}).status == 0);
    return at;
  }();
  return folder;
}

/// A log without its last column, the seconds.
std::string timeless(const std::string& path) {
  std::istringstream lines(bytes_of(path));
  std::string kept, line;
  while (std::getline(lines, line)) kept += line.substr(0, line.rfind(',')) + "\n";
  return kept;
}

void check_like_uninterrupted(const std::string& folder) {
  const std::string expected = bytes_of(uninterrupted() + "/result.json"), here = bytes_of(folder + "/result.json");
  CHECK(member(here, "checkpoint_hash").size() == 18);
  CHECK(member(here, "checkpoint_hash") == member(expected, "checkpoint_hash"));
  CHECK(member(here, "valid_loss") == member(expected, "valid_loss"));
  CHECK(member(here, "final_train_loss") == member(expected, "final_train_loss"));
  CHECK(timeless(folder + "/log.csv") == timeless(uninterrupted() + "/log.csv"));
}

void check_like_uninterrupted_hash(const std::string& folder) {
  CHECK(member(bytes_of(folder + "/result.json"), "checkpoint_hash") ==
        member(bytes_of(uninterrupted() + "/result.json"), "checkpoint_hash"));
}

}  // namespace

TEST_CASE("wrong usage is one message and exit status 2", "[usage]") {
  const std::vector<arguments> wrong{{"--nonsense"},
                                     {"text.txt"},
                                     {"--size", "giant"},
                                     {"--size"},
                                     {"--layers", "0"},
                                     {"--width", "-64"},
                                     {"--width", "63"},
                                     {"--heads", "3"},
                                     {"--sequence", "8"},
                                     {"--steps", "1e3"},
                                     {"--steps", "10", "--warmup", "11"},
                                     {"--lr", "fast"},
                                     {"--lr", "0"},
                                     {"--lr", "nan"},
                                     {"--lr-floor", "1"},
                                     {"--ema", "1"},
                                     {"--ema", "-0.5"},
                                     {"--keep-at", "5"},
                                     {"--capture-at", "5"},
                                     {"--steps", "10", "--capture-at", "11", "--out", "x"},
                                     {"--steps", "10", "--keep-at", "11", "--out", "x"},
                                     {"--gradient-draws", "4"},
                                     {"--gradient-draws", "1", "--probe-every", "1", "--out", "x"},
                                     {"--batch", "6"},
                                     {"--moe", "--top-k", "9"},
                                     {"--seed", "18446744073709551616"},
                                     {"--recipe", "ufp5"},
                                     {"--recipe", "ufp4", "--clip", "2"},
                                     {"--recipe", "nvfp4", "--rht", "all"},
                                     {"--recipe", "quartet2", "--format", "mxfp4"},
                                     {"--bf16-blocks", "1"},
                                     {"--recipe", "bf16", "--osci-reset", "100"},
                                     {"--osci-reset", "50"},
                                     {"--osci-window", "5"},
                                     {"--osci-threshold", "8"},
                                     {"--recipe", "bf16", "--out-control", "0.1"},
                                     {"--moe", "--out-control", "0.1"},
                                     {"--out-control", "1"},
                                     {"--out-control", "-0.1"},
                                     {"--out-control", "nan"},
                                     {"--out-control", "0.001"},
                                     {"--out-control", "0.999"},
                                     {"--out-control", "0.1", "--out-start", "0"},
                                     {"--out-control", "0.1", "--out-window", "0"},
                                     {"--out-control", "0.1", "--steps", "10"},
                                     {"--out-control", "0.1", "--probe-every", "5", "--out", "x"},
                                     {"--out-start", "5"},
                                     {"--out-window", "5"},
                                     {"--resume"},
                                     {"--probe-every", "5"},
                                     {"--checkpoint-every", "5"},
                                     {"--ranks", "3"},
                                     {"--csv", "--json"},
                                     {"--tied=yes"}};
  for (const arguments& given : wrong) {
    const finished end = train_with(given);
    INFO(given.front() << " " << given.back() << ": " << end.err);
    CHECK(end.status == 2);
    CHECK(end.out.empty());
    CHECK(end.err.starts_with("train_lm: "));
    CHECK(end.err.ends_with("; train_lm --help lists the options\n"));
    CHECK(std::count(end.err.begin(), end.err.end(), '\n') == 1);
  }
}

TEST_CASE("text that cannot be read, or is too short, is one message and exit status 1", "[usage]") {
  const std::string empty = scratch() / "empty", brief = scratch() / "brief";
  std::ofstream(empty).flush();
  std::ofstream(brief) << "too little";
  for (const std::string& path : {std::string("/nowhere"), empty, brief}) {
    const finished end = train_with({"--text", path});
    INFO(end.err);
    CHECK(end.status == 1);
    CHECK(end.err.starts_with("train_lm: " + path + ": "));
    CHECK(std::count(end.err.begin(), end.err.end(), '\n') == 1);
  }
  const finished end = train_with(tiny() + arguments{"--out", empty});
  CHECK(end.status == 1);
  CHECK(end.err.find("is not a folder and cannot be created") != std::string::npos);
}

TEST_CASE("--help names every exit status, --list-recipes every recipe", "[usage]") {
  CHECK(train_with({"--help"}).out == train_lm::help_text);
  const std::string list = train_with({"--list-recipes"}).out;
  for (const train_lm::named_recipe& r : train_lm::recipes())
    CHECK(list.find(std::string("  ") + r.name + " ") != std::string::npos);
}

TEST_CASE("the progress line has step, loss, tokens per second and the time left, and only on a terminal", "[usage]") {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) return support::skip("no pseudo-terminal can be opened here (is /dev/pts mounted?)");
  REQUIRE((grantpt(terminal) == 0 && unlockpt(terminal) == 0));
  const int seen = open(ptsname(terminal), O_RDWR | O_NOCTTY), before = dup(STDERR_FILENO);
  REQUIRE(seen >= 0);
  const auto shown_to = [&](int file) {
    dup2(file, STDERR_FILENO);
    {
      train_lm::progress_line line(true);
      line.step(6, 12, 1.25, 20500, 75);
    }
    dup2(before, STDERR_FILENO);
  };
  const std::string to = scratch() / "stderr";
  const int file = open(to.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  shown_to(file);
  CHECK(std::filesystem::file_size(to) == 0);
  shown_to(seen);
  char text[256] = {};
  REQUIRE(read(terminal, text, sizeof text - 1) > 0);
  CHECK(std::string(text).find("[############............] 6/12  loss 1.250  20.5k tokens/s  eta 1m15s") !=
        std::string::npos);
  for (const int each : {terminal, seen, before, file}) close(each);
}

TEST_CASE("nano learns, dense and with experts", "[training]") {
  for (const arguments& kind : {arguments{"--recipe", "ufp4"}, arguments{"--recipe", "e2m1-baseline", "--moe"}}) {
    const finished end = train_with(kind + arguments{"--size", "nano", "--text", some_text(), "--steps", "25", "--lr",
                                                     "6e-3", "--eval-windows", "16", "--json"});
    REQUIRE(end.status == 0);
    // An untrained model has ln 256 = 5.55; one that has learned only the frequencies of the bytes, 2.64. Over five
    // seeds and both recipes the loss after 25 steps was 1.23 to 1.34.
    CHECK(number(end.out, "valid_loss") < 1.8);
    CHECK(number(end.out, "valid_loss") > 0.5);
  }
}

TEST_CASE("with the same data the losses of a recipe's first steps are near those of bf16", "[training]") {
  const auto losses = [](const char* recipe, const char* data_seed) {
    std::istringstream rows(
        train_with({"--layers",   "1",     "--width",        "64", "--heads", "2",         "--ffn",   "32",
                    "--sequence", "16",    "--batch",        "4",  "--text",  some_text(), "--steps", "12",
                    "--lr",       "1e-30", "--eval-windows", "1",  "--csv",   "--recipe",  recipe,    "--data-seed",
                    data_seed})
            .out);
    std::vector<double> found;
    std::string line, cell;
    for (std::getline(rows, line); std::getline(rows, line); found.push_back(std::stod(cell))) {
      std::istringstream cells(line);
      for (int i = 0; i < 5; ++i) std::getline(cells, cell, ',');
    }
    return found;
  };
  const auto apart = [](const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  };
  const auto reference = losses("bf16", "1");
  REQUIRE(reference.size() == 12);
  // The weights do not change, so the loss varies with the 64 bytes of the batch, and a little with rounding.
  CHECK(apart(reference, losses("ufp4", "1")) < 0.01);
  CHECK(apart(reference, losses("e2m1-baseline", "1")) < 0.01);
  for (const char* published : {"nvfp4", "te-four-over-six", "quartet2", "tetrajet2", "if4", "hif4"}) {
    CAPTURE(published);
    CHECK(apart(reference, losses(published, "1")) < 0.01);
    CHECK(apart(reference, losses(published, "1")) > 0);
  }
  CHECK(apart(reference, losses("bf16", "2")) > 0.015);
}

TEST_CASE("probes, evaluations, checkpoints and threads change no bit", "[bits]") {
  const std::string folder = scratch() / "observed";
  REQUIRE(train_with(tiny() + arguments{"--threads", "3", "--checkpoint-every", "5", "--out", folder}).status == 0);
  check_like_uninterrupted(folder);

  const std::string probed = scratch() / "probed";
  REQUIRE(train_with(tiny() + arguments{"--probe-every", "12", "--eval-every", "6", "--out", probed}).status == 0);
  CHECK(member(bytes_of(probed + "/result.json"), "checkpoint_hash") ==
        member(bytes_of(uninterrupted() + "/result.json"), "checkpoint_hash"));
  // Steps 1, 12 and 24: six operands of four linear layers, and the residual stream after one block; and the header.
  CHECK(lines_of(probed + "/probes.csv") == 3 * (6 * 4 + 1) + 1);
  CHECK(bytes_of(probed + "/probes.csv").find(",nan") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder + "/probes.csv"));
}

TEST_CASE("under --bf16-blocks the operands of its blocks have the error of bf16, those of the others that of 4 bits",
          "[training]") {
  const std::string folder = scratch() / "bf16-blocks";
  const arguments run = tiny() + arguments{"--layers", "3", "--steps", "1", "--probe-every", "1", "--out", folder};
  REQUIRE(train_with(run + arguments{"--bf16-blocks", "nvfp4"}).status == 0);
  CHECK(bytes_of(folder + "/config.json").find("\"bf16_blocks\": \"nvfp4\"") != std::string::npos);
  std::istringstream lines(bytes_of(folder + "/probes.csv"));
  std::string line;
  int operands = 0;
  for (std::getline(lines, line); std::getline(lines, line);) {
    if (line.find(",residual,") != std::string::npos) continue;
    CAPTURE(line);
    const bool kept = line.starts_with("1,2,");  // the last of three blocks
    CHECK((std::stod(line.substr(line.rfind(',') + 1)) > 40) == kept);
    operands += kept ? 1 : 1000;
  }
  CHECK(operands == 6 * 4 + 2 * 6 * 4 * 1000);
  const finished wrong = train_with(tiny() + arguments{"--bf16-blocks", "1+0"});
  CHECK((wrong.status == 2 && wrong.err.find("are all of the model's 1") != std::string::npos));
}

TEST_CASE("a run that is stopped inside a window of --osci-reset and resumed has the bits of one that is not",
          "[bits]") {
  const arguments run =
      tiny() + arguments{"--layers", "2", "--osci-reset", "8", "--osci-window", "6", "--osci-threshold", "4"};
  const std::string whole = scratch() / "osci-whole", parts = scratch() / "osci-parts",
                    plain = scratch() / "osci-plain";
  REQUIRE(train_with(run + arguments{"--out", whole}).status == 0);
  CHECK(number(bytes_of(whole + "/result.json"), "osci_resets") > 0);
  REQUIRE(train_with(run + arguments{"--keep-at", "11", "--out", parts}).status == 0);
  for (const char* file : {"/result.json", "/checkpoint.safetensors"}) std::filesystem::remove(parts + file);
  std::filesystem::rename(parts + "/checkpoint-11.safetensors", parts + "/checkpoint.safetensors");
  REQUIRE(train_with(run + arguments{"--keep-at", "11", "--out", parts, "--resume"}).status == 0);
  const std::string hash = member(bytes_of(whole + "/result.json"), "checkpoint_hash");
  CHECK(member(bytes_of(parts + "/result.json"), "checkpoint_hash") == hash);
  REQUIRE(train_with(tiny() + arguments{"--layers", "2", "--out", plain}).status == 0);
  CHECK(member(bytes_of(plain + "/result.json"), "checkpoint_hash") != hash);
}

TEST_CASE("a run that is stopped inside or after the window of --out-control and resumed has the same bits", "[bits]") {
  const arguments run = tiny() + arguments{"--recipe",      "tetrajet2", "--experts",   "0", "--layers",     "2",
                                           "--out-control", "0.1",       "--out-start", "5", "--out-window", "6"};
  const std::string whole = scratch() / "out-whole";
  REQUIRE(train_with(run + arguments{"--out", whole, "--threads", "1"}).status == 0);
  const std::string hash = member(bytes_of(whole + "/result.json"), "checkpoint_hash");
  for (const char* stop : {"8", "12"}) {
    CAPTURE(stop);
    const std::string parts = scratch() / ("out-parts-" + std::string(stop));
    const arguments split = run + arguments{"--keep-at", stop, "--out", parts, "--threads", "2"};
    REQUIRE(train_with(split).status == 0);
    for (const char* file : {"/result.json", "/checkpoint.safetensors"}) std::filesystem::remove(parts + file);
    std::filesystem::rename(parts + "/checkpoint-" + stop + ".safetensors", parts + "/checkpoint.safetensors");
    REQUIRE(train_with(split + arguments{"--resume"}).status == 0);
    CHECK(member(bytes_of(parts + "/result.json"), "checkpoint_hash") == hash);
  }
}

TEST_CASE("validation and captured operands are those of --out-control", "[training]") {
  const arguments run = tiny() + arguments{"--recipe", "tetrajet2", "--experts",    "0", "--lr", "1e-30",
                                           "--steps",  "4",         "--capture-at", "4"};  // no weight changes
  const std::string with = scratch() / "out-with", without = scratch() / "out-without";
  REQUIRE(train_with(run + arguments{"--out-control", "0.1", "--out-window", "3", "--out", with}).status == 0);
  REQUIRE(train_with(run + arguments{"--out", without}).status == 0);
  CHECK(number(bytes_of(with + "/result.json"), "valid_loss") !=
        number(bytes_of(without + "/result.json"), "valid_loss"));
  const bool same = bytes_of(with + "/operands-4.safetensors") == bytes_of(without + "/operands-4.safetensors");
  CHECK_FALSE(same);  // not a comparison of strings, which would print them
}

TEST_CASE("a branch that begins after the start of --out-control is rejected, one that begins before it is not",
          "[usage]") {
  const std::string trunk = scratch() / "out-trunk";
  const arguments run = tiny() + arguments{"--recipe", "tetrajet2", "--experts", "0"};
  REQUIRE(train_with(run + arguments{"--keep-at", "5", "--out", trunk}).status == 0);
  const arguments branch =
      run + arguments{"--from", trunk + "/checkpoint-5.safetensors", "--out-control", "0.1", "--out-window", "3"};
  const finished late = train_with(branch + arguments{"--out-start", "5"});
  CHECK(late.status == 1);
  CHECK(late.err.find("has step 5, --out-start must be above it, got 5") != std::string::npos);
  CHECK(train_with(branch + arguments{"--out-start", "6"}).status == 0);
}

TEST_CASE("Ctrl-C writes a checkpoint, and a resumed run has the bits of an uninterrupted one", "[bits]") {
  const std::string folder = scratch() / "interrupted";
  const child stopped(tiny() + arguments{"--threads", "2", "--out", folder});
  REQUIRE(wait_for_lines(folder + "/log.csv", 4));
  stopped.signal(SIGINT);
  const int status = stopped.wait();
  if (status == 130) CHECK_FALSE(std::filesystem::exists(folder + "/result.json"));
  CHECK((status == 130 || status == 0));  // 0: it was done before the signal came
  CHECK(std::filesystem::exists(folder + "/checkpoint.safetensors"));
  REQUIRE(train_with(tiny() + arguments{"--threads", "1", "--out", folder, "--resume"}).status == 0);
  check_like_uninterrupted(folder);
}

TEST_CASE("kill -9 loses only the steps since the last checkpoint", "[bits]") {
  const std::string folder = scratch() / "killed", at = folder + "/checkpoint.safetensors";
  const arguments run = tiny() + arguments{"--threads", "1", "--checkpoint-every", "1", "--resume", "--out", folder};
  int killed = 0, with_checkpoint = 0;
  for (std::uint32_t round = 0; round < 8; ++round) {
    const child victim(run);
    REQUIRE(wait_for_lines(folder + "/log.csv", 2 * round + 2));
    const std::uint32_t random_word = ufp4::philox4x32({{round, 0, 0, 0}}, support::seed(7)).word[0];
    sleep_for(0.01 * static_cast<double>(random_word) / 4294967296.0);  // a step and its checkpoint take about as long
    victim.signal(SIGKILL);
    killed += victim.wait() == -SIGKILL;
    if (!std::filesystem::exists(at)) continue;
    ++with_checkpoint;
    const train_lm::checkpoint whole(at);  // throws where the file is not whole
    CHECK(std::stoul(whole.word("step")) <= lines_of(folder + "/log.csv"));
  }
  INFO(killed << " killed, " << with_checkpoint << " after a first checkpoint");
  CHECK(killed > 0);
  REQUIRE(train_with(run).status == 0);
  check_like_uninterrupted(folder);
}

TEST_CASE("a run folder is not overwritten, nor resumed with other settings or from a damaged checkpoint", "[bits]") {
  const std::string folder = uninterrupted(), at = folder + "/checkpoint.safetensors";
  const std::string whole = bytes_of(at);
  const auto message = [&](const arguments& more) {
    const finished end = train_with(tiny() + arguments{"--out", folder} + more);
    CHECK((end.status == 1 || end.status == 2));
    return end.err;
  };
  CHECK(message({}).find("already has a run; --resume continues it") != std::string::npos);
  CHECK(
      message({"--resume", "--seed", "2"}).find("settings mismatch: the checkpoint has seed 1, this run has seed 2") !=
      std::string::npos);
  CHECK(message({"--resume", "--recipe", "ufp4"}).find("this run has recipe") != std::string::npos);
  CHECK(message({"--resume", "--width", "64"})
            .find("settings mismatch: the checkpoint has width 32, this run has width 64") != std::string::npos);
  const std::string other = scratch() / "other";
  std::ofstream(other) << bytes_of(some_text()) << "and one more line\n";
  CHECK(message({"--resume", "--text", other}).find("text mismatch: the checkpoint was made with another text") !=
        std::string::npos);

  std::ofstream(at, std::ios::binary) << whole.substr(0, whole.size() / 2);
  CHECK(message({"--resume"}).find("is damaged") != std::string::npos);
  std::ofstream(at, std::ios::binary) << "x" << whole.substr(1);
  CHECK(message({"--resume"}).find(at + ": ") != std::string::npos);
  std::ofstream(at, std::ios::binary) << whole;
  REQUIRE(train_with(tiny() + arguments{"--out", folder, "--resume"}).status == 0);

  const std::string log = bytes_of(folder + "/log.csv");
  std::ofstream(folder + "/log.csv", std::ios::binary) << log.substr(0, log.size() / 2);
  CHECK(message({"--resume"}).find(" rows, the checkpoint has step 24") != std::string::npos);
  std::ofstream(folder + "/log.csv", std::ios::binary) << log;
}

TEST_CASE("a new run removes the files of an older run without a checkpoint", "[bits]") {
  const std::string folder = scratch() / "stale";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/result.json") << "{}\n";
  std::ofstream(folder + "/probes.csv") << "step,layer,linear,operand,attenuation,sqnr_db\n1,0,qkv,X,1,20\n";
  const child stopped(tiny() + arguments{"--threads", "1", "--steps", "100000", "--out", folder});
  const bool began = wait_for_lines(folder + "/log.csv", 2);
  stopped.signal(SIGKILL);
  stopped.wait();
  REQUIRE(began);
  CHECK_FALSE(std::filesystem::exists(folder + "/result.json"));
  CHECK_FALSE(std::filesystem::exists(folder + "/probes.csv"));
}

TEST_CASE("a loss that is not finite ends the run with exit status 3 and a result without losses", "[training]") {
  const std::string folder = scratch() / "diverged";
  const finished end = train_with(tiny() + arguments{"--lr", "1e30", "--recipe", "bf16", "--out", folder});
  CHECK(end.status == 3);
  CHECK(end.err.find("try a smaller --lr") != std::string::npos);
  CHECK(member(bytes_of(folder + "/result.json"), "final_train_loss") == "null");
}

TEST_CASE("--ema validates the averaged weights and changes no other number of the run", "[bits]") {
  const std::string folder = scratch() / "averaged";
  const arguments run = tiny() + arguments{"--ema", "0.5", "--threads", "1", "--out", folder};
  const child stopped(run);
  REQUIRE(wait_for_lines(folder + "/log.csv", 4));
  stopped.signal(SIGINT);
  stopped.wait();
  REQUIRE(train_with(run + arguments{"--resume"}).status == 0);
  CHECK(timeless(folder + "/log.csv") == timeless(uninterrupted() + "/log.csv"));
  const std::string here = bytes_of(folder + "/result.json"), plain = bytes_of(uninterrupted() + "/result.json");
  CHECK(member(here, "valid_loss") == member(plain, "valid_loss"));
  CHECK(member(plain, "average_valid_loss") == "null");
  CHECK(number(here, "average_valid_loss") != number(here, "valid_loss"));
  const std::string whole = scratch() / "averaged_whole";
  REQUIRE(train_with(tiny() + arguments{"--ema", "0.5", "--out", whole}).status == 0);
  for (const char* name : {"average_valid_loss", "checkpoint_hash"})
    CHECK(member(bytes_of(whole + "/result.json"), name) == member(here, name));
}

namespace {

/// A complete run of tiny() that kept the checkpoint of step 16.
const std::string& trunk() {
  static const std::string folder = [] {
    const std::string at = scratch() / "trunk";
    REQUIRE(train_with(tiny() + arguments{"--keep-at", "16", "--out", at}).status == 0);
    return at;
  }();
  return folder;
}

}  // namespace

TEST_CASE("a run from a kept checkpoint repeats the rest of the run that kept it", "[bits]") {
  check_like_uninterrupted_hash(trunk());
  const std::string kept = trunk() + "/checkpoint-16.safetensors", folder = scratch() / "branch";
  REQUIRE(train_with(tiny() + arguments{"--from", kept, "--out", folder}).status == 0);
  const std::string expected = timeless(uninterrupted() + "/log.csv"), here = timeless(folder + "/log.csv");
  CHECK(lines_of(folder + "/log.csv") == 1 + 8);
  CHECK(here.substr(here.find('\n')) == expected.substr(expected.find("\n17,")));
  check_like_uninterrupted_hash(folder);

  const finished other = train_with(tiny() + arguments{"--from", kept, "--steps", "16"});
  CHECK(other.status == 1);
  CHECK(other.err.find(kept + ": has step 16, no step of 16 is left") != std::string::npos);
  const finished wider = train_with(tiny() + arguments{"--from", kept, "--width", "64"});
  CHECK(wider.status == 1);
  CHECK(wider.err.find("shape mismatch") != std::string::npos);
}

TEST_CASE("a branch under another recipe is resumed with the bits of an uninterrupted one", "[bits]") {
  const std::string kept = trunk() + "/checkpoint-16.safetensors", folder = scratch() / "branch_resumed";
  const arguments run = tiny() + arguments{"--from", kept, "--recipe", "e2m1-baseline", "--seed", "7", "--steps", "40"};
  const std::string whole = scratch() / "branch_whole";
  REQUIRE(train_with(run + arguments{"--out", whole}).status == 0);
  const child stopped(run + arguments{"--threads", "1", "--out", folder});
  REQUIRE(wait_for_lines(folder + "/log.csv", 4));
  stopped.signal(SIGINT);
  stopped.wait();
  REQUIRE(train_with(run + arguments{"--out", folder, "--resume"}).status == 0);
  CHECK(timeless(folder + "/log.csv") == timeless(whole + "/log.csv"));
  const finished moved = train_with(
      tiny() + arguments{"--recipe", "e2m1-baseline", "--seed", "7", "--steps", "40", "--out", whole, "--resume"});
  CHECK(moved.status == 1);
  CHECK(moved.err.find("settings mismatch: the checkpoint has from_hash") != std::string::npos);
}

TEST_CASE("--capture-at writes the operands of the step with their shapes and weights, and changes no bit", "[bits]") {
  const std::string folder = scratch() / "captured";
  REQUIRE(train_with(tiny() + arguments{"--capture-at", "17", "--out", folder}).status == 0);
  check_like_uninterrupted_hash(folder);
  ufp4::interop::safetensors_reader file(folder + "/operands-17.safetensors");
  CHECK(file.tensors().size() == 3 * 4);
  const train_lm::checkpoint captured(folder + "/operands-17.safetensors");
  const train_lm::checkpoint before(trunk() + "/checkpoint-16.safetensors");
  for (const std::string name : {"qkv", "out", "gate_up", "down"}) {
    const auto shape = [&](const char* operand) { return file.at(operand + (".block0." + name)).shape; };
    CHECK(shape("X")[0] == shape("dY")[0]);
    CHECK(shape("X")[1] == shape("W")[1]);
    // Step 17 multiplies with the weights of 16 updates.
    train_lm::matrix<float> w(static_cast<train_lm::index>(shape("W")[0]), static_cast<train_lm::index>(shape("W")[1]));
    train_lm::matrix<float> trained = w;
    captured.fill({{"W.block0." + name, &w}});
    before.fill({{"block0." + name, &trained}});
    CHECK(w == trained);
  }
}

TEST_CASE("--gradient-draws measures at every probe, changes no bit, and finds no error under exact arithmetic",
          "[bits]") {
  const std::string folder = scratch() / "gradients";
  REQUIRE(train_with(tiny() + arguments{"--probe-every", "12", "--gradient-draws", "3", "--out", folder}).status == 0);
  check_like_uninterrupted_hash(folder);
  // Steps 1, 12 and 24; four choices of GEMMs; embedding, qkv, out, router, gate_up, down, head.
  CHECK(lines_of(folder + "/gradients.csv") == 3 * 4 * 7 + 1);
  CHECK(bytes_of(folder + "/gradients.csv").find("nan") == std::string::npos);
}
