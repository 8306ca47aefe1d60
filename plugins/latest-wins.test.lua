local by_update = { params = { field = "updated_at" } }

return {
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
  ["a revision without a readable timestamp is the older"] = function(t)
    t.equal(t.resolve({ local_doc = { n = 1 }, remote_doc = { updated_at = 10 } }, by_update), { updated_at = 10 })
    t.equal(t.resolve({ local_doc = { updated_at = 10 }, remote_doc = { updated_at = "soon" } }, by_update), { updated_at = 10 })
  end,
  ["of equal ones the greater revision wins"] = function(t)
    local conflict = {
      local_doc = { updated_at = 10, n = 1 }, local_rev = "10-aa", remote_doc = { updated_at = 10, n = 2 }, remote_rev = "9-bb",
    }
    t.equal(t.resolve(conflict, by_update), { updated_at = 10, n = 1 })
  end,
  ["a deletion wins"] = function(t)
    t.equal(t.resolve({ local_doc = { updated_at = 10 } }, by_update), nightjar.delete)
    t.equal(t.resolve({ remote_doc = { updated_at = 10 } }, by_update), nightjar.delete)
  end,
}
