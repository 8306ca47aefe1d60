/// Limits of the BLIP dialect that are the same for every connection.
enum BLIPBounds {
    /// Bytes of a message's properties, in addition to its body.
    static let propertiesBytes = 102_400 + 16
    /// JSON values allowed in an answer per row: mostly ancestors, of which peers name about twenty.
    static let valuesPerAnswer = 100
    /// JSON values allowed in a request beside those that it is about.
    static let otherValues = 100
    /// `wire_log_properties`, `wire_log_body`: bytes of a message's properties and of its body that are logged in one line.
    static let loggedPropertyBytes = 1_000
    static let loggedBodyBytes = 2_000
}
