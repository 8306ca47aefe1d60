import AgentConfiguration
import Documents
import Encodings
import PluginHost
import TLS

/// The signature of a plugin in the plugins folder, with the same kind of key as for fleet documents.
package enum PluginSignature {
    /// The contents of a signature file.
    package static func make(of message: [UInt8], with key: PrivateKey) throws -> [UInt8] {
        guard let verifying = key.verifyingKey else { throw AgentError(.invalid, "an Ed25519 key is needed: nightjar fleet keygen FILE") }
        let signature = try key.sign(message)
        return JSONOutput.object(["key": .string("\(verifying)"), "signature": .string(Base64.encode(signature))]).serialize() + [UInt8(ascii: "\n")]
    }

    /// Why the signature is not valid; nil if it is.
    static func problem(_ file: [UInt8], of message: [UInt8], trusting keys: [VerifyingKey]) -> String? {
        guard let json = try? JSONValue(parsing: file), let key = json["key"]?.asString.flatMap({ VerifyingKey($0) }),
            let signature = json["signature"]?.asString.flatMap({ Base64.decode($0) })
        else { return "is not a signature: expected JSON with \"key\" and \"signature\"" }
        guard keys.contains(key) else { return "is by \(key), which fleet.keys does not name" }
        return key.accepts(signature, of: message) ? nil : "does not fit: a file of the plugin was changed since it was signed, or \(key) has not signed it"
    }

    /// The same for the fleet document with which a plugin was delivered.
    static func problem(_ document: [UInt8], of plugin: SuppliedPlugin, trusting keys: [VerifyingKey]) -> String? {
        guard let version = (try? JSONValue(parsing: document))?["version"]?.asInt64 else { return "is in no document of the fleet" }
        do throws(FleetRefusal) {
            let found = try FleetDocument(verifying: document, id: FleetItem(.plugin, plugin.name).id(version), trusting: keys)
            guard found.content == .plugin(main: plugin.main, tests: plugin.tests) else { return "is in a document of the fleet that holds other files" }
            return nil
        } catch { return "is in a document of the fleet that does not count: \(error.reason)" }
    }
}

extension AgentSettings {
    /// The keys of which one must sign each file in the plugins folder; nil if no signatures are needed.
    package var pluginSeal: PluginSeal? {
        guard let fleet, fleet.requiresSigned else { return nil }
        let keys = fleet.keys.compactMap { VerifyingKey($0.value) }
        return PluginSeal(
            problem: { PluginSignature.problem($0, of: $1, trusting: keys) }, suppliedProblem: { PluginSignature.problem($0, of: $1, trusting: keys) })
    }
}
