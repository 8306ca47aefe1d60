import Documents
import Encodings
import PluginHost
import TLS

/// Why a fleet document is not used.
public struct FleetRefusal: Error, Sendable, Equatable, CustomStringConvertible {
    public var reason: String
    public init(_ reason: String) { self.reason = reason }
    public var description: String { reason }
}

/// A plugin for a fleet, signed by whoever may change what gateways run.
///
/// It travels as a document of the collection `nightjar.fleet`, with the id `plugin:NAME:VERSION`. Each version is a document of its own, so
/// that two of them never conflict: each gateway uses the highest version that is valid for it, in whatever order they come. The signature
/// is over ``domain`` and the canonical JSON of the whole body but for `signature`, so that what carries it can neither alter nor reorder
/// anything, and cannot give it another name, version or scope. Whoever carries it can only withhold it.
public struct FleetDocument: Sendable, Equatable {
    /// Which gateways it is for; both lists empty: all.
    public struct Scope: Sendable, Equatable {
        public var ids: [String] = []
        public var labels: [String] = []

        public init(ids: [String] = [], labels: [String] = []) { (self.ids, self.labels) = (ids, labels) }

        public func covers(id: String, labels own: [String]) -> Bool {
            ids.isEmpty && labels.isEmpty || ids.contains(id) || labels.contains { own.contains($0) }
        }
    }

    public enum Limits {
        /// `fleet_document_bytes`: of one signed document.
        public static let documentBytes = 512 << 10
        /// `fleet_documents`: of the collection, that a gateway looks at.
        public static let documents = 10_000
        /// `fleet_refusals`: that a gateway reports.
        public static let refusals = 50
        /// `fleet_version`: the highest one.
        public static let version: Int64 = 1 << 53
    }

    public static let collection = "nightjar.fleet"
    /// Keeps a signature from meaning something elsewhere.
    private static let domain = Array("nightjar fleet 1\n".utf8)

    public var name: String
    public var version: Int64
    public var scope: Scope
    public var main: [UInt8]
    public var tests: [UInt8]?
    /// Who signed it, and what was signed with it.
    public private(set) var key: VerifyingKey?
    private var body: JSONValue?

    public init(name: String, version: Int64, scope: Scope, main: [UInt8], tests: [UInt8]?) {
        (self.name, self.version, self.scope, self.main, self.tests) = (name, version, scope, main, tests)
    }

    public static func id(name: String, version: Int64) -> String { "plugin:\(name):\(version)" }
    public var id: String { Self.id(name: name, version: version) }

    /// Name and version that an id claims; nil for other documents.
    public static func claim(_ id: String) -> (name: String, version: Int64)? {
        let parts = id.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, parts[0] == "plugin", SuppliedPlugin.isName(parts[1]), let version = Int64(parts[2]), String(version) == parts[2],
            (1...Limits.version).contains(version)
        else { return nil }
        return (parts[1], version)
    }

    /// The body with its signature.
    public func signed(with key: PrivateKey) throws -> [UInt8] {
        guard let text = String(validating: main, as: UTF8.self) else { throw FleetRefusal("\(name): the plugin is not UTF-8 text") }
        var content = JSONObject()
        content["main"] = .string(text)
        if let tests {
            guard let text = String(validating: tests, as: UTF8.self) else { throw FleetRefusal("\(name): the tests are not UTF-8 text") }
            content["tests"] = .string(text)
        }
        guard let public_ = key.verifyingKey else { throw FleetRefusal("an Ed25519 key is needed: nightjar fleet keygen FILE") }
        var object = JSONObject()
        object["kind"] = .string("plugin")
        object["name"] = .string(name)
        object["version"] = JSONOutput.number(version)
        object["ids"] = .array(scope.ids.map { .string($0) })
        object["labels"] = .array(scope.labels.map { .string($0) })
        object["key"] = .string("\(public_)")
        object["content"] = .object(content)
        guard Self.claim(id) != nil else { throw FleetRefusal("\"\(id)\": a plugin's name and a version from 1 to \(Limits.version) are needed") }
        let signature = try key.sign(try Self.message(object))
        object["signature"] = .string(Base64.encode(signature))
        let bytes = JSONValue.object(object).serialize()
        guard bytes.count <= Limits.documentBytes else {
            throw FleetRefusal("\(name): \(bytes.count) bytes are more than fleet_document_bytes (\(Limits.documentBytes))")
        }
        return bytes
    }

    private static func message(_ unsigned: JSONObject) throws -> [UInt8] {
        domain + (try CanonicalJSON.bytes(of: JSONValue.object(unsigned).serialize()))
    }

    /// Reads a body and believes it only if one of the keys has signed it.
    ///
    /// - Parameters:
    ///   - id: the document's; must be the one of the name and version that were signed.
    ///   - keys: nil to believe whoever it says has signed it, where only that it was signed matters.
    public init(verifying bytes: [UInt8], id: String, trusting keys: [VerifyingKey]?) throws(FleetRefusal) {
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
        let known: Set<String> = ["kind", "name", "version", "ids", "labels", "key", "content"]
        for member in object.members where !known.contains(member.key) { throw FleetRefusal("it says \"\(member.key)\", which this version does not know") }
        guard object["kind"]?.asString == "plugin" else { throw FleetRefusal("it is of a kind that this version does not know") }
        guard let name = object["name"]?.asString, let version = object["version"]?.asInt64, Self.id(name: name, version: version).utf8.elementsEqual(id.utf8),
            Self.claim(id) != nil
        else { throw FleetRefusal("its id is \(id), which is not the name and version that were signed") }
        func texts(_ key: String) -> [String]? {
            guard let list = object[key]?.asArray else { return nil }
            let texts = list.compactMap(\.asString)
            return texts.count == list.count ? texts : nil
        }
        guard let ids = texts("ids"), let labels = texts("labels"), let main = object["content"]?["main"]?.asString else {
            throw FleetRefusal("ids, labels or content.main are missing")
        }
        self.init(
            name: name, version: version, scope: Scope(ids: ids, labels: labels), main: Array(main.utf8),
            tests: (object["content"]?["tests"]?.asString).map { Array($0.utf8) })
        self.key = key
        body = json
    }

    /// As it was signed; nil of one that was not read.
    var signedBody: JSONValue? { body }
    var plugin: SuppliedPlugin { SuppliedPlugin(name: name, main: main, tests: tests) }
}
