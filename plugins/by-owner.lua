-- Replicates only what belongs to one owner.
--
--   push_filter: { plugin: by-owner, params: { name: anna } }
--
-- A deletion usually carries no fields, and neither does a document that the peer has taken access away from, so the
-- owner is unknown: such documents pass unless params.deletions is false. One that still names its owner is treated
-- like any other document.

local function belongs(doc, ctx)
  local params = ctx.params
  local owner = doc[params.field or "owner"]
  if (owner == nil or owner == nightjar.null) and (doc._deleted or ctx.flags.access_removed) then
    return params.deletions ~= false
  end
  return owner == params.name
end

return {
  description = "Passes documents whose owner equals params.name",
  params = {
    name = { type = "string", required = true, doc = "owner to match" },
    field = { type = "string", default = "owner", doc = "field that holds the owner" },
    deletions = { type = "boolean", default = true, doc = "whether deletions without an owner pass" },
  },
  push_filter = belongs,
  pull_filter = belongs,
}
