return {
  ["the local revision wins"] = function(t)
    t.equal(t.resolve { local_doc = { n = 1 }, remote_doc = { n = 2 } }, { n = 1 })
  end,
  ["a local deletion wins"] = function(t)
    t.equal(t.resolve { remote_doc = { n = 2 } }, nightjar.delete)
  end,
  ["a remote deletion loses"] = function(t)
    t.equal(t.resolve { local_doc = { n = 1 } }, { n = 1 })
  end,
  ["the document is taken as it is, with its nulls, lists and empty objects"] = function(t)
    local whole = { a = nightjar.null, b = {}, c = nightjar.array {}, d = { { 1 }, "x" }, e = 1.5 }
    t.equal(t.resolve { base_doc = { a = 1 }, local_doc = whole, remote_doc = {} }, whole)
  end,
}
