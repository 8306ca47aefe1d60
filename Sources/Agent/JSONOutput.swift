import Documents

/// Short ways to build the JSON that commands and the admin API print.
public enum JSONOutput {
    /// An object with its members in the order given.
    public static func object(_ members: KeyValuePairs<String, JSONValue?>) -> JSONValue {
        .object(JSONObject(members.map { JSONObject.Member(key: $0.key, value: $0.value ?? .null) }))
    }

    public static func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
    public static func number(_ value: some BinaryInteger) -> JSONValue { .number(JSONNumber(value)) }
    public static func number(_ value: Double) -> JSONValue { JSONNumber(value).map { .number($0) } ?? .null }
}
