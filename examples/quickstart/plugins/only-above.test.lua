return {
  ["hot readings leave"] = function(t)
    t.accept(t.push_filter({ type = "reading", value = 120 }))
  end,
  ["cool readings stay"] = function(t)
    t.reject(t.push_filter({ type = "reading", value = 20 }))
  end,
  ["settings leave"] = function(t)
    t.accept(t.push_filter({ type = "setpoints" }))
  end,
}
