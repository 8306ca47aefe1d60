/// A connection that stays open for as long as this exists, whatever the server does.
package final class HeldConnection: Sendable {
    private let socket: Socket
    var descriptor: Int32 { socket.descriptor }

    init(_ socket: consuming Socket, sending bytes: [UInt8]) {
        self.socket = socket
        // The server may refuse before it has read everything.
        try? self.socket.send(bytes)
    }
}
