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
  ["without an ancestor the fields of both sides are kept"] = function(t)
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
  ["nested objects that only one side has, or that replace something else"] = function(t)
    t.equal(t.resolve({ base_doc = {}, local_doc = { a = { x = 1 } }, remote_doc = { a = { y = 2 } } }, remote), { a = { x = 1, y = 2 } })
    t.equal(t.resolve({ base_doc = { a = 1 }, local_doc = { a = { x = 1 } }, remote_doc = { a = { y = 2 } } }, remote), { a = { x = 1, y = 2 } })
    t.equal(t.resolve({ base_doc = { a = { x = 1 } }, local_doc = { a = { x = 1 } }, remote_doc = { a = 5 } }, own), { a = 5 })
    t.equal(t.resolve({ base_doc = { a = { x = 1 } }, local_doc = { a = { x = 2 } }, remote_doc = { a = 5 } }, own), { a = { x = 2 } })
  end,
  ["removals inside objects"] = function(t)
    local merged = t.resolve({
      base_doc = { at = { x = 1, y = 1, z = 1 } }, local_doc = { at = { y = 1, z = 1 } }, remote_doc = { at = { x = 1, y = 2 } },
    }, remote)
    t.equal(merged, { at = { y = 2 } })
  end,
  ["three levels"] = function(t)
    local function at(a, b) return { one = { two = { a = a, b = b, same = { 1, { k = nightjar.null } } } } } end
    t.equal(t.resolve({ base_doc = at(1, 1), local_doc = at(2, 1), remote_doc = at(1, 2) }, remote), at(2, 2))
  end,
  ["an array that only one side changed is kept, even if its objects were written in another order"] = function(t)
    local function doc(text) return nightjar.json.decode(text) end
    local merged = t.resolve({
      base_doc = { list = doc '[{"a":1,"b":2}]' }, local_doc = { list = doc '[{"a":1,"b":2},{"a":3}]' }, remote_doc = { list = doc '[{"b":2,"a":1}]', n = 1 },
    }, remote)
    t.equal(merged, { list = { { a = 1, b = 2 }, { a = 3 } }, n = 1 })
  end,
  ["empty arrays and objects are different values"] = function(t)
    local list, object = nightjar.array {}, nightjar.object {}
    t.equal(nightjar.json.encode(t.resolve({ base_doc = { a = list }, local_doc = { a = list }, remote_doc = { a = object } }, own)), '{"a":{}}')
    t.equal(nightjar.json.encode(t.resolve({ base_doc = { a = object }, local_doc = { a = list }, remote_doc = { a = object } }, remote)), '{"a":[]}')
  end,
  ["false is a value"] = function(t)
    t.equal(t.resolve({ base_doc = { a = true, b = true }, local_doc = { a = false, b = true }, remote_doc = { a = true, b = false } }, remote),
      { a = false, b = false })
  end,
  ["whole numbers stay whole"] = function(t)
    t.equal(nightjar.json.encode(t.resolve({ base_doc = {}, local_doc = { a = 9007199254740993 }, remote_doc = { b = 1.0 } }, remote)), '{"a":9007199254740993,"b":1.0}')
  end,
  ["both replicas agree where no field was changed by both"] = function(t)
    local base, x, y = { a = 1, b = 1, c = { d = 1, e = 1 } }, { a = 2, b = 1, c = { d = 2, e = 1 } }, { a = 1, c = { d = 1, e = 2 }, f = 3 }
    local here = t.resolve({ base_doc = base, local_doc = x, remote_doc = y }, remote)
    local there = t.resolve({ base_doc = base, local_doc = y, remote_doc = x }, remote)
    t.equal(here, there)
    t.equal(here, { a = 2, c = { d = 2, e = 2 }, f = 3 })
  end,
  ["a document without fields"] = function(t)
    t.equal(nightjar.json.encode(t.resolve({ base_doc = { a = 1 }, local_doc = {}, remote_doc = { a = 1 } }, remote)), "{}")
  end,
}
