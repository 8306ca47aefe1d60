import Documents

/// The small amount of JSON parsing that a transport needs: finding the reason in an error body.
enum ErrorBody {
    /// The string value of a key in the outermost object; nil if there is none, or the text is not such JSON.
    static func string(forKey key: String, in bytes: [UInt8]) -> String? {
        guard case .object(let object)? = try? JSONValue(parsing: bytes) else { return nil }
        return object[key]?.asString
    }
}
