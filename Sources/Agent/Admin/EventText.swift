import Documents

/// The wire format of an event of `/api/events`, after its `id` line.
enum EventText {
    /// Keeps the connection alive; not an event.
    static let comment = Array(": \n\n".utf8)

    static func event(_ name: String, _ data: JSONValue) -> [UInt8] { event(name, data.serialize()) }
    static func event(_ name: String, _ data: [UInt8]) -> [UInt8] { Array("event: \(name)\ndata: ".utf8) + data + Array("\n\n".utf8) }
}
