-- Merges two revisions field by field, starting from their common ancestor.
--
--   conflict_resolver: merge-fields
--   conflict_resolver: { plugin: merge-fields, params: { prefer: local } }
--
-- A field that only one side changed takes that side's value. If both sides changed a field, objects are merged recursively, and
-- for anything else (an array is one value) the preferred side's value is taken. Without an ancestor every difference counts as
-- changed on both sides, and fields that only one side has are kept. A deletion wins, as in the default policy.

local encode = nightjar.json.encode

-- Arrays and objects are both tables; an object's keys are never numbers.
local function is_array(value)
  if value[1] ~= nil then return true end
  return next(value) == nil and encode(value) == "[]"
end

local function is_object(value)
  return type(value) == "table" and not is_array(value)
end

-- Equal as JSON, even if the two sides wrote the members in different order.
local function same(a, b)
  if a == b then return true end
  if type(a) ~= "table" or type(b) ~= "table" then return false end
  if encode(a) == encode(b) then return true end
  if is_array(a) ~= is_array(b) then return false end
  for name, value in pairs(a) do
    if not same(value, b[name]) then return false end
  end
  for name in pairs(b) do
    if a[name] == nil then return false end
  end
  return true
end

local function merge(base, mine, theirs, prefer)
  local merged = nightjar.object {}
  local function take(name)
    local b, m, t = base and base[name], mine[name], theirs[name]
    if same(m, t) or same(t, b) then
      merged[name] = m
    elseif same(m, b) then
      merged[name] = t
    elseif is_object(m) and is_object(t) then
      merged[name] = merge(is_object(b) and b or nil, m, t, prefer)
    elseif prefer == "local" then
      merged[name] = m
    else
      merged[name] = t
    end
  end
  for name in pairs(mine) do take(name) end
  for name in pairs(theirs) do
    if mine[name] == nil then take(name) end
  end
  return merged
end

return {
  description = "Three-way merge of fields; the remote wins where both changed the same one",
  params = {
    prefer = { type = "string", enum = { "remote", "local" }, default = "remote", doc = "side that wins a field both changed" },
  },
  resolve = function(conflict, ctx)
    local mine, theirs = conflict.local_doc, conflict.remote_doc
    if not mine or not theirs then return nightjar.delete end
    return merge(conflict.base_doc, mine, theirs, ctx.params.prefer)
  end,
}
