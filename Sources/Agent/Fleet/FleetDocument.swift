import AgentConfiguration
import Documents
import Encodings
import PluginHost
import TLS

/// Why a fleet document is not used.
package struct FleetRefusal: Error, Sendable, Equatable, CustomStringConvertible {
    /// What has to change before the document is tried again.
    package enum Cause: Sendable, Equatable {
        /// The document itself, or the keys that this agent trusts.
        case document
        /// This agent's configuration, or the contents of its plugins folder.
        case agent
        /// Something transient: a full disk, an overloaded machine.
        case passing
    }

    package var reason: String
    package var cause: Cause
    package init(_ reason: String, _ cause: Cause = .document) { (self.reason, self.cause) = (reason, cause) }
    package var description: String { reason }
}

/// A plugin or a configuration fragment for a fleet, or the withdrawal of one, signed by somebody who may change what gateways run.
///
/// It travels as a document of the collection `nightjar.fleet`, with the id `plugin:NAME:VERSION` or `config:NAME:VERSION`. Each version is a
/// separate document, so that two versions never conflict: each gateway uses the highest version that is valid for it, in whatever order they arrive.
/// The signature covers ``domain`` and the canonical JSON of the whole body except `signature`, so that an intermediary can neither alter nor reorder
/// anything, nor change the name, version or scope. All it can do is withhold the document.
package struct FleetDocument: Sendable, Equatable {
    /// Which gateways it is for; if both lists are empty, all of them.
    package struct Scope: Sendable, Equatable {
        package var ids: [String] = []
        package var labels: [String] = []

        package init(ids: [String] = [], labels: [String] = []) { (self.ids, self.labels) = (ids, labels) }

        package func covers(id: String, labels own: [String]) -> Bool {
            ids.isEmpty && labels.isEmpty || ids.contains(id) || labels.contains { own.contains($0) }
        }
    }

    package enum Content: Sendable, Equatable {
        case plugin(main: [UInt8], tests: [UInt8]?)
        /// YAML.
        case config([UInt8])
        /// Gateways go back to what they have themselves. A withdrawal has a version like any other document, so that nothing older takes effect
        /// again.
        case withdrawn
    }

    package enum Limits {
        /// `fleet_document_bytes`: size of one signed document.
        package static let documentBytes = 512 << 10
        /// `fleet_documents`: documents of the collection that a gateway examines.
        package static let documents = 10_000
        /// `fleet_refusals`: refusals that a gateway reports.
        package static let refusals = 50
        /// `fleet_version`: the highest possible version.
        package static let version: Int64 = 1 << 53
    }

    package static let collection = "nightjar.fleet"
    /// Prevents a signature from being valid in any other context.
    private static let domain = Array("nightjar fleet 1\n".utf8)

    package var item: FleetItem
    package var version: Int64
    package var scope: Scope
    package var content: Content
    /// The key that signed it, and the body that was signed.
    package private(set) var key: VerifyingKey?
    private var body: JSONValue?

    package init(_ item: FleetItem, version: Int64, scope: Scope, _ content: Content) {
        (self.item, self.version, self.scope, self.content) = (item, version, scope, content)
    }

    package var id: String { item.id(version) }

    /// The body with its signature.
    package func signed(with key: PrivateKey) throws -> [UInt8] {
        func text(_ bytes: [UInt8], _ what: String) throws -> JSONValue {
            guard let text = String(validating: bytes, as: UTF8.self) else { throw FleetRefusal("\(item.name): \(what) not UTF-8 text") }
            return .string(text)
        }
        var members = JSONObject()
        switch content {
        case .plugin(let main, let tests):
            members["main"] = try text(main, "the plugin is")
            if let tests { members["tests"] = try text(tests, "the tests are") }
        case .config(let yaml): members["yaml"] = try text(yaml, "the configuration is")
        case .withdrawn: members["withdrawn"] = true
        }
        guard let public_ = key.verifyingKey else { throw FleetRefusal("an Ed25519 key is needed: nightjar fleet keygen FILE") }
        var object = JSONObject()
        object["kind"] = .string(item.kind.rawValue)
        object["name"] = .string(item.name)
        object["version"] = JSONOutput.number(version)
        object["ids"] = .array(scope.ids.map { .string($0) })
        object["labels"] = .array(scope.labels.map { .string($0) })
        object["key"] = .string("\(public_)")
        object["content"] = .object(members)
        guard FleetItem.claim(id) != nil else { throw FleetRefusal("\"\(id)\": a plugin's name and a version from 1 to \(Limits.version) are needed") }
        let signature = try key.sign(try Self.message(object))
        object["signature"] = .string(Base64.encode(signature))
        let bytes = JSONValue.object(object).serialize()
        guard bytes.count <= Limits.documentBytes else {
            throw FleetRefusal("\(item.name): \(bytes.count) bytes are more than fleet_document_bytes (\(Limits.documentBytes))")
        }
        return bytes
    }

    private static func message(_ unsigned: JSONObject) throws -> [UInt8] {
        domain + (try CanonicalJSON.bytes(of: JSONValue.object(unsigned).serialize()))
    }

    /// Reads a body, and accepts it only if one of the keys has signed it.
    ///
    /// - Parameters:
    ///   - id: the document's id, which must match the signed name and version.
    ///   - keys: nil to accept the key that the document names, where it only matters that it was signed.
    package init(verifying bytes: [UInt8], id: String, trusting keys: [VerifyingKey]?) throws(FleetRefusal) {
        guard bytes.count <= Limits.documentBytes else {
            throw FleetRefusal("\(bytes.count) bytes are more than fleet_document_bytes (\(Limits.documentBytes))")
        }
        guard let json = try? JSONValue(parsing: bytes), case .object(var object) = json else { throw FleetRefusal("it is not a JSON object") }
        guard let signature = object["signature"]?.asString.flatMap({ Base64.decode($0) }) else { throw FleetRefusal("it is not signed") }
        object["signature"] = nil
        guard let key = object["key"]?.asString.flatMap({ VerifyingKey($0) }) else { throw FleetRefusal("it does not say who signed it") }
        guard keys?.contains(key) ?? true else { throw FleetRefusal("it is signed with \(key), which fleet.keys does not name") }
        guard let message = try? Self.message(object), key.accepts(signature, of: message) else {
            throw FleetRefusal("its signature is wrong: it was altered, or \(key) has not signed it")
        }
        try Self.refuseUnknown(object, ["kind", "name", "version", "ids", "labels", "key", "content"])
        guard let kind = object["kind"]?.asString.flatMap({ FleetItem.Kind(rawValue: $0) }) else {
            throw FleetRefusal("it is of a kind that this version does not know")
        }
        guard let name = object["name"]?.asString, let version = object["version"]?.asInt64, let claim = FleetItem.claim(id),
            claim.version == version, claim.item == FleetItem(kind, name), claim.item.id(version).utf8.elementsEqual(id.utf8)
        else { throw FleetRefusal("its id is \(id), which is not the name and version that were signed") }
        func texts(_ key: String) -> [String]? {
            guard let list = object[key]?.asArray else { return nil }
            let texts = list.compactMap(\.asString)
            return texts.count == list.count ? texts : nil
        }
        guard let ids = texts("ids"), let labels = texts("labels"), case .object(let members)? = object["content"] else {
            throw FleetRefusal("ids, labels or content are missing")
        }
        self.init(claim.item, version: version, scope: Scope(ids: ids, labels: labels), try Self.content(members, kind))
        self.key = key
        body = json
    }

    private static func content(_ members: JSONObject, _ kind: FleetItem.Kind) throws(FleetRefusal) -> Content {
        if let withdrawn = members["withdrawn"] {
            try refuseUnknown(members, ["withdrawn"])
            guard withdrawn == true else { throw FleetRefusal("content.withdrawn is something other than true") }
            return .withdrawn
        }
        func text(_ key: String) throws(FleetRefusal) -> [UInt8] {
            guard let text = members[key]?.asString else { throw FleetRefusal("content.\(key) is missing") }
            return Array(text.utf8)
        }
        switch kind {
        case .plugin:
            try refuseUnknown(members, ["main", "tests"])
            return .plugin(main: try text("main"), tests: members["tests"] == nil ? nil : try text("tests"))
        case .config:
            try refuseUnknown(members, ["yaml"])
            return .config(try text("yaml"))
        }
    }

    /// Everything in a signed document is there for a reason, so an unknown member must not be ignored.
    private static func refuseUnknown(_ object: JSONObject, _ known: Set<String>) throws(FleetRefusal) {
        for member in object.members where !known.contains(member.key) { throw FleetRefusal("it says \"\(member.key)\", which this version does not know") }
    }

    /// As it was signed; nil for a document that was not parsed.
    var signedBody: JSONValue? { body }

    package var isWithdrawal: Bool { content == .withdrawn }

    var plugin: SuppliedPlugin? {
        guard case .plugin(let main, let tests) = content else { return nil }
        return SuppliedPlugin(name: item.name, main: main, tests: tests, document: body?.serialize())
    }

    package var fragment: ConfigurationFragment? {
        guard case .config(let text) = content else { return nil }
        return ConfigurationFragment(name: item.name, version: version, text: text)
    }
}
