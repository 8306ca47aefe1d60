import CLua

/// What the C side's callbacks use: the host services, the module loader, and a record of what was required. Retained by the state; used only on the
/// thread that is inside a call.
final class HostBridge {
    let host: any LuaHost
    let modules: any LuaModuleLoader
    private(set) var requiredModules: [String] = []
    /// During a filter call: returns the id and revision of the document at an index.
    var names: ((Int) -> (id: String, revision: String))?

    init(host: any LuaHost, modules: any LuaModuleLoader) {
        self.host = host
        self.modules = modules
    }

    /// The C side's only entry into Swift. It always returns, so no Lua error can unwind through Swift code.
    static let callback: nj_host_function = { context, request, reply in
        guard let context, let request, let reply else { return Int32(NJ_HOST_ABSENT) }
        let bridge = Unmanaged<HostBridge>.fromOpaque(context).takeUnretainedValue()
        do throws(LuaHostRefusal) {
            return Int32(try bridge.serve(request.pointee, Reply(reply)) ? NJ_HOST_OK : NJ_HOST_ABSENT)
        } catch {
            _ = Reply(reply).set(0, Array(error.message.utf8))
            return Int32(NJ_HOST_REFUSED)
        }
    }

    /// Writes the C side's reply.
    struct Reply {
        let pointer: OpaquePointer
        init(_ pointer: OpaquePointer) { self.pointer = pointer }

        func set(_ part: Int32, _ bytes: [UInt8]) -> Bool {
            bytes.withUnsafeBytes { nj_reply_set(pointer, part, $0.baseAddress, $0.count) }
        }

        func give(_ part: Int32, _ bytes: [UInt8]) throws(LuaHostRefusal) {
            guard set(part, bytes) else { throw LuaHostRefusal("the host is out of memory") }
        }
    }

    /// False if the requested thing does not exist.
    private func serve(_ request: nj_request, _ reply: Reply) throws(LuaHostRefusal) -> Bool {
        let first = UnsafeRawBufferPointer(start: request.first.bytes, count: request.first.length)
        let second = UnsafeRawBufferPointer(start: request.second.bytes, count: request.second.length)
        switch Int(request.operation) {
        case NJ_HOST_LOG:
            host.log(level: LuaLogLevel(rawValue: Int32(request.integer)) ?? .info, message: text(first), fields: value(second))
        case NJ_HOST_LOG_DROPPED: host.logDropped(Int(request.integer))
        case NJ_HOST_UUID: try reply.give(0, Array(host.uuid().utf8))
        case NJ_HOST_NOW: nj_reply_set_numbers(reply.pointer, 0, host.now())
        case NJ_HOST_SHA1: try reply.give(0, try host.sha1(first))
        case NJ_HOST_SHA256: try reply.give(0, try host.sha256(first))
        case NJ_HOST_HMAC_SHA256: try reply.give(0, try host.hmacSHA256(key: first, message: second))
        case NJ_HOST_PASSWORD_HASH: try reply.give(0, Array(try host.passwordHash(Array(first)).utf8))
        case NJ_HOST_PASSWORD_VERIFY:
            let matches = try host.passwordVerify(Array(first), hash: text(second))
            nj_reply_set_numbers(reply.pointer, matches ? 1 : 0, 0)
        case NJ_HOST_GET:
            let collection = request.first.bytes == nil ? nil : try validText(first, "collection name")
            guard let document = try host.get(collection: collection, id: try validText(second, "document id")) else { return false }
            try reply.give(0, document.body)
            try reply.give(1, Array(document.revision.utf8))
            nj_reply_set_numbers(reply.pointer, document.isDeleted ? 1 : 0, 0)
        case NJ_HOST_METRIC:
            try host.metric(
                LuaMetricKind(rawValue: Int32(request.integer)) ?? .count, name: try validText(first, "metric name"),
                value: request.number, labels: value(second))
        case NJ_HOST_STATE_READ:
            let found = try host.readState(key: try validText(first, "state key"))
            guard found != .missing else { return false }
            try reply.give(0, found.jsonBytes)
        case NJ_HOST_STATE_WRITE: try host.writeState(key: try validText(first, "state key"), value: value(second))
        case NJ_HOST_MODULE:
            let name = text(first)
            if !requiredModules.contains(name) { requiredModules.append(name) }
            switch modules.module(named: name) {
            case .source(let source, let chunkName):
                try reply.give(0, source)
                try reply.give(1, Array(chunkName.utf8))
            case .refused(let reason): throw LuaHostRefusal("module '\(name)': \(reason)")
            }
        case NJ_HOST_NAMES:
            guard let names else { return false }
            let (id, revision) = names(Int(request.integer))
            try reply.give(0, Array(id.utf8))
            try reply.give(1, Array(revision.utf8))
        default: throw LuaHostRefusal("the host has no such service")
        }
        return true
    }

    private func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

    /// Names are compared as bytes, so invalid UTF-8 must not be repaired into another name.
    private func validText(_ bytes: UnsafeRawBufferPointer, _ what: String) throws(LuaHostRefusal) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw LuaHostRefusal("the \(what) is not valid UTF-8") }
        return text
    }

    private func value(_ bytes: UnsafeRawBufferPointer) -> LuaValue {
        guard bytes.baseAddress != nil else { return .missing }
        return LuaValue(json: bytes) ?? .missing
    }
}
