-- Checks names and passwords against a file of scrypt hashes.
--
--   authenticator: { plugin: password-file, params: { file: users.txt } }
--
-- One user per line: `name:hash`, or `name:hash:read_only` for a user who may pull but not push. `nightjar user add` writes these lines; `nightjar
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
    local hash, option = found:match("^([^:]*):?(.*)$")
    if option ~= "" and option ~= "read_only" then
      error(place .. "unknown option \"" .. option .. "\"; expected read_only")
    end
    local fine, right = pcall(nightjar.password.verify, password, hash)
    if not fine then error(place .. tostring(right)) end
    if not right then return false end
    return { name = username, read_only = option == "read_only" }
  end,
}
