-- ufp4 - evaluates cmake/packaging/xmake without xmake: installs what the package installs, and prints the flags of its users.
-- SPDX-License-Identifier: Apache-2.0
--
--   lua5.4 xmake.lua SOURCE PREFIX SNIPPET      writes the package's own test program to SNIPPET
local source, prefix, snippet = table.unpack(arg)
local file = source .. "/cmake/packaging/xmake/packages/u/ufp4/xmake.lua"
local facts, scripts = {}, {}
local function run(...)
  local command = table.concat({...}, " ")
  assert(os.execute(command), command)
end
local function quoted(s) return "'" .. s .. "'" end

local function record(name) return function(value, more) facts[name] = {value, more} end end
local environment = {
  assert = assert,
  path = {join = function(...) return table.concat({...}, "/") end},
  os = {
    scriptdir = function() return file:match("(.*)/") end,
    cp = function(from, to) run("mkdir -p", quoted(to), "&& cp -r", quoted(facts.set_sourcedir[1] .. "/" .. from), quoted(to)) end,
  },
  is_plat = function(...) for _, p in ipairs({...}) do if p == "linux" then return true end end return false end,
  on_install = function(...) scripts.install = select(select("#", ...), ...) end,
  on_test = function(script) scripts.test = script end,
}
for _, name in ipairs({"package", "set_kind", "set_homepage", "set_description", "set_license", "set_sourcedir", "add_syslinks"}) do
  environment[name] = record(name)
end
-- A name that is not above is an error, as a misspelt one is in xmake.
setmetatable(environment, {__index = function(_, name) error("xmake.lua: unknown " .. name) end})
assert(loadfile(file, "t", environment))()

assert(facts.package[1] == "ufp4" and facts.set_license[1] == "Apache-2.0" and facts.set_kind[2].headeronly)
local package = {
  installdir = function(_, folder) return prefix .. "/" .. folder end,
  check_cxxsnippets = function(_, snippets, options)
    assert(options.configs.languages == "c++20")
    local out = assert(io.open(snippet, "w"))
    out:write(snippets.test)
    return out:close()
  end,
}
scripts.install(package)
scripts.test(package)
print("-I" .. prefix .. "/include -l" .. facts.add_syslinks[1])
