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
  ["other types and documents without a type are held back"] = function(t)
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
  ["a type that is null, a list or an object is none of them"] = function(t)
    for _, kind in ipairs { nightjar.null, false, { "order" }, { order = true } } do
      t.reject(t.push_filter({ type = kind }, params()))
    end
  end,
  ["numbers can be types"] = function(t)
    t.accept(t.push_filter({ type = 2 }, params { types = { 1, 2.0 } }))
    t.reject(t.push_filter({ type = "2" }, params { types = { 1, 2 } }))
  end,
  ["no types, no documents"] = function(t)
    t.reject(t.push_filter({ type = "order" }, params { types = {} }))
  end,
  ["a deletion that names its type is judged by it"] = function(t)
    t.reject(t.push_filter({ _deleted = true, type = "note" }, params()))
    t.accept(t.push_filter({ _deleted = true, type = nightjar.null }, params()))
  end,
  ["what the peer takes away may go"] = function(t)
    t.accept(t.pull_filter({}, { params = params().params, flags = { access_removed = true } }))
  end,
}
