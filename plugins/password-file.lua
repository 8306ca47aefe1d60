-- Checks names and passwords against a file of scrypt hashes.
--
--   authenticator: { plugin: password-file, params: { file: users.txt } }
--
-- One user a line: `name:hash`, or `name:hash:read_only` for one who may pull but not push. `nightjar password` makes the hashes.
-- Empty lines, lines that begin with # and blanks at the end of a line do not count; of two lines for a name the first does. The host reads the file (plugins cannot) and notices when it changes.

-- Nobody's hash: an unknown name costs as much time as a wrong password, so names cannot be found out by timing.
local nobody = "$scrypt$ln=15,r=8,p=1$bmlnaHRqYXIgbm9ib2R5IQ==$VGhpcyBpcyBub2JvZHkncyBrZXksIG5vIHBhc3N3b3I="

-- The rest of the line that begins with `name:`.
local function entry(text, name)
  if name == "" or name:find("[:#%c]") then return nil end
  text = "\n" .. text:gsub("^\xEF\xBB\xBF", "") -- some editors begin a file with this mark
  local _, stop = text:find("\n" .. name .. ":", 1, true)
  return stop and (text:match("^[^\r\n]*", stop + 1):gsub("[ \t]+$", ""))
end

return {
  description = "Checks passwords against a file of scrypt hashes",
  params = {
    file = { type = "file", required = true, doc = "path of the file of names and hashes" },
  },
  authenticate_password = function(username, password, ctx)
    local found = entry(ctx.params.file, username)
    if not found then
      nightjar.password.verify(password, nobody)
      return false
    end
    local hash, option = found:match("^([^:]*):?(.*)$")
    if option ~= "" and option ~= "read_only" then
      error("user " .. username .. ": unknown option \"" .. option .. "\"; expected read_only")
    end
    if not nightjar.password.verify(password, hash) then return false end
    return { name = username, read_only = option == "read_only" }
  end,
}
