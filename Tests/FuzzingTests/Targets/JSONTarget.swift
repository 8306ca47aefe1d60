import LuaRuntime

@testable import Documents

extension FuzzTarget {
    /// JSON from anywhere: all readers take the same texts for JSON and read the same values, and what is written can be read.
    static let json = FuzzTarget("json", longestInput: 4_096) { bytes in
        let value = try? JSONValue(parsing: bytes)
        let scan = try? JSONScanner.scanDocument(bytes)
        let canonical = try? CanonicalJSON.bytes(of: bytes)
        try hold((scan != nil) == (value?.asObject != nil), "the scanner and the value reader disagree")
        try hold((canonical != nil) == (scan != nil), "the scanner and the canonical form disagree")

        let decoded = try LuaJSON.shared.decode(bytes)
        try hold(decoded == (value != nil) || value?.holdsHugeNumber == true, "nightjar.json.decode says \(decoded), the value reader \(value != nil)")

        guard let value else { return }
        let written = value.serialize()
        guard let again = try? JSONValue(parsing: written) else { throw FuzzFinding(description: "what was written is no JSON") }
        try hold(again == value, "what was written is read as something else")
        try hold(again.serialize() == written, "what is written twice differs")
        guard let scan, let canonical, let object = value.asObject else { return }
        try holdForDocument(bytes, object, scan, canonical)
        // A plugin sees the document's own under these names; stored bodies have none.
        let own = object.members.contains { ["_id", "_rev", "_deleted"].contains($0.key) }
        if !value.holdsHugeNumber, !own { try LuaJSON.shared.readsTheSame(bytes, canonical) }
    }

    private static func holdForDocument(_ bytes: [UInt8], _ object: JSONObject, _ scan: DocumentScan, _ canonical: [UInt8]) throws {
        let value = JSONValue.object(object)
        try hold(value.canonicalBytes() == canonical, "two canonical forms")
        try hold(!scan.isCanonical || canonical == bytes, "a text is called canonical that is not")
        try hold(try CanonicalJSON.bytes(of: bytes, scan: scan) == canonical, "the canonical form depends on who scanned")
        guard let second = try? CanonicalJSON.bytes(of: canonical) else { throw FuzzFinding(description: "the canonical form is no JSON") }
        try hold(second == canonical, "the canonical form of the canonical form differs")
        try hold(canonical.count <= 6 * bytes.count, "the canonical form of \(bytes.count) bytes has \(canonical.count)")
        try hold(scan.isEmpty == object.isEmpty, "empty or not")
        try hold(scan.hasReservedKeys == object.members.contains { $0.key.utf8.first == 0x5F }, "reserved keys were overlooked")
        let stored = try JSONValue(stored: bytes)
        try hold(stored == value, "a stored body is read as something else")

        let blobs = try BlobReferences.find(in: bytes, scan: scan)
        try hold(blobs == (try BlobReferences.find(in: bytes)), "blobs depend on who scanned")
        try hold(scan.mayHoldBlobs || blobs.isEmpty, "blobs were overlooked")
        let stripped = try ReservedKeys.strip(from: bytes, scan: scan)
        guard let rest = try? JSONValue(parsing: stripped).asObject else { throw FuzzFinding(description: "a body without its reserved keys is no JSON") }
        try hold(rest.members.allSatisfy { $0.key.utf8.first != 0x5F || $0.key == "_attachments" }, "reserved keys are left")
        try hold(try ReservedKeys.strip(from: stripped) == stripped, "stripping twice differs")
        let legacy = try LegacyAttachments.add(to: stripped, generation: 3)
        guard let legacyScan = try? JSONScanner.scanDocument(legacy) else { throw FuzzFinding(description: "a body with _attachments is no JSON") }
        let back = try ReservedKeys.strip(from: legacy, scan: legacyScan)
        try hold(try CanonicalJSON.bytes(of: back) == CanonicalJSON.bytes(of: stripped), "_attachments do not come off again")
    }
}

extension JSONValue {
    /// A number that no Double holds: Lua has nothing for it.
    fileprivate var holdsHugeNumber: Bool {
        switch self {
        case .number(let number): number.asDouble == nil
        case .array(let items): items.contains { $0.holdsHugeNumber }
        case .object(let object): object.members.contains { $0.value.holdsHugeNumber }
        default: false
        }
    }
}

/// Lua's two readers of JSON, that of documents and that of texts, in a plugin which compares them.
private final class LuaJSON {
    private let state: LuaPluginState
    private let use: LuaUse

    // Targets run one at a time.
    nonisolated(unsafe) private static var known: LuaJSON?

    /// Made anew when its memory is used up.
    static var shared: LuaJSON {
        get throws {
            if let known, !known.state.needsRebuild { return known }
            let fresh = try LuaJSON()
            known = fresh
            return fresh
        }
    }

    private init() throws {
        let source = """
            local function same(a, b)
                if type(a) ~= "table" then return a == b and math.type(a) == math.type(b) end
                for k, v in pairs(a) do if not same(v, b[k]) then return false end end
                for k in pairs(b) do if a[k] == nil then return false end end
                return true
            end
            return {
              authenticate_password = function(text) return (pcall(nightjar.json.decode, text)) end,
              resolve = function(conflict)
                local text = nightjar.json.encode(nightjar.copy(conflict.local_doc))
                local read, canonical = nightjar.json.decode(text), conflict.remote_doc
                if not same(nightjar.copy(conflict.local_doc), nightjar.copy(canonical)) then return { wrong = "the canonical form reads differently" } end
                if not same(conflict.local_doc, canonical) then return { wrong = "the lazy reader" } end
                return read
              end,
            }
            """
        var limits = LuaLimits()
        limits.resultDepth = JSONLimits.depth
        state = try LuaPluginState(name: "p", chunkName: "p.lua", source: Array(source.utf8), host: LuaBareHost(.system), limits: limits)
        use = try state.makeUse(LuaContext(plugin: "p", version: "v1"))
    }

    func decode(_ bytes: [UInt8]) throws -> Bool {
        try state.callPassword(username: bytes, password: [], use: use, limits: .resolver) == .accepted(.missing)
    }

    func readsTheSame(_ bytes: [UInt8], _ canonical: [UInt8]) throws {
        let conflict = LuaConflict(
            id: "d", local: LuaDocument(id: "d", revision: "2-a", body: bytes), remote: LuaDocument(id: "d", revision: "2-b", body: canonical), base: nil,
            localRevision: "2-a", remoteRevision: "2-b", baseRevision: nil)
        guard case .merged(let merged) = try state.callResolve(conflict, use: use) else { throw FuzzFinding(description: "no merged document") }
        guard let value = try? JSONValue(parsing: merged).asObject else { throw FuzzFinding(description: "Lua wrote what is no JSON") }
        if let wrong = value["wrong"]?.asString { throw FuzzFinding(description: "Lua reads the text otherwise: \(wrong)") }
        guard LuaValue(json: merged) != nil else { throw FuzzFinding(description: "the bridge does not read what Lua wrote") }
    }
}
