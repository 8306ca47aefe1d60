/// A template for a plugin that makes sessions.
enum SessionTemplate {
    static func plugin(_ name: String) -> String {
        """
        -- \(name): makes the sessions with which a replicator logs in, here the cookies of CouchDB (3.3 or later), which are signed with the secret of
        -- the server and the salt of the user: chttpd_auth/secret in its configuration, and "salt" in the user's document in _users.
        --
        -- In nightjar.yaml, for a replicator:
        --   authenticator: { plugin: \(name), params: { user: gateway-7, secret: "${file:couchdb.secret}", salt: "${file:gateway-7.salt}" } }
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) get_session
        \(TokenTemplate.signing)
        return {
          description = "Session cookies of CouchDB",

          params = {
            user = { type = "string", required = true, doc = "who logs in" },
            secret = { type = "string", required = true, doc = "the server's chttpd_auth/secret" },
            salt = { type = "string", default = "", doc = "the user's" },
            seconds = { type = "integer", default = 600, doc = "how long a session is valid: the server's chttpd_auth/timeout" },
          },

          -- Return a table with session_id, cookie_name (SyncGatewaySession if absent) and expires (a time in ISO 8601, or seconds since 1970; if
          -- absent it is asked again every eight minutes), as Sync Gateway's POST /DB/_session answers. It is asked when a connection is made and
          -- there is none, when four fifths of its time are over, and when the other side no longer accepts it. Where it fails, the replicator
          -- tries again later.
          get_session = function(ctx)
            local now = math.floor(nightjar.time.now())
            local text = string.format("%s:%X", ctx.params.user, now)
            local signature = sign(text, ctx.params.secret .. ctx.params.salt)
            return {
              session_id = base64url(text .. ":" .. signature),
              cookie_name = "AuthSession",
              expires = now + ctx.params.seconds,
            }
          end,
        }

        """
    }

    static let tests = """
        local params = { user = "gateway-7", secret = "a secret", salt = "a salt", seconds = 60 }

        return {
          ["a session says who logs in, and since when"] = function(t)
            local made = t.get_session({ params = params })
            t.equal(made.cookie_name, "AuthSession")
            local text = nightjar.base64.decode((made.session_id:gsub("[-_]", { ["-"] = "+", ["_"] = "/" })) .. ("="):rep(-#made.session_id % 4))
            local user, since = text:match("^([^:]+):(%x+):")
            t.equal(user, "gateway-7")
            t.equal(tonumber(since, 16), made.expires - 60)
          end,

          ["the parameter says how long it is valid"] = function(t)
            local made = t.get_session({ params = { user = "gateway-7", secret = "a secret", salt = "", seconds = 3600 } })
            t.accept(made.expires > nightjar.time.now() + 3500)
          end,

          ["another secret gives another signature"] = function(t)
            local function session(secret)
              return t.get_session({ params = { user = "gateway-7", secret = secret, salt = "a salt", seconds = 60 } }).session_id
            end
            t.reject(session("a secret") == session("another secret"))
          end,
        }

        """
}
