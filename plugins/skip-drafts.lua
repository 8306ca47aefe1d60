-- Does not replicate drafts: documents with type "draft", or with draft set to true.
--
--   push_filter: skip-drafts

local function is_finished(doc)
  return doc.type ~= "draft" and doc.draft ~= true
end

return {
  description = "Holds back documents whose type is \"draft\" or whose draft is true",
  push_filter = is_finished,
  pull_filter = is_finished,
}
