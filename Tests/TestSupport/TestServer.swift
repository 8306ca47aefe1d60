import Glibc
import Synchronization

/// An HTTP server on loopback that gives whatever answers a test wants, right or wrong.
package final class TestServer: Sendable {
    package struct Request: Sendable {
        /// The number of the request, counted from 1.
        package var number = 0
        package var method: String
        /// The path and query as received.
        package var target: String
        package var body: [UInt8]
    }

    package enum Answer: Sendable {
        case json(Int, String)
        /// A beginning, and then the same piece again and again until the client closes the connection.
        case endless(String, _ piece: String, headers: String = "")
        /// No answer, for as long as the client waits.
        case silence
    }

    private let listener: TakenPort
    private let counts = Counts()

    private final class Counts: Sendable {
        let requests = Atomic(0)
        let bytes = Atomic(0)
    }

    package var port: Int { listener.port }
    /// How many requests have been answered or are being answered.
    package var requests: Int { counts.requests.load(ordering: .relaxed) }
    /// How many bytes have been sent.
    package var bytes: Int { counts.bytes.load(ordering: .relaxed) }

    package init(_ answer: @escaping @Sendable (Request) -> Answer) throws {
        listener = try TakenPort()
        let descriptor = listener.descriptor
        detached { [counts] in
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0 else { return }
                detached { Self.serve(client, answer, counts) }
            }
        }
    }

    deinit { shutdown(listener.descriptor, Int32(SHUT_RDWR)) }

    private static func serve(_ client: Int32, _ answer: @Sendable (Request) -> Answer, _ counts: Counts) {
        defer { close(client) }
        var bytes: [UInt8] = []
        while var request = next(client, &bytes) {
            request.number = counts.requests.add(1, ordering: .relaxed).newValue
            switch answer(request) {
            case .json(let status, let text):
                send(client, "HTTP/1.1 \(status) Said\r\nContent-Type: application/json\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)", counts)
            case .endless(let beginning, let piece, let headers):
                let head = "HTTP/1.1 200 Said\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\(headers)\r\n"
                var goesOn = send(client, "\(head)\(chunk(beginning))", counts)
                let more = chunk(piece)
                while goesOn { goesOn = send(client, more, counts) }
                return
            case .silence:
                while let part = readSome(client), !part.isEmpty {}
                return
            }
        }
    }

    private static func chunk(_ text: String) -> String { "\(String(text.utf8.count, radix: 16))\r\n\(text)\r\n" }

    /// The next request with its whole body; nil at the end of the connection.
    private static func next(_ client: Int32, _ bytes: inout [UInt8]) -> Request? {
        func readMore() -> Bool {
            guard let part = readSome(client), !part.isEmpty else { return false }
            bytes += part
            return true
        }
        while bytes.headEnd == nil { guard readMore() else { return nil } }
        guard let end = bytes.headEnd else { return nil }
        let lines = String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\r\n")
        let words = lines.first?.split(separator: " ") ?? []
        guard words.count == 3 else { return nil }
        let length = lines.first { $0.lowercased().hasPrefix("content-length:") }.flatMap { Int($0.dropFirst(15).drop { $0 == " " }) } ?? 0
        while bytes.count < end + 4 + length { guard readMore() else { return nil } }
        defer { bytes.removeFirst(end + 4 + length) }
        return Request(method: String(words[0]), target: String(words[1]), body: Array(bytes[(end + 4)..<(end + 4 + length)]))
    }

    @discardableResult
    private static func send(_ client: Int32, _ text: String, _ counts: Counts) -> Bool {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            counts.bytes.add(count, ordering: .relaxed)
            rest = rest.dropFirst(count)
        }
        return true
    }
}
