local function params(more)
  local all = { types = { "order", "invoice" }, field = "type", deletions = true }
  for name, value in pairs(more or {}) do all[name] = value end
  return { params = all }
end

return {
  ["listed types pass, both ways"] = function(t)
    t.accept(t.push_filter({ type = "order" }, params()))
    t.accept(t.pull_filter({ type = "invoice" }, params()))
  end,
  ["other types and documents without one stay"] = function(t)
    t.reject(t.push_filter({ type = "note" }, params()))
    t.reject(t.push_filter({ total = 3 }, params()))
  end,
  ["deletions pass, unless told otherwise"] = function(t)
    t.accept(t.push_filter({ _deleted = true }, params()))
    t.reject(t.push_filter({ _deleted = true }, params { deletions = false }))
  end,
  ["the field can be chosen"] = function(t)
    t.accept(t.push_filter({ kind = "order", type = "x" }, params { field = "kind" }))
  end,
}
