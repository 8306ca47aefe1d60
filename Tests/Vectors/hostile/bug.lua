--# bug-01 nested coroutines that would be closed | error ~ overflow
local function f() local co = coroutine.wrap(f) return co() end return f()
--# bug-02 gmatch after a pattern that is too complex | true
local it = ("x"):rep(300000):gmatch(("x?"):rep(190)) pcall(it) pcall(it) pcall(it) return true
--# bug-03 __concat and the moved stack | error ~ '__concat' is not available
local t = setmetatable({}, { __concat = function(a, b) local function deep(n) if n > 0 then return deep(n - 1) + 1 end return 0 end deep(5000) return "ok" end })
return "a" .. t == "aok"
--# bug-04 __concat filled in later | error ~ attempt to concatenate
local mt = {} local t = setmetatable({}, mt) mt.__concat = function() return "x" end return "a" .. t
--# bug-05 weak tables are refused | error ~ '__mode' is not available
setmetatable({}, { __mode = "k" })
--# bug-06 weak mode filled in later is not seen | true
local mt = {} local t = setmetatable({}, mt) mt.__mode = "k" t[{}] = 1 for i = 1, 10000 do local x = { i } end return next(t) ~= nil
--# bug-08 closing of a for loop's variable is refused | error ~ closable
local mt = {} local t = setmetatable({}, mt) for i in (function() return nil end), nil, nil, t do end
--# bug-09 utf8.codes on stray continuation bytes | true
return not pcall(function() for _ in utf8.codes("ab\x80") do end end) and not pcall(function() for _ in utf8.codes("a\x80b") do end end)
--# bug-10 utf8 functions on bytes that are none | true
return utf8.len("\xff") == nil and utf8.len("\x80") == nil and utf8.len("\xed\xa0\x80") == nil and not pcall(utf8.codepoint, "\xff") and not pcall(utf8.codepoint, "\xf8\x88\x80\x80\x80")
--# bug-11 the smallest integer divided by -1 | true
return math.mininteger // -1 == math.mininteger and math.mininteger % -1 == 0
--# bug-12 division by zero is an error | true
return not pcall(function() return 1 // 0 end) and not pcall(function() return 1 % 0 end) and 1 // 0.0 == math.huge
--# bug-13 shifts out of range | true
return 1 << 64 == 0 and 1 << -1 == 0 and 1 << 63 == math.mininteger and -1 >> 63 == 1 and 1 << math.mininteger == 0
--# bug-14 <const> _ENV | load | load/true/error
local _ENV <const> = 1 local x = y return { push_filter = function() return true end }
--# bug-15 a stack that moves while arguments are evaluated | true
local function grow(n) if n == 0 then return 0 end return 1 + grow(n - 1) end
local t = setmetatable({}, { __index = function(_, k) return grow(10000) end, __lt = function() return grow(10000) == 10000 end, __len = function() return grow(10000) end })
return t.x == 10000 and (t < t) and #t == 10000
--# bug-16 floats as keys | true
local t = {} t[2^53] = 1 t[1.0] = 2 return t[1] == 2 and t[2^53 | 0] == 1 and not pcall(function() t[0 / 0] = 1 end)
--# bug-17 the order of equal texts with zero bytes | true
return "a\0b" < "a\0c" and "a" < "a\0" and not ("a\0" < "a")
--# bug-18 tostring of integers and floats | true
return tostring(3) == "3" and tostring(3.0) == "3.0" and tostring(-0.0) == "-0.0" and tostring(math.mininteger) == "-9223372036854775808" and math.type(3.0) == "float"
--# bug-19 a thousand locals and upvalues | load | load ~ local variables
local a1; local function f() local b = {} end
local v0,v1,v2,v3,v4,v5,v6,v7,v8,v9,v10,v11,v12,v13,v14,v15,v16,v17,v18,v19,v20,v21,v22,v23,v24,v25,v26,v27,v28,v29,v30,v31,v32,v33,v34,v35,v36,v37,v38,v39,v40,v41,v42,v43,v44,v45,v46,v47,v48,v49,v50,v51,v52,v53,v54,v55,v56,v57,v58,v59,v60,v61,v62,v63,v64,v65,v66,v67,v68,v69,v70,v71,v72,v73,v74,v75,v76,v77,v78,v79,v80,v81,v82,v83,v84,v85,v86,v87,v88,v89,v90,v91,v92,v93,v94,v95,v96,v97,v98,v99
local w0,w1,w2,w3,w4,w5,w6,w7,w8,w9,w10,w11,w12,w13,w14,w15,w16,w17,w18,w19,w20,w21,w22,w23,w24,w25,w26,w27,w28,w29,w30,w31,w32,w33,w34,w35,w36,w37,w38,w39,w40,w41,w42,w43,w44,w45,w46,w47,w48,w49,w50,w51,w52,w53,w54,w55,w56,w57,w58,w59,w60,w61,w62,w63,w64,w65,w66,w67,w68,w69,w70,w71,w72,w73,w74,w75,w76,w77,w78,w79,w80,w81,w82,w83,w84,w85,w86,w87,w88,w89,w90,w91,w92,w93,w94,w95,w96,w97,w98,w99
return { push_filter = function() return true end }
--# bug-20 getobjname without end | error ~ nil
local x = nil local y = x return y.a.b.c
--# bug-21 string.format with bad directives | true
for _, f in ipairs { "%", "%y", "%100d", "%1.1000f", "%ll", "%-+ #0#0#0d", "%s%s", "%c%c", "%.999s" } do if pcall(string.format, f, 1) and f ~= "%-+ #0#0#0d" then return false end end return true
--# bug-22 table.remove and insert at the edges | true
return table.remove({}) == nil and table.remove({}, 0) == nil and not pcall(table.remove, { 1 }, 5) and not pcall(table.insert, { 1 }, 5, 1) and not pcall(table.insert, { 1 }, 0, 1) and not pcall(table.insert, {}) and table.remove({ 1 }, 2) == nil
--# bug-23 the length of a table with crafted holes | true
local t = {} for k = 0, 62 do t[1 << k] = 1 end return pcall(table.insert, t, 1, 1) == false or #t < 100
