local by_update = { params = { field = "updated_at" } }

local cases = {
  ["the later ISO timestamp wins"] = function(t)
    local early = { updated_at = "2026-03-01T10:00:00Z", n = 1 }
    local late = { updated_at = "2026-03-01T10:00:01Z", n = 2 }
    t.equal(t.resolve({ local_doc = early, remote_doc = late }, by_update), late)
    t.equal(t.resolve({ local_doc = late, remote_doc = early }, by_update), late)
  end,
  ["time zones are understood"] = function(t)
    local noon = { updated_at = "2026-03-01T12:00:00+01:00", n = 1 } -- 11:00 UTC
    local later = { updated_at = "2026-03-01T11:30:00Z", n = 2 }
    t.equal(t.resolve({ local_doc = noon, remote_doc = later }, by_update), later)
  end,
  ["numbers work too"] = function(t)
    t.equal(t.resolve({ local_doc = { updated_at = 20 }, remote_doc = { updated_at = 10 } }, by_update), { updated_at = 20 })
  end,
  ["a revision without a readable timestamp counts as older"] = function(t)
    t.equal(t.resolve({ local_doc = { n = 1 }, remote_doc = { updated_at = 10 } }, by_update), { updated_at = 10 })
    t.equal(t.resolve({ local_doc = { updated_at = 10 }, remote_doc = { updated_at = "soon" } }, by_update), { updated_at = 10 })
  end,
  ["with equal timestamps the greater revision wins"] = function(t)
    local conflict = {
      local_doc = { updated_at = 10, n = 1 }, local_rev = "10-aa", remote_doc = { updated_at = 10, n = 2 }, remote_rev = "9-bb",
    }
    t.equal(t.resolve(conflict, by_update), { updated_at = 10, n = 1 })
  end,
  ["a deletion wins"] = function(t)
    t.equal(t.resolve({ local_doc = { updated_at = 10 } }, by_update), nightjar.delete)
    t.equal(t.resolve({ remote_doc = { updated_at = 10 } }, by_update), nightjar.delete)
  end,
  ["fractions of a second count"] = function(t)
    local late = { updated_at = "2026-03-01T10:00:00.002Z" }
    t.equal(t.resolve({ local_doc = { updated_at = "2026-03-01T10:00:00.001Z" }, remote_doc = late }, by_update), late)
  end,
  ["a number and a string are compared as times"] = function(t)
    local late = { updated_at = "2026-03-01T10:00:00Z" }
    t.equal(t.resolve({ local_doc = late, remote_doc = { updated_at = 1772359199 } }, by_update), late)
  end,
  ["revision ids of any form decide a tie"] = function(t)
    for _, revs in ipairs { { "10-a", "9-f" }, { "2-b", "2-a" }, { "18c2@b", "18c2@a" } } do
      local conflict = { local_doc = { n = 1 }, local_rev = revs[1], remote_doc = { n = 2 }, remote_rev = revs[2] }
      t.equal(t.resolve(conflict, by_update), { n = 1 })
    end
  end,
}

-- Both replicas see the same two revisions, each from its own side, and must come to the same decision.
local values = { 10, 10.0, 11, "1970-01-01T00:00:10Z", "1970-01-01T01:00:10+01:00", "1970-01-01", "soon", "", nightjar.null, false, { 10 } }
for number, a in ipairs(values) do
  cases["both replicas decide alike, " .. number] = function(t)
    for _, b in ipairs(values) do
      local x, y = { updated_at = a, who = "x" }, { updated_at = b, who = "y" }
      local here = t.resolve({ local_doc = x, local_rev = "3-ab", remote_doc = y, remote_rev = "3-aa" }, by_update)
      local there = t.resolve({ local_doc = y, local_rev = "3-aa", remote_doc = x, remote_rev = "3-ab" }, by_update)
      t.equal(here.who, there.who)
    end
  end
end

return cases
