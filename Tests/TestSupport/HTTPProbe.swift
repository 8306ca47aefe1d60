import Documents
import Glibc

/// A small HTTP client that makes one connection per request and shares no code with what it tests.
package struct HTTPProbe: Sendable {
    package struct Answer: Sendable, CustomStringConvertible {
        package var status: Int
        /// In the order received, with names in lower case.
        package var headers: [(name: String, value: String)]
        package var body: [UInt8]

        package func header(_ name: String) -> String? { headers.first { $0.name == name.lowercased() }?.value }
        package var text: String { String(decoding: body, as: UTF8.self) }
        /// The body as JSON; throws if it is not JSON.
        package var json: JSONValue { get throws { try JSONValue(parsing: body) } }
        package var description: String { "HTTP \(status): \(text)" }
    }

    /// The server closed the connection without an answer.
    package struct Unanswered: Error {}

    let address: Socket.Address

    package static func unix(_ path: String) -> HTTPProbe { HTTPProbe(address: .unix(path)) }
    /// - Parameter from: which of this machine's addresses the connection comes from.
    package static func tcp(_ host: String = "127.0.0.1", port: Int, from: String? = nil) -> HTTPProbe {
        HTTPProbe(address: .tcp(host: host, port: port, from: from))
    }

    /// Sends a request and reads the whole answer.
    ///
    /// - Parameter target: the path and query as they are sent.
    package func request(
        _ method: String, _ target: String, headers: [(String, String)] = [], body: [UInt8]? = nil
    ) async throws -> Answer {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        if let body { head += "Content-Length: \(body.count)\r\n" }
        return try Self.parse(try await raw(Array((head + "\r\n").utf8) + (body ?? [])), hasBody: method != "HEAD")
    }

    package func get(_ target: String, headers: [(String, String)] = []) async throws -> Answer {
        try await request("GET", target, headers: headers)
    }

    package func post(_ target: String, _ body: String = "", headers: [(String, String)] = []) async throws -> Answer {
        try await request("POST", target, headers: headers, body: Array(body.utf8))
    }

    /// Sends the beginning of a request and leaves the connection open until what is returned is released. It is not an error if the server closes it.
    package func begin(_ bytes: [UInt8]) async throws -> HeldConnection {
        let address = address
        return try await offThread { HeldConnection(try Socket(address), sending: bytes) }
    }

    /// Connects and sends as much as the server takes, without waiting.
    package func pour(_ bytes: [UInt8]) async throws -> Outflow {
        let address = address
        return try await offThread {
            let connection = HeldConnection(try Socket(address), sending: [])
            return Outflow(bytes, into: connection.descriptor, of: connection)
        }
    }

    /// Sends bytes as they are and returns everything that comes until the peer closes: for malformed requests.
    package func raw(_ bytes: [UInt8]) async throws -> [UInt8] {
        let address = address
        return try await offThread {
            let socket = try Socket(address)
            // A server may answer and close before it has read everything.
            try? socket.send(bytes)
            var answer: [UInt8] = []
            while true {
                let part = try socket.receive()
                if part.isEmpty { return answer }
                answer += part
            }
        }
    }

    /// Reads one answer.
    ///
    /// - Parameter hasBody: false for the answer to HEAD, which gives the length of a body that does not follow.
    package static func parse(_ bytes: [UInt8], hasBody: Bool = true) throws -> Answer {
        if bytes.isEmpty { throw Unanswered() }
        guard let end = bytes.headEnd else { throw SupportError("not an HTTP answer: \(String(decoding: bytes.prefix(500), as: UTF8.self))") }
        var lines = String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\r\n")
        let words = lines.removeFirst().split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else { throw SupportError("not an HTTP status line: \(words)") }
        let headers = lines.map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            return (name: parts[0].lowercased(), value: String((parts.count == 2 ? parts[1] : "").drop { $0 == " " }))
        }
        var answer = Answer(status: status, headers: headers, body: Array(bytes[(end + 4)...]))
        if answer.header("transfer-encoding") == "chunked" { answer.body = try dechunk(answer.body) }
        if let length = answer.header("content-length").flatMap({ Int($0) }), length != answer.body.count, hasBody, status != 101 {
            throw SupportError("the answer was cut off: \(answer.body.count) of \(length) bytes")
        }
        return answer
    }

    private static func dechunk(_ bytes: [UInt8]) throws -> [UInt8] {
        var body: [UInt8] = []
        var at = 0
        while true {
            guard let end = bytes[at...].firstIndex(of: 13),
                let size = Int(String(decoding: bytes[at..<end], as: UTF8.self), radix: 16), end + 2 + size <= bytes.count
            else { throw SupportError("the chunked answer was cut off after \(body.count) bytes") }
            if size == 0 { return body }
            body += bytes[(end + 2)..<(end + 2 + size)]
            at = end + 4 + size
        }
    }
}

extension [UInt8] {
    /// The index at which the empty line after the header fields begins.
    var headEnd: Int? {
        guard count >= 4 else { return nil }
        return (0...(count - 4)).first { self[$0] == 13 && self[$0 + 1] == 10 && self[$0 + 2] == 13 && self[$0 + 3] == 10 }
    }
}
