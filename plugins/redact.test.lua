local ctx = { params = { fields = { "owner", "card" } } }

return {
  ["the fields stay behind"] = function(t)
    t.equal(t.transform({ type = "order", owner = "anna", card = { number = 7 } }, ctx), { type = "order" })
  end,

  ["other documents travel as they are"] = function(t)
    t.equal(t.transform({ type = "order", tags = nightjar.array {} }, ctx), { type = "order", tags = nightjar.array {} })
  end,

  ["fields of another name stay"] = function(t)
    t.equal(t.transform({ order = { owner = "anna" } }, ctx), { order = { owner = "anna" } })
  end,
}
