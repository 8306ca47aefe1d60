-- Only readings of at least a minimum leave the site; settings always do.
--
-- Try it while the quickstart is running: change the default below, save, and watch the hub. No restart is
-- needed, and readings that the old minimum held back are offered again.
return {
  description = "Passes readings whose value is at least params.minimum",
  params = {
    minimum = { type = "number", default = 100, doc = "smallest value that leaves the site" },
  },
  push_filter = function(doc, ctx)
    if doc.type ~= "reading" then return true end
    return doc.value >= ctx.params.minimum
  end,
}
