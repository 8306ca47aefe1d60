return {
  ["the remote revision wins"] = function(t)
    t.equal(t.resolve { local_doc = { n = 1 }, remote_doc = { n = 2 } }, { n = 2 })
  end,
  ["a remote deletion wins"] = function(t)
    t.equal(t.resolve { local_doc = { n = 1 } }, nightjar.delete)
  end,
  ["a local deletion loses"] = function(t)
    t.equal(t.resolve { remote_doc = { n = 2 } }, { n = 2 })
  end,
}
