local anna = { params = { name = "anna", field = "owner", deletions = true } }

return {
  ["own documents pass, both ways"] = function(t)
    t.accept(t.push_filter({ owner = "anna" }, anna))
    t.accept(t.pull_filter({ owner = "anna" }, anna))
  end,
  ["other people's documents stay"] = function(t)
    t.reject(t.push_filter({ owner = "ben" }, anna))
    t.reject(t.pull_filter({ owner = "Anna" }, anna))
  end,
  ["a document without an owner is nobody's"] = function(t)
    t.reject(t.push_filter({ note = "x" }, anna))
  end,
  ["deletions pass"] = function(t)
    t.accept(t.push_filter({ _deleted = true }, anna))
  end,
  ["deletions are held back if the parameters say so"] = function(t)
    t.reject(t.push_filter({ _deleted = true }, { params = { name = "anna", field = "owner", deletions = false } }))
  end,
  ["a deletion that names its owner is judged by it"] = function(t)
    t.reject(t.push_filter({ _deleted = true, owner = "ben" }, anna))
  end,
  ["the field can be chosen"] = function(t)
    t.accept(t.push_filter({ author = "anna" }, { params = { name = "anna", field = "author", deletions = true } }))
  end,
  ["an owner that is null, a number or an object is somebody else"] = function(t)
    for _, owner in ipairs { nightjar.null, 1, true, { "anna" }, { name = "anna" } } do
      t.reject(t.push_filter({ owner = owner }, anna))
    end
  end,
  ["a deletion whose owner is null passes like one without"] = function(t)
    t.accept(t.push_filter({ _deleted = true, owner = nightjar.null }, anna))
    t.accept(t.push_filter({ _deleted = true, owner = "anna" }, anna))
  end,
  ["what the peer takes away may go"] = function(t)
    local taken = { params = anna.params, flags = { access_removed = true } }
    t.accept(t.pull_filter({}, taken))
    t.reject(t.pull_filter({ owner = "ben" }, taken))
  end,
}
