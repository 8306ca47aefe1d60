import LuaRuntime

/// A parameter that a plugin declares: `name = { type = "string", required = true, default = …, enum = {…}, doc = "…" }`.
package struct ParameterDeclaration: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        case string
        case number
        case integer
        case boolean
        /// An object with any members.
        case table
        case array
        /// A path in the configuration; the plugin gets the file's text.
        case file

        func accepts(_ value: LuaValue) -> Bool {
            switch (self, value) {
            case (.string, .string), (.file, .string), (.number, .integer), (.number, .number), (.integer, .integer),
                (.boolean, .bool), (.table, .object), (.array, .array):
                true
            // In Lua, an empty list cannot be distinguished from an empty object.
            case (.array, .object(let members)): members.isEmpty
            case (.table, .array(let items)): items.isEmpty
            default: false
            }
        }
    }

    package var name: String
    package var kind: Kind
    package var isRequired: Bool
    /// `.missing` if none is declared.
    package var defaultValue: LuaValue
    /// The allowed values; nil for any.
    package var allowed: [LuaValue]?
    package var doc: String?
}

/// All parameters of a plugin, ordered by name.
struct ParameterDeclarations: Sendable, Equatable {
    var all: [ParameterDeclaration] = []

    subscript(name: String) -> ParameterDeclaration? { all.first { $0.name.utf8.elementsEqual(name.utf8) } }

    /// Reads `params` from the plugin's table. The problem's text begins with the parameter's name.
    init(_ declared: LuaValue) throws(ParameterProblem) {
        switch declared {
        case .missing: return
        case .array(let items) where items.isEmpty: return
        case .object(let members):
            for member in members { all.append(try Self.read(member.key, member.value)) }
            all.sort { $0.name < $1.name }
        default:
            throw ParameterProblem(parameter: "params", message: "params must be a table of declarations, not \(declared.typeName)")
        }
    }

    private static func read(_ name: String, _ value: LuaValue) throws(ParameterProblem) -> ParameterDeclaration {
        func problem(_ message: String, nearest: String? = nil) -> ParameterProblem {
            ParameterProblem(parameter: name, message: "params.\(name): \(message)", nearest: nearest)
        }
        guard case .object(let members) = value else {
            throw problem("the declaration must be a table such as { type = \"string\" }, not \(value.typeName)")
        }
        let known = ["type", "required", "default", "doc", "enum"]
        for member in members where !known.contains(member.key) {
            throw problem("a declaration has no \"\(member.key)\"", nearest: PluginName.nearest(to: member.key, among: known))
        }
        let kinds = ParameterDeclaration.Kind.allCases.map(\.rawValue)
        guard let type = value["type"].text else { throw problem("type is missing; expected one of \(kinds.joined(separator: ", "))") }
        guard let kind = ParameterDeclaration.Kind(rawValue: type) else {
            throw problem("type \"\(type)\" is not one of \(kinds.joined(separator: ", "))", nearest: PluginName.nearest(to: type, among: kinds))
        }
        let required: Bool
        switch value["required"] {
        case .missing: required = false
        case .bool(let flag): required = flag
        default: throw problem("required must be true or false, not \(value["required"].typeName)")
        }
        let doc: String?
        switch value["doc"] {
        case .missing: doc = nil
        case .string: doc = value["doc"].text
        default: throw problem("doc must be a string, not \(value["doc"].typeName)")
        }
        var allowed: [LuaValue]?
        switch value["enum"] {
        case .missing: break
        case .array(let items) where !items.isEmpty:
            for item in items where !kind.accepts(item) { throw problem("enum holds a \(item.typeName) but type is \(type)") }
            allowed = items
        default: throw problem("enum must be a list of values")
        }
        let defaultValue = value["default"]
        if defaultValue != .missing {
            if required { throw problem("a required parameter cannot have a default") }
            guard kind.accepts(defaultValue) else { throw problem("default is a \(defaultValue.typeName) but type is \(type)") }
            if let allowed, !allowed.contains(defaultValue) { throw problem("default is not in enum") }
        }
        return ParameterDeclaration(
            name: name, kind: kind, isRequired: required, defaultValue: defaultValue, allowed: allowed, doc: doc)
    }
}
