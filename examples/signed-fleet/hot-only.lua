-- Pushes only hot readings.
return {
  description = "Lets only readings of at least a minimum leave",
  params = { minimum = { type = "number", default = 90 } },
  push_filter = function(doc, ctx)
    if doc._deleted then return true end
    return doc.type == "reading" and type(doc.value) == "number" and doc.value >= ctx.params.minimum
  end,
}
