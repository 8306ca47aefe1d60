import PluginHost
import TLS
import Testing

@testable import Agent

/// Signatures of kept plugins that came in fleet documents.
@Suite("Kept fleet documents")
struct SealedDocumentTests {
    @Test("a plugin has the signature of the document that brought it, made with a trusted key and over exactly these files")
    func seals() throws {
        let signer = try PrivateKey.makeEd25519()
        let (key, other) = (try #require(signer.verifyingKey), try #require(try PrivateKey.makeEd25519().verifyingKey))
        func plugin(_ main: String, tests: String? = "return {}") throws -> SuppliedPlugin {
            let bytes = try FleetDocument(
                FleetItem(.plugin, "gate"), version: 7, scope: .init(), .plugin(main: Array(main.utf8), tests: tests.map { Array($0.utf8) })).signed(with: signer)
            return try #require(try FleetDocument(verifying: bytes, id: "plugin:gate:7", trusting: [key]).plugin)
        }
        func problem(_ plugin: SuppliedPlugin, _ keys: VerifyingKey...) -> String? {
            PluginSignature.problem(plugin.document ?? [], of: plugin, trusting: keys)
        }
        var found = try plugin("return { a = 1 }")
        #expect(problem(found, key) == nil && problem(found, other, key) == nil)
        #expect(problem(found, other)?.contains("which fleet.keys does not name") == true)
        found.document = try plugin("return {}").document
        #expect(problem(found, key)?.contains("holds other files") == true)
        found.document = try plugin("return { a = 1 }", tests: nil).document
        #expect(problem(found, key)?.contains("holds other files") == true)
        found = try plugin("return {}")
        found.name = "other"
        #expect(problem(found, key)?.contains("does not count") == true)
        found.document = nil
        #expect(problem(found, key) == "is in no document of the fleet")
    }
}
