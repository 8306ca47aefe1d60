-- Checks names and passwords against a file of scrypt hashes.
--
--   authenticator: { plugin: password-file, params: { file: users.txt } }
--
-- One user per line: `name:hash`. After the hash may follow, each behind a colon: `read_only` for a user who may pull but not push,
-- `channels=NAME,NAME` and `roles=NAME,NAME` for listeners with a sync function. `nightjar user add` and `user permit` write these lines; `nightjar
-- password` only makes a hash.
-- Empty lines, lines that begin with # and trailing blanks are ignored; if a name has two lines, the first counts. The host reads the file (plugins
-- cannot) and notices when it changes.

-- A hash that belongs to nobody: an unknown name takes as long to check as a wrong password, so that timing does not reveal which names exist.
local nobody = "$scrypt$ln=15,r=8,p=1$bmlnaHRqYXIgbm9ib2R5IQ==$VGhpcyBpcyBub2JvZHkncyBrZXksIG5vIHBhc3N3b3I="

-- Returns the rest of the line that begins with `name:`, and a description of where the line is, for whoever has to fix it.
local function entry(text, name)
  if name == "" or name:find("[:#%c]") then return nil end
  text = "\n" .. text:gsub("^\xEF\xBB\xBF", "") -- some editors put a byte order mark at the start of a file
  local start, stop = text:find("\n" .. name .. ":", 1, true)
  if not start then return nil end
  local _, line = text:sub(1, start):gsub("\n", "")
  -- Up to the last byte that is not a blank: a pattern that looks for trailing blanks would start over at each blank.
  local rest = text:match("^[^\r\n]*", stop + 1):match("^.*[^ \t]") or ""
  return rest, "line " .. line .. " of the users file, user " .. name .. ": "
end

-- The number of characters in UTF-8 text.
local function characters(text)
  local _, others = text:gsub("[\x80-\xBF]", "")
  return #text - others
end

local function is_name(name) return name ~= "" and #name <= 250 and not name:find("[^%w%-+=/_.@\x80-\xFF]") end

-- Reads `read_only:channels=a,b:roles=c`; `fail` is called with the characters before what is wrong, and the reason.
local function options(text, fail)
  local read = { read_only = false }
  if text == "" then return read end
  local offset = 0
  for option in (text .. ":"):gmatch("([^:]*):") do
    local word, list = option:match("^(%a+)=(.*)$")
    if option == "read_only" then
      read.read_only = true
    elseif word == "channels" or word == "roles" then
      read[word] = read[word] or {}
      local at = offset + #word + 1
      for name in (list .. ","):gmatch("([^,]*),") do
        if not is_name(name) and not (word == "channels" and (name == "*" or name == "!")) then
          fail(at, '"' .. name .. '" is no name of a ' .. word:sub(1, -2)
            .. "; expected letters, digits and -+=/_.@, at most 250 bytes, and commas between names")
        end
        read[word][#read[word] + 1] = name
        at = at + characters(name) + 1
      end
    else
      fail(offset, 'unknown option; expected read_only, channels=NAME,NAME or roles=NAME,NAME')
    end
    offset = offset + characters(option) + 1
  end
  return read
end

return {
  description = "Checks passwords against a file of scrypt hashes",
  params = {
    file = { type = "file", required = true, doc = "path of the file of names and hashes" },
  },
  authenticate_password = function(username, password, ctx)
    local found, place = entry(ctx.params.file, username)
    if not found then
      nightjar.password.verify(password, nobody)
      return false
    end
    local hash, rest = found:match("^([^:]*):?(.*)$")
    local user = options(rest, function(offset, reason)
      error(place .. "column " .. characters(username) + characters(hash) + 3 + offset .. ": " .. reason)
    end)
    user.name = username
    local fine, right = pcall(nightjar.password.verify, password, hash)
    if not fine then error(place .. tostring(right)) end
    if not right then return false end
    return user
  end,
}
