-- Resolves every conflict in favour of the other side's revision, even if that is a deletion.
--
--   conflict_resolver: remote-wins

return {
  description = "The revision of the other side wins",
  resolve = function(conflict)
    return conflict.remote_doc or nightjar.delete
  end,
}
