return {
  ["drafts are held back"] = function(t)
    t.reject(t.push_filter({ type = "draft" }))
    t.reject(t.push_filter({ type = "article", draft = true }))
    t.reject(t.pull_filter({ type = "draft" }))
  end,
  ["everything else goes"] = function(t)
    t.accept(t.push_filter({ type = "article" }))
    t.accept(t.push_filter({ draft = false }))
    t.accept(t.push_filter({}))
  end,
  ["deletions go"] = function(t)
    t.accept(t.push_filter({ _deleted = true }))
  end,
  ["only draft true is a draft"] = function(t)
    for _, value in ipairs { nightjar.null, "true", 1, { true } } do t.accept(t.push_filter({ draft = value })) end
    for _, value in ipairs { nightjar.null, "Draft", { "draft" } } do t.accept(t.push_filter({ type = value })) end
  end,
}
