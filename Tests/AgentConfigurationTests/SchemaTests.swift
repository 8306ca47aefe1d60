import AgentConfiguration
import Testing

@Suite("The JSON Schema")
struct SchemaTests {
    @Test func isValidJSONAndContainsEveryKey() throws {
        let schema = try TestJSON.parse(ConfigurationSchema.json())
        let definitions = try #require(schema["definitions"])
        // Walk the schema from its root and collect what it describes.
        var paths: Set<String> = []
        func walk(_ node: TestJSON, _ path: String) throws {
            if let reference = node["$ref"]?.text {
                let name = String(reference.dropFirst("#/definitions/".count))
                return try walk(try #require(definitions[name], "\(reference) leads nowhere"), path)
            }
            for (name, value) in node["properties"]?.members ?? [] {
                let inner = path.isEmpty ? name : "\(path).\(name)"
                paths.insert(inner)
                #expect(value["description"]?.text?.isEmpty == false, "\(inner) is not described")
                try walk(value, inner)
            }
            for part in (node["allOf"]?.elements ?? []) + (node["anyOf"]?.elements ?? []) { try walk(part, path) }
            if let items = node["items"] { try walk(items, "\(path)[]") }
            if let values = node["additionalProperties"], values.members != nil { try walk(values, "\(path).NAME") }
        }
        try walk(schema, "")
        #expect(paths == Set(ConfigurationReference.keys().map(\.path)))
        for path in [
            "data", "admin.token", "log.domains.http", "databases.NAME.history.revisions", "databases.NAME.delta_sync.enabled",
            "listeners[].roots", "listeners[].identity.certificate", "replicators[].collections.NAME.conflict_resolver.shadow.params",
            "replicators[].authenticator.cookie", "plugin_limits.NAME.memory",
        ] {
            #expect(paths.contains(path), "\(path)")
        }
    }

    /// Every key that the sample uses must be in the schema, so that an editor does not underline it.
    @Test func knowsTheDefaultsOfTheReader() {
        let defaults = Dictionary(uniqueKeysWithValues: ConfigurationReference.keys().map { ($0.path, $0.key.defaultJSON) })
        #expect(defaults["admin.port"] == "4985")
        #expect(defaults["admin.address"] == "\"127.0.0.1\"")
        #expect(defaults["replicators[].heartbeat"] == "300")
        #expect(defaults["replicators[].type"] == "\"push_and_pull\"")
        #expect(defaults["listeners[].disable_tls"] == "false")
        #expect(defaults["databases.NAME.delta_sync"] == "true")
        #expect(defaults["listeners[].identity"] == .some(nil))
    }

    @Test func requiredKeysAreThoseThatTheReaderMisses() {
        let required = ConfigurationReference.keys().filter { $0.key.isRequired && $0.path.hasPrefix("replicators[].") && !$0.path.dropFirst(14).contains(".") }
        let missing = problems("replicators:\n  - continuous: true\n").filter { $0.message.contains("is missing") }
        #expect(required.count == missing.count)
        for key in required { #expect(missing.contains { $0.message.contains("\"\(key.path.dropFirst(14))\"") }) }
    }
}

/// A strict little JSON reader, so that the tests need no other.
indirect enum TestJSON {
    case null, bool(Bool), number(Double), string(String), array([TestJSON]), object([(String, TestJSON)])

    struct Invalid: Error { var offset: Int }

    var text: String? { if case .string(let text) = self { text } else { nil } }
    var elements: [TestJSON]? { if case .array(let elements) = self { elements } else { nil } }
    var members: [(String, TestJSON)]? { if case .object(let members) = self { members } else { nil } }
    subscript(key: String) -> TestJSON? { members?.first { $0.0 == key }?.1 }

    static func parse(_ text: String) throws -> TestJSON {
        var parser = Parser(bytes: Array(text.utf8))
        let value = try parser.value()
        parser.space()
        guard parser.index == parser.bytes.count else { throw Invalid(offset: parser.index) }
        return value
    }

    private struct Parser {
        let bytes: [UInt8]
        var index = 0

        var current: UInt8? { index < bytes.count ? bytes[index] : nil }

        mutating func space() { while let byte = current, [0x20, 0x0A, 0x0D, 0x09].contains(byte) { index += 1 } }

        mutating func expect(_ text: String) throws {
            guard bytes[index...].starts(with: text.utf8) else { throw Invalid(offset: index) }
            index += text.utf8.count
        }

        mutating func value() throws -> TestJSON {
            space()
            switch current {
            case UInt8(ascii: "n"): try expect("null"); return .null
            case UInt8(ascii: "t"): try expect("true"); return .bool(true)
            case UInt8(ascii: "f"): try expect("false"); return .bool(false)
            case UInt8(ascii: "\""): return .string(try string())
            case UInt8(ascii: "["):
                let elements = try sequence("[", "]") { try $0.value() }
                return .array(elements)
            case UInt8(ascii: "{"):
                let members = try sequence("{", "}") { parser in
                    parser.space()
                    let key = try parser.string()
                    parser.space()
                    try parser.expect(":")
                    return (key, try parser.value())
                }
                guard Set(members.map(\.0)).count == members.count else { throw Invalid(offset: index) }
                return .object(members)
            default:
                let start = index
                while let byte = current, "+-.eE0123456789".utf8.contains(byte) { index += 1 }
                guard let number = Double(String(decoding: bytes[start..<index], as: UTF8.self)) else { throw Invalid(offset: start) }
                return .number(number)
            }
        }

        mutating func sequence<Element>(_ open: String, _ close: String, _ element: (inout Parser) throws -> Element) throws -> [Element] {
            try expect(open)
            space()
            var elements: [Element] = []
            if bytes[index...].starts(with: close.utf8) { index += 1; return elements }
            while true {
                elements.append(try element(&self))
                space()
                if current == UInt8(ascii: ",") { index += 1; continue }
                try expect(close)
                return elements
            }
        }

        mutating func string() throws -> String {
            try expect("\"")
            var result: [UInt8] = []
            while let byte = current {
                index += 1
                switch byte {
                case UInt8(ascii: "\""): return String(decoding: result, as: UTF8.self)
                case UInt8(ascii: "\\"):
                    guard let escaped = current else { break }
                    index += 1
                    switch escaped {
                    case UInt8(ascii: "n"): result.append(0x0A)
                    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): result.append(escaped)
                    default: throw Invalid(offset: index)
                    }
                case 0..<0x20: throw Invalid(offset: index)
                default: result.append(byte)
                }
            }
            throw Invalid(offset: index)
        }
    }
}
