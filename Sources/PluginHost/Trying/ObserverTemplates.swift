/// Templates for plugins that observe a replicator.
enum ObserverTemplates {
    static func status(_ name: String) -> String {
        """
        -- \(name): is told the status of a replicator, and writes to the log when somebody has to act.
        --
        -- In nightjar.yaml, for a replicator:
        --   observer: \(name)
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) on_status --doc FILE    FILE: { "activity": "offline", "error": { "message": "…", "is_transient": false } }

        -- The error that somebody has to act on, or nil: a transient one passes by itself.
        local function trouble(status)
          return status.error and not status.error.is_transient and status.error.message or nil
        end

        return {
          description = "Reports a replicator that needs somebody to act",

          -- status: activity, progress, pushed, pulled, failed, attempt, error, …; ctx: params, replicator, database, remote.
          -- It is called after changes, five times a second at most, with the newest status: some are skipped. What it returns is only for tests.
          on_status = function(status, ctx)
            local now = trouble(status)
            nightjar.metrics.gauge("needs_somebody", now and 1 or 0, { replicator = ctx.replicator })
            if now ~= nightjar.state[ctx.replicator] then
              if now then nightjar.log.error("somebody has to act", { replicator = ctx.replicator, message = now, remedy = status.error.remedy }) end
              nightjar.state[ctx.replicator] = now
            end
            return now
          end,
        }

        """
    }

    static let statusTests = """
        local ctx = { replicator = "hub" }

        return {
          ["a wrong login needs somebody to act"] = function(t)
            t.equal(t.on_status({ activity = "offline", error = { code = 401, message = "no such user", is_transient = false } }, ctx), "no such user")
          end,

          ["a lost connection needs nobody: it comes back by itself"] = function(t)
            t.equal(t.on_status({ activity = "offline", error = { code = 1006, message = "lost", is_transient = true } }, ctx), nil)
          end,

          ["all is well"] = function(t)
            t.equal(t.on_status({ activity = "idle", progress = { completed = 1, total = 1 } }, ctx), nil)
          end,
        }

        """

    static func documents(_ name: String) -> String {
        """
        -- \(name): is told what becomes of documents, counts them, and logs those that were not replicated.
        --
        -- In nightjar.yaml, for a replicator:
        --   observer: \(name)
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) on_documents --doc FILE    FILE: [ { "id": "a", "is_push": true, "flags": { "deleted": false } } ]
        return {
          description = "Counts documents, and reports those that were not replicated",

          -- documents: a list; each has id, collection, is_push, flags.deleted, flags.access_removed, time, and error (domain, code, message,
          -- is_transient) where it was not replicated. ctx: params, replicator, database, remote; nightjar.get(document.collection, document.id)
          -- gives the document as it is by now. It is called with 100 at most, 200 ms after the first of them at the latest, and never keeps a
          -- replicator waiting: if it is too slow, some are left out. What it returns is only for tests.
          on_documents = function(documents, ctx)
            local refused = 0
            for _, document in ipairs(documents) do
              local problem = document.error
              if problem and not problem.is_transient then
                refused = refused + 1
                nightjar.log.warn("not replicated", { id = document.id, is_push = document.is_push, code = problem.code, message = problem.message })
              end
            end
            nightjar.metrics.count("documents", #documents, { replicator = ctx.replicator })
            if refused > 0 then nightjar.metrics.count("documents_refused", refused, { replicator = ctx.replicator }) end
            return refused
          end,
        }

        """
    }

    static let documentTests = """
        local ctx = { replicator = "hub" }

        local function document(id, problem)
          return { id = id, collection = "_default._default", is_push = true, flags = { deleted = false, access_removed = false }, error = problem }
        end

        return {
          ["documents that were replicated are not counted as refused"] = function(t)
            t.equal(t.on_documents({ document("a"), document("b") }, ctx), 0)
          end,

          ["one that the other side refused is counted"] = function(t)
            t.equal(t.on_documents({ document("a"), document("b", { domain = "http", code = 403, message = "forbidden", is_transient = false }) }, ctx), 1)
          end,

          ["one that is tried again is not refused yet"] = function(t)
            t.equal(t.on_documents({ document("a", { domain = "http", code = 503, message = "busy", is_transient = true }) }, ctx), 0)
          end,
        }

        """
}
