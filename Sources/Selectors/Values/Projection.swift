import Documents

/// Selected fields of a document, at their original positions.
package enum Projection {
    package static func of(_ document: JSONValue, _ paths: [FieldPath]) -> JSONValue {
        var result = JSONObject()
        for path in paths {
            guard let value = path.value(in: document) else { continue }
            set(value, at: path.names[...], in: &result)
        }
        return .object(result)
    }

    private static func set(_ value: JSONValue, at names: ArraySlice<String>, in object: inout JSONObject) {
        guard let name = names.first else { return }
        guard names.count > 1 else {
            object[name] = value
            return
        }
        var inner = object[name]?.asObject ?? JSONObject()
        set(value, at: names.dropFirst(), in: &inner)
        object[name] = .object(inner)
    }
}
