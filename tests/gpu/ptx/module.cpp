// ufp4 - the PTX interpreter: the text of a module, and its kernels decoded.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/memory.hpp"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

namespace ptx {

void reject(const std::string& what) { throw std::runtime_error(what); }

namespace {

std::string trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return std::string(s);
}
bool starts(std::string_view s, std::string_view with) { return s.substr(0, with.size()) == with; }
std::vector<std::string> words_of(const std::string& s) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < s.size();) {
    while (i < s.size() && std::isspace(static_cast<unsigned char>(s[i]))) ++i;
    std::size_t e = i;
    while (e < s.size() && !std::isspace(static_cast<unsigned char>(s[e]))) ++e;
    if (e > i) all.push_back(s.substr(i, e - i));
    i = e;
  }
  return all;
}

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// A declaration: .param .align 8 .b8 name[24]
struct declaration {
  std::string name;
  std::size_t align = 1, element = 1, bytes = 0;
};
declaration declaration_of(const std::string& text) {
  declaration d;
  const auto all = words_of(text);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& w = all[i];
    if (w == ".align" || w == ".ptr") {
      if (w == ".align") d.align = std::stoul(all[++i]);
    } else if (w[0] == '.' && w.size() > 2 && std::isdigit(static_cast<unsigned char>(w[2])) && w[1] != 'v') {
      d.element = std::stoul(w.substr(2)) / 8;
    } else if (w[0] == '.' && w == ".pred") {
      d.element = 4;
    } else if (w[0] != '.') {
      const std::size_t bracket = w.find('[');
      d.name = w.substr(0, bracket);
      std::size_t n = 1;
      if (bracket != std::string::npos) n = w[bracket + 1] == ']' ? 0 : std::stoul(w.substr(bracket + 1));
      d.bytes = n * d.element;
      break;
    }
  }
  d.align = std::max(d.align, d.element);
  return d;
}

}  // namespace

type_name type_of(std::string_view name) {
  if (name == "pred") return {'p', 1};
  if (name == "bf16x2") return {'B', 32};
  if (name == "f16x2") return {'H', 32};
  if (name == "bf16") return {'B', 16};
  if (name == "f16") return {'H', 16};
  if (name.size() < 2 || std::strchr("subf", name[0]) == nullptr) return {};
  const unsigned bits = static_cast<unsigned>(std::strtoul(std::string(name.substr(1)).c_str(), nullptr, 10));
  if (name != name[0] + std::to_string(bits)) return {};
  return {name[0], bits};
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> all;
  int depth = 0;
  std::string now;
  for (const char c : text) {
    depth += c == '{' || c == '[' || c == '(';
    depth -= c == '}' || c == ']' || c == ')';
    if (c == ',' && depth == 0) {
      all.push_back(trimmed(now));
      now.clear();
    } else {
      now += c;
    }
  }
  if (!trimmed(now).empty()) all.push_back(trimmed(now));
  return all;
}

std::vector<std::string> members(const std::string& operand) {
  if (operand.empty() || operand.front() != '{') return {operand};
  return split_list(std::string_view(operand).substr(1, operand.size() - 2));
}
std::vector<unsigned> registers_of(scope& s, const std::string& operand) {
  std::vector<unsigned> all;
  for (const auto& m : members(operand)) all.push_back(m == "_" ? s.unused() : s.reg(m));
  return all;
}

unsigned address_of(scope& s, const std::string& operand, instruction& i) {
  if (operand.size() < 2 || operand.front() != '[') reject("has no address: " + operand);
  std::string inside = trimmed(std::string_view(operand).substr(1, operand.size() - 2));
  const std::size_t plus = inside.find('+');
  if (plus != std::string::npos) {
    i.offset = std::stoll(inside.substr(plus + 1), nullptr, 0);
    inside = trimmed(inside.substr(0, plus));
  }
  return s.reg(inside);
}

struct function_text {
  std::string name;
  bool entry = false;
  std::vector<declaration> results, parameters;
  std::string directives;
  std::size_t begin = 0, end = 0;  ///< of the body, without its braces
};

struct module::text_of_module {
  std::string text;
  std::vector<std::size_t> lines;
  std::map<std::string, function_text> functions;
  std::map<std::string, std::pair<declaration, std::string>> shared;  ///< at the top of the module
  std::map<std::string, std::vector<unsigned char>> variables;        ///< global and const
  std::map<std::string, kernel> decoded;

  explicit text_of_module(std::string from) : text(std::move(from)) {
    remove_comments();
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') lines.push_back(i);
    scan();
  }
  unsigned line_at(std::size_t at) const {
    return static_cast<unsigned>(std::upper_bound(lines.begin(), lines.end(), at - (at != 0)) - lines.begin()) + 1;
  }

 private:
  void remove_comments() {
    for (std::size_t i = 0; i + 1 < text.size(); ++i) {
      if (text[i] != '/') continue;
      if (text[i + 1] == '/') {
        while (i < text.size() && text[i] != '\n') text[i++] = ' ';
      } else if (text[i + 1] == '*') {
        const std::size_t end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
        for (; i < end; ++i)
          if (text[i] != '\n') text[i] = ' ';
      }
    }
  }
  std::size_t matching_brace(std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
      depth += text[i] == '{';
      depth -= text[i] == '}';
      if (depth == 0) return i;
    }
    reject("a brace is not closed");
  }
  void scan() {
    std::size_t at = 0;
    while (at < text.size()) {
      if (std::isspace(static_cast<unsigned char>(text[at]))) {
        ++at;
      } else if (starts(std::string_view(text).substr(at), ".version") ||
                 starts(std::string_view(text).substr(at), ".target") ||
                 starts(std::string_view(text).substr(at), ".address_size") ||
                 starts(std::string_view(text).substr(at), ".file")) {
        at = std::min(text.find('\n', at), text.size());
      } else {
        at = scan_item(at);
      }
    }
  }
  std::size_t scan_item(std::size_t at) {
    const std::size_t stop = std::min(text.find_first_of(";{", at), text.size() - 1);
    const std::string head = text.substr(at, stop - at);
    if (head.find(".entry") != std::string::npos || head.find(".func") != std::string::npos) {
      if (text[stop] == ';') return stop + 1;
      const std::size_t end = matching_brace(stop);
      add_function(head, stop + 1, end);
      return end + 1;
    }
    const std::size_t end = std::min(text.find(';', at), text.size() - 1);
    if (head.find(".section") != std::string::npos) return matching_brace(stop) + 1;
    add_variable(text.substr(at, end - at));
    return end + 1;
  }
  void add_variable(const std::string& item) {
    const std::size_t equals = item.find('=');
    const declaration d = declaration_of(item.substr(0, equals));
    if (item.find(".shared") != std::string::npos) {
      shared[d.name] = {d, item};
    } else if (item.find(".global") != std::string::npos || item.find(".const") != std::string::npos) {
      auto& bytes = variables[d.name];
      bytes.assign(d.bytes, 0);
      if (equals == std::string::npos) return;
      std::string list = trimmed(item.substr(equals + 1));
      std::size_t i = 0;
      for (const auto& m : members(list)) {
        const word v = static_cast<word>(std::stoull(m, nullptr, 0));
        std::memcpy(bytes.data() + d.element * i++, &v, d.element);
      }
    }
  }
  void add_function(const std::string& head, std::size_t begin, std::size_t end) {
    function_text f;
    f.begin = begin;
    f.end = end;
    f.entry = head.find(".entry") != std::string::npos;
    std::size_t at = head.find(f.entry ? ".entry" : ".func") + (f.entry ? 6 : 5);
    std::string rest = trimmed(head.substr(at));
    if (!f.entry && rest.front() == '(') {
      const std::size_t close = rest.find(')');
      for (const auto& p : split_list(rest.substr(1, close - 1))) f.results.push_back(declaration_of(p));
      rest = trimmed(rest.substr(close + 1));
    }
    const std::size_t open = rest.find('(');
    f.name = trimmed(rest.substr(0, open));
    if (open != std::string::npos) {
      const std::size_t close = rest.find(')', open);
      for (const auto& p : split_list(rest.substr(open + 1, close - open - 1)))
        f.parameters.push_back(declaration_of(p));
      f.directives = rest.substr(close + 1);
    }
    functions[f.name] = std::move(f);
  }
};

namespace {

/// A block between braces: the names that are declared in it.
struct name_scope {
  int parent = -1;
  std::map<std::string, unsigned> registers;  ///< by full name
  std::map<std::string, bool> declared;       ///< names; true: a prefix of %r<9>
  std::map<std::string, unsigned> labels;     ///< name to pc
  std::map<std::string, word> variables;      ///< addresses
};

struct fixup {
  std::size_t at;  ///< index of the instruction
  std::string label;
  int where;  ///< index of a scope
};

/// Decodes one kernel.
class builder final : public scope {
 public:
  builder(module::text_of_module& m, const module& owner, kernel& k) : text_(m), owner_(owner), k_(k) {}

  void build(const function_text& f) {
    shared_at_ = shared_base;
    add_parameters(f);
    body(f);
    while (!waiting_.empty()) {
      const std::string name = waiting_.back();
      waiting_.pop_back();
      const auto found = text_.functions.find(name);
      if (found == text_.functions.end()) reject("the function " + name + " is not in the module");
      body(found->second);
    }
    for (const auto& [at, name] : calls_) k_.code[at].target = start_.at(name);
    finish_shared();
    k_.registers = next_;
    k_.local_bytes = round_up(local_, 16);
  }

  unsigned reg(const std::string& name) override {
    if (name.empty()) reject("has an empty operand");
    if (name[0] == '%' || std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_' || name[0] == '$')
      return named(name);
    return constant_reg(literal(name));
  }
  unsigned predicate(const std::string& name) override {
    if (!name.empty() && (std::isdigit(static_cast<unsigned char>(name[0])) || name[0] == '-'))
      return constant_reg(literal(name) != 0 ? ~word{0} : 0);
    return reg(name);
  }
  unsigned unused() override { return next_++; }

 private:
  static word literal(const std::string& s) {
    if (starts(s, "0f") || starts(s, "0F") || starts(s, "0d") || starts(s, "0D"))
      return std::stoull(s.substr(2), nullptr, 16);
    if (s[0] == '-') return static_cast<word>(std::stoll(s, nullptr, 0));
    return std::stoull(s, nullptr, 0);
  }
  unsigned constant_reg(word value) {
    const auto [found, is_new] = constants_.try_emplace(value, next_);
    if (is_new) k_.constants.push_back({next_++, value});
    return found->second;
  }
  unsigned special_reg(const std::string& name) {
    const auto [found, is_new] = specials_.try_emplace(name, next_);
    if (is_new) k_.specials.push_back({next_++, name});
    return found->second;
  }
  static bool is_special(const std::string& name) {
    static const char* const all[] = {"%tid",
                                      "%ntid",
                                      "%ctaid",
                                      "%nctaid",
                                      "%laneid",
                                      "%warpid",
                                      "%nwarpid",
                                      "%smid",
                                      "%nsmid",
                                      "%clusterid",
                                      "%nclusterid",
                                      "%cluster_",
                                      "%lanemask_",
                                      "%clock",
                                      "%globaltimer",
                                      "%dynamic_smem_size",
                                      "%total_smem_size",
                                      "%gridid"};
    for (const char* s : all)
      if (starts(name, s)) return true;
    return false;
  }
  unsigned named(const std::string& name) {
    for (int s = now_; s >= 0; s = scopes_[static_cast<std::size_t>(s)].parent) {
      auto& here = scopes_[static_cast<std::size_t>(s)];
      if (const auto r = here.registers.find(name); r != here.registers.end()) return r->second;
      if (declares(here, name)) return here.registers[name] = next_++;
      if (const auto v = here.variables.find(name); v != here.variables.end()) return constant_reg(v->second);
    }
    if (is_special(name)) return special_reg(name);
    if (name == "WARP_SZ") return constant_reg(lanes);
    return constant_reg(symbol(name));
  }
  static bool declares(const name_scope& s, const std::string& name) {
    if (s.declared.count(name) != 0) return true;
    std::string prefix = name;
    while (!prefix.empty() && std::isdigit(static_cast<unsigned char>(prefix.back()))) prefix.pop_back();
    const auto found = s.declared.find(prefix);
    return found != s.declared.end() && found->second;
  }
  word symbol(const std::string& name) {
    if (const auto found = shared_.find(name); found != shared_.end()) return found->second;
    if (const auto found = text_.shared.find(name); found != text_.shared.end())
      return shared_address(found->second.first);
    return owner_.variable(name);
  }
  word shared_address(const declaration& d) {
    if (d.bytes == 0) {
      reject_second_layout();
      return dynamic_placeholder;
    }
    shared_at_ = round_up(shared_at_, d.align);
    shared_[d.name] = shared_at_;
    shared_at_ += d.bytes;
    return shared_[d.name];
  }
  void reject_second_layout() {}
  /// Static variables come first, so where dynamic memory begins is known at the end.
  static constexpr word dynamic_placeholder = 0x7D1A'0000'0000'0001ull;
  void finish_shared() {
    k_.static_shared = round_up(shared_at_ - shared_base, 128);
    for (auto& c : k_.constants)
      if (c.value == dynamic_placeholder) c.value = shared_base + k_.static_shared;
  }
  void add_parameters(const function_text& f) {
    scopes_.push_back({});
    for (const auto& p : f.parameters) {
      k_.parameters = round_up(k_.parameters, p.align);
      k_.parameter_at.push_back(k_.parameters);
      k_.parameter_bytes.push_back(p.bytes);
      scopes_[0].variables[p.name] = param_window + k_.parameters;
      k_.parameters += p.bytes;
    }
    const auto all = words_of(spaced(f.directives));
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      if (all[i] == ".maxntid") k_.max_threads = product(all, i + 1);
      if (all[i] == ".reqnctapercluster")
        for (unsigned d = 0;
             d < 3 && i + 1 + d < all.size() && std::isdigit(static_cast<unsigned char>(all[i + 1 + d][0])); ++d)
          k_.cluster[d] = static_cast<unsigned>(std::stoul(all[i + 1 + d]));
    }
  }
  static std::string spaced(std::string s) {
    std::replace(s.begin(), s.end(), ',', ' ');
    return s;
  }
  static unsigned product(const std::vector<std::string>& all, std::size_t from) {
    unsigned p = 1;
    for (std::size_t i = from; i < from + 3 && i < all.size() && std::isdigit(static_cast<unsigned char>(all[i][0]));
         ++i)
      p *= static_cast<unsigned>(std::stoul(all[i]));
    return p;
  }
  word local_variable(const declaration& d) {
    local_ = round_up(local_, std::max<std::size_t>(d.align, 8));
    const word at = local_window + local_;
    local_ += d.bytes;
    return at;
  }
  /// The parameters and results of a function have a place in each thread's memory, where its callers put them.
  struct frame {
    std::vector<std::pair<word, std::size_t>> results, parameters;
  };
  frame& frame_of(const function_text& f) {
    const auto [found, is_new] = frames_.try_emplace(f.name);
    if (is_new) {
      for (const auto& d : f.results) found->second.results.push_back({local_variable(d), d.bytes});
      for (const auto& d : f.parameters) found->second.parameters.push_back({local_variable(d), d.bytes});
    }
    return found->second;
  }

  void body(const function_text& f) {
    start_[f.name] = static_cast<unsigned>(k_.code.size());
    const std::size_t first = scopes_.size();
    scopes_.push_back({});
    now_ = static_cast<int>(first);
    scopes_[first].parent = f.entry ? 0 : -1;
    if (!f.entry) {
      const frame& at = frame_of(f);
      for (std::size_t i = 0; i < f.results.size(); ++i)
        scopes_[first].variables[f.results[i].name] = at.results[i].first;
      for (std::size_t i = 0; i < f.parameters.size(); ++i)
        scopes_[first].variables[f.parameters[i].name] = at.parameters[i].first;
    }
    statements(f);
    for (const auto& j : jumps_) k_.code[j.at].target = label(j);
    jumps_.clear();
    instruction end;
    end.run = return_handler;
    end.opcode = opcode("ret");
    k_.code.push_back(end);
  }
  unsigned label(const fixup& j) const {
    for (int s = j.where; s >= 0; s = scopes_[static_cast<std::size_t>(s)].parent) {
      const auto& here = scopes_[static_cast<std::size_t>(s)].labels;
      if (const auto found = here.find(j.label); found != here.end()) return found->second;
    }
    reject("the label " + j.label + " does not exist");
  }

  void statements(const function_text& f) {
    std::size_t at = f.begin;
    const std::string& t = text_.text;
    while (at < f.end) {
      if (std::isspace(static_cast<unsigned char>(t[at])) || t[at] == ';') {
        ++at;
      } else if (t[at] == '{') {
        scopes_.push_back({});
        scopes_.back().parent = now_;
        now_ = static_cast<int>(scopes_.size()) - 1;
        ++at;
      } else if (t[at] == '}') {
        now_ = scopes_[static_cast<std::size_t>(now_)].parent;
        ++at;
      } else {
        at = one(at, f.end);
      }
    }
  }
  std::size_t one(std::size_t at, std::size_t end) {
    const std::string& t = text_.text;
    if (starts(std::string_view(t).substr(at), ".loc\t") || starts(std::string_view(t).substr(at), ".loc ") ||
        starts(std::string_view(t).substr(at), ".pragma"))
      return std::min(t.find_first_of(t[at + 1] == 'l' ? "\n" : ";", at), end);
    std::size_t e = at;
    for (; e < end && t[e] != ';'; ++e) {
      if (t[e] == ':' && t[e + 1] != ':' && t[e - 1] != ':') {
        scopes_[static_cast<std::size_t>(now_)].labels[trimmed(t.substr(at, e - at))] =
            static_cast<unsigned>(k_.code.size());
        return e + 1;
      }
    }
    const std::string s = trimmed(t.substr(at, e - at));
    try {
      if (s[0] == '.')
        declare(s);
      else
        add(s, text_.line_at(at));
    } catch (const std::exception& x) {
      throw std::runtime_error("PTX line " + std::to_string(text_.line_at(at)) + ": " + s + ": " + x.what());
    }
    return e;
  }
  void declare(const std::string& s) {
    auto& here = scopes_[static_cast<std::size_t>(now_)];
    if (starts(s, ".reg")) {
      const std::size_t name = s.find_first_of("%_$", 4);
      std::string names = s.substr(4);
      auto all = words_of(names);
      (void)name;
      std::string list;
      for (std::size_t i = 1; i < all.size(); ++i) list += all[i];
      for (const auto& n : split_list(list)) {
        const std::size_t angle = n.find('<');
        here.declared[n.substr(0, angle)] = angle != std::string::npos;
      }
      return;
    }
    const declaration d = declaration_of(s);
    if (starts(s, ".shared"))
      here.variables[d.name] = shared_address(d);
    else if (starts(s, ".local") || starts(s, ".param"))
      here.variables[d.name] = local_variable(d);
    else
      reject("is not a declaration that the interpreter knows");
  }
  unsigned opcode(const std::string& name) {
    const auto [found, is_new] = opcodes_.try_emplace(name, static_cast<unsigned>(k_.opcodes.size()));
    if (is_new) k_.opcodes.push_back(name);
    return found->second;
  }

  void add(const std::string& s, unsigned line) {
    statement t;
    t.line = line;
    std::string rest = s;
    if (rest[0] == '@') {
      const std::size_t blank = rest.find_first_of(" \t\n");
      t.guard = rest.substr(1, blank - 1);
      rest = trimmed(rest.substr(blank));
    }
    const std::size_t blank = rest.find_first_of(" \t\n");
    const std::string op = rest.substr(0, blank);
    for (std::size_t i = 0; i < op.size();) {
      const std::size_t dot = std::min(op.find('.', i), op.size());
      t.parts.push_back(op.substr(i, dot - i));
      i = dot + 1;
    }
    if (blank != std::string::npos) t.operands = split_list(trimmed(rest.substr(blank)));
    instruction i;
    i.line = line;
    i.opcode = opcode(op);
    if (!t.guard.empty()) {
      i.unless = t.guard[0] == '!';
      i.guard = static_cast<int>(reg(t.guard.substr(i.unless)));
    }
    if (!control(t, i) && !decode(t, i)) reject("is not an instruction that the interpreter knows");
    k_.code.push_back(std::move(i));
  }
  bool decode(const statement& t, instruction& i) {
    return decode_memory(*this, t, i) || decode_bits(*this, t, i) || decode_predicates(*this, t, i) ||
           decode_conversion(*this, t, i) || decode_warp(*this, t, i) || decode_barrier(*this, t, i) ||
           decode_mma(*this, t, i) || decode_wgmma(*this, t, i) || decode_tensor_copy(*this, t, i) ||
           decode_copy(*this, t, i) || decode_arithmetic(*this, t, i);
  }

  bool control(const statement& t, instruction& i);
  void call(const statement& t, instruction& i);
  static void return_handler(warp& w, const instruction& i, mask m);

  module::text_of_module& text_;
  const module& owner_;
  kernel& k_;
  unsigned next_ = 0;
  std::size_t local_ = 0, shared_at_ = shared_base;
  int now_ = 0;
  std::vector<name_scope> scopes_;
  std::vector<fixup> jumps_;
  std::map<word, unsigned> constants_;
  std::map<std::string, unsigned> specials_, opcodes_, start_;
  std::map<std::string, word> shared_;
  std::map<std::string, frame> frames_;
  std::vector<std::string> waiting_;
  std::set<std::string> asked_;
  std::vector<std::pair<std::size_t, std::string>> calls_;
};

/// The lanes that leave go on at another instruction; the others stay.
void leave(warp& w, mask m, unsigned target, std::vector<unsigned> returns) {
  w.now->active &= ~m;
  w.paths.push_back({target, m, false, std::move(returns)});
}
void branch(warp& w, const instruction& i, mask m) {
  if (m == 0) return;
  if (m == w.now->active) {
    w.now->pc = i.target;
    w.retry = true;  // the program counter is set
    w.block->group->progress = true;
    w.now->stalled = false;
  } else {
    // w.now is invalid after this, as `paths` may move: the loop looks it up again.
    const auto returns = w.now->returns;
    leave(w, m, i.target, returns);
  }
}
void exit_lanes(warp& w, const instruction&, mask m) {
  w.now->active &= ~m;
  w.live &= ~m;
}
void trap(warp&, const instruction&, mask m) {
  if (m != 0) reject("executes trap");
}

void copy_parameters(warp& w, const std::vector<unsigned>& list, unsigned from, unsigned to, mask m) {
  const std::size_t bytes = w.local.size() / lanes;
  for (unsigned p = from; p + 2 < to + 0u; p += 3)
    each_lane(m, [&](unsigned l) {
      unsigned char* base = w.local.data() + bytes * l;
      std::memmove(base + list[p], base + list[p + 1], list[p + 2]);
    });
}
/// in: for each parameter target, source, bytes; b of them. After them the same of the results, for the return.
void call_function(warp& w, const instruction& i, mask m) {
  if (m == 0) return;
  copy_parameters(w, i.out, 0, i.b, m);
  auto returns = w.now->returns;
  returns.push_back(w.now->pc);
  if (m == w.now->active) {
    w.now->pc = i.target;
    w.now->returns = std::move(returns);
    w.retry = true;
  } else {
    leave(w, m, i.target, std::move(returns));
  }
}

void builder::return_handler(warp& w, const instruction& i, mask m) {
  if (m == 0) return;
  if (w.now->returns.empty()) return exit_lanes(w, i, m);
  const unsigned caller = w.now->returns.back();
  const instruction& c = w.block->call->what->code[caller];
  copy_parameters(w, c.out, c.b, static_cast<unsigned>(c.out.size()), m);
  auto returns = w.now->returns;
  returns.pop_back();
  if (m == w.now->active) {
    w.now->pc = caller + 1;
    w.now->returns = std::move(returns);
    w.retry = true;
  } else {
    leave(w, m, caller + 1, std::move(returns));
  }
}

bool builder::control(const statement& t, instruction& i) {
  i.effect = kind::own;
  const std::string& op = t.op();
  if (op == "bra") {
    i.run = branch;
    jumps_.push_back({k_.code.size(), t.operands.at(0), now_});
  } else if (op == "ret") {
    i.run = return_handler;
  } else if (op == "exit") {
    i.run = exit_lanes;
  } else if (op == "trap" || op == "brkpt") {
    i.run = trap;
  } else if (op == "call") {
    call(t, i);
  } else {
    i.effect = kind::pure;
    return false;
  }
  return true;
}

void builder::call(const statement& t, instruction& i) {
  std::vector<std::string> o = t.operands;
  std::string results, arguments;
  if (o.at(0)[0] == '(') {
    results = o[0];
    o.erase(o.begin());
  }
  if (o.size() > 1) arguments = o[1];
  const auto list = [](const std::string& s) {
    return s.empty() ? std::vector<std::string>{} : split_list(std::string_view(s).substr(1, s.size() - 2));
  };
  const auto found = text_.functions.find(o[0]);
  if (found == text_.functions.end()) reject("the function " + o[0] + " is not in the module");
  const frame at = frame_of(found->second);
  const auto place = [&](const std::string& name) {
    for (int s = now_; s >= 0; s = scopes_[static_cast<std::size_t>(s)].parent)
      if (const auto v = scopes_[static_cast<std::size_t>(s)].variables.find(name);
          v != scopes_[static_cast<std::size_t>(s)].variables.end())
        return static_cast<unsigned>(v->second - local_window);
    reject("the variable " + name + " does not exist");
  };
  const auto in = list(arguments), out = list(results);
  for (std::size_t p = 0; p < in.size(); ++p) {
    i.out.push_back(static_cast<unsigned>(at.parameters.at(p).first - local_window));
    i.out.push_back(place(in[p]));
    i.out.push_back(static_cast<unsigned>(at.parameters[p].second));
  }
  i.b = static_cast<unsigned>(i.out.size());
  for (std::size_t p = 0; p < out.size(); ++p) {
    i.out.push_back(place(out[p]));
    i.out.push_back(static_cast<unsigned>(at.results.at(p).first - local_window));
    i.out.push_back(static_cast<unsigned>(at.results[p].second));
  }
  i.run = call_function;
  calls_.push_back({k_.code.size(), o[0]});
  if (asked_.insert(o[0]).second) waiting_.push_back(o[0]);
}

}  // namespace

module::module(std::string text) :text_(std::make_unique<text_of_module>(std::move(text))) {
  for (const auto& [name, bytes] : text_->variables) device_memory::here().add(bytes.data(), bytes.size());
}
module::~module() {
  if (text_ == nullptr) return;
  for (const auto& [name, bytes] : text_->variables) device_memory::here().remove(bytes.data());
}
module::module(module&&) noexcept = default;

bool module::has(const std::string& name) const {
  const auto found = text_->functions.find(name);
  return found != text_->functions.end() && found->second.entry;
}
const kernel& module::find(const std::string& name) {
  const auto known = text_->decoded.find(name);
  if (known != text_->decoded.end()) return known->second;
  const auto found = text_->functions.find(name);
  if (found == text_->functions.end()) reject("the kernel " + name + " is not in the module");
  kernel k;
  k.name = name;
  builder(*text_, *this, k).build(found->second);
  return text_->decoded[name] = std::move(k);
}
std::string module::line(unsigned number) const {
  const std::size_t from = number < 2 ? 0 : text_->lines[number - 2] + 1;
  const std::size_t to = number - 1 < text_->lines.size() ? text_->lines[number - 1] : text_->text.size();
  return trimmed(text_->text.substr(from, to - from));
}
word module::variable(const std::string& name) const {
  const auto found = text_->variables.find(name);
  if (found == text_->variables.end()) reject("the name " + name + " is not known");
  return reinterpret_cast<word>(found->second.data());
}

}  // namespace ptx
