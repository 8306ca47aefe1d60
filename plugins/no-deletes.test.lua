return {
  ["deletions stay, both ways"] = function(t)
    t.reject(t.push_filter({ _deleted = true }))
    t.reject(t.pull_filter({ _deleted = true, type = "order" }))
  end,
  ["documents pass"] = function(t)
    t.accept(t.push_filter({ type = "order" }))
    t.accept(t.pull_filter({}))
  end,
  ["a field named deleted is not a deletion"] = function(t)
    t.accept(t.push_filter({ deleted = true }))
    t.accept(t.push_filter({ _deleted = false }))
  end,
}
