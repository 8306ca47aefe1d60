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
}
