/// A template for a plugin that makes tokens.
enum TokenTemplate {
    static func plugin(_ name: String) -> String {
        """
        -- \(name): makes the tokens with which a replicator logs in, here JSON Web Tokens that are signed with a key that both sides have (HS256), as
        -- CouchDB's jwt_authentication_handler accepts them.
        --
        -- In nightjar.yaml, for a replicator:
        --   authenticator: { plugin: \(name), params: { user: gateway-7, key: "${file:jwt.key}" } }
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) token
        \(signing)
        return {
          description = "JSON Web Tokens, signed with a key",

          params = {
            user = { type = "string", required = true, doc = "who logs in: the claim sub" },
            key = { type = "string", required = true, doc = "the key that the other side has, too" },
            seconds = { type = "integer", default = 600, doc = "how long a token is valid" },
          },

          -- Return a string, or a table with token and expires_in (seconds). It is asked again when four fifths of that time are over, and when
          -- the other side no longer accepts a token. Where it fails, the replicator tries again later.
          token = function(ctx)
            local now = math.floor(nightjar.time.now())
            local header = base64url(nightjar.json.encode({ alg = "HS256", typ = "JWT" }))
            local claims = base64url(nightjar.json.encode({ sub = ctx.params.user, iat = now, exp = now + ctx.params.seconds }))
            local signed = header .. "." .. claims
            return { token = signed .. "." .. base64url(sign(signed, ctx.params.key)), expires_in = ctx.params.seconds }
          end,
        }

        """
    }

    /// Code for making tokens and signed cookies.
    static let signing = """
        local function base64url(bytes)
          return (nightjar.base64.encode(bytes):gsub("[+/=]", { ["+"] = "-", ["/"] = "_", ["="] = "" }))
        end

        local function sign(text, key)
          return (nightjar.hmac_sha256(key, text):gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end))
        end

        """

    static let tests = """
        local params = { user = "gateway-7", key = "a key", seconds = 60 }

        return {
          ["a token has three parts, and says who logs in"] = function(t)
            local made = t.token({ params = params })
            t.equal(made.expires_in, 60)
            local header, claims, signature = made.token:match("^([%w_-]+)%.([%w_-]+)%.([%w_-]+)$")
            t.accept(signature, "three parts")
            t.equal(#signature, 43)
          end,

          ["the parameter says how long it is valid"] = function(t)
            t.equal(t.token({ params = { user = "gateway-7", key = "a key", seconds = 3600 } }).expires_in, 3600)
          end,

          ["another key gives another signature"] = function(t)
            local function signature(key)
              return t.token({ params = { user = "gateway-7", key = key, seconds = 60 } }).token:match("[^.]+$")
            end
            t.reject(signature("a key") == signature("another key"))
          end,
        }

        """
}
