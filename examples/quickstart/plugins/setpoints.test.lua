return {
  ["each side keeps what it alone changed"] = function(t)
    local merged = t.resolve {
      base_doc = { limit = 100, fan = 50 }, local_doc = { limit = 95, fan = 50 }, remote_doc = { limit = 100, fan = 70 },
    }
    t.equal(merged, { limit = 95, fan = 70 })
  end,
  ["of two numbers the lower one wins"] = function(t)
    local merged = t.resolve { base_doc = { limit = 100 }, local_doc = { limit = 95 }, remote_doc = { limit = 90 } }
    t.equal(merged, { limit = 90 })
  end,
}
