// ufp4 - the PTX interpreter: the text of a module, divided into functions and variables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/ptx/decode.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ptx {

inline std::string trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return std::string(s);
}
inline bool starts(std::string_view s, std::string_view with) { return s.substr(0, with.size()) == with; }
inline std::vector<std::string> words_of(const std::string& s) {
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

inline std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// A declaration: .param .align 8 .b8 name[24]
struct declaration {
  std::string name;
  std::size_t align = 1, element = 1, bytes = 0;
};
inline declaration declaration_of(const std::string& text) {
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

struct function_text {
  std::string name;
  bool entry = false;
  std::vector<declaration> results, parameters;
  std::string directives;
  std::size_t begin = 0, end = 0;  ///< of the body, without its braces
};

struct code_module::text_of_module {
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

}  // namespace ptx
