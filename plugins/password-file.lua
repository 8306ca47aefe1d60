-- Checks names and passwords against a file of scrypt hashes.
--
--   authenticator: { plugin: password-file, params: { file: users.txt } }
--
-- One user a line: `name:hash`, or `name:hash:read_only` for one who may pull but not push. `nightjar user add` writes them; `nightjar password`
-- makes a hash alone.
-- Empty lines, lines that begin with # and blanks at the end of a line do not count; of two lines for a name the first does. The host reads the file (plugins cannot) and notices when it changes.

-- Nobody's hash: an unknown name costs as much time as a wrong password, so names cannot be found out by timing.
local nobody = "$scrypt$ln=15,r=8,p=1$bmlnaHRqYXIgbm9ib2R5IQ==$VGhpcyBpcyBub2JvZHkncyBrZXksIG5vIHBhc3N3b3I="

-- The rest of the line that begins with `name:`, and where the line is for whoever has to repair it.
local function entry(text, name)
  if name == "" or name:find("[:#%c]") then return nil end
  text = "\n" .. text:gsub("^\xEF\xBB\xBF", "") -- some editors begin a file with this mark
  local start, stop = text:find("\n" .. name .. ":", 1, true)
  if not start then return nil end
  local _, line = text:sub(1, start):gsub("\n", "")
  -- Up to the last byte that is no blank: a pattern that looks for blanks at the end would look once for each blank.
  local rest = text:match("^[^\r\n]*", stop + 1):match("^.*[^ \t]") or ""
  return rest, "line " .. line .. " of the file of users, user " .. name .. ": "
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
