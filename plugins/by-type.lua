-- Replicates only documents of certain types.
--
--   push_filter: { plugin: by-type, params: { types: [ order, invoice ] } }
--
-- A deletion usually carries no type, and neither does a document that the peer has taken access away from; they pass
-- unless params.deletions is false.

local function is_wanted(doc, ctx)
  local params = ctx.params
  local kind = doc[params.field or "type"]
  if (kind == nil or kind == nightjar.null) and (doc._deleted or ctx.flags.access_removed) then
    return params.deletions ~= false
  end
  for _, wanted in ipairs(params.types) do
    if kind == wanted then return true end
  end
  return false
end

return {
  description = "Passes documents whose type is one of params.types",
  params = {
    types = { type = "array", required = true, doc = "types that pass" },
    field = { type = "string", default = "type", doc = "field that holds the type" },
    deletions = { type = "boolean", default = true, doc = "whether deletions without a type pass" },
  },
  push_filter = is_wanted,
  pull_filter = is_wanted,
}
