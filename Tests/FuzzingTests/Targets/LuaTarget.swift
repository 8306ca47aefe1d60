import Environment
import LuaRuntime

@testable import Documents

extension FuzzTarget {
    /// What plugins return, and what they call on the way: a decision that the agent can use, or a failure in words, within the limits.
    /// An input is the source of the hooks' bodies, or choices from which one is built.
    static let luaResults = FuzzTarget("lua-results", longestInput: 1_024) { bytes in
        guard let first = bytes.first else { return }
        let rest = Array(bytes.dropFirst())
        var writer = LuaWriter(rest)
        let body = first & 1 == 0 ? rest : Array(writer.body().utf8)
        let plugin = try? FuzzedPlugin(body)
        try plugin?.askAll()
    }
}

private struct FuzzedPlugin {
    private let state: LuaPluginState
    private let use: LuaUse
    private let limits = FuzzedPlugin.bounds

    private static var bounds: LuaLimits {
        var limits = LuaLimits()
        limits.memoryBytes = 4 << 20
        limits.resultNodes = 2_000
        limits.resultBytes = 20_000
        return limits
    }

    private static let call = LuaCallLimits(cpuMilliseconds: 100, instructions: 200_000)

    /// Nil where the source does not load; the reason is checked.
    init(_ body: [UInt8]) throws {
        let head = "local last, conflict, caller, text = {}\nreturn { push_filter = function(doc, ctx) "
        let hooks = [
            " end, pull_filter = function(doc, ctx) ", " end, resolve = function(conflict, ctx) local doc = conflict.local_doc\n",
            " end, authenticate_password = function(text, doc, ctx) ", " end, authenticate_certificate = function(doc, ctx) ",
            " end, sync = function(doc, old, ctx) ",
        ]
        var source = Array(head.utf8) + body
        for hook in hooks { source += Array(hook.utf8) + body }
        source += Array(" end }".utf8)
        do throws(LuaFailure) {
            state = try LuaPluginState(name: "p", chunkName: "p.lua", source: source, host: LuaBareHost(.system), limits: limits)
        } catch {
            try Self.check(error)
            throw error
        }
        use = try state.makeUse(LuaContext(params: .object([LuaMember(key: "n", value: .integer(7))]), database: "db", plugin: "p", version: "v1"))
    }

    private static func check(_ failure: LuaFailure) throws {
        try hold(!failure.message.isEmpty && failure.message.utf8.count <= 4 << 10 && !failure.message.contains("\n"), "a failure of \(failure.message.utf8.count) bytes")
    }

    private static let json = #"{"a":{"b":[1,2.5,"x",null,true,{"c":{}}]},"n":9007199254740993,"s":"é\n\u0000","t":"reading","channels":["x","y"]}"#

    func askAll() throws {
        let document = LuaDocument(id: "doc", revision: "2-b", body: Array(Self.json.utf8))
        let other = LuaDocument(id: "doc", revision: "2-c", body: Array(#"{"a":1}"#.utf8))
        try ask { _ = try state.callFilter(.pushFilter, document: document, use: use, flags: .deleted, limits: Self.call) }
        try ask { _ = try state.callFilter(.pullFilter, document: document, use: use, flags: [], limits: Self.call) }
        let conflict = LuaConflict(
            id: "doc", local: document, remote: other, base: nil, localRevision: "2-b", remoteRevision: "2-c", baseRevision: "1-a")
        try ask {
            guard case .merged(let bytes) = try state.callResolve(conflict, use: use, limits: Self.call) else { return }
            try hold(bytes.count <= limits.resultBytes, "a merged document of \(bytes.count) bytes")
            guard let scan = try? JSONScanner.scanDocument(bytes) else { throw FuzzFinding(description: "a merged document that is no JSON object") }
            try hold(try CanonicalJSON.bytes(of: bytes, scan: scan) == JSONValue(parsing: bytes).canonicalBytes(), "two canonical forms")
        }
        try ask { try check(try state.callPassword(username: [0xFF, 0], password: Array("pässword".utf8), use: use, limits: Self.call)) }
        try ask { try check(try state.callCertificate(chain: .array([.object([LuaMember(key: "subject", value: .string([65]))])]), use: use, limits: Self.call)) }
        let caller = LuaCaller(name: "u", roles: ["r"], channels: ["c"])
        try ask { try check(try state.callSync(document: document, old: other, caller: caller, use: use, limits: Self.call)) }
        state.release(use)
        try hold(state.memoryBytes <= limits.memoryBytes && state.peakMemoryBytes <= limits.memoryBytes, "\(state.peakMemoryBytes) bytes of memory")
    }

    private func ask(_ call: () throws -> Void) throws {
        do { try call() } catch let failure as LuaFailure { try Self.check(failure) }
        // Charged in steps; one library call may overshoot.
        try hold(state.lastInstructions <= 100 * Self.call.instructions, "\(state.lastInstructions) instructions")
    }

    private func check(_ principal: LuaPrincipal) throws {
        guard case .accepted(let value) = principal else { return }
        guard value != .missing else { return }
        guard let again = LuaValue(json: value.jsonBytes) else { throw FuzzFinding(description: "a principal that cannot be written") }
        try hold(again == value, "a principal reads differently")
        try hold((try? JSONValue(parsing: value.jsonBytes)) != nil, "a principal that is no JSON")
    }

    private func check(_ outcome: LuaSyncOutcome) throws {
        switch outcome {
        case .rejected(let reason): try hold(reason.utf8.count <= 3 * 500 && !reason.contains("\n"), "a reason of \(reason.utf8.count) bytes, or of two lines")
        case .accepted(let assignment):
            let lists = assignment.access.values.map(\.count) + assignment.roles.values.map(\.count)
            try hold(assignment.channels.count + lists.reduce(0, +) <= LuaPluginState.syncEntries, "too many entries")
            let names = assignment.channels + assignment.access.flatMap { [$0.key] + $0.value } + assignment.roles.flatMap { [$0.key] + $0.value }
            try hold(names.allSatisfy { !$0.isEmpty && $0.utf8.count <= 255 }, "a name that is none: \(names)")
            try hold(Set(assignment.channels).count == assignment.channels.count, "a channel twice")
        }
    }
}

/// Writes a body in Lua from choices: values of every kind, most of them such as nobody should return.
private struct LuaWriter {
    private var input: FuzzInput

    init(_ bytes: [UInt8]) { input = FuzzInput(bytes) }

    mutating func body() -> String {
        var text = ""
        for _ in 0..<input.below(4) { text += statement() + "\n" }
        return text + "return " + value(0)
    }

    private mutating func statement() -> String {
        switch input.below(14) {
        case 0: "channel(\(value(1)))"
        case 1: "access(\(value(1)), \(value(1)))"
        case 2: "role(\(value(1)), \(value(1)))"
        case 3: "expiry(\(value(1)))"
        case 4: "throw(\(value(1)))"
        case 5: "require_user(\(value(1)))"
        case 6: "require_access(\(value(1)))"
        case 7: "for i = 1, \(input.short()) do last[i] = i end"
        case 8: "for i = 1, \(input.short()) do channel('c' .. i) end"
        case 9: "error(\(value(1)))"
        case 10: "last.last = last"
        case 11: "pcall(function() last = \(value(1)) end)"
        case 12: "nightjar.log.warn(\(value(2)), \(value(1)))"
        default: "last[\(value(2))] = \(value(1))"
        }
    }

    private mutating func value(_ depth: Int) -> String {
        guard depth < 5 else { return "1" }
        switch input.below(34) {
        case 0: return "nil"
        case 1: return "true"
        case 2: return "false"
        case 3: return "\(input.short())"
        case 4: return "-\(input.short()).5"
        case 5: return input.pick(["0/0", "1/0", "-1/0", "math.mininteger", "math.maxinteger", "2^53", "1e308", "-0.0", "1e-320"])
        case 6: return string(input.piece())
        case 7: return "string.rep(\(string(input.bytes(2))), \(input.short()))"
        case 8: return "doc"
        case 9: return input.pick(["doc.a", "doc.a.b", "doc.n", "doc.s", "doc._id", "doc.missing", "doc._deleted", "doc.channels"])
        case 10: return "nightjar.copy(\(value(depth + 1)))"
        case 11: return "nightjar.null"
        case 12: return "nightjar.delete"
        case 13: return "last"
        case 14: return "function() return \(value(depth + 1)) end"
        case 15: return "setmetatable({}, {__index = function() return \(value(depth + 1)) end})"
        case 16: return "coroutine.wrap(function() coroutine.yield(\(value(depth + 1))) end)()"
        case 17: return "nightjar.json.decode(\(string(input.piece())))"
        case 18: return "nightjar.json.encode(\(value(depth + 1)))"
        case 19: return "nightjar.array(\(value(depth + 1)))"
        case 20: return "nightjar.object(\(value(depth + 1)))"
        case 21: return "conflict and conflict.remote_doc"
        case 22: return "(function() local t = {} for i = 1, \(input.below(200)) do t = {t} end return t end)()"
        case 23: return "{name = \(value(depth + 1)), read_only = \(value(depth + 1)), channels = \(value(depth + 1))}"
        case 24: return "{[\(value(depth + 1))] = \(value(depth + 1))}"
        case 25: return "table.pack(\(value(depth + 1)), \(value(depth + 1)))"
        case 26: return "nightjar.time.parse(\(string(input.piece())))"
        case 27: return "string.format(\(string(input.piece())), \(value(depth + 1)))"
        case 28: return "string.gsub(\(string(input.piece())), \(string(input.piece())), \(value(depth + 1)))"
        case 29: return "nightjar.base64.decode(\(string(input.piece())))"
        case 30: return "nightjar.glob(\(string(input.piece())), \(string(input.piece())))"
        case 31: return "nightjar.cidr(\(string(input.piece())), \(string(input.piece())))"
        default:
            let members = (0..<input.below(6)).map { _ in input.flag() ? value(depth + 1) : "[\(string(input.piece()))] = \(value(depth + 1))" }
            return "{\(members.joined(separator: ", "))}"
        }
    }

    private func string(_ bytes: [UInt8]) -> String {
        "'" + bytes.map { (0x20..<0x7F).contains($0) && $0 != 0x27 && $0 != 0x5C ? String(UnicodeScalar($0)) : "\\x" + hex($0) }.joined() + "'"
    }

    private func hex(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
}
