import Agent
import Documents
import Encodings
import TLS
import Testing

/// What a gateway believes.
@Suite("Signed plugins")
struct FleetDocumentTests {
    private let signer: PrivateKey
    private let key: VerifyingKey
    private let bytes: [UInt8]

    init() throws {
        signer = try PrivateKey.makeEd25519()
        key = try #require(signer.verifyingKey)
        bytes = try FleetDocument(
            FleetItem(.plugin, "gate"), version: 7, scope: .init(labels: ["north"]), .plugin(main: Array("return {}".utf8), tests: Array("return {}".utf8)))
            .signed(with: signer)
    }

    private func refusal(_ bytes: [UInt8], id: String = "plugin:gate:7", trusting keys: [VerifyingKey]) -> String? {
        do throws(FleetRefusal) {
            _ = try FleetDocument(verifying: bytes, id: id, trusting: keys)
            return nil
        } catch { return error.reason }
    }

    private func altered(_ change: (inout JSONObject) -> Void) throws -> [UInt8] {
        guard case .object(var object) = try JSONValue(parsing: bytes) else { return [] }
        change(&object)
        return JSONValue.object(object).serialize()
    }

    @Test("what was signed comes back, however its keys are ordered on the way")
    func roundTrip() throws {
        guard case .object(let object) = try JSONValue(parsing: bytes) else { return }
        let turned = JSONValue.object(JSONObject(object.members.reversed())).serialize()
        #expect(turned != bytes)
        for body in [bytes, turned] {
            let read = try FleetDocument(verifying: body, id: "plugin:gate:7", trusting: [key])
            #expect(read.item == FleetItem(.plugin, "gate") && read.version == 7 && read.scope.labels == ["north"])
            #expect(read.content == .plugin(main: Array("return {}".utf8), tests: Array("return {}".utf8)))
        }
    }

    @Test("every altered member is refused, and so is another id, key or none")
    func alterations() throws {
        for name in ["name", "version", "ids", "labels", "kind", "content"] {
            #expect(refusal(try altered { $0[name] = .string("other") }, trusting: [key])?.contains("signature is wrong") == true, "\(name)")
            #expect(refusal(try altered { $0[name] = nil }, trusting: [key])?.contains("signature is wrong") == true, "\(name)")
        }
        #expect(refusal(try altered { $0["more"] = true }, trusting: [key])?.contains("signature is wrong") == true)
        #expect(refusal(try altered { $0["signature"] = nil }, trusting: [key]) == "it is not signed")
        #expect(refusal(bytes, id: "plugin:gate:8", trusting: [key])?.contains("its id is plugin:gate:8") == true)
        #expect(refusal(bytes, id: "plugin:other:7", trusting: [key])?.contains("its id is") == true)
        let other = try #require(try PrivateKey.makeEd25519().verifyingKey)
        #expect(refusal(bytes, trusting: [other])?.contains("fleet.keys does not name") == true)
        // A key is put in the place of another while it is rotated: both count.
        #expect(refusal(bytes, trusting: [other, key]) == nil)
        // Another key's name does not make its signature.
        #expect(refusal(try altered { $0["key"] = .string("\(other)") }, trusting: [other, key])?.contains("signature is wrong") == true)
    }

    @Test("documents that are too large are neither signed nor read")
    func size() throws {
        let large = [UInt8](repeating: 0x20, count: FleetDocument.Limits.documentBytes)
        #expect(throws: FleetRefusal.self) {
            try FleetDocument(FleetItem(.plugin, "gate"), version: 1, scope: .init(), .plugin(main: large, tests: nil)).signed(with: signer)
        }
        #expect(refusal(bytes + large, trusting: [key])?.contains("fleet_document_bytes") == true)
    }

    @Test("only ids in the one form count", arguments: ["plugin:gate:07", "plugin:gate:0", "plugin:gate:-1", "plugin:Gate:1", "plugin:../x:1", "plugin:gate", "status:gate"])
    func ids(_ id: String) { #expect(FleetItem.claim(id) == nil) }

    @Test("a scope covers all, some ids, or some labels")
    func scopes() {
        #expect(FleetDocument.Scope().covers(id: "a", labels: []))
        #expect(FleetDocument.Scope(ids: ["a"]).covers(id: "a", labels: []))
        #expect(!FleetDocument.Scope(ids: ["a"]).covers(id: "b", labels: ["a"]))
        #expect(FleetDocument.Scope(ids: ["a"], labels: ["north"]).covers(id: "b", labels: ["south", "north"]))
    }

    @Test("a fragment and a withdrawal come back as they were signed, and each kind has ids of its own")
    func kinds() throws {
        for (item, content) in [
            (FleetItem(.config, "site"), FleetDocument.Content.config(Array("log: { level: debug }".utf8))), (FleetItem(.config, "site"), .withdrawn),
            (FleetItem(.plugin, "gate"), .withdrawn),
        ] {
            let bytes = try FleetDocument(item, version: 3, scope: .init(), content).signed(with: signer)
            let read = try FleetDocument(verifying: bytes, id: "\(item.kind.rawValue):\(item.name):3", trusting: [key])
            #expect(read.item == item && read.content == content)
            let other = item.kind == .plugin ? "config" : "plugin"
            #expect(refusal(bytes, id: "\(other):\(item.name):3", trusting: [key])?.contains("its id is") == true)
        }
    }
}
