---@meta
-- The API of Nightjar plugins, for the Lua language server. The agent does not load this file.
--
-- Of Lua 5.4's standard library, plugins have only these (no io, debug, package or load; of `os` only four time functions):
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
-- .luarc.json in the same folder hides the rest.

---A read-only document. Fields are decoded when accessed; JSON null is `nightjar.null`, a missing field is nil.
---@class nightjar.Document
---@field _id string
---@field _rev string
---@field _deleted boolean?
---@field [string] any

---@class nightjar.Flags
---@field deleted boolean the revision is a deletion
---@field access_removed boolean the peer has withdrawn access to the document

---The origin of a call. Read-only; reading a field that is not listed here, or a parameter that the plugin does not declare, is an error.
---@class nightjar.Context
---@field params table the checked parameters of this use, with defaults
---@field database string?
---@field scope string?
---@field collection string?
---@field direction "push"|"pull"|nil
---@field replicator string? its configured name
---@field listener string? its configured name
---@field remote string? URL or address of the peer; for an `exec:` target, only the program
---@field user string? name of the authenticated peer
---@field protocol string? the protocol used with the peer: CBMobile_2, CBMobile_3, or CBMobile_4, where doc._rev is a version from a version vector; nil with CouchDB
---@field flags nightjar.Flags
---@field plugin string
---@field version string short content hash

---@class nightjar.Conflict
---@field id string
---@field local_doc nightjar.Document? nil if that side is deleted
---@field remote_doc nightjar.Document? nil if that side is deleted
---@field base_doc nightjar.Document? common ancestor; nil if its body is no longer stored, as is common on a listener and when saving
---@field local_rev string
---@field remote_rev string
---@field local_version string? the side's version in Couchbase Lite 4, "TIME@SOURCE"; nil if no such peer has edited the document
---@field remote_version string?
---@field base_rev string? the common ancestor, even if its body is no longer stored; nil if there is none

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
---@field type "string"|"number"|"integer"|"boolean"|"table"|"array"|"file" for a file, the configuration has a path and the plugin gets the file's text
---@field required boolean?
---@field default any
---@field enum any[]? allowed values
---@field doc string?

---Limits that a plugin may request for itself, up to the host's ceiling.
---@class nightjar.Limits
---@field memory integer? bytes of one state
---@field cpu_ms integer? for a filter or authenticator call
---@field instructions integer? for a filter or authenticator call
---@field resolver_cpu_ms integer? for a resolver or sync call
---@field resolver_instructions integer? for a resolver or sync call
---@field log_lines integer? per second

---What token may return instead of a string.
---@class nightjar.Token
---@field token string
---@field expires_in number? seconds; 600 if absent

---What get_session returns.
---@class nightjar.Session
---@field session_id string
---@field cookie_name string? SyncGatewaySession if absent
---@field expires (string|number)? ISO 8601, or seconds since 1970; 600 seconds from now if absent

---Why a replicator is not working, or a document is not replicated.
---@class nightjar.ReplicationError
---@field domain string http, websocket, network, tls, blip, litecore, plugin or store
---@field code integer
---@field public_code integer
---@field message string
---@field is_transient boolean it may go away by itself
---@field remedy string?

---The status of a replicator. Times are seconds since 1970.
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

---The outcome for a document.
---@class nightjar.DocumentEvent
---@field id string
---@field collection string
---@field is_push boolean
---@field flags nightjar.Flags
---@field time integer? seconds since 1970
---@field correlation_id string?
---@field error nightjar.ReplicationError? nil: it was replicated

---A listener that a replicator may connect to. What it says of itself is not proven.
---@class nightjar.Peer
---@field name string
---@field group string
---@field peer_id string? the id of its agent
---@field pin string? the pin of its key: sha256/…
---@field host string
---@field port integer
---@field last_error string? why the last attempt to reach it failed
---@field last_success integer? when it was last reached, in seconds since 1970

---What a plugin returns.
---@class nightjar.Plugin
---@field description string?
---@field params table<string, nightjar.Parameter>?
---@field limits nightjar.Limits?
---@field push_filter (fun(doc: nightjar.Document, ctx: nightjar.Context): any)? truthy: may leave this database
---@field pull_filter (fun(doc: nightjar.Document, ctx: nightjar.Context): any)? truthy: may enter this database
---@field transform (fun(doc: nightjar.Document, ctx: nightjar.Context): table)? the document to be sent or stored; return doc for no change
---@field resolve (fun(conflict: nightjar.Conflict, ctx: nightjar.Context): table)? one side, a new table, or nightjar.delete
---@field authenticate_password (fun(username: string, password: string, ctx: nightjar.Context): boolean|nightjar.Principal)?
---@field authenticate_certificate (fun(chain: nightjar.Certificate[], ctx: nightjar.Context): boolean|nightjar.Principal)? the peer's own certificate comes first
---@field token (fun(ctx: nightjar.Context): string|nightjar.Token)? the token that a replicator logs in with
---@field get_session (fun(ctx: nightjar.Context): nightjar.Session)? the session that a replicator logs in with
---@field on_status (fun(status: nightjar.Status, ctx: nightjar.Context))? called with a replicator's status
---@field on_documents (fun(documents: nightjar.DocumentEvent[], ctx: nightjar.Context))? called with the outcomes for documents
---@field select_peer (fun(peers: nightjar.Peer[], ctx: nightjar.Context): string?)? the name of the peer that a replicator connects to, nil to wait
---@field sync (fun(doc: nightjar.Document, old_doc: nightjar.Document?, ctx: nightjar.Context))? judges a peer's write with the functions below

---Names for the functions of sync: a string, a list, or a field of a document; nil and null mean no names.
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

---In sync: rejects the write from any peer.
function require_admin() end

---In sync: sets when the document is deleted. Seconds from now (up to 30 days), seconds since 1970, or an ISO 8601 string.
---@param when number|string|nil
function expiry(when) end

---In sync: rejects the write with a reason.
---@param reason string|{ forbidden: string }
function throw(reason) end

---@class nightjar
---@field null userdata JSON null
---@field delete userdata what resolve returns to delete the document
---@field state table<string, any> small persistent values of this plugin; assign whole values, not parts of them; at most 256 keys and 64 KiB of JSON
nightjar = {}

---Makes a plain, editable table from a document, a part of one, ctx or a table.
---@param value any
---@return any
function nightjar.copy(value) end

---Marks a table as a JSON array, even if it is empty.
---@param items table?
---@return table
function nightjar.array(items) end

---Marks a table as a JSON object, even if it is empty.
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

---Reads a document from this database; nil if it does not exist. At most 32 times per call.
---@param collection string? "scope.name"; the call's own if nil
---@param id string
---@return nightjar.Document?
---@overload fun(id: string): nightjar.Document?
function nightjar.get(collection, id) end

---Whether text matches a pattern of `*`, `?`, `[a-z]` and `[!a-z]`; `\\` escapes the next character.
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
---Seconds since 1970 for an ISO 8601 string; nil and a reason for anything else.
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
---Returns nil and a reason for invalid base64.
---@param text string
---@return string? bytes
---@return string? reason
function nightjar.base64.decode(text) end

---scrypt; at most 4 operations per call.
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
---@field transform fun(doc: table, ctx: table?): table the document as it would be sent
---@field resolve fun(conflict: table, ctx: table?): any
---@field authenticate_password fun(username: string, password: string, ctx: table?): any
---@field authenticate_certificate fun(chain: table, ctx: table?): any a single certificate counts as a chain of one
---@field token fun(ctx: table?): any
---@field get_session fun(ctx: table?): any
---@field on_status fun(status: table, ctx: table?): any
---@field on_documents fun(documents: table[], ctx: table?): any
---@field select_peer fun(peers: table[], ctx: table?): string?
---@field sync fun(doc: table, old_doc: table?, ctx: table?): table|false, string? what was assigned, or false and the reason
---@field accept fun(result: any, text: string?) fails unless truthy
---@field reject fun(result: any, text: string?) fails if truthy
---@field equal fun(got: any, expected: any, text: string?) compares values recursively
---@field fails fun(body: function, text: string?) fails unless body raises an error that contains the text
