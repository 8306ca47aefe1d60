import Documents

/// How an event of `/api/events` is written, behind the line of its `id`.
enum EventText {
    /// Shows that the connection lives; no event.
    static let comment = Array(": \n\n".utf8)

    static func event(_ name: String, _ data: JSONValue) -> [UInt8] { event(name, data.serialize()) }
    static func event(_ name: String, _ data: [UInt8]) -> [UInt8] { Array("event: \(name)\ndata: ".utf8) + data + Array("\n\n".utf8) }
}
