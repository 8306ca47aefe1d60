--# mem-01 a table of texts | memory/timeout
local t = {} while true do t[#t + 1] = ("x"):rep(1000) .. #t end
--# mem-02 a text that doubles | memory
local s = "x" while true do s = s .. s end
--# mem-03 a list of tables | memory/timeout
local t = {} while true do t = { t } end
--# mem-04 pcall around it | memory/timeout
local t = {} while true do pcall(function() while true do t[#t + 1] = ("y"):rep(500) .. #t end end) end
--# mem-05 coroutines | memory/timeout
local t = {} while true do t[#t + 1] = coroutine.create(function() end) end
--# mem-06 suspended coroutines with texts | memory/timeout
local t = {} while true do t[#t + 1] = coroutine.wrap(function() local x = ("z"):rep(50000) .. #t coroutine.yield(x) end) t[#t]() end
--# mem-07 closures | memory/timeout
local t = {} while true do local n = #t t[n + 1] = function() return n end end
--# mem-08 arguments without end | memory/error
local function f(...) return f(1, 2, 3, 4, 5, 6, 7, 8, ...) end f()
--# mem-09 deep recursion | error/memory ~ o
local function f() return 1 + f() end return f()
--# mem-10 gsub that grows | memory
return (("x"):rep(600000):gsub("x", "yyyy"))
--# mem-11 concat that grows | memory
local t = {} for i = 1, 3000 do t[i] = ("x"):rep(1000) end return table.concat(t)
--# mem-12 table.pack of a million | error/memory
return table.pack(table.unpack({}, 1, 900000))
--# mem-13 a hash part beyond the block | memory/timeout
local t = {} for i = 1, 1e7 do t["k" .. i] = i end
--# mem-14 an array part beyond the block | memory
local t = {} for i = 1, 1e7 do t[i] = i end
--# mem-15 xpcall whose handler allocates | memory/timeout
xpcall(function() local t = {} while true do t[#t + 1] = ("x"):rep(9000) .. #t end end, function() local t = {} while true do t[#t + 1] = ("x"):rep(9000) .. #t end end)
--# mem-16 full, then the error is caught and everything is let go | memory/timeout
pcall(function() local t = {} while true do t[#t + 1] = ("x"):rep(100000) .. #t end end) return true
--# mem-17 full by a coroutine | memory/timeout
coroutine.resume(coroutine.create(function() local t = {} while true do t[#t + 1] = ("x"):rep(10000) .. #t end end)) return true
--# mem-18 kept from call to call: the call that fills it fails | load | times 40 | memory/true
local kept = {}
return { push_filter = function() kept[#kept + 1] = ("x"):rep(1000000) .. #kept return true end }
--# mem-19 after the failed call the next one has a new state | load | times 2 | memory/timeout/false
local kept = {}
return { push_filter = function() if #kept > 0 then return false end while true do kept[#kept + 1] = ("x"):rep(1000000) .. #kept end end }
--# mem-20 short texts beyond the table of texts | memory/timeout
local t, n = {}, 0 for k = 1, 10 do t[k] = {} for i = 1, 16000 do n = n + 1 t[k][i] = "s" .. n end end while true do n = n + 1 local s = "r" .. n end
--# mem-21 a filled state says no more than once | memory/timeout
local t, n = {}, 1 << 16 while n > 0 do if not pcall(function() t[#t + 1] = ("x"):rep(n) .. #t end) then n = n // 2 end end return true
--# mem-22 string.format beyond the block | memory/error
return ("%s%s%s"):format(("x"):rep(900000), ("x"):rep(900000), ("x"):rep(900000))
--# mem-23 __index that allocates for ever | memory/timeout
local keep = {} return setmetatable({}, { __index = function(t, k) keep[#keep + 1] = ("x"):rep(100000) .. #keep return t[k .. k] end }).x
--# mem-24 copies of the document for ever | doc list | memory/timeout/error
local keep = {} while true do keep[#keep + 1] = nightjar.copy(doc) end
--# mem-25 decoded values for ever | memory/timeout
local keep = {} while true do keep[#keep + 1] = nightjar.json.decode("[1,[2,[3,{}]]]") end
--# mem-26 the text of a document field for ever | doc long | memory/timeout
local keep = {} while true do keep[#keep + 1] = doc.text .. #keep end
--# mem-27 global variables | memory/timeout
local n = 0 while true do n = n + 1 _G["g" .. n] = ("x"):rep(1000) .. n end
--# mem-28 upvalues through a chain of functions | memory/timeout
local f = function() end while true do local g = f f = function() return g() end end
--# mem-29 a text that fakes the limit | error ~ not enough memory
error("not enough memory", 0)
--# mem-30 a caught shortage of one huge block | memory/true/error
local ok = pcall(string.rep, "x", 900000, ("y"):rep(100)) return not ok
--# mem-31 xpcall with the traceback of a deep stack | error/memory
local function f(n) return f(n + 1) + 1 end return xpcall(f, function(m) return m:rep(100000) end, 1) == nil
