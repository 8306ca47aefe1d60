import Documents

/// The little JSON that a transport needs: to find the reason in an error body.
enum ErrorBody {
    /// The string value of a key of the outermost object; nil if it is not there or the text is no such JSON.
    static func string(forKey key: String, in bytes: [UInt8]) -> String? {
        guard case .object(let object)? = try? JSONValue(parsing: bytes) else { return nil }
        return object[key]?.asString
    }
}
