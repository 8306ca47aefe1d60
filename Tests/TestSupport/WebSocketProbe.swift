import Digests
import Encodings
import Glibc
import Synchronization

/// A WebSocket client that sends whatever a test wants, right or wrong, and shows every frame that it receives.
package final class WebSocketProbe: Sendable {
    package struct Frame: Sendable, Equatable {
        package var opcode: UInt8
        package var isFinal: Bool
        package var payload: [UInt8]

        package init(opcode: UInt8, isFinal: Bool = true, payload: [UInt8]) {
            self.opcode = opcode
            self.isFinal = isFinal
            self.payload = payload
        }

        /// The code, if this is a CLOSE frame.
        package var closeCode: UInt16? {
            opcode == 8 && payload.count >= 2 ? UInt16(payload[0]) << 8 | UInt16(payload[1]) : nil
        }
    }

    /// The server did not upgrade.
    package struct Refused: Error, Sendable {
        package var answer: HTTPProbe.Answer
    }

    private struct Held: ~Copyable {
        var socket: Socket
        var bytes: [UInt8]
    }

    // Reading and writing are for one task of the test, one call at a time.
    private let held: Mutex<Held>
    /// The answer to the handshake.
    package let answer: HTTPProbe.Answer

    private init(_ socket: consuming Socket, _ bytes: [UInt8], _ answer: HTTPProbe.Answer) {
        held = Mutex(Held(socket: socket, bytes: bytes))
        self.answer = answer
    }

    /// Connects and does the handshake.
    ///
    /// - Throws: ``Refused`` with the answer if its status is not 101.
    package static func connect(
        _ host: String = "127.0.0.1", port: Int, path: String, protocols: String? = "BLIP_3+CBMobile_3", headers: [(String, String)] = []
    ) async throws -> WebSocketProbe {
        var head = "GET \(path) HTTP/1.1\r\nHost: \(host):\(port)\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \(Base64.encode(try randomBytes(16)))\r\n"
        if let protocols { head += "Sec-WebSocket-Protocol: \(protocols)\r\n" }
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        let request = Array((head + "\r\n").utf8)
        return try await offThread {
            let socket = try Socket(.tcp(host: host, port: port))
            try socket.send(request)
            var bytes: [UInt8] = []
            while bytes.headEnd == nil {
                let part = try socket.receive()
                if part.isEmpty { throw SupportError("the connection was closed before the answer") }
                bytes += part
            }
            let end = bytes.headEnd.map { $0 + 4 } ?? bytes.count
            // The body of a refusal may arrive after its header.
            if !bytes.starts(with: Array("HTTP/1.1 101 ".utf8)) { throw Refused(answer: try Self.rest(of: bytes, socket)) }
            let answer = try HTTPProbe.parse(Array(bytes[..<end]))
            return WebSocketProbe(socket, Array(bytes[end...]), answer)
        }
    }

    private static func rest(of bytes: [UInt8], _ socket: borrowing Socket) throws -> HTTPProbe.Answer {
        var bytes = bytes
        while true {
            if let answer = try? HTTPProbe.parse(bytes) { return answer }
            let part = try socket.receive()
            if part.isEmpty { return try HTTPProbe.parse(bytes) }
            bytes += part
        }
    }

    /// Sends one frame, masked as a client's must be unless `isMasked` is false.
    package func send(_ payload: [UInt8], opcode: UInt8 = 2, isFinal: Bool = true, isMasked: Bool = true) async throws {
        var bytes: [UInt8] = [(isFinal ? 0x80 : 0) | opcode]
        let mask: UInt8 = isMasked ? 0x80 : 0
        switch payload.count {
        case ..<126: bytes.append(mask | UInt8(payload.count))
        case ..<65_536: bytes += [mask | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [mask | 127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: payload.count >> ($0 * 8)) }
        }
        if isMasked {
            let key = try randomBytes(4)
            bytes += key
            bytes += payload.enumerated().map { $1 ^ key[$0 & 3] }
        } else {
            bytes += payload
        }
        try await sendRaw(bytes)
    }

    /// Sends bytes as they are.
    package func sendRaw(_ bytes: [UInt8]) async throws {
        try await offThread { try self.held.withLock { try $0.socket.send(bytes) } }
    }

    /// Sends as much as the server takes, without waiting or reading what it says.
    package func pour(_ bytes: [UInt8]) -> Outflow { Outflow(bytes, into: held.withLock { $0.socket.descriptor }, of: self) }

    /// The next frame; nil at the end of the connection.
    package func receive() async throws -> Frame? {
        try await offThread {
            try self.held.withLock { held in
                while true {
                    if let (frame, length) = Self.frame(held.bytes) {
                        held.bytes.removeFirst(length)
                        return frame
                    }
                    let part = try held.socket.receive()
                    if part.isEmpty { return nil }
                    held.bytes += part
                }
            }
        }
    }

    /// Whether the peer has not closed its side of the connection, even if something that it sent is still unread.
    package var isOpen: Bool {
        // POLLRDHUP, which the headers define for GNU sources only.
        var state = pollfd(fd: held.withLock { $0.socket.descriptor }, events: 0x2000, revents: 0)
        return poll(&state, 1, 0) == 0
    }

    /// Reads until the peer closes, without answering anything.
    ///
    /// - Returns: the code of its CLOSE frame; nil if the connection ended without one.
    package func closeCode() async throws -> UInt16? {
        while let frame = try await receive() {
            if frame.opcode == 8 { return frame.closeCode ?? 1005 }
        }
        return nil
    }

    private static func frame(_ bytes: [UInt8]) -> (Frame, Int)? {
        guard bytes.count >= 2 else { return nil }
        var length = Int(bytes[1] & 0x7F)
        var at = 2
        if length == 126 {
            guard bytes.count >= 4 else { return nil }
            length = Int(bytes[2]) << 8 | Int(bytes[3])
            at = 4
        } else if length == 127 {
            guard bytes.count >= 10 else { return nil }
            length = bytes[2..<10].reduce(0) { $0 << 8 | Int($1) }
            at = 10
        }
        guard bytes.count >= at + length else { return nil }
        return (Frame(opcode: bytes[0] & 0x0F, isFinal: bytes[0] & 0x80 != 0, payload: Array(bytes[at..<(at + length)])), at + length)
    }
}
