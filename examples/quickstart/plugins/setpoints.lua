-- Resolves conflicts of the setpoints document: a field that only one side changed takes that side's value; for a
-- number that both changed, the lower (safer) setpoint wins.
return {
  description = "Merges setpoints field by field; of two numbers the lower one wins",
  resolve = function(conflict)
    local here, there, base = conflict.local_doc, conflict.remote_doc, conflict.base_doc
    if not here or not there then return nightjar.delete end
    local merged = nightjar.copy(there)
    for key, value in pairs(here) do
      local changed_here = not base or base[key] ~= value
      local changed_there = not base or base[key] ~= there[key]
      if changed_here and not changed_there then
        merged[key] = value
      elseif changed_here and type(value) == "number" and type(there[key]) == "number" then
        merged[key] = math.min(value, there[key])
      end
    end
    return merged
  end,
}
