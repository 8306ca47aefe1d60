import Documents

/// Helpers that build the JSON which commands and the admin API print.
package enum JSONOutput {
    /// An object with its members in the order given.
    package static func object(_ members: KeyValuePairs<String, JSONValue?>) -> JSONValue {
        .object(JSONObject(members.map { JSONObject.Member(key: $0.key, value: $0.value ?? .null) }))
    }

    package static func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
    package static func number(_ value: some BinaryInteger) -> JSONValue { .number(JSONNumber(value)) }
    package static func number(_ value: Double) -> JSONValue { JSONNumber(value).map { .number($0) } ?? .null }
}
