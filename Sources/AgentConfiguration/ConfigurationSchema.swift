import Encodings

/// The JSON Schema of a configuration, derived from the tables that are used to read it.
package enum ConfigurationSchema {
    /// `nightjar config schema`: JSON Schema draft 7, which editors' YAML plugins support.
    package static func json() -> String {
        var definitions: [(String, JSON)] = [
            ("expansion", .object([
                ("type", .string("string")), ("pattern", .string("\\$\\{.+\\}")),
                ("description", .string("An environment variable ${NAME}, a file ${file:PATH} or a systemd credential ${credential:NAME}.")),
            ])),
        ]
        var known: Set<String> = ["expansion"]
        define(AgentSettings.shape, &definitions, &known)
        let schema = JSON.object([
            ("$schema", .string("http://json-schema.org/draft-07/schema#")),
            ("title", .string("nightjar.yaml")),
            ("$ref", .string("#/definitions/\(AgentSettings.sectionName)")),
            ("definitions", .object(definitions)),
        ])
        return schema.text() + "\n"
    }

    private static func define(_ section: SectionShape, _ definitions: inout [(String, JSON)], _ known: inout Set<String>) {
        guard known.insert(section.name).inserted else { return }
        let keys = section.keys()
        let place = definitions.count
        definitions.append((section.name, .null))
        var properties: [(String, JSON)] = []
        for key in keys {
            var members: [(String, JSON)] = [("description", .string(key.documentation))]
            if let value = key.defaultJSON { members.append(("default", .raw(value))) }
            members += schema(key.shape).members
            properties.append((key.name, .object(members)))
            for nested in key.shape.sections { define(nested, &definitions, &known) }
        }
        let required = keys.filter(\.isRequired).map { JSON.string($0.name) }
        definitions[place].1 = .object(
            [("type", section.mayBeEmpty ? .array([.string("object"), .string("null")]) : .string("object")), ("additionalProperties", .raw("false"))]
                + (required.isEmpty ? [] : [("required", .array(required))])
                + [("properties", .object(properties))])
    }

    private static func schema(_ shape: Shape) -> JSON {
        let expansion = JSON.object([("$ref", .string("#/definitions/expansion"))])
        func orExpansion(_ members: [(String, JSON)]) -> JSON { .object([("anyOf", .array([.object(members), expansion]))]) }
        switch shape {
        case .text(nil), .secret:
            return .object([("type", .string("string"))])
        case .text(let pattern?):
            return orExpansion([("type", .string("string")), ("pattern", .string(pattern))])
        case .integer(let range):
            return orExpansion([
                ("type", .string("integer")), ("minimum", .raw(String(range.lowerBound))), ("maximum", .raw(String(range.upperBound))),
            ])
        case .byteSize(let range):
            return .object([
                ("anyOf", .array([
                    .object([
                        ("type", .string("integer")), ("minimum", .raw(String(range.lowerBound))),
                        ("maximum", .raw(String(range.upperBound))),
                    ]),
                    .object([("type", .string("string")), ("pattern", .string("^[0-9]+ *([KMG]i)?B$"))]),
                    expansion,
                ]))
            ])
        case .boolean:
            return orExpansion([("type", .string("boolean"))])
        case .choice(let words):
            return orExpansion([("enum", .array(words.map { .string($0) }))])
        case .list(let element, let minimum):
            return .object(
                [("type", minimum == 0 ? .array([.string("array"), .string("null")]) : .string("array")), ("items", schema(element))]
                    + (minimum > 0 ? [("minItems", .raw(String(minimum)))] : []))
        case .map(let pattern, let value):
            return .object(
                [("type", .array([.string("object"), .string("null")]))]
                    + (pattern.map { [("propertyNames", .object([("pattern", .string($0))]))] } ?? [])
                    + [("additionalProperties", schema(value))])
        case .section(let section):
            // Draft 7 ignores siblings of $ref; with allOf, the description next to it is kept.
            return .object([("allOf", .array([.object([("$ref", .string("#/definitions/\(section.name)"))])]))])
        case .anyOf(let shapes):
            return .object([("anyOf", .array(shapes.map(schema)))])
        case .params:
            return .object([("type", .array([.string("object"), .string("null")]))])
        }
    }
}

/// JSON to be written, with members in order.
private indirect enum JSON {
    case null
    case string(String)
    /// Already JSON.
    case raw(String)
    case array([JSON])
    case object([(String, JSON)])

    var members: [(String, JSON)] {
        if case .object(let members) = self { members } else { [] }
    }

    func text(_ indent: String = "") -> String {
        let inner = indent + "  "
        switch self {
        case .null: return "null"
        case .string(let text): return JSONString.quoted(text)
        case .raw(let text): return text
        case .array(let elements):
            if elements.isEmpty { return "[]" }
            return "[" + elements.map { $0.text(indent) }.joined(separator: ", ") + "]"
        case .object(let members):
            if members.isEmpty { return "{}" }
            let lines = members.map { "\(inner)\(JSONString.quoted($0.0)): \($0.1.text(inner))" }
            return "{\n" + lines.joined(separator: ",\n") + "\n\(indent)}"
        }
    }
}
