/// Templates for the listener hooks that are not in `PluginTemplate` itself.
enum ListenerTemplates {
    static func certificates(_ name: String) -> String {
        """
        -- \(name): decides which client certificates may connect to a listener, and under which names.
        --
        -- In nightjar.yaml, for a TLS listener:
        --   client_certificates: require
        --   roots: [ fleet-ca.pem ]
        --   authenticator: { plugin: \(name), params: { domain: fleet.example } }
        --
        -- Without roots anybody can make a certificate with any name: a name can be trusted only as far as its issuer.
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) authenticate_certificate --doc chain.json --params '{"domain":"fleet.example"}'
        return {
          description = "Lets in certificates for hosts of one domain",

          params = {
            domain = { type = "string", default = "fleet.example", doc = "a peer's name is HOST.domain" },
            read_only = { type = "array", default = {}, doc = "names that may pull only" },
          },

          -- chain[1] is the peer's own certificate, whose key it has proved to have; the others lead to its issuer. Each has subject, common_name,
          -- dns_names, ip_addresses, emails, uris, serial, sha256, spki_sha256, not_before, not_after (seconds since 1970) and der.
          -- Return false to refuse, true to accept, or { name = …, read_only = …, channels = {…}, roles = {…} }.
          -- An error refuses with 503: the certificate may be right.
          authenticate_certificate = function(chain, ctx)
            local certificate = chain[1]
            if not certificate then return false end
            local now = nightjar.time.now()
            if now < certificate.not_before or now > certificate.not_after then return false end
            -- Host names count, not the common name, which may be any text.
            for _, dns_name in ipairs(certificate.dns_names or {}) do
              local name = dns_name:lower()
              if nightjar.glob("?*." .. ctx.params.domain, name) then
                local read_only = false
                for _, reader in ipairs(ctx.params.read_only) do read_only = read_only or reader == name end
                return { name = name, read_only = read_only }
              end
            end
            return false
          end,
        }

        """
    }

    static let certificateTests = """
        local function certificate(...)
          return { common_name = "truck", dns_names = { ... }, not_before = 0, not_after = 4102444800 }
        end

        return {
          ["hosts of the domain come in under their name"] = function(t)
            t.equal(t.authenticate_certificate({ certificate("other", "Truck-7.fleet.example") }), { name = "truck-7.fleet.example", read_only = false })
            t.accept(t.authenticate_certificate({ certificate("a.b.example") }, { params = { domain = "b.example", read_only = {} } }))
          end,

          ["other names are refused"] = function(t)
            t.reject(t.authenticate_certificate({ certificate() }))
            t.reject(t.authenticate_certificate({ certificate("fleet.example", ".fleet.example", "truck.fleet.example.org") }))
          end,

          ["readers may not write"] = function(t)
            local params = { domain = "fleet.example", read_only = { "kiosk.fleet.example" } }
            t.equal(t.authenticate_certificate({ certificate("kiosk.fleet.example") }, { params = params }).read_only, true)
            t.equal(t.authenticate_certificate({ certificate("truck.fleet.example") }, { params = params }).read_only, false)
          end,

          ["only the peer's own certificate counts"] = function(t)
            t.reject(t.authenticate_certificate({ certificate("x"), certificate("truck.fleet.example") }))
          end,

          ["a certificate that has expired or is not valid yet is refused"] = function(t)
            local old, early = certificate("truck.fleet.example"), certificate("truck.fleet.example")
            old.not_after, early.not_before = 1000, 4102444799
            t.reject(t.authenticate_certificate({ old }))
            t.reject(t.authenticate_certificate({ early }))
          end,
        }

        """

    static func sync(_ name: String) -> String {
        """
        -- \(name): decides which of the peers' writes are stored, and puts documents into channels, which say who may pull them.
        --
        -- In nightjar.yaml, for a listener:
        --   sync: { plugin: \(name), params: { admins: [ boss ] } }
        --
        -- Try it:   nightjar plugin test \(name)
        --           nightjar plugin run \(name) sync --doc note.json --old-doc before.json --username anna

        -- The channel of what belongs to one user.
        local function notes(user) return "notes-" .. user end

        return {
          description = "Each user's own notes, which their owners may share",

          params = {
            admins = { type = "array", default = {}, doc = "users who may write everybody's notes" },
          },

          -- doc is what the peer wrote; old_doc the revision before, nil if there is none or it is a deletion. ctx.user is who writes.
          -- Nothing is returned: channel, access, role and expiry assign; require_user, require_role, require_access, require_admin and
          -- throw reject the write, and the peer is told why. A document without a channel goes only to those who may have everything.
          -- On an error the peer keeps the document, and sends it again later.
          sync = function(doc, old_doc, ctx)
            -- Owners and admins, judged by the revision that is stored: what the peer says about itself proves nothing.
            local writers = nightjar.copy(ctx.params.admins)
            writers[#writers + 1] = old_doc and old_doc.owner or doc.owner
            require_user(writers)
            -- A deletion has no fields any more. It leaves all channels, and is taken away from those who had the document.
            if doc._deleted then return end
            if type(doc.owner) ~= "string" then throw("a note needs an owner") end
            if old_doc and old_doc.owner ~= doc.owner then throw("a note keeps its owner") end
            channel(notes(doc.owner))
            access(doc.owner, notes(doc.owner))
            -- For as long as a note names them, these may pull all notes of its owner.
            access(doc.shared_with, notes(doc.owner))
            -- Nil, seconds from now, or a time: the note is deleted then.
            expiry(doc.expires)
          end,
        }

        """
    }

    static let syncTests = """
        local anna, ben = { user = "anna" }, { user = "ben" }

        return {
          ["a note goes into its owner's channel"] = function(t)
            t.equal(t.sync({ owner = "anna" }, nil, anna).channels, { "notes-anna" })
            t.equal(t.sync({ owner = "anna" }, nil, anna).access, { anna = { "notes-anna" } })
          end,

          ["it is shared with those it names"] = function(t)
            t.equal(t.sync({ owner = "anna", shared_with = { "ben" } }, nil, anna).access, { anna = { "notes-anna" }, ben = { "notes-anna" } })
          end,

          ["others may not write it"] = function(t)
            t.reject(t.sync({ owner = "anna" }, nil, ben))
            t.reject(t.sync({ owner = "ben" }, { owner = "anna" }, ben))
            t.reject(t.sync({ _deleted = true }, { owner = "anna" }, ben))
          end,

          ["admins may"] = function(t)
            t.accept(t.sync({ owner = "anna" }, { owner = "anna" }, { user = "boss", params = { admins = { "boss" } } }))
          end,

          ["a note needs an owner, and keeps it"] = function(t)
            local accepted, reason = t.sync({}, nil, { admin = true })
            t.reject(accepted)
            t.equal(reason, "a note needs an owner")
            t.reject(t.sync({ owner = "ben" }, { owner = "anna" }, anna))
          end,

          ["the owner may delete it, and then it is in no channel"] = function(t)
            local deleted = t.sync({ _deleted = true }, { owner = "anna" }, anna)
            t.accept(deleted)
            t.equal(deleted.channels, {})
          end,

          ["it expires at its time"] = function(t)
            t.equal(t.sync({ owner = "anna", expires = 4102444800 }, nil, anna).expiry, 4102444800)
          end,
        }

        """
}
