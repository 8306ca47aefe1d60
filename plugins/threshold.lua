-- Replicates only measurements of at least a minimum.
--
--   push_filter: { plugin: threshold, params: { field: temperature, minimum: 30 } }
--
-- Documents whose field is not a number (settings, deletions) pass unless params.others is false.

local function is_high(doc, ctx)
  local params = ctx.params
  local value = doc[params.field or "value"]
  if type(value) ~= "number" then return params.others ~= false end
  return value >= params.minimum
end

return {
  description = "Passes documents whose number is at least params.minimum",
  params = {
    minimum = { type = "number", required = true, doc = "smallest value that passes" },
    field = { type = "string", default = "value", doc = "field that holds the number" },
    others = { type = "boolean", default = true, doc = "whether documents without that number pass" },
  },
  push_filter = is_high,
  pull_filter = is_high,
}
