import Documents
import LuaRuntime
import PluginHost
import Testing

/// Every reader of JSON gives the same verdict: what one of them lets in, none of the others reads in another way.
@Suite("Readers of JSON")
struct JSONAgreementTests {
    @Test("agree", arguments: JSONCase.all)
    func agree(_ json: JSONCase) throws {
        let accepted = json.isAccepted
        #expect(((try? JSONScanner.scanDocument(json.bytes)) != nil) == accepted, "the scanner")
        let value = try? JSONValue(parsing: json.bytes)
        #expect((value != nil) == accepted, "the value reader")
        let canonical = try? CanonicalJSON.bytes(of: json.bytes)
        #expect((canonical != nil) == accepted, "the canonical form")
        #expect(try decodes(json.bytes) == accepted, "nightjar.json.decode")
        guard accepted, let value, let canonical else { return }
        #expect(value.canonicalBytes() == canonical)
        // What a filter reads of the document is what was decoded from its text.
        #expect(try filter(Self.same, json.bytes, text: canonical))
    }

    private static let same = """
        local function same(a, b)
            if type(a) ~= "table" then return a == b end
            for k, v in pairs(a) do if not same(v, b[k]) then return false end end
            for k in pairs(b) do if a[k] == nil then return false end end
            return true
        end
        return same(doc, nightjar.json.decode(text)) and same(nightjar.copy(doc), nightjar.json.decode(text))
        """

    private func decodes(_ bytes: [UInt8]) throws -> Bool {
        try filter("return (pcall(nightjar.json.decode, text))", Array("{}".utf8), text: bytes)
    }

    private func filter(_ body: String, _ document: [UInt8], text: [UInt8]) throws -> Bool {
        let literal = text.map { "\\" + String(repeating: "0", count: 3 - "\($0)".utf8.count) + "\($0)" }.joined()
        let source = "local text = '\(literal)'\nreturn { push_filter = function(doc)\n\(body)\nend }"
        var limits = LuaLimits()
        limits.resultDepth = JSONLimits.depth
        limits.sourceBytes = 4 << 20
        let state = try LuaPluginState(name: "p", chunkName: "p.lua", source: Array(source.utf8), modules: LuaNoModules(), host: LuaBareHost(.system), limits: limits)
        let use = try state.makeUse(LuaContext(
            params: .object([]), database: "db", scope: "s", collection: "c", direction: "push", replicator: "up", remote: "wss://x", plugin: "p",
            version: "v1"))
        defer { state.release(use) }
        return try state.callFilter(
            .pushFilter, document: LuaDocument(id: "d", revision: "1-a", isDeleted: false, body: document), use: use, flags: [], limits: .filter)
    }
}
