import Documents

/// Parses the operators that test one value.
enum OperatorReader {
    static func test(_ name: String, _ argument: JSONValue) throws(SelectorError) -> Test {
        if let comparison = Comparison(rawValue: name) { return .compared(comparison, argument) }
        switch name {
        case "$in", "$nin", "$all":
            guard let items = argument.asArray else { throw .badArgument(name, "a list", argument.text) }
            if name == "$all" { return .hasAll(items) }
            return name == "$in" ? .among(ValueSet(items)) : .not(.among(ValueSet(items)))
        case "$exists":
            guard let exists = argument.asBool else { throw .badArgument(name, "true or false", argument.text) }
            return .exists(exists)
        case "$type":
            guard let type = argument.asString else { throw .badArgument(name, "a type's name", argument.text) }
            return .type(type)
        case "$mod": return try remainder(argument)
        case "$size":
            guard let size = whole(argument), size >= 0 else { throw .badArgument(name, "an integer that is not negative", argument.text) }
            return .size(Int(clamping: size))
        case "$beginsWith":
            guard let text = argument.asString else { throw .badArgument(name, "a string", argument.text) }
            return .beginsWith(text)
        case "$regex":
            guard let text = argument.asString else { throw .badArgument(name, "a string", argument.text) }
            return .matches(try Pattern(text))
        case "$text", "$default", "$where", "$geoWithin", "$geoIntersects", "$near", "$nearSphere":
            throw SelectorError("not_supported", "Unsupported operator: \(name)")
        default: throw SelectorError("invalid_operator", "Invalid operator: \(SelectorError.cut(name))")
        }
    }

    private static func remainder(_ argument: JSONValue) throws(SelectorError) -> Test {
        guard let items = argument.asArray, items.count == 2, let divisor = whole(items[0]), let remainder = whole(items[1]), divisor != 0 else {
            throw .badArgument("$mod", "[DIVISOR, REMAINDER], integers, the first of them not 0", argument.text)
        }
        return .remainder(divisor: divisor, remainder)
    }

    /// The value if it is written as an integer.
    private static func whole(_ value: JSONValue) -> Int64? { value.asNumber.flatMap { Int64($0.text) } }
}
