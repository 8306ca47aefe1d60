/// What is wrong with a principal table; nil if nothing is. Unknown keys are refused: a misspelt `read_only` must not grant write access.
func principalFault(_ principal: LuaValue) -> String? {
    guard case .object(let members) = principal else { return "that is not an object" }
    for member in members {
        switch member.key {
        case "name":
            guard let name = member.value.text, !name.isEmpty else {
                return "whose 'name' is a \(member.value.typeName), not a text"
            }
        case "read_only":
            guard member.value.bool != nil else { return "whose 'read_only' is a \(member.value.typeName), not a boolean" }
        case "channels", "roles", "collections":
            // An empty Lua table counts as an object unless it is marked as an array.
            if member.value == .object([]) { continue }
            guard case .array(let entries) = member.value, entries.allSatisfy({ $0.text != nil }) else {
                return "whose '\(member.key)' is not an array of texts"
            }
        default:
            return "with the unknown key '\(shown(member.key))' (known: name, read_only, channels, roles, collections)"
        }
    }
    return nil
}

/// The beginning of a key, on one line: a plugin may have put anything into it.
private func shown(_ key: String) -> String {
    let beginning = String(String.UnicodeScalarView(key.unicodeScalars.prefix(60)))
    return String(beginning.debugDescription.dropFirst().dropLast()) + (beginning.unicodeScalars.count < key.unicodeScalars.count ? "…" : "")
}
