--# err-01 nil | error ~ nil
error(nil)
--# err-02 a table | error ~ table
error({ code = 5 })
--# err-03 a table with a message | error ~ sorry
error({ message = "sorry" })
--# err-04 __tostring that raises | error
error(setmetatable({}, { __tostring = function() error("again") end }))
--# err-05 __tostring that loops is not asked | error
error(setmetatable({}, { __tostring = function() while true do end end }))
--# err-06 __tostring that returns a table | error
error(setmetatable({}, { __tostring = function() return {} end }))
--# err-07 __index on message | error
error(setmetatable({}, { __index = function() while true do end end }))
--# err-08 a function, a coroutine, a document, null | error ~ function
error(print)
--# err-09 a document | error ~ userdata
error(doc)
--# err-10 a number | error ~ 42
error(42)
--# err-11 the host's own words | error ~ stopped after
error("stopped after 50 ms of CPU time", 0)
--# err-12 line feeds, escapes and zero bytes | error ~ a\nb\x1b[31m\x00c
error("a\nb\27[31m\0c", 0)
--# err-13 a text of 900,000 bytes | error ~ xxx
error(("x"):rep(900000))
--# err-14 invalid UTF-8 | error ~ \xff
error("\xff\xfe", 0)
--# err-15 an error in the handler of an error | error/result
xpcall(error, error) error("after")
--# err-16 handlers without end | error
local function h(m) error(m) end xpcall(error, h) local function r() return xpcall(r, h) end r() error("after")
--# err-17 an error through fifty pcalls | error ~ deep
local function f(n) if n == 0 then error("deep", 0) end local ok, m = pcall(f, n - 1) error(m, 0) end f(50)
--# err-18 an error in a coroutine | error ~ inside
local f = coroutine.wrap(function() error("inside") end) f()
--# err-19 an error in a metamethod | error ~ meta
return setmetatable({}, { __index = function() error("meta") end }).x
--# err-20 an error in a sort | error ~ compare
table.sort({ 1, 2, 3 }, function() error("compare") end)
--# err-21 an error in gsub, and the text is unharmed | error ~ callback
("abc"):gsub("b", function() error("callback") end)
--# err-22 assert without a text | error ~ assertion failed
assert(false)
--# err-23 assert with a table | error ~ table
assert(nil, {})
--# err-24 calling nil names it | error/load ~ nope
nope()
--# err-25 the line of the error | error ~ :4:

local x = nil
return x.y
--# err-26 the stack overflow | error/memory
local function f() return 1 + f() end f()
--# err-27 overflow inside a handler | error/timeout
local function f() local ok, m = xpcall(f, function(m) return f() end) return m end f() error("after")
--# err-28 C levels | error ~ overflow
local function f(s) return (s:gsub(".", f)) end return f("x")
--# err-29 deep coroutines | error ~ overflow
local function f(n) return coroutine.wrap(f)(n + 1) end return f(1)
--# err-30 pcall without end | error/true/timeout/memory
local function f() return pcall(f) end return f()
--# err-31 a text that looks like a position | error ~ other.lua:1: hello
error("other.lua:1: hello", 0)
