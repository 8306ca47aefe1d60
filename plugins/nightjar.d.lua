---@meta
-- What a Nightjar plugin sees, for the Lua language server. This file is not loaded by the agent.
--
-- Of Lua 5.4's own a plugin has these, and nothing else (no io, debug, package, load; `os` is four clocks):
--   assert error getmetatable ipairs next pairs pcall print rawequal rawget rawlen rawset require select setmetatable tonumber
--   tostring type xpcall _G _VERSION
--   string.byte string.char string.find string.format string.gmatch string.gsub string.len string.lower string.match string.rep
--   string.reverse string.sub string.upper
--   table.concat table.insert table.move table.pack table.remove table.sort table.unpack
--   math.abs math.acos math.asin math.atan math.ceil math.cos math.deg math.exp math.floor math.fmod math.huge math.log math.max
--   math.maxinteger math.min math.mininteger math.modf math.pi math.rad math.random math.sin math.sqrt math.tan math.tointeger
--   math.type math.ult
--   utf8.char utf8.charpattern utf8.codepoint utf8.codes utf8.len utf8.offset
--   coroutine.create coroutine.isyieldable coroutine.resume coroutine.running coroutine.status coroutine.wrap coroutine.yield
--   os.clock os.date os.difftime os.time
-- .luarc.json beside this file hides the rest of them.

---A document, read-only. Fields are decoded when they are read; JSON null is `nightjar.null`, a missing field nil.
---@class nightjar.Document
---@field _id string
---@field _rev string
---@field _deleted boolean?
---@field [string] any

---@class nightjar.Flags
---@field deleted boolean the revision is a deletion
---@field access_removed boolean the peer took access to the document away

---Where a call comes from. Read-only.
---@class nightjar.Context
---@field params table the checked parameters of this use, with defaults
---@field database string?
---@field scope string?
---@field collection string?
---@field direction "push"|"pull"|nil
---@field replicator string? its configured name
---@field listener string? its configured name
---@field remote string? URL or address of the peer; of an `exec:` target the program only
---@field user string? name of the authenticated peer
---@field protocol string? what is spoken with the peer: CBMobile_2, CBMobile_3, or CBMobile_4, where doc._rev is a version of a version vector; nil with CouchDB
---@field flags nightjar.Flags
---@field plugin string
---@field version string short content hash

---@class nightjar.Conflict
---@field id string
---@field local_doc nightjar.Document? nil where that side is deleted
---@field remote_doc nightjar.Document? nil where that side is deleted
---@field base_doc nightjar.Document? common ancestor; nil where its body is gone, as it often is on a listener and in a save
---@field local_rev string
---@field remote_rev string
---@field local_version string? what Couchbase Lite 4 calls the side, "TIME@SOURCE"; nil where no such peer has edited the document
---@field remote_version string?
---@field base_rev string? the common ancestor, also where its body is gone; nil where there is none

---@class nightjar.Principal
---@field name string? the username if absent
---@field read_only boolean? may pull, not push
---@field channels string[]?
---@field roles string[]?
---@field collections string[]? collections the peer may use; all of the listener's if absent

---One certificate of a peer's chain.
---@class nightjar.Certificate
---@field subject string
---@field common_name string?
---@field dns_names string[]
---@field ip_addresses string[]
---@field emails string[]
---@field uris string[]
---@field serial string hex
---@field sha256 string hex, of the certificate
---@field spki_sha256 string hex, of its public key
---@field not_before integer seconds since 1970
---@field not_after integer seconds since 1970
---@field der string Base64

---@class nightjar.Parameter
---@field type "string"|"number"|"integer"|"boolean"|"table"|"array"|"file" a file is a path in the configuration; the plugin gets its text
---@field required boolean?
---@field default any
---@field enum any[]? allowed values
---@field doc string?

---What a plugin may ask for itself, within the host's ceiling.
---@class nightjar.Limits
---@field memory integer? bytes of one state
---@field cpu_ms integer? of a filter or authenticator call
---@field instructions integer? of a filter or authenticator call
---@field resolver_cpu_ms integer? of a resolver or sync call
---@field resolver_instructions integer? of a resolver or sync call
---@field log_lines integer? a second

---What token may return in place of a text.
---@class nightjar.Token
---@field token string
---@field expires_in number? seconds; 600 if absent

---What get_session returns.
---@class nightjar.Session
---@field session_id string
---@field cookie_name string? SyncGatewaySession if absent
---@field expires (string|number)? ISO 8601, or seconds since 1970; 600 seconds from now if absent

---Why a replicator, or a document, does not get on.
---@class nightjar.ReplicationError
---@field domain string http, websocket, network, tls, blip, litecore, plugin or store
---@field code integer
---@field public_code integer
---@field message string
---@field is_transient boolean it passes by itself
---@field remedy string?

---How a replicator is. Times are seconds since 1970.
---@class nightjar.Status
---@field activity "stopped"|"offline"|"connecting"|"idle"|"busy"
---@field since integer
---@field is_suspended boolean
---@field progress { completed: integer, total: integer }
---@field pushed integer
---@field pulled integer
---@field rejected integer
---@field failed integer
---@field access_removed integer
---@field conflicts_resolved integer
---@field attempt integer
---@field next_retry_at integer?
---@field last_success_at integer?
---@field protocol string?
---@field correlation_id string?
---@field error nightjar.ReplicationError?

---What became of a document.
---@class nightjar.DocumentEvent
---@field id string
---@field collection string
---@field is_push boolean
---@field flags nightjar.Flags
---@field time integer? seconds since 1970
---@field correlation_id string?
---@field error nightjar.ReplicationError? nil: it was replicated

---What a plugin returns.
---@class nightjar.Plugin
---@field description string?
---@field params table<string, nightjar.Parameter>?
---@field limits nightjar.Limits?
---@field push_filter (fun(doc: nightjar.Document, ctx: nightjar.Context): any)? truthy: may leave this database
---@field pull_filter (fun(doc: nightjar.Document, ctx: nightjar.Context): any)? truthy: may enter this database
---@field transform (fun(doc: nightjar.Document, ctx: nightjar.Context): table)? the document as it is to travel or to be stored; doc for no change
---@field resolve (fun(conflict: nightjar.Conflict, ctx: nightjar.Context): table)? one side, a new table, or nightjar.delete
---@field authenticate_password (fun(username: string, password: string, ctx: nightjar.Context): boolean|nightjar.Principal)?
---@field authenticate_certificate (fun(chain: nightjar.Certificate[], ctx: nightjar.Context): boolean|nightjar.Principal)? the peer's own first
---@field token (fun(ctx: nightjar.Context): string|nightjar.Token)? what a replicator logs in with
---@field get_session (fun(ctx: nightjar.Context): nightjar.Session)? a session that a replicator logs in with
---@field on_status (fun(status: nightjar.Status, ctx: nightjar.Context))? is told how a replicator is
---@field on_documents (fun(documents: nightjar.DocumentEvent[], ctx: nightjar.Context))? is told what became of documents
---@field sync (fun(doc: nightjar.Document, old_doc: nightjar.Document?, ctx: nightjar.Context))? decides about a peer's write by the functions below

---Names for the functions of sync: a text, a list, or a field of a document; nil and null are none.
---@alias nightjar.Names string|string[]|userdata|nil

---In sync: puts the document into channels.
---@param ... nightjar.Names
function channel(...) end

---In sync: lets users, or roles as `role:NAME`, pull channels.
---@param users nightjar.Names
---@param channels nightjar.Names
function access(users, channels) end

---In sync: gives users roles.
---@param users nightjar.Names
---@param roles nightjar.Names
function role(users, roles) end

---In sync: rejects the write unless one of these users makes it.
---@param names nightjar.Names
function require_user(names) end

---In sync: rejects the write unless the writer has one of these roles.
---@param names nightjar.Names
function require_role(names) end

---In sync: rejects the write unless the writer may pull one of these channels.
---@param channels nightjar.Names
function require_access(channels) end

---In sync: rejects the write of every peer.
function require_admin() end

---In sync: when the document is deleted. Seconds from now up to 30 days, seconds since 1970, or an ISO 8601 text.
---@param when number|string|nil
function expiry(when) end

---In sync: rejects the write with a reason.
---@param reason string|{ forbidden: string }
function throw(reason) end

---@class nightjar
---@field null userdata JSON null
---@field delete userdata what resolve returns to delete the document
---@field state table<string, any> small persistent values of this plugin, each assigned as a whole; 256 keys, 64 KiB of JSON
nightjar = {}

---A plain table to edit, from a document, a part of one, ctx or a table.
---@param value any
---@return any
function nightjar.copy(value) end

---Marks a table as a JSON array, also when it is empty.
---@param items table?
---@return table
function nightjar.array(items) end

---Marks a table as a JSON object, also when it is empty.
---@param members table?
---@return table
function nightjar.object(members) end

---A random (version 4) UUID in lower case.
---@return string
function nightjar.uuid() end

---@param bytes string
---@return string hex
function nightjar.sha256(bytes) end

---@param bytes string
---@return string hex
function nightjar.sha1(bytes) end

---@param key string
---@param bytes string
---@return string hex
function nightjar.hmac_sha256(key, bytes) end

---A read-only look at this database; nil where there is no such document. At most 32 in a call.
---@param collection string? "scope.name"; the call's own if nil
---@param id string
---@return nightjar.Document?
---@overload fun(id: string): nightjar.Document?
function nightjar.get(collection, id) end

---Whether text matches a pattern of `*`, `?`, `[a-z]` and `[!a-z]`; `\\` takes the next character as it is.
---@param pattern string
---@param text string
---@return boolean
function nightjar.glob(pattern, text) end

---Whether an IP address lies in a range such as "10.0.0.0/8".
---@param range string
---@param address string
---@return boolean
function nightjar.cidr(range, address) end

---@class nightjar.log
nightjar.log = {}
---@param message string
---@param fields table?
function nightjar.log.debug(message, fields) end
---@param message string
---@param fields table?
function nightjar.log.info(message, fields) end
---@param message string
---@param fields table?
function nightjar.log.warn(message, fields) end
---@param message string
---@param fields table?
function nightjar.log.error(message, fields) end

---@class nightjar.json
nightjar.json = {}
---@param value any
---@return string
function nightjar.json.encode(value) end
---@param text string
---@return any
function nightjar.json.decode(text) end

---@class nightjar.time
nightjar.time = {}
---Seconds since 1970, UTC.
---@return number
function nightjar.time.now() end
---Seconds since 1970 of an ISO 8601 text; nil and a reason for anything else.
---@param text string
---@return number? seconds
---@return string? reason
function nightjar.time.parse(text) end
---ISO 8601, UTC.
---@param seconds number
---@return string
function nightjar.time.format(seconds) end

---@class nightjar.base64
nightjar.base64 = {}
---@param bytes string
---@return string
function nightjar.base64.encode(bytes) end
---nil and a reason for what is not base64.
---@param text string
---@return string? bytes
---@return string? reason
function nightjar.base64.decode(text) end

---scrypt; at most 4 operations in a call.
---@class nightjar.password
nightjar.password = {}
---@param password string
---@return string
function nightjar.password.hash(password) end
---@param password string
---@param hash string
---@return boolean
function nightjar.password.verify(password, hash) end

---@class nightjar.metrics
nightjar.metrics = {}
---@param name string
---@param value number? 1 if absent
---@param labels table<string, string|number>?
function nightjar.metrics.count(name, value, labels) end
---@param name string
---@param value number
---@param labels table<string, string|number>?
function nightjar.metrics.gauge(name, value, labels) end

---Given to each case of NAME.test.lua. Documents are plain tables; ctx holds only what the case needs.
---@class nightjar.Test
---@field push_filter fun(doc: table, ctx: table?): any
---@field pull_filter fun(doc: table, ctx: table?): any
---@field transform fun(doc: table, ctx: table?): table the document as it would travel
---@field resolve fun(conflict: table, ctx: table?): any
---@field authenticate_password fun(username: string, password: string, ctx: table?): any
---@field authenticate_certificate fun(chain: table, ctx: table?): any one certificate stands for a chain of one
---@field token fun(ctx: table?): any
---@field get_session fun(ctx: table?): any
---@field on_status fun(status: table, ctx: table?): any
---@field on_documents fun(documents: table[], ctx: table?): any
---@field sync fun(doc: table, old_doc: table?, ctx: table?): table|false, string? what was assigned, or false and the reason
---@field accept fun(result: any, text: string?) fails unless truthy
---@field reject fun(result: any, text: string?) fails if truthy
---@field equal fun(got: any, expected: any, text: string?) compares values in depth
---@field fails fun(body: function, text: string?) fails unless body raises an error; the text must be in it
