-- Each gateway runs these tests before it uses the plugin.
return {
  ["hot readings leave"] = function(t) t.accept(t.push_filter({ type = "reading", value = 95 })) end,
  ["cold ones stay"] = function(t) t.reject(t.push_filter({ type = "reading", value = 20 })) end,
  ["a parameter says where hot begins"] = function(t)
    t.reject(t.push_filter({ type = "reading", value = 95 }, { params = { minimum = 99 } }))
  end,
}
