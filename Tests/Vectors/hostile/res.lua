--# res-01 a cycle | resolve | result ~ cycle
local t = {} t.t = t return t
--# res-02 nested two hundred thousand times | resolve | result/timeout/memory ~ 
local t = {} for i = 1, 200000 do t = { t = t } end return t
--# res-03 forty levels of doubles | resolve | result/timeout
local t = {} for i = 1, 40 do t = { a = t, b = t } end return t
--# res-04 thirty levels of doubles | resolve | result/timeout ~ 
local t = {} for i = 1, 30 do t = { a = t, b = t } end return t
--# res-05 ten million keys | resolve | memory/timeout/result
local t = {} for i = 1, 10000000 do t["k" .. i] = i end return t
--# res-06 sixty thousand numbers | resolve | result ~ limit result nodes
local t = {} for i = 1, 60000 do t[i] = i end return { t = t }
--# res-07 NaN | resolve | result ~ at x: NaN
return { x = 0 / 0 }
--# res-08 infinity | resolve | result ~ infinities
return { x = math.huge }
--# res-09 a key that is no whole number | resolve | result ~ key
return { [1.5] = 1 }
--# res-10 a key that is a boolean | resolve | result ~ key
return { [true] = 1 }
--# res-11 a key that is a table | resolve | result ~ key
return { [{}] = 1 }
--# res-12 numbers and texts as keys | resolve | result ~ both
return { 1, a = 2 }
--# res-13 an array with holes | resolve | result ~ holes
return { t = { [1] = 1, [1 << 40] = 2 } }
--# res-14 negative and zero keys | resolve | result ~ key
return { t = { [0] = 1, [-1] = 2 } }
--# res-15 an array instead of a document | resolve | result ~ array
return { 1, 2, 3 }
--# res-16 invalid UTF-8 in a value | resolve | result ~ UTF-8
return { x = "\xff\xfe" }
--# res-17 invalid UTF-8 in a key | resolve | result ~ UTF-8
return { ["\xc3\x28"] = 1 }
--# res-18 a function | resolve | result ~ function
return { x = print }
--# res-19 a coroutine | resolve | result ~ thread
return { x = coroutine.create(print) }
--# res-20 a metatable | resolve | result ~ metatable
return setmetatable({}, { __index = function() while true do end end })
--# res-21 a metatable inside | resolve | result ~ metatable
return { x = setmetatable({}, { __pairs = function() while true do end end }) }
--# res-22 a text | resolve | result ~ a string
return "merged"
--# res-23 nothing at all | resolve | result ~ no value
local x = 1
--# res-24 nil | resolve | result ~ nil
return nil
--# res-25 null | resolve | result ~ null
return nightjar.null
--# res-26 delete inside a document | resolve | result ~ delete
return { x = nightjar.delete }
--# res-27 _deleted set | resolve | result ~ nightjar.delete
return { _deleted = true }
--# res-28 yields | resolve | error ~ yield
coroutine.yield({})
--# res-29 a text of a megabyte a hundred times | resolve | result ~ limit result bytes
local s = ("x"):rep(1000000) local t = {} for i = 1, 30 do t["k" .. i] = s end return t
--# res-30 integers at the ends, doubles, exponents | resolve | = {"a":9223372036854775807,"b":-9223372036854775808,"c":0.1,"d":1e+300,"e":3.0,"f":-0.0}
return { a = math.maxinteger, b = math.mininteger, c = 0.1, d = 1e300, e = 3.0, f = -0.0 }
--# res-31 control characters and zero bytes | resolve | = {"a":"\u0000\u001b\n","b\u0000c":1}
return { a = "\0\27\n", ["b\0c"] = 1 }
--# res-32 empty tables keep their kind | resolve | = {"a":[],"b":{},"c":{}}
return { a = nightjar.array {}, b = nightjar.object {}, c = {} }
--# res-33 parts of both sides | resolve | = {"l":{"x":1},"r":[1,2]}
return { l = conflict.local_doc.part, r = conflict.remote_doc.list }
--# res-34 the same side under another name | resolve | local
local c = conflict return (function(x) return x end)(c.local_doc)
--# res-35 the base | resolve | = {"n":0}
return conflict.base_doc
--# res-36 an object inside a side is a document of its own | resolve | = {"x":1}
return conflict.local_doc.part
--# res-37 ctx | resolve | result
return ctx
--# res-38 many values, the first counts | resolve | remote
return conflict.remote_doc, conflict.local_doc, 5, nil
--# res-39 two hundred thousand values | resolve | error/memory/result
return table.unpack({}, 1, 200000)
--# res-40 the keys "1" and 1 | resolve | result ~ both
return { ["1"] = 1, [1] = 2 }
--# res-41 a sorted document whatever the order of writing | resolve | = {"a":1,"b":2,"c":3}
local t = {} t.c = 3 t.a = 1 t.b = 2 return t
--# res-42 a filter may return any value | true
return { 1, 2, { 3 } }
--# res-43 a filter that returns NaN | true
return 0 / 0
--# res-44 a filter that returns nothing | result ~ no value
local x = 1
--# res-45 a filter that returns nil says no | false
return nil
--# res-46 a filter that returns a cycle | true
local t = {} t.t = t return t
--# res-47 a filter that returns two hundred thousand values | error/memory/true
return table.unpack({}, 1, 200000)
--# res-48 a principal that is misspelt | password | result ~ 
return { readonly = true }
--# res-49 a principal that is a cycle | password | result
local t = {} t.name = t return t
--# res-50 a principal with a function | password | result
return { name = print }
--# res-51 a principal with a wrong type | password | result
return { read_only = "no" }
--# res-52 a principal that is a list | password | result
return { 1, 2 }
--# res-53 a principal with channels of numbers | password | result
return { channels = { 1, 2 } }
--# res-54 a principal with a hundred thousand channels | password | result/timeout/memory
local c = {} for i = 1, 60000 do c[i] = "c" end return { channels = c }
--# res-55 nothing at all | password | result ~ no value
local x = 1
--# res-56 a text instead of true | password | result
return "yes"
--# res-57 writes to the conflict do not change what is compared | resolve | local
local mine = conflict.local_doc conflict.local_doc = conflict.remote_doc conflict.remote_doc = nil return mine
