local function params(more)
  local all = { minimum = 30, field = "value", others = true }
  for name, value in pairs(more or {}) do all[name] = value end
  return { params = all }
end

return {
  ["values from the minimum on pass, both ways"] = function(t)
    t.accept(t.push_filter({ value = 30 }, params()))
    t.accept(t.push_filter({ value = 30.5 }, params()))
    t.accept(t.pull_filter({ value = 31 }, params()))
  end,
  ["lower values stay"] = function(t)
    t.reject(t.push_filter({ value = 29.9 }, params()))
    t.reject(t.push_filter({ value = -1 }, params()))
  end,
  ["documents without a number pass"] = function(t)
    t.accept(t.push_filter({ unit = "C" }, params()))
    t.accept(t.push_filter({ value = "high" }, params()))
    t.accept(t.push_filter({ _deleted = true }, params()))
  end,
  ["documents without a number are held back if the parameters say so"] = function(t)
    t.reject(t.push_filter({ unit = "C" }, params { others = false }))
    t.reject(t.push_filter({ value = nightjar.null }, params { others = false }))
  end,
  ["the field can be chosen"] = function(t)
    t.reject(t.push_filter({ temperature = 3, value = 99 }, params { field = "temperature" }))
  end,
}
