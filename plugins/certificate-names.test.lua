local function certificate(fields)
  fields.not_before, fields.not_after = fields.not_before or 0, fields.not_after or 4102444800
  return fields
end

local truck = certificate { common_name = "old name", dns_names = { "truck-7.Fleet.example", "other" }, sha256 = "aa" }
local kiosk = certificate { common_name = "kiosk-3" }
local issuer = certificate { common_name = "fleet CA", sha256 = "0a0b" }

local function ctx(names, more)
  local params = more or {}
  params.names = names
  return { params = params }
end

return {
  ["an alternative name that matches opens the door"] = function(t)
    t.equal(t.authenticate_certificate({ truck }, ctx { "x", "*.fleet.example" }), { name = "truck-7.Fleet.example", read_only = false })
    t.reject(t.authenticate_certificate({ truck }, ctx { "*.example.org" }))
    t.reject(t.authenticate_certificate({ truck }, ctx {}))
  end,
  ["the common name counts only where there is no other, or when it is asked for"] = function(t)
    t.reject(t.authenticate_certificate({ truck }, ctx { "old *" }))
    t.equal(t.authenticate_certificate({ truck }, ctx { "CN:old *" }), { name = "old name", read_only = false })
    t.accept(t.authenticate_certificate({ kiosk }, ctx { "kiosk-?" }))
  end,
  ["a kind in front limits the pattern to it"] = function(t)
    local mixed = certificate { dns_names = { "a.example" }, emails = { "anna@example.org" }, uris = { "urn:x:1" }, ip_addresses = { "10.0.0.7" } }
    t.accept(t.authenticate_certificate({ mixed }, ctx { "EMAIL:*@example.org" }))
    t.accept(t.authenticate_certificate({ mixed }, ctx { "URI:urn:x:*" }))
    t.accept(t.authenticate_certificate({ mixed }, ctx { "urn:x:*" }))
    t.accept(t.authenticate_certificate({ mixed }, ctx { "IP:10.0.0.*" }))
    t.reject(t.authenticate_certificate({ mixed }, ctx { "DNS:anna@example.org", "IP:a.example", "CN:*" }))
    t.reject(t.authenticate_certificate({ kiosk }, ctx { "DNS:kiosk-3" }))
  end,
  ["read-only names may only pull"] = function(t)
    t.equal(t.authenticate_certificate({ kiosk }, ctx({ "*" }, { read_only = { "kiosk-*" } })), { name = "kiosk-3", read_only = true })
    t.equal(t.authenticate_certificate({ truck }, ctx({ "*" }, { read_only = { "kiosk-*" } })).read_only, false)
  end,
  ["only the peer's own certificate is looked at"] = function(t)
    t.reject(t.authenticate_certificate({ issuer, kiosk }, ctx { "kiosk-3" }))
    t.reject(t.authenticate_certificate({ certificate {} }, ctx { "*" }))
  end,
  ["certificates that have expired or are not valid yet are refused"] = function(t)
    t.reject(t.authenticate_certificate({ certificate { common_name = "a", not_after = 1000 } }, ctx { "a" }))
    t.reject(t.authenticate_certificate({ certificate { common_name = "a", not_before = 4102444799 } }, ctx { "a" }))
  end,
  ["a fingerprint identifies one certificate"] = function(t)
    t.equal(t.authenticate_certificate({ issuer }, ctx { "SHA256:0A:0B" }), { name = "fleet CA", read_only = false })
    t.reject(t.authenticate_certificate({ kiosk, issuer }, ctx { "SHA256:0a0b" }))
  end,
}
