/// A template for a plugin that chooses the listener that a replicator connects to.
enum PeerTemplate {
    static func plugin(_ name: String) -> String {
        """
        -- \(name): says to which listener of a group a replicator connects, here to the first of a list that is there and was reached.
        --
        -- In nightjar.yaml, for a replicator:
        --   target: "discover:*?group=hubs"
        --   select_peer: { plugin: \(name), params: { names: [ hub-a, hub-b ] } }
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) select_peer --doc FILE    FILE: [ { "name": "hub-a", "host": "a.local", "port": 4984 } ]
        return {
          description = "Takes the first listener of a list that is there",

          params = {
            names = { type = "array", required = true, doc = "announced names, the preferred one first" },
          },

          -- peers: a list; each has name, group, peer_id, pin, host, port, last_error (a text) and last_success (seconds since 1970), of which
          -- peer_id, pin and the last two may be nil. What a peer says of itself is not proven: the pins of the replicator decide when it connects.
          -- Return the name of one of them, or nil to wait. It is asked before each connection, and again when the one that it named was not reached.
          select_peer = function(peers, ctx)
            local there, failed = {}, nil
            for _, peer in ipairs(peers) do there[peer.name] = peer end
            for _, name in ipairs(ctx.params.names) do
              if there[name] and not there[name].last_error then return name end
              if there[name] and not failed then failed = name end
            end
            return failed
          end,
        }

        """
    }

    static let tests = """
        local ctx = { params = { names = { "hub-a", "hub-b" } } }

        return {
          ["the first of the list is taken"] = function(t)
            t.equal(t.select_peer({ { name = "hub-b" }, { name = "hub-a" } }, ctx), "hub-a")
          end,

          ["one that was not reached comes last"] = function(t)
            t.equal(t.select_peer({ { name = "hub-a", last_error = "refused" }, { name = "hub-b" } }, ctx), "hub-b")
            t.equal(t.select_peer({ { name = "hub-a", last_error = "refused" } }, ctx), "hub-a")
          end,

          ["others are not taken"] = function(t)
            t.equal(t.select_peer({ { name = "stranger" } }, ctx), nil)
          end,
        }

        """
}
