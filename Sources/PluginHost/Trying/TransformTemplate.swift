/// A template for a transform.
enum TransformTemplate {
    static func plugin(_ name: String) -> String {
        """
        -- \(name): changes documents on their way out of this database, or into it.
        --
        -- In nightjar.yaml, for a replicator's collection:
        --   push_transform: { plugin: \(name), params: { fields: [ owner ] } }
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) transform --params '{"fields":["owner"]}' --doc doc.json
        return {
          description = "Removes fields from documents",

          params = {
            fields = { type = "array", default = { "owner" }, doc = "names of the fields that stay behind" },
          },

          -- Return doc to let it travel as it is, or a table. The revision keeps its id, so no replica takes the result for an edit. Do not
          -- let the result depend on anything but doc and params. A document that fails here is held.
          transform = function(doc, ctx)
            local changed
            for _, field in ipairs(ctx.params.fields) do
              if doc[field] ~= nil then
                changed = changed or nightjar.copy(doc)
                changed[field] = nil
              end
            end
            return changed or doc
          end,
        }

        """
    }

    static let tests = """
        local params = { fields = { "owner" } }

        return {
          ["the fields stay behind"] = function(t)
            t.equal(t.transform({ type = "reading", owner = "anna" }, { params = params }), { type = "reading" })
          end,

          ["the parameter names them"] = function(t)
            local other = { params = { fields = { "place" } } }
            t.equal(t.transform({ owner = "anna", place = "attic" }, other), { owner = "anna" })
          end,

          ["other documents travel as they are"] = function(t)
            t.equal(t.transform({ type = "reading" }, { params = params }), { type = "reading" })
          end,
        }

        """
}
