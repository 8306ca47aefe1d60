--# load-01 an endless loop | load | timeout ~ stopped after
while true do end
--# load-02 memory without end | load | memory/timeout
local t = {} while true do t[#t + 1] = ("x"):rep(10000) .. #t end
--# load-03 swallowed for ever | load | timeout
while true do pcall(function() while true do end end) end
--# load-04 a pattern | load | timeout
local x = ("a"):rep(5000):find("a*a*b") return { push_filter = function() return true end }
--# load-05 no value | load | load ~ returns no value
local x = 1
--# load-06 a text | load | load ~ returns a string
return "push_filter"
--# load-07 a number, nil, true, a function | load | load ~ returns a function
return function() end
--# load-08 a document-like value | load | load ~ returns a userdata
return nightjar.null
--# load-09 a table with a metatable that loops | load | load ~ metatable
return setmetatable({}, { __index = function() while true do end end })
--# load-10 a hook that is a callable table | load | load ~ must be a function
return { push_filter = setmetatable({}, { __call = function() return true end }) }
--# load-11 a hook that is a text | load | load ~ must be a function
return { push_filter = "x" }
--# load-12 an unknown hook | load | load ~ did you mean
return { pushfilter = function() return true end }
--# load-13 keys that are no names | load | load ~ not a name
return { function() return true end }
--# load-14 no hook | load | load ~ no hook
return { description = "x" }
--# load-15 two hundred thousand values | load | load/memory/error
return table.unpack({}, 1, 200000)
--# load-16 a syntax error names its line | load | load ~ :4:
local a = 1

return {{
--# load-17 nesting without end | load | load
return ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))
--# load-18 an error that is no text | load | load ~ table
error({})
--# load-19 an error whose text loops | load | load
error(setmetatable({}, { __tostring = function() while true do end end }))
--# load-20 a coroutine that yields out of the chunk | load | load ~ yield
coroutine.yield({ push_filter = function() return true end })
--# load-21 declared parameters that are cyclic | load | load
local p = {} p.p = p return { params = p, push_filter = function() return true end }
--# load-22 declared parameters with a metatable | load | load ~ metatable
return { params = setmetatable({}, { __pairs = function() while true do end end }), push_filter = function() return true end }
--# load-23 a description that is a table | load | load ~ must be a string
return { description = {}, push_filter = function() return true end }
--# load-24 the table is changed after it was returned | load | times 2 | true
local hooks = {}
hooks.push_filter = function() hooks.push_filter = function() return false end hooks.resolve = error return true end
return hooks
--# load-25 the environment is emptied | load | true
for k in pairs(_G) do if k ~= "_G" then _G[k] = nil end end
return { push_filter = function() return true end }
--# load-26 the hook is a function of the library | load | error/false/result
return { push_filter = pcall }
--# load-27 the hook is coroutine.yield | load | error ~ yield
return { push_filter = coroutine.yield }
--# load-28 the hook is a wrapped coroutine | load | times 2 | true
return { push_filter = coroutine.wrap(function() while true do coroutine.yield(true) end end) }
--# load-29 a resolver only is no filter | load | error/load ~ push_filter
return { resolve = function(c) return c.local_doc end }
--# load-30 a lookup in load-time code | load | load/true
nightjar.get("x") return { push_filter = function() return true end }
--# load-31 a shebang line and a comment | load | true
#!/usr/bin/lua
return { push_filter = function() return true end }
--# load-32 limits in the plugin's own table that are no table | load | load ~ 'limits' must be a table
return { limits = 1 << 50, push_filter = function() while true do end end }
--# load-33 a metatable on the environment at load time serves the calls | load | times 2 | true
setmetatable(_G, { __index = function(_, name) return "default " .. name end })
return { push_filter = function() return undefined == "default undefined" and getmetatable(_G) ~= nil end }
--# load-34 strict globals, as many write them | load | times 2 | error ~ strict
setmetatable(_G, { __newindex = function(_, name) error("strict: " .. name) end })
return { push_filter = function() forgotten = 1 return true end }
