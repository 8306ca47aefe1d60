-- Ends every conflict with this database's own revision, also where that is a deletion.
--
--   conflict_resolver: local-wins

return {
  description = "The revision of this database wins",
  resolve = function(conflict)
    return conflict.local_doc or nightjar.delete
  end,
}
