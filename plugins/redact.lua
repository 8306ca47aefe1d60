-- redact: removes fields before a document leaves this database (push_transform), or before it enters it
-- (pull_transform).
return {
  description = "Removes fields from documents on their way",

  params = {
    fields = { type = "array", required = true, doc = "names of the fields that stay behind" },
  },

  transform = function(doc, ctx)
    local changed
    for _, field in ipairs(ctx.params.fields) do
      if doc[field] ~= nil then
        changed = changed or nightjar.copy(doc)
        changed[field] = nil
      end
    end
    return changed or doc
  end,
}
