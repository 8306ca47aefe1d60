-- Lets in peers whose certificate carries a listed name.
--
--   client_certificates: require
--   roots: [ fleet-ca.pem ]
--   authenticator: { plugin: certificate-names, params: { names: [ "*.fleet.example" ], read_only: [ "CN:kiosk-*" ] } }
--
-- A pattern of `*`, `?` and `[a-z]` is matched against the names in the peer's own certificate: its alternative names if it has
-- any, otherwise the common name (RFC 6125). A prefix `CN:`, `DNS:`, `IP:`, `EMAIL:` or `URI:` restricts the match to names of
-- that kind; `CN:` always looks at the common name. `SHA256:` and 64 hex digits stand for one certificate, whatever its names.
-- DNS names are compared case-insensitively. A name is only as trustworthy as its issuer: without `roots` on the listener
-- anybody can make a certificate with any name, and only `SHA256:` entries are safe.

local kinds = { DNS = "dns_names", IP = "ip_addresses", EMAIL = "emails", URI = "uris" }

-- Returns the certificate's name that matches, if there is one.
local function match(certificate, pattern)
  local kind, rest = pattern:match("^(%u+):(.+)$")
  if kind == "CN" then
    return certificate.common_name and nightjar.glob(rest, certificate.common_name) and certificate.common_name
  elseif pattern:sub(1, 7) == "SHA256:" then
    return certificate.sha256 == pattern:sub(8):gsub(":", ""):lower() and (certificate.common_name or certificate.subject)
  end
  local has_alternative = false
  for name, field in pairs(kinds) do
    local names = certificate[field] or {}
    if #names > 0 then has_alternative = true end
    if not kinds[kind] or kind == name then
      local wanted = kinds[kind] and rest or pattern
      for _, value in ipairs(names) do
        local matches = name == "DNS" and nightjar.glob(wanted:lower(), value:lower()) or nightjar.glob(wanted, value)
        if matches then return value end
      end
    end
  end
  if kinds[kind] or has_alternative or not certificate.common_name then return nil end
  return nightjar.glob(pattern, certificate.common_name) and certificate.common_name
end

local function any(certificate, patterns)
  for _, pattern in ipairs(patterns) do
    local name = match(certificate, pattern)
    if name then return name end
  end
end

return {
  description = "Lets in peers whose certificate carries a listed name",
  params = {
    names = { type = "array", required = true, doc = "patterns of names that may connect" },
    read_only = { type = "array", default = {}, doc = "patterns of names, among those, that may pull but not push" },
  },
  authenticate_certificate = function(chain, ctx)
    local certificate = chain[1]
    if not certificate then return false end
    local now = nightjar.time.now()
    if now < certificate.not_before or now > certificate.not_after then return false end
    local name = any(certificate, ctx.params.names)
    if not name then return false end
    return { name = name, read_only = any(certificate, ctx.params.read_only or {}) ~= nil }
  end,
}
