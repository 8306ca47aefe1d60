-- Made with `nightjar password`; the password is "correct horse".
local hash = nightjar.password.hash("correct horse")
local ctx = { params = { file = "# operators\n\nanna:" .. hash .. "\r\nben:" .. hash .. ":read_only\ncarl:nonsense\ndora:" .. hash .. ":admin" } }

return {
  ["the right password is accepted"] = function(t)
    t.equal(t.authenticate_password("anna", "correct horse", ctx), { name = "anna", read_only = false })
  end,
  ["read_only users may only pull"] = function(t)
    t.equal(t.authenticate_password("ben", "correct horse", ctx), { name = "ben", read_only = true })
  end,
  ["channels and roles are those of the line"] = function(t)
    local limited = { params = { file = "eva:" .. hash .. ":channels=plant-7,alarms:roles=engineer\nfil:" .. hash .. ":roles=a:read_only:channels=*" } }
    t.equal(t.authenticate_password("eva", "correct horse", limited), { name = "eva", read_only = false, channels = { "plant-7", "alarms" }, roles = { "engineer" } })
    t.equal(t.authenticate_password("fil", "correct horse", limited), { name = "fil", read_only = true, channels = { "*" }, roles = { "a" } })
  end,
  ["options that are wrong are named with their column"] = function(t)
    for option, offset in pairs { ["chanels=a"] = 0, ["read_only:"] = 10, ["channels="] = 9, ["channels=a b"] = 9, ["channels=a,"] = 11, ["roles=*"] = 6, ["roles=é,ü!"] = 8 } do
      local _, message = pcall(t.authenticate_password, "eva", "correct horse", { params = { file = "eva:" .. hash .. ":" .. option } })
      t.equal({ option, tostring(message):find("line 1 of the users file, user eva: column " .. 3 + #hash + 3 + offset .. ": ", 1, true) ~= nil }, { option, true })
    end
  end,
  ["a wrong password is refused"] = function(t)
    t.equal(t.authenticate_password("anna", "wrong", ctx), false)
    t.equal(t.authenticate_password("anna", "", ctx), false)
  end,
  ["an unknown name is refused"] = function(t)
    t.equal(t.authenticate_password("Anna", "correct horse", ctx), false)
    t.equal(t.authenticate_password("ann", "correct horse", ctx), false)
  end,
  ["names that could be mistaken for something else are refused"] = function(t)
    for _, name in ipairs { "", "# operators", "anna:" .. hash } do
      t.equal(t.authenticate_password(name, "correct horse", ctx), false)
    end
  end,
  ["a broken line is a failure, not a wrong password"] = function(t)
    t.fails(function() t.authenticate_password("carl", "correct horse", ctx) end)
    t.fails(function() t.authenticate_password("dora", "correct horse", ctx) end)
  end,
  ["a broken line is named by its number"] = function(t)
    for name, line in pairs { carl = 5, dora = 6 } do
      local _, message = pcall(t.authenticate_password, name, "correct horse", ctx)
      t.equal(tostring(message):find("line " .. line .. " of the users file, user " .. name .. ": ", 1, true) ~= nil, true)
    end
  end,
  ["a byte order mark, trailing blanks and a second line for a name do no harm"] = function(t)
    local marked = { params = { file = "\xEF\xBB\xBFanna:" .. hash .. " \t\nanna:nonsense\nben:" .. hash .. ":read_only \n" } }
    t.equal(t.authenticate_password("anna", "correct horse", marked), { name = "anna", read_only = false })
    t.equal(t.authenticate_password("ben", "correct horse", marked), { name = "ben", read_only = true })
  end,
  ["an empty file lets nobody in"] = function(t)
    t.equal(t.authenticate_password("anna", "correct horse", { params = { file = "" } }), false)
  end,
  ["a name is not a pattern, and its beginning is not enough"] = function(t)
    t.equal(t.authenticate_password("ann.", "correct horse", ctx), false)
    t.equal(t.authenticate_password(".*", "correct horse", ctx), false)
    t.equal(t.authenticate_password("nna", "correct horse", ctx), false)
  end,
  ["a line that was commented out does not count"] = function(t)
    t.equal(t.authenticate_password("anna", "correct horse", { params = { file = "#anna:" .. hash .. "\n# anna:" .. hash } }), false)
  end,
}
