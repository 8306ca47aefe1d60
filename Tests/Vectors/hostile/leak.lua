--# leak-01 a global of one call is gone in the next | load | times 2 | true
local calls = 0
return { push_filter = function() calls = calls + 1 local before = _G.left_behind left_behind = "secret" return before == nil and left_behind == "secret" end }
--# leak-02 through _G, _ENV and rawset too | load | times 2 | true
return { push_filter = function()
  if _G.a or rawget(_ENV, "b") or rawget(_G, "c") or _G.d then return false end
  _G.a = 1 _ENV.b = 2 rawset(_G, "c", 3) d = 4
  return a == 1 and b == 2 and c == 3 and _G.d == 4 and rawget(_G, "c") == 3
end }
--# leak-03 a library that one call edits is whole in the next | load | times 2 | true
return { push_filter = function()
  local whole = string.upper ~= nil and ("a"):upper() == "A" and math.pi > 3 and type(nightjar.json.encode) == "function" and string.evil == nil
  string.upper = nil math.pi = 3 nightjar.json.encode = nil string.evil = 1 nightjar.log = nil
  return whole and string.upper == nil and math.pi == 3 and nightjar.json.encode == nil and string.evil == 1
end }
--# leak-04 a builtin that one call replaces is back in the next | load | times 2 | true
return { push_filter = function()
  local whole = type(pcall) == "function" and tostring(1) == "1" and type(string) == "table"
  pcall = nil tostring = function() return "evil" end string = nil
  return whole and _G.pcall == nil and tostring(1) == "evil" and _G.string == nil
end }
--# leak-05 a metatable on the environment lasts for the call only | load | times 2 | true
return { push_filter = function()
  local before = _G.undefined_name
  setmetatable(_G, { __index = function() return "evil" end })
  return before == nil and undefined_name == "evil"
end }
--# leak-06 what load-time code defines stays | load | times 3 | true
function helper(x) return x + 1 end
string.twice = function(s) return s .. s end
return { push_filter = function() return helper(1) == 2 and ("ab"):twice() == "abab" and string.twice("x") == "xx" end }
--# leak-07 upvalues stay (they are the plugin's own) | load | times 3 | true
local calls = 0
return { push_filter = function() calls = calls + 1 return calls >= 1 end }
--# leak-08 a document kept after its call | load | times 2 | error ~ no longer valid
local kept
return { push_filter = function(doc) if kept then return kept.type end kept = doc return true end }
--# leak-09 a part of a document kept after its call | load | times 2 | error ~ no longer valid
local kept
return { push_filter = function(doc) if kept then return kept.x.y end kept = doc.nested return true end }
--# leak-10 a kept document in pairs, #, next, copy, encode | load | times 2 | true
local kept
return { push_filter = function(doc)
  if kept then
    for _, f in ipairs { function() for _ in pairs(kept) do end end, function() return #kept end, function() return next(kept) end, function() return nightjar.copy(kept) end,
      function() return nightjar.json.encode(kept) end, function() kept.x = 1 end, function() nightjar.log.info("x", kept) end, function() return ("x"):gsub("x", kept) end } do
      if pcall(f) then return false end
    end
  end
  kept = doc return true
end }
--# leak-11 a running iteration over a document kept after its call | load | times 2 | error ~ no longer valid
local f, s, k
return { push_filter = function(doc) if f then return f(s, k) end f, s = pairs(doc) k = f(s, nil) return true end }
--# leak-12 documents as keys | true
local t = { [doc] = 1 } t[doc.nested] = 2 return t[doc] == 1 and t[doc.nested] == 2 and doc.nested == doc.nested and doc ~= doc.nested
--# leak-13 a kept document as a key is another one's never | load | times 2 | true
local t = {}
return { push_filter = function(doc) local found = t[doc] t[doc] = true return found == nil end }
--# leak-14 ctx kept after its call is still read-only | load | times 2 | error ~ read-only
local kept
return { push_filter = function(doc, ctx) if kept then kept.user = "x" end kept = ctx return true end }
--# leak-15 a coroutine that keeps the document | load | times 2 | error ~ no longer valid
local co
return { push_filter = function(doc)
  co = co or coroutine.wrap(function(first) while true do local _ = first.type coroutine.yield(true) end end)
  return co(doc)
end }
--# leak-16 globals set by a coroutine are gone as well | load | times 2 | true
return { push_filter = function() local before = _G.g coroutine.wrap(function() g = 1 end)() return before == nil and g == 1 end }
--# leak-17 globals set by a call that fails are gone as well | load | times 3 | true
local n = 0
return { push_filter = function() n = n + 1 if n == 2 then g = 1 while true do end end if n == 1 then g = 1 error("x") end return _G.g == nil end }
--# leak-18 random numbers do not start the same in each state | true
return math.random(1 << 60) ~= math.random(1 << 60)
--# leak-19 a shadowed builtin does not reach the methods of texts | true
string.rep = function() return "evil" end return ("x"):rep(2) == "xx"
--# leak-20 a password is not kept in ctx | password | result/error ~ 
error("no")
