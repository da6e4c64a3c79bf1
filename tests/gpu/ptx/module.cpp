// ufp4 - the PTX interpreter: decodes the kernels of a module.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ptx/control.hpp"
#include "gpu/ptx/decode.hpp"
#include "gpu/ptx/memory.hpp"
#include "gpu/ptx/text.hpp"

#include <cctype>
#include <map>
#include <set>

namespace ptx {

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
  builder(code_module::text_of_module& m, const code_module& owner, kernel& k) : text_(m), owner_(owner), k_(k) {}

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
      return dynamic_placeholder;
    }
    shared_at_ = round_up(shared_at_, d.align);
    shared_[d.name] = shared_at_;
    shared_at_ += d.bytes;
    return shared_[d.name];
  }
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
    end.run = return_from;
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
      const auto all = words_of(s.substr(4));
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
           decode_mma(*this, t, i) || decode_wgmma(*this, t, i) || decode_tcgen05(*this, t, i) ||
           decode_tensor_copy(*this, t, i) || decode_copy(*this, t, i) || decode_arithmetic(*this, t, i);
  }

  bool control(const statement& t, instruction& i);
  void call(const statement& t, instruction& i);

  code_module::text_of_module& text_;
  const code_module& owner_;
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

bool builder::control(const statement& t, instruction& i) {
  i.effect = kind::own;
  const std::string& op = t.op();
  if (op == "bra") {
    i.run = branch;
    jumps_.push_back({k_.code.size(), t.operands.at(0), now_});
  } else if (op == "ret") {
    i.run = return_from;
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

code_module::code_module(std::string text) : text_(std::make_unique<text_of_module>(std::move(text))) {
  for (const auto& [name, bytes] : text_->variables) device_memory::here().add(bytes.data(), bytes.size());
}
code_module::~code_module() {
  if (text_ == nullptr) return;
  for (const auto& [name, bytes] : text_->variables) device_memory::here().remove(bytes.data());
}
code_module::code_module(code_module&&) noexcept = default;

bool code_module::has(const std::string& name) const {
  const auto found = text_->functions.find(name);
  return found != text_->functions.end() && found->second.entry;
}
const kernel& code_module::find(const std::string& name) {
  const auto known = text_->decoded.find(name);
  if (known != text_->decoded.end()) return known->second;
  const auto found = text_->functions.find(name);
  if (found == text_->functions.end()) reject("the kernel " + name + " is not in the module");
  kernel k;
  k.name = name;
  builder(*text_, *this, k).build(found->second);
  return text_->decoded[name] = std::move(k);
}
std::string code_module::line(unsigned number) const {
  const std::size_t from = number < 2 ? 0 : text_->lines[number - 2] + 1;
  const std::size_t to = number - 1 < text_->lines.size() ? text_->lines[number - 1] : text_->text.size();
  return trimmed(text_->text.substr(from, to - from));
}
word code_module::variable(const std::string& name) const {
  const auto found = text_->variables.find(name);
  if (found == text_->variables.end()) reject("the name " + name + " is not known");
  return reinterpret_cast<word>(found->second.data());
}

}  // namespace ptx
