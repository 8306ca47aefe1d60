local remote = { params = { prefer = "remote" } }
local own = { params = { prefer = "local" } }

return {
  ["changes of different fields are both kept"] = function(t)
    local merged = t.resolve({
      base_doc = { price = 1 }, local_doc = { price = 1, note = "x" }, remote_doc = { price = 2 },
    }, remote)
    t.equal(merged, { price = 2, note = "x" })
  end,
  ["the remote wins where both changed the same field"] = function(t)
    local conflict = { base_doc = { n = 1 }, local_doc = { n = 2 }, remote_doc = { n = 3 } }
    t.equal(t.resolve(conflict, remote), { n = 3 })
    t.equal(t.resolve(conflict, own), { n = 2 })
  end,
  ["a removed field stays removed"] = function(t)
    t.equal(t.resolve({ base_doc = { a = 1, b = 1 }, local_doc = { b = 1 }, remote_doc = { a = 1, b = 2 } }, remote), { b = 2 })
    t.equal(t.resolve({ base_doc = { a = 1, b = 1 }, local_doc = { a = 1, b = 2 }, remote_doc = { b = 1 } }, remote), { b = 2 })
  end,
  ["the preferred side's removal wins over a change"] = function(t)
    t.equal(t.resolve({ base_doc = { a = 1 }, local_doc = { a = 2 }, remote_doc = {} }, remote), {})
    t.equal(t.resolve({ base_doc = { a = 1 }, local_doc = { a = 2 }, remote_doc = {} }, own), { a = 2 })
  end,
  ["objects are merged inside"] = function(t)
    local merged = t.resolve({
      base_doc = { at = { x = 1, y = 1 } }, local_doc = { at = { x = 2, y = 1 } }, remote_doc = { at = { x = 1, y = 3 } },
    }, remote)
    t.equal(merged, { at = { x = 2, y = 3 } })
  end,
  ["arrays are one value"] = function(t)
    local merged = t.resolve({
      base_doc = { tags = { "a" } }, local_doc = { tags = { "a", "b" } }, remote_doc = { tags = { "a", "c" } },
    }, remote)
    t.equal(merged, { tags = { "a", "c" } })
  end,
  ["without an ancestor fields of both sides are kept"] = function(t)
    t.equal(t.resolve({ local_doc = { a = 1, c = 1 }, remote_doc = { b = 2, c = 2 } }, remote), { a = 1, b = 2, c = 2 })
  end,
  ["null is a value"] = function(t)
    t.equal(t.resolve({ base_doc = { a = 1 }, local_doc = { a = nightjar.null }, remote_doc = { a = 1, b = 2 } }, remote),
      { a = nightjar.null, b = 2 })
  end,
  ["a deletion wins"] = function(t)
    t.equal(t.resolve({ base_doc = { a = 1 }, local_doc = { a = 2 } }, remote), nightjar.delete)
    t.equal(t.resolve({ base_doc = { a = 1 }, remote_doc = { a = 2 } }, remote), nightjar.delete)
  end,
}
