/// Many connections, each with one request whose answer never ends: lines keep coming, and the server may take its time between them.
package final class FeedProbe: Sendable {
    private struct Connection: ~Copyable, Sendable {
        let socket: Socket
    }

    private final class Feed: Sendable {
        let connection: Connection

        init(_ address: Socket.Address, sending bytes: [UInt8]) throws {
            connection = Connection(socket: try Socket(address))
            try connection.socket.send(bytes)
        }
    }

    private let feeds: [Feed]

    private init(_ feeds: [Feed]) { self.feeds = feeds }

    package static func open(_ count: Int, of target: String, at probe: HTTPProbe) async throws -> FeedProbe {
        let address = probe.address
        let request = Array("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        return try await offThread { FeedProbe(try (0..<count).map { _ in try Feed(address, sending: request) }) }
    }

    /// Reads on until a text has come this many more times on each connection.
    package func wait(for text: String, times: Int = 1) async throws {
        let (feeds, wanted) = (feeds, Array(text.utf8))
        let deadline = ContinuousClock.now + patience
        try await offThread {
            for feed in feeds {
                var count = 0
                var heard: [UInt8] = []
                while count < times {
                    let part = try feed.connection.socket.receive()
                    if part.isEmpty { throw SupportError("a feed ended after \(text) had come \(count) times") }
                    guard ContinuousClock.now < deadline else { throw SupportError("timed out after \(patience) waiting for this: \(text) comes \(times) times on each of \(feeds.count) feeds") }
                    heard += part
                    while let found = heard.firstRange(of: wanted) {
                        heard.removeSubrange(..<found.upperBound)
                        count += 1
                    }
                    heard.removeFirst(max(0, heard.count - wanted.count + 1))
                }
            }
        }
    }
}
