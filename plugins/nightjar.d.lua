---@meta
-- What a Nightjar plugin sees, for the Lua language server. This file is not loaded by the agent.

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
---@field remote string? URL or address of the peer
---@field user string? name of the authenticated peer
---@field flags nightjar.Flags
---@field plugin string
---@field version string short content hash

---@class nightjar.Conflict
---@field id string
---@field local_doc nightjar.Document? nil where that side is deleted
---@field remote_doc nightjar.Document? nil where that side is deleted
---@field base_doc nightjar.Document? common ancestor; nil where its body is gone
---@field local_rev string
---@field remote_rev string
---@field base_rev string?

---@class nightjar.Principal
---@field name string? the username if absent
---@field read_only boolean? may pull, not push
---@field channels string[]?
---@field roles string[]?
---@field collections string[]? collections the peer may use; all of the listener's if absent

---@class nightjar.Parameter
---@field type "string"|"number"|"integer"|"boolean"|"table"|"array"|"file" a file is a path in the configuration; the plugin gets its text
---@field required boolean?
---@field default any
---@field enum any[]? allowed values
---@field doc string?

---What a plugin returns.
---@class nightjar.Plugin
---@field description string?
---@field params table<string, nightjar.Parameter>?
---@field push_filter (fun(doc: nightjar.Document, ctx: nightjar.Context): any)? truthy: may leave this database
---@field pull_filter (fun(doc: nightjar.Document, ctx: nightjar.Context): any)? truthy: may enter this database
---@field resolve (fun(conflict: nightjar.Conflict, ctx: nightjar.Context): table)? one side, a new table, or nightjar.delete
---@field authenticate_password (fun(username: string, password: string, ctx: nightjar.Context): boolean|nightjar.Principal)?

---@class nightjar
---@field null userdata JSON null
---@field delete userdata what resolve returns to delete the document
---@field state table<string, any> small persistent values of this plugin
nightjar = {}

---A plain table to edit, from a document or a part of one.
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

---A read-only look at this database; nil where there is no such document.
---@param collection string? "scope.name"; the call's own if nil
---@param id string
---@return nightjar.Document?
---@overload fun(id: string): nightjar.Document?
function nightjar.get(collection, id) end

---Whether text matches a pattern of `*`, `?`, `[a-z]` and `[!a-z]`.
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
---Seconds since 1970 of an ISO 8601 text; raises an error for anything else.
---@param text string
---@return number
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
---@param text string
---@return string
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
---@field resolve fun(conflict: table, ctx: table?): any
---@field authenticate_password fun(username: string, password: string, ctx: table?): any
---@field accept fun(result: any) fails unless truthy
---@field reject fun(result: any) fails if truthy
---@field equal fun(a: any, b: any) compares values in depth
---@field fails fun(body: function) fails unless body raises an error
