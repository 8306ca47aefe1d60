import LuaRuntime

extension ParameterDeclarations {
    /// What is wrong with the parameters of one use; empty if nothing is.
    func problems(in params: LuaValue) -> [ParameterProblem] {
        guard let members = Self.members(of: params) else {
            return [ParameterProblem(parameter: "params", message: "params must be an object, not \(params.typeName)")]
        }
        var problems: [ParameterProblem] = []
        for member in members {
            guard let declaration = self[member.key] else {
                let names = all.map(\.name)
                problems.append(ParameterProblem(
                    parameter: member.key,
                    message: "unknown parameter \"\(member.key)\": "
                        + (names.isEmpty ? "this plugin takes none" : "expected \(names.joined(separator: ", "))"),
                    nearest: PluginName.nearest(to: member.key, among: names)))
                continue
            }
            if let problem = declaration.problem(with: member.value) { problems.append(problem) }
        }
        for declaration in all where declaration.isRequired && !members.contains(where: { $0.key.utf8.elementsEqual(declaration.name.utf8) }) {
            problems.append(ParameterProblem(
                parameter: declaration.name,
                message: "missing parameter \"\(declaration.name)\" (\(declaration.kind.rawValue))"
                    + (declaration.doc.map { ": \($0)" } ?? "")))
        }
        return problems
    }

    /// Parameters that have passed `problems(in:)`, with defaults filled in.
    func completed(_ params: LuaValue) -> [LuaMember] {
        var members = Self.members(of: params) ?? []
        for index in members.indices {
            switch (self[members[index].key]?.kind, members[index].value) {
            case (.array, .object): members[index].value = .array([])
            case (.table, .array): members[index].value = .object([])
            default: break
            }
        }
        for declaration in all
        where declaration.defaultValue != .missing && !members.contains(where: { $0.key.utf8.elementsEqual(declaration.name.utf8) }) {
            members.append(LuaMember(key: declaration.name, value: declaration.defaultValue))
        }
        return members
    }

    private static func members(of params: LuaValue) -> [LuaMember]? {
        switch params {
        case .object(let members): members
        case .missing, .null: []
        case .array(let items) where items.isEmpty: []
        default: nil
        }
    }
}

extension ParameterDeclaration {
    fileprivate func problem(with value: LuaValue) -> ParameterProblem? {
        guard kind.accepts(value) else {
            return ParameterProblem(
                parameter: name, message: "parameter \"\(name)\" must be \(Self.article(kind)), not \(value.shortText)")
        }
        if let allowed, !allowed.contains(value) {
            let texts = allowed.map(\.shortText)
            let nearest = value.text.flatMap { PluginName.nearest(to: $0, among: allowed.compactMap(\.text)) }
            return ParameterProblem(
                parameter: name, message: "parameter \"\(name)\" is \(value.shortText); expected one of \(texts.joined(separator: ", "))",
                nearest: nearest)
        }
        return nil
    }

    private static func article(_ kind: Kind) -> String {
        switch kind {
        case .integer: "an integer"
        case .array: "a list"
        case .table: "an object"
        case .file: "the path of a file"
        default: "a \(kind.rawValue)"
        }
    }
}

extension LuaValue {
    /// The value as an error shows it.
    var shortText: String {
        switch self {
        case .string(let bytes): "\"" + String(decoding: bytes.prefix(40), as: UTF8.self) + (bytes.count > 40 ? "…\"" : "\"")
        case .integer(let value): String(value)
        case .number(let value): String(value)
        case .bool(let value): String(value)
        default: typeName
        }
    }
}
