--# esc-01 nothing that loads code | true
for _, name in ipairs { "load", "loadstring", "loadfile", "dofile", "setfenv", "getfenv" } do if _G[name] ~= nil then return false end end return string.dump == nil
--# esc-02 no io, debug, package, collectgarbage, warn | true
for _, name in ipairs { "io", "debug", "package", "collectgarbage", "warn", "module" } do if _G[name] ~= nil then return false end end return true
--# esc-03 os is four clocks | true
local n = 0 for k in pairs(os) do n = n + 1 end
return n == 4 and os.execute == nil and os.exit == nil and os.getenv == nil and os.remove == nil and os.rename == nil and os.tmpname == nil and os.setlocale == nil
--# esc-04 os.execute raises | error ~ execute
os.execute("touch /tmp/nightjar-escaped")
--# esc-05 io.open raises | error/load ~ io
return io.open("/etc/passwd"):read("a")
--# esc-06 the string metatable | true
return getmetatable("") == false and not pcall(setmetatable, "", {})
--# esc-07 methods of texts are the guarded ones | true
return ("").dump == nil and ("x").rep == string.rep and not pcall(("x").rep, "x", 1 << 40)
--# esc-08 metatables of documents, null, ctx, state, arrays, the environment | true
for _, v in ipairs { doc, nightjar.null, nightjar.delete, ctx, ctx.flags, ctx.params, nightjar.state, nightjar.array {}, _G, string, nightjar } do
  if getmetatable(v) or pcall(function() getmetatable(v).__index = error end) then return false end
end
return true
--# esc-09 a metatable cannot be put on host objects | true
for _, v in ipairs { doc, nightjar.null, ctx, nightjar.state } do if pcall(setmetatable, v, {}) then return false end end
return true
--# esc-10 the real global table is not behind the environment | true
return rawget(_G, "io") == nil and rawget(_G, "load") == nil and _ENV == _G and _G._G == _G
--# esc-11 nothing forbidden can be enumerated | true
local seen, bad = {}, { load = 1, loadfile = 1, dofile = 1, dump = 1, execute = 1, exit = 1, getenv = 1, remove_file = 1, popen = 1, getregistry = 1, sethook = 1, collectgarbage = 1, searchpath = 1, loadlib = 1, setlocale = 1, close = 1, randomseed = 1 }
local function walk(t) if seen[t] then return true end seen[t] = true
  for k, v in pairs(t) do if bad[k] then return false end if type(v) == "table" and not walk(v) then return false end end return true end
return walk(_G)
--# esc-12 require of a path | error ~ module names
require("../secret")
--# esc-13 require of an absolute path | error ~ module names
require("/etc/passwd")
--# esc-14 require with a zero byte | error ~ module names
require("lib\0/../x")
--# esc-15 require with dots | error ~ module names
require("..secret")
--# esc-16 require of standard modules | error ~ module
require("io")
--# esc-17 require of package.loaded names | true
for _, name in ipairs { "_G", "os", "debug", "package", "string", "coroutine", "table" } do if pcall(require, name) then return false end end return true
--# esc-18 require of a number and of a table | error
require(5)
--# esc-19 bytecode in front | load | load ~ bytecode
%ESC%LuaS
return { push_filter = function() return true end }
--# esc-20 a finalizer on a host object | true
return not pcall(function() getmetatable(doc).__gc() end) and not pcall(function() getmetatable(ctx).__index(ctx, 1) end)
--# esc-21 addresses | true
local function clean(s) return not s:find("0x") and not s:find("%x%x%x%x%x%x") end
return clean(tostring(print)) and clean(tostring({})) and clean(tostring(coroutine.create(print))) and clean(tostring(doc)) and clean(tostring(ctx))
  and clean(tostring(nightjar.state)) and clean(("%s"):format(print)) and not pcall(string.format, "%p", print) and clean(tostring(_G))
--# esc-22 addresses in error texts | true
local _, a = pcall(function() return {} + 1 end) local _, b = pcall(function() return print .. "" end) local _, c = pcall(ipairs)
local _, d = pcall(error, {}) local _, e = pcall(string.rep, {}, 1)
for _, m in ipairs { a, b, c, e } do if m:find("0x") then return false end end return true
--# esc-23 xpcall with debug-like handlers gets no frames | true
local ok, m = xpcall(function() error("x") end, function(m) return m end) return not ok and m:find("x") ~= nil and _G.debug == nil
--# esc-24 setmetatable with __metatable cannot be undone | true
local t = setmetatable({}, { __metatable = "locked" }) return getmetatable(t) == "locked" and not pcall(setmetatable, t, nil) and not pcall(setmetatable, t, {})
--# esc-25 coroutine tricks: no close, no yield across the host | error ~ yield
coroutine.yield(1)
--# esc-26 coroutine.running gives nothing to break | true
local co, main = coroutine.running() return main == true and coroutine.close == nil and not coroutine.resume(co)
--# esc-27 a coroutine that resumes itself | true
local co co = coroutine.create(function() return coroutine.resume(co) end) local a, b = coroutine.resume(co) return a and not b
--# esc-28 a coroutine that wraps the host's functions | true
local ok, v = coroutine.resume(coroutine.create(nightjar.json.encode), { 1 }) return ok and v == "[1]"
--# esc-29 _ENV replaced inside a function sees nothing new | true
local function f() local _ENV = {} return print, io, load end return select("#", f()) == 3 and (f()) == nil
--# esc-30 _ENV with __index = _G is the same environment | true
local _ENV = setmetatable({}, { __index = _G }) return load == nil and io == nil and type(print) == "function"
--# esc-31 next over the environment and its libraries | true
local n = 0 for k, v in next, _G do n = n + 1 if k == "io" or k == "load" or k == "debug" then return false end end return n > 20
--# esc-32 rawset and rawget on host objects | true
return not pcall(rawset, ctx, "user", "root") and not pcall(rawset, doc, "x", 1) and not pcall(rawget, ctx, "user") and not pcall(rawset, nightjar.state, "x", 1)
--# esc-33 writing to the document | error ~ read-only
doc.owner = "me" return true
--# esc-34 writing inside the document | error ~ read-only
doc.nested.x.y = 2 return true
--# esc-35 writing to ctx | error ~ read-only
ctx.user = "root" return true
--# esc-36 writing inside ctx | error ~ read-only
ctx.flags.deleted = true return true
--# esc-37 writing to null | error ~ null
nightjar.null.x = 1 return true
--# esc-38 table functions on host objects | true
for _, f in ipairs { table.insert, table.remove, table.sort } do if pcall(f, doc, 1) or pcall(f, ctx, 1) or pcall(f, doc.list, 1) then return false end end
return table.concat(doc.list, ",") == "1,2,3" and select("#", table.unpack(doc.list)) == 3
--# esc-39 arithmetic and calls on host objects | true
for _, f in ipairs { function() return doc + 1 end, function() return doc() end, function() return doc .. "x" end, function() return doc < doc end, function() return -ctx end, function() return ctx() end, function() return nightjar.null.x end } do if pcall(f) then return false end end return true
--# esc-40 string.format of host objects | true
return ("%s"):format(doc) == "document" and ("%s"):format(nightjar.null) == "null" and not pcall(string.format, "%d", doc) and not pcall(string.format, "%q", doc)
--# esc-41 an error level out of the frames | error
error("deep", 100000)
--# esc-42 numbers as text methods | true
return (5 .. ""):rep(2) == "55" and not pcall(function() return (5).x end)
--# esc-43 the registry cannot be reached by a name | true
for _, name in ipairs { "_LOADED", "_PRELOAD", "LUA_PATH", "arg" } do if _G[name] ~= nil then return false end end return true
--# esc-44 os.date goes nowhere | true
return os.date("!%Y", 0) == "1970" and not pcall(os.date, "%Ez", 0) and not pcall(os.date, "%", 0) and os.date("%Z", 0) ~= nil
