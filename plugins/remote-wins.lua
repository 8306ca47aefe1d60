-- Ends every conflict with the other side's revision, also where that is a deletion.
--
--   conflict_resolver: remote-wins

return {
  description = "The revision of the other side wins",
  resolve = function(conflict)
    return conflict.remote_doc or nightjar.delete
  end,
}
