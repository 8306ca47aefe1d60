-- Blocks every deletion: what one side deletes stays on the other.
--
--   pull_filter: no-deletes

local function is_alive(doc)
  return not doc._deleted
end

return {
  description = "Holds back deletions",
  push_filter = is_alive,
  pull_filter = is_alive,
}
