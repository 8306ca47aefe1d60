--# cpu-01 the empty loop | timeout ~ stopped after
while true do end
--# cpu-02 repeat until false | timeout
repeat until false
--# cpu-03 goto | timeout
::again:: goto again
--# cpu-04 tail calls | timeout
local function f() return f() end return f()
--# cpu-05 mutual tail calls | timeout
local a, b function a() return b() end function b() return a() end return a()
--# cpu-06 a step that is lost in rounding | timeout
for x = 2^53, 2^53 + 4, 0.5 do end
--# cpu-07 the integer loop at the end of the range ends | true
local n = 0 for i = math.maxinteger - 2, math.maxinteger do n = n + 1 end return n == 3
--# cpu-08 pcall around the loop | timeout
while true do pcall(function() while true do end end) end
--# cpu-09 fifty layers that swallow | timeout
local function swallow(n) if n == 0 then while true do end end while true do pcall(swallow, n - 1) end end swallow(50)
--# cpu-10 a message handler that loops | timeout
xpcall(function() error("x") end, function() while true do end end)
--# cpu-11 a message handler that loops when the limit is raised | timeout
xpcall(function() while true do end end, function() while true do end end)
--# cpu-12 a message handler that raises | timeout
while true do xpcall(function() while true do end end, function(m) error(m) end) end
--# cpu-13 nested message handlers | timeout
local function h() xpcall(error, h) while true do end end xpcall(function() while true do end end, h)
--# cpu-14 a coroutine | timeout
coroutine.resume(coroutine.create(function() while true do end end))
--# cpu-15 new coroutines for ever | timeout
while true do coroutine.resume(coroutine.create(function() while true do end end)) end
--# cpu-16 a coroutine made when the plugin was loaded | load | timeout
local co = coroutine.create(function() while true do end end)
return { push_filter = function() coroutine.resume(co) return true end }
--# cpu-17 a wrapped coroutine that swallows | timeout
local f = coroutine.wrap(function() while true do pcall(function() while true do end end) end end) while true do pcall(f) end
--# cpu-18 coroutines inside coroutines | timeout
local function f(n) if n == 0 then while true do end end return coroutine.wrap(f)(n - 1) end while true do pcall(f, 100) end
--# cpu-19 two coroutines that hand over to each other | timeout
local a = coroutine.wrap(function() while true do coroutine.yield() end end) while true do a() end
--# cpu-20 __index | timeout
return setmetatable({}, { __index = function() while true do end end }).x
--# cpu-21 __index that asks itself | error
return setmetatable({}, { __index = function(t, k) return t[k] end }).x
--# cpu-22 __newindex | timeout
setmetatable({}, { __newindex = function() while true do end end }).x = 1
--# cpu-23 __len, __unm, __add | timeout
local t = setmetatable({}, { __len = function() return 1 end, __unm = function() return 2 end, __add = function() while true do end end }) return #t + -t + (t + 1)
--# cpu-24 __lt in a sort | timeout
local mt = { __lt = function() while true do end end } table.sort({ setmetatable({}, mt), setmetatable({}, mt) })
--# cpu-25 __eq | timeout
local mt = { __eq = function() while true do end end } return setmetatable({}, mt) == setmetatable({}, mt)
--# cpu-26 __call | timeout
setmetatable({}, { __call = function() while true do end end })()
--# cpu-27 __call that is the table itself | error ~ __call
local t = {} setmetatable(t, { __call = t }) t()
--# cpu-28 __call filled in later | error ~ attempt to call
local mt = {} local t = setmetatable({}, mt) mt.__call = t t()
--# cpu-29 __tostring | timeout
return tostring(setmetatable({}, { __tostring = function() while true do end end }))
--# cpu-30 __tostring through format | timeout
return ("%s"):format(setmetatable({}, { __tostring = function() while true do end end }))
--# cpu-31 __pairs | timeout
for k in pairs(setmetatable({}, { __pairs = function() while true do end end })) do end
--# cpu-32 an iterator without an end | timeout
for k in function() return 1 end do end
--# cpu-33 __gc is refused | error ~ '__gc' is not available
setmetatable({}, { __gc = function() while true do end end })
--# cpu-34 __gc filled in later never runs | true
for i = 1, 1000 do local mt = {} setmetatable({}, mt) mt.__gc = function() while true do end end end local t = {} for i = 1, 20000 do t = { t } end return true
--# cpu-35 __close is refused | error ~ '__close' is not available
local x <close> = setmetatable({}, { __close = function() while true do end end })
--# cpu-36 __close filled in later is no closer | error
local mt = {} local t = setmetatable({}, mt) mt.__close = function() while true do end end local x <close> = t
--# cpu-37 .-.-.-b | timeout
return ("a"):rep(1000):find(".-.-.-b")
--# cpu-38 a*a*a*a*b | timeout
return ("a"):rep(200):find("a*a*a*a*b")
--# cpu-39 a*a*b on a long text | timeout
return ("a"):rep(5000):find("a*a*b")
--# cpu-40 a?^n a^n | timeout
return ("a"):rep(28):find("^" .. ("a?"):rep(28) .. ("a"):rep(28))
--# cpu-41 trim with gsub | timeout
return ((" "):rep(200000) .. "x"):gsub("%s+$", "")
--# cpu-42 trim with match | timeout
return ((" "):rep(200000) .. "x"):match("^(.-)%s*$")
--# cpu-43 mail addresses | timeout
return ("a."):rep(100000):match("[%w.]+@[%w.]+%.%a+")
--# cpu-44 %b without an end | timeout
return ("("):rep(400000):find("%b()")
--# cpu-45 %f over a long text | true
return ("a"):rep(900000):find("%f[%d]x") == nil
--# cpu-46 gmatch | timeout
for w in ("a"):rep(5000):gmatch("a*a*b") do end
--# cpu-47 back references | timeout
return ("ab"):rep(50000):find("(.*)%1(.*)%2x")
--# cpu-48 a pattern match in pcall for ever | timeout
while true do pcall(string.find, ("a"):rep(2000), "a*a*a*b") end
--# cpu-49 a gsub callback that swallows | timeout
(("x"):rep(1000)):gsub("x", function() pcall(function() while true do end end) end)
--# cpu-50 a plain search with a long needle | true
local s = ("a"):rep(900000) return s:find(("a"):rep(450000) .. "b", 1, true) == nil
--# cpu-51 plain searches for ever | timeout
local s, n = ("a"):rep(500000), ("a"):rep(250) .. "b" while true do s:find(n, 1, true) end
--# cpu-52 rep of nothing | true
return ("").rep("", 1 << 60) == "" and ("").rep("", math.maxinteger, "") == ""
--# cpu-53 rep that is too long | error ~ too large
return ("x"):rep(1 << 40)
--# cpu-54 rep whose size overflows | error ~ too large
return ("xy"):rep(math.maxinteger, "abc")
--# cpu-55 table.move over a trillion places | error ~ too many
table.move({}, 1, 1000000000000, 2)
--# cpu-56 table.move to the end of the range | error
table.move({ 1, 2 }, 1, 2, math.maxinteger)
--# cpu-57 insert with a length that lies | error ~ without a metatable
table.insert(setmetatable({}, { __len = function() return 1 << 40 end }), 1, 1)
--# cpu-58 sort with a length that lies | error ~ without a metatable
table.sort(setmetatable({}, { __len = function() return (1 << 31) - 2 end }), rawequal)
--# cpu-59 sort with an endless comparison | timeout
table.sort({ 3, 1, 2 }, function() while true do end end)
--# cpu-60 sort with a comparison that contradicts itself | true
local t = {} for i = 1, 2000 do t[i] = (i * 7919) % 2003 end table.sort(t, function() return true end) table.sort(t, rawequal) return #t == 2000
--# cpu-61 concat with __index | error ~ without a metatable
return table.concat(setmetatable({}, { __index = rawlen }), "", 1, 60000000)
--# cpu-62 concat far beyond the table | error ~ invalid value
return table.concat({}, "", 1, math.maxinteger)
--# cpu-63 unpack of everything | error ~ too many results
return table.unpack({}, 1, math.maxinteger)
--# cpu-64 unpack across the whole range | error ~ too many results
return table.unpack({}, math.mininteger, math.maxinteger)
--# cpu-65 inserts at the front for ever | timeout
local t = {} for i = 1, 30000 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end
--# cpu-66 concat for ever | timeout
local t = {} for i = 1, 30000 do t[i] = "x" end while true do table.concat(t) end
--# cpu-67 upper case of a long text for ever | timeout
local s = ("a"):rep(1000000) while true do s:upper() end
--# cpu-68 reverse and sub for ever | timeout
local s = ("a"):rep(60000) while true do local x = s:reverse():sub(2, -2):lower() end
--# cpu-69 tonumber of a million digits for ever | timeout
local s = ("9"):rep(1000000) while true do local x = tonumber(s) end
--# cpu-70 arithmetic on a million digits for ever | timeout
local s = ("9"):rep(1000000) while true do local x = s + 1 local y = pcall(function() return s | 1 end) end
--# cpu-71 comparing long equal texts for ever | timeout
local a, b = ("a"):rep(900000), ("a"):rep(900000) while true do local x = a == b local y = a < b end
--# cpu-72 long texts joined for ever | timeout
local s = ("a"):rep(900000) while true do local x = s .. "b" end
--# cpu-73 colliding integer keys | timeout/memory/true
local t = {} for k = 1, 1 << 20 do t[k * 32767] = true end return true
--# cpu-74 colliding integer keys, again and again | timeout
while true do local t = {} for k = 1, 8000 do t[k * 32767] = true end end
--# cpu-75 next over emptied places for ever | timeout
local t = {} for i = 1, 30000 do t[i] = false end for i = 1, 30000 do t[i] = nil end while true do next(t) end
--# cpu-76 utf8 over a long text for ever | timeout
local s = ("é"):rep(400000) while true do utf8.len(s) end
--# cpu-77 utf8.codes for ever | timeout
local s = ("é"):rep(20000) while true do for p, c in utf8.codes(s) do end end
--# cpu-78 dates with a long format for ever | timeout
local f = ("%c"):rep(200) while true do os.date(f) end
--# cpu-79 a date format of a million conversions | error ~ format longer
return os.date(("%t"):rep(400000))
--# cpu-80 a chain of __index through 1,900 tables for ever | timeout
local a = {} for i = 1, 1900 do a = setmetatable({}, { __index = a }) end while true do local x = a.x end
--# cpu-81 __metatable that loops is no function | true
local t = setmetatable({}, { __metatable = function() while true do end end }) return type(getmetatable(t)) == "function"
--# cpu-82 select with a million values | error/memory/timeout
local function f(...) return select("#", ...), f(1, ...) end return f()
--# cpu-83 strings of one character for ever | timeout
local t = {} for i = 1, 250 do t[i] = string.char(i) end while true do local s = table.concat(t) end
--# cpu-84 format with many arguments for ever | timeout
local t = {} for i = 1, 200 do t[i] = 1.5 end local f = ("%99.99f"):rep(200) while true do f:format(table.unpack(t)) end
--# cpu-85 %q of a long text for ever | timeout
local s = ("\n"):rep(300000) while true do ("%q"):format(s) end
--# cpu-86 math.random for ever | timeout
while true do math.random(0) end
--# cpu-87 one call leaves its coroutine behind in the limit, the next call works | load | times 3 | true
local spun = 0
local co
return { push_filter = function(doc)
  if spun == 0 then
    spun = 1
    co = coroutine.create(function() coroutine.yield(1) while true do end end)
    coroutine.resume(co)
  elseif spun == 1 then
    spun = 2
    coroutine.resume(co)
  end
  return coroutine.status(co) == "dead"
end }
--# cpu-88 require of nothing for ever | timeout
while true do pcall(require, "nothing") end
--# cpu-89 setmetatable for ever | timeout
local mt = { __index = {} } while true do setmetatable({}, mt) end
--# cpu-90 the clock is asked for ever | timeout
while true do os.clock() os.time() nightjar.time.now() end
--# cpu-91 string.char of a million digits, thousands of times in one call | error/memory
local s, t = ('0'):rep(1000000) .. '65', {} for i = 1, 20000 do t[i] = s end return string.char(table.unpack(t)) == ''
--# cpu-92 math.max of a million digits, thousands of times in one call | error/memory
local s, t = ('0'):rep(1000000) .. '65', {} for i = 1, 20000 do t[i] = s end return math.max(table.unpack(t)) > 0
--# cpu-93 format of a million digits, thousands of times in one call | error ~ together
local s, t = ('0'):rep(1000000) .. '65', {} for i = 1, 20000 do t[i] = s end return ('%d'):rep(20000):format(table.unpack(t)) == ''
--# cpu-94 format that looks at the end of a long text, thousands of times in one call | error ~ together
local s, t = ('x'):rep(1000000), {} for i = 1, 20000 do t[i] = s end return ('%.1s'):rep(20000):format(table.unpack(t)) == ''
--# cpu-95 sort whose comparison is a library function that reads a million digits | timeout
local s, t = ('0'):rep(1000000), {} for i = 1, 2000 do t[i] = s end table.sort(t, math.abs)
--# cpu-96 sort whose metamethod is a library function that reads a million digits | timeout/error
local s, t = ('0'):rep(1000000), {} local m = setmetatable({}, { __lt = tonumber }) for i = 1, 4000, 2 do t[i], t[i + 1] = s, m end table.sort(t)
