-- Resolves a conflict in favour of the revision with the later timestamp.
--
--   conflict_resolver: { plugin: latest-wins, params: { field: updated_at } }
--
-- Timestamps are ISO 8601 strings or numbers. A revision without a readable one counts as older; if both are equal, the greater
-- revision id wins, so that every replica decides the same. A deletion has no timestamp and wins, as in the default policy.

local function seconds(value)
  if type(value) == "number" then return value end
  if type(value) ~= "string" then return nil end
  return (nightjar.time.parse(value)) -- nil if it is not a time
end

-- Revision ids are "generation-digest"; 10-a is greater than 9-b.
local function is_greater(a, b)
  local x, y = tonumber(a:match("^(%d+)%-")), tonumber(b:match("^(%d+)%-"))
  if x and y and x ~= y then return x > y end
  return a > b
end

return {
  description = "The revision with the later timestamp wins",
  params = {
    field = { type = "string", default = "updated_at", doc = "field that holds the timestamp" },
  },
  resolve = function(conflict, ctx)
    local mine, theirs = conflict.local_doc, conflict.remote_doc
    if not mine or not theirs then return nightjar.delete end
    local field = ctx.params.field or "updated_at"
    local m, t = seconds(mine[field]), seconds(theirs[field])
    if m ~= t then
      if not m then return theirs end
      if not t then return mine end
      return m > t and mine or theirs
    end
    return is_greater(conflict.local_rev, conflict.remote_rev) and mine or theirs
  end,
}
