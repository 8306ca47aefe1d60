-- Resolves every conflict in favour of this database's own revision, even if that is a deletion.
--
--   conflict_resolver: local-wins

return {
  description = "The revision of this database wins",
  resolve = function(conflict)
    return conflict.local_doc or nightjar.delete
  end,
}
