--# lib-01 json: brackets without end | error ~ nested deeper
nightjar.json.decode(("["):rep(500000))
--# lib-02 json: objects without end | error ~ nested deeper
nightjar.json.decode(('{"a":'):rep(100000))
--# lib-03 json: more values than fit | error ~ limit result nodes
nightjar.json.decode("[" .. ("1,"):rep(60000) .. "1]")
--# lib-04 json: a key twice | error ~ twice
nightjar.json.decode('{"a":1,"a":2}')
--# lib-05 json: what is no JSON | true
for _, s in ipairs { "", " ", "[1,]", "{,}", "01", "+1", ".5", "1.", "1e", "nul", "NaN", "Infinity", "'a'", '"\1"', '"\\x"', '"\\u12"', "[1", '{"a"}', "1 2", "\xef\xbb\xbf1", '"\xff"', "-", "tru" } do if pcall(nightjar.json.decode, s) then return false end end return true
--# lib-06 json: numbers at the edges | true
local d = nightjar.json.decode return d("9223372036854775807") == math.maxinteger and math.type(d("9223372036854775808")) == "float" and not pcall(d, "1e400")
--# lib-07 json: decoding for ever | timeout
local s = "[" .. ("1,"):rep(20000) .. "1]" while true do nightjar.json.decode(s) end
--# lib-08 json: encoding for ever | timeout
local t = {} for i = 1, 20000 do t[i] = 0.1 end while true do nightjar.json.encode(t) end
--# lib-09 json: a cycle | error ~ cycle
local t = {} t[1] = t nightjar.json.encode(t)
--# lib-10 json: doubles of doubles | error/timeout ~ 
local t = {} for i = 1, 30 do t = { t, t } end nightjar.json.encode(t)
--# lib-11 json: a hundred million digits in one number | error/true
return pcall(nightjar.json.decode, ("9"):rep(900000)) == false
--# lib-12 copy: a cycle | error ~ cycle
local t = {} t.t = t nightjar.copy(t)
--# lib-13 copy: doubles of doubles | error/timeout
local t = {} for i = 1, 30 do t = { t, t } end nightjar.copy(t)
--# lib-14 base64: long texts for ever | timeout
local s = ("x"):rep(600000) while true do nightjar.base64.encode(s) end
--# lib-15 base64: too long | error/memory ~ 
return nightjar.base64.encode(("x"):rep(1000000))
--# lib-16 base64: what is none | true
local d = nightjar.base64.decode return d("a") == nil and d("????") == nil and d("=") == nil and d("====") == nil and d("YQ=a") == nil and d("") == "" and d("YWI\0") == nil
--# lib-17 digests of long texts for ever | timeout
local s = ("x"):rep(900000) while true do nightjar.sha256(s) end
--# lib-18 hmac of long texts for ever | timeout
local s = ("x"):rep(400000) while true do nightjar.hmac_sha256(s, s) end
--# lib-19 glob: many stars | false
return nightjar.glob(("*a"):rep(20) .. "b", ("a"):rep(200))
--# lib-20 glob: many stars on a long text for ever | timeout
while true do nightjar.glob(("*a"):rep(500) .. "b", ("a"):rep(100000)) end
--# lib-21 glob: brackets without end | timeout
return nightjar.glob("*" .. ("["):rep(900000), ("a"):rep(900000))
--# lib-22 glob: a long set | timeout
return nightjar.glob("*[" .. ("a-b"):rep(200000) .. "]x", ("c"):rep(900000))
--# lib-23 glob: what is malformed stands for itself | true
return nightjar.glob("[", "[") and nightjar.glob("\\", "\\") and not nightjar.glob("[a", "a") and nightjar.glob("[]]", "]") and nightjar.glob("a\0*", "a\0b")
--# lib-24 cidr: garbage | true
for _, r in ipairs { "", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "x/8", "::/129", "10.0.0.0/99999999999999999999", ("1"):rep(1000), "10.0.0.0/8\0", "1.2.3/8" } do if pcall(nightjar.cidr, r, "1.2.3.4") then return false end end
for _, a in ipairs { "", "x", "1.2.3", "1.2.3.4.5", ":::", ("1"):rep(1000), "1.2.3.4\0" } do if nightjar.cidr("0.0.0.0/0", a) then return false end end return true
--# lib-25 time.parse: garbage | true
for _, s in ipairs { "", "x", "2024", "2024-13-01", "2023-02-29", "2024-01-01T", "2024-01-01T25:00:00Z", "2024-01-01T00:00:00+99:99", "2024-01-01T00:00:00Zx", ("9"):rep(900000), "2024-01-01T00:00:00." .. ("9"):rep(900000) .. "x", "-2024-01-01" } do if nightjar.time.parse(s) ~= nil then return false end end return true
--# lib-26 time.parse of long fractions for ever | timeout
local s = "2024-01-01T00:00:00." .. ("1"):rep(900000) .. "Z" while true do nightjar.time.parse(s) end
--# lib-27 time.format: garbage | true
for _, n in ipairs { 1e300, -1e300, 0 / 0, math.huge, math.maxinteger, math.mininteger } do if pcall(nightjar.time.format, n) then return false end end return not pcall(nightjar.time.format, "x") and not pcall(nightjar.time.format)
--# lib-28 os.time: garbage | true
return not pcall(os.time, { year = 2^60, month = 1, day = 1 }) and not pcall(os.time, {}) and not pcall(os.time, { year = "x", month = 1, day = 1 }) and not pcall(os.time, 5) and not pcall(os.time, { year = 1.5, month = 1, day = 1 })
--# lib-29 os.date: times out of range | true
return not pcall(os.date, "%Y", math.maxinteger) and not pcall(os.date, "*t", 1 << 60)
--# lib-30 a flood of log lines | true
for i = 1, 100000 do nightjar.log.info("x" .. i) end return true
--# lib-31 print without end | timeout
while true do print("x") end
--# lib-32 a log line of a megabyte | true
nightjar.log.warn(("x"):rep(900000)) return true
--# lib-33 log fields of a megabyte | true/timeout
for i = 1, 50 do nightjar.log.info("x", { field = ("y"):rep(900000) }) end return true
--# lib-34 log fields that are cyclic | error ~ cycle
local t = {} t.t = t nightjar.log.info("x", t)
--# lib-35 log fields that are no table | error
nightjar.log.info("x", 5)
--# lib-36 a log line that breaks out | true
nightjar.log.info("a\nlevel=error fake\27[2J\0") return true
--# lib-37 a metric for ever | timeout
while true do nightjar.metrics.count("x") end
--# lib-38 metrics: garbage | true
return not pcall(nightjar.metrics.gauge, "x", 0 / 0) and not pcall(nightjar.metrics.count, "x", math.huge) and not pcall(nightjar.metrics.count, "") and not pcall(nightjar.metrics.count, ("x"):rep(101)) and not pcall(nightjar.metrics.gauge, "x") and not pcall(nightjar.metrics.count, nil)
--# lib-39 documents that are looked up for ever | error/timeout
while true do nightjar.get("x") end
--# lib-40 lookups that are caught for ever | timeout
while true do pcall(nightjar.get, "x") end
--# lib-41 get: names that are none | true
return not pcall(nightjar.get) and not pcall(nightjar.get, {}) and not pcall(nightjar.get, "\xff") and not pcall(nightjar.get, "a\0b", "x") and not pcall(nightjar.get, ("x"):rep(100000))
--# lib-42 state: values that are none | true
for _, v in ipairs { print, coroutine.create(print), 0 / 0, "\xff", setmetatable({}, {}) } do if pcall(function() nightjar.state.x = v end) then return false end end
local t = {} t.t = t return not pcall(function() nightjar.state.x = t end) and not pcall(function() nightjar.state[1] = 1 nightjar.state[{}] = 1 end)
--# lib-43 state: written for ever | timeout/error
local n = 0 while true do n = n + 1 nightjar.state["k" .. n] = ("x"):rep(1000) end
--# lib-44 state: writes that are caught for ever | timeout
local n = 0 while true do n = n + 1 pcall(function() nightjar.state["k" .. n] = 1 end) end
--# lib-45 password hashes for ever | error/timeout
while true do nightjar.password.hash("x") end
--# lib-46 a password hash that wants a terabyte | true
return not pcall(nightjar.password.verify, "x", "$scrypt$ln=30,r=1024,p=16$bmlnaHRqYXIgbm9ib2R5IQ==$bmlnaHRqYXIgbm9ib2R5IQ==") and not pcall(nightjar.password.verify, "x", ("$"):rep(100000)) and not pcall(nightjar.password.verify, "x", "")
--# lib-47 array and object: not on what has a metatable | true
return not pcall(nightjar.array, setmetatable({}, {})) and not pcall(nightjar.object, doc) and not pcall(nightjar.array, 5) and not pcall(nightjar.array, ctx) and not pcall(nightjar.array, _G)
--# lib-48 wrong arguments are errors | true
for _, f in ipairs { nightjar.copy, nightjar.sha1, nightjar.sha256, nightjar.hmac_sha256, nightjar.glob, nightjar.cidr, nightjar.json.encode, nightjar.json.decode, nightjar.base64.encode, nightjar.base64.decode, nightjar.time.parse, nightjar.password.verify, nightjar.log.info } do if pcall(f) then return false end end return true
--# lib-49 uuids for ever | timeout
while true do nightjar.uuid() end
--# lib-50 documents: every field of a hundred thousand | doc wide | true
local n = 0 for k, v in pairs(doc) do n = n + 1 end return n == 100000
--# lib-51 documents: the last of a hundred thousand fields, and one that is missing, for ever | doc wide | timeout
while true do local x = doc.f99999 local y = doc.missing end
--# lib-52 documents: next from the middle, without order | doc wide | timeout
local k = nil while true do for i = 0, 99999, 777 do next(doc, "f" .. i) end end
--# lib-53 documents: the elements of a long list backwards | doc list | timeout
while true do for i = #doc.list, 1, -1 do local x = doc.list[i] end end
--# lib-54 documents: copies of what is too large | doc list | error ~ limit result nodes
nightjar.copy(doc)
--# lib-55 documents: thirty levels | doc deep | true
local d, n = doc, 0 while d.d do d, n = d.d, n + 1 end return n == 30
--# lib-56 documents: a field of 900,000 bytes | doc long | true
return #doc.text == 900000 and doc.text == doc.text
--# lib-57 documents: keys that are no names | true
return doc[1] == nil and doc[1.5] == nil and doc[{}] == nil and doc[doc] == nil and doc[true] == nil and doc.list[0] == nil and doc.list[4] == nil and doc.list[-1] == nil and doc.list[1 << 60] == nil and doc.list[1.0] == 1 and doc.list["1"] == nil and doc[""] == nil
--# lib-58 documents: next with a key that is not there | error ~ no field
next(doc, "absent")
--# lib-59 documents: equality and truth | true
return doc and doc.nested and not doc.absent and nightjar.null and nightjar.null ~= nil and nightjar.null == nightjar.null and nightjar.null ~= nightjar.delete and doc ~= {}
--# lib-60 documents: a list of a hundred thousand as text | doc list | true/error/timeout
return #table.concat(doc.list, ",") > 100000
