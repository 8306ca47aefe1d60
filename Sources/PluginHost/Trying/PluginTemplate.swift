import LuaRuntime

/// Templates for plugins, each with a test that passes: `nightjar plugin new`.
package enum PluginTemplate {
    /// The files of a new plugin, with paths relative to the plugins folder; the tests come first, so that a running agent finds both.
    ///
    /// - Throws: `invalidName`.
    package static func files(_ hook: LuaHook, name: String) throws(PluginError) -> [(path: String, text: String)] {
        guard PluginName.isValid(name) else { throw .invalidName(name) }
        let (plugin, tests) = texts(hook, name)
        return [("\(name).test.lua", tests), ("\(name).lua", plugin)]
    }

    private static func texts(_ hook: LuaHook, _ name: String) -> (plugin: String, tests: String) {
        switch hook {
        case .pushFilter: (filter(name, "push_filter", "leave"), filterTests("push_filter"))
        case .pullFilter: (filter(name, "pull_filter", "enter"), filterTests("pull_filter"))
        case .resolve: (resolver(name), resolverTests)
        case .authenticatePassword: (authenticator(name), authenticatorTests)
        case .authenticateCertificate: (ListenerTemplates.certificates(name), ListenerTemplates.certificateTests)
        case .transform: (TransformTemplate.plugin(name), TransformTemplate.tests)
        case .token: (TokenTemplate.plugin(name), TokenTemplate.tests)
        case .getSession: (SessionTemplate.plugin(name), SessionTemplate.tests)
        case .onStatus: (ObserverTemplates.status(name), ObserverTemplates.statusTests)
        case .onDocuments: (ObserverTemplates.documents(name), ObserverTemplates.documentTests)
        case .selectPeer: (PeerTemplate.plugin(name), PeerTemplate.tests)
        case .sync: (ListenerTemplates.sync(name), ListenerTemplates.syncTests)
        }
    }

    private static func filter(_ name: String, _ hook: String, _ verb: String) -> String {
        """
        -- \(name): decides which documents may \(verb) this database.
        --
        -- In nightjar.yaml, for a replicator's collection or a listener:
        --   \(hook): { plugin: \(name), params: { type: reading } }
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) \(hook) --params '{"type":"reading"}' --last 100 DATABASE
        return {
          description = "Passes documents of one type",

          -- What the configuration gives as params; checked when it is read. doc is for people.
          params = {
            type = { type = "string", default = "reading", doc = "the type that passes" },
          },

          -- doc is read-only: doc.field, doc._id, doc._rev, doc._deleted.
          -- ctx: params, database, collection, direction, replicator or listener, remote, user, flags.deleted, …
          -- Return something true to let the document pass. An error, or no return at all, holds it until the plugin is repaired.
          \(hook) = function(doc, ctx)
            -- A deletion has no fields any more; let it through, or the other side keeps the document for ever.
            if ctx.flags.deleted then return true end
            return doc.type == ctx.params.type
          end,
        }

        """
    }

    private static func filterTests(_ hook: String) -> String {
        """
        -- Each entry is a test. t calls this plugin's hooks as the agent would, with the default params unless ctx gives others.
        return {
          ["passes documents of the type"] = function(t)
            t.accept(t.\(hook)({ type = "reading", value = 20.5 }))
            t.accept(t.\(hook)({ type = "alarm" }, { params = { type = "alarm" } }))
          end,

          ["keeps others back"] = function(t)
            t.reject(t.\(hook)({ type = "draft" }))
            t.reject(t.\(hook)({}))
          end,

          ["passes deletions"] = function(t)
            t.accept(t.\(hook)({ _deleted = true }, { flags = { deleted = true } }))
          end,
        }

        """
    }

    private static func resolver(_ name: String) -> String {
        """
        -- \(name): decides what becomes of two revisions of a document that were made at the same time.
        --
        -- In nightjar.yaml, for a database or a replicator's collection:
        --   conflict_resolver: \(name)
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) resolve --conflict FILE    FILE: { "base_doc": …, "local_doc": …, "remote_doc": … }

        -- Objects and arrays are compared by what is in them.
        local function same(a, b)
          if a == b then return true end
          return type(a) == "table" and type(b) == "table" and nightjar.json.encode(a) == nightjar.json.encode(b)
        end

        return {
          description = "Takes each field from the side that changed it; the remote side wins where both did",

          -- conflict: id, local_doc, remote_doc, base_doc (their common ancestor), each nil where that side is deleted or its body is gone;
          -- base_doc is nil too where both sides made the document. Then nothing tells who changed a field: each field that only one side
          -- has is kept, and where both have it with different values the remote side's is taken and this side's is lost.
          -- local_rev, remote_rev, base_rev. Return conflict.local_doc, conflict.remote_doc, a new table, or nightjar.delete.
          -- An error, or returning nothing, leaves the conflict pending and the local document as it is.
          resolve = function(conflict, ctx)
            local mine, theirs = conflict.local_doc, conflict.remote_doc
            -- A deletion wins.
            if not mine or not theirs then return nightjar.delete end
            local base = conflict.base_doc or {}
            local merged = nightjar.copy(theirs)
            -- What only this side changed, added or took away.
            for key, value in pairs(mine) do
              if same(theirs[key], base[key]) then merged[key] = value end
            end
            for key, value in pairs(base) do
              if mine[key] == nil and same(theirs[key], value) then merged[key] = nil end
            end
            return merged
          end,
        }

        """
    }

    private static let resolverTests = """
        return {
          ["fields of both sides are kept"] = function(t)
            t.equal(t.resolve {
              base_doc = { price = 1, note = "old" },
              local_doc = { price = 1, note = "new" },
              remote_doc = { price = 2, note = "old" },
            }, { price = 2, note = "new" })
          end,

          ["the remote side wins where both changed"] = function(t)
            t.equal(t.resolve {
              base_doc = { price = 1 }, local_doc = { price = 2 }, remote_doc = { price = 3 },
            }, { price = 3 })
          end,

          ["without a common ancestor the fields of both sides are kept"] = function(t)
            t.equal(t.resolve {
              local_doc = { price = 1, note = "mine" }, remote_doc = { price = 2, place = "theirs" },
            }, { price = 2, note = "mine", place = "theirs" })
          end,

          ["what one side took away is gone"] = function(t)
            t.equal(t.resolve {
              base_doc = { price = 1, tags = { "new" } }, local_doc = { price = 1 }, remote_doc = { price = 2, tags = { "new" } },
            }, { price = 2 })
          end,

          ["a deletion wins"] = function(t)
            t.equal(t.resolve { base_doc = { price = 1 }, local_doc = { price = 2 } }, nightjar.delete)
          end,
        }

        """

    private static func authenticator(_ name: String) -> String {
        """
        -- \(name): says who may connect to a listener.
        --
        -- In nightjar.yaml, for a listener (hashes come from: nightjar password):
        --   authenticator: { plugin: \(name), params: { users: { anna: "scrypt hash" } } }
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) authenticate_password --username anna --password … --params '{"users":{…}}'
        return {
          description = "Names and scrypt hashes in the configuration",

          params = {
            users = { type = "table", default = {}, doc = "name = hash" },
            read_only = { type = "array", default = {}, doc = "names that may pull only" },
          },

          -- Return false to refuse, true to accept, or { name = …, read_only = …, channels = {…}, roles = {…} }.
          -- An error refuses with 503: the caller's password may be right.
          authenticate_password = function(username, password, ctx)
            local hash = ctx.params.users[username]
            if not hash or not nightjar.password.verify(password, hash) then return false end
            for _, name in ipairs(ctx.params.read_only) do
              if name == username then return { name = username, read_only = true } end
            end
            return { name = username }
          end,
        }

        """
    }

    private static let authenticatorTests = """
        return {
          ["an unknown user is refused"] = function(t)
            t.reject(t.authenticate_password("nobody", "x"))
          end,

          ["the password decides"] = function(t)
            local users = { anna = nightjar.password.hash("right") }
            t.accept(t.authenticate_password("anna", "right", { params = { users = users, read_only = {} } }))
          end,

          ["a wrong password is refused"] = function(t)
            local users = { anna = nightjar.password.hash("right") }
            t.reject(t.authenticate_password("anna", "wrong", { params = { users = users, read_only = {} } }))
          end,

          ["readers may not write"] = function(t)
            local users = { anna = nightjar.password.hash("right") }
            local principal = t.authenticate_password("anna", "right", { params = { users = users, read_only = { "anna" } } })
            t.equal(principal, { name = "anna", read_only = true })
          end,
        }

        """
}
