import Encodings
import Glibc

/// A clear-text HTTP server, and our credentials for it: `http://NAME:PASSWORD@HOST:PORT`.
struct HTTPAddress: Sendable {
    var host: String
    var port: Int
    /// `NAME:PASSWORD`.
    var login: String?

    init(host: String, port: Int, login: String? = nil) { (self.host, self.port, self.login) = (host, port, login) }

    init(_ url: String) throws {
        let problem = BenchError("\(url): expected http://NAME:PASSWORD@HOST:PORT")
        guard url.hasPrefix("http://") else { throw problem }
        var rest = url.dropFirst("http://".count)
        if rest.last == "/" { rest.removeLast() }
        if let sign = rest.lastIndex(of: "@") {
            login = String(rest[..<sign])
            rest = rest[rest.index(after: sign)...]
        }
        guard let colon = rest.lastIndex(of: ":"), let port = Int(rest[rest.index(after: colon)...]), 1..<65_536 ~= port else { throw problem }
        (host, self.port) = (String(rest[..<colon]), port)
    }

    /// Including credentials, to be passed to another server.
    var url: String { "http://\(login.map { $0 + "@" } ?? "")\(host):\(port)" }
}

/// A persistent HTTP/1.1 connection. It blocks, so that this process adds as little as possible to a request, and the same for every server.
final class HTTPConnection {
    struct Answer {
        var status: Int
        /// Empty if the caller received the pieces.
        var body: [UInt8] = []

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    private let address: HTTPAddress
    private let isAnonymous: Bool
    private let descriptor: Int32
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)
    /// The range of received data that has not been read.
    private var (start, end) = (0, 0)

    /// - Parameter isAnonymous: sends no credentials.
    init(_ address: HTTPAddress, isAnonymous: Bool = false) throws {
        (self.address, self.isAnonymous) = (address, isAnonymous)
        descriptor = try Self.connected(to: address)
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close(descriptor) }

    private static func connected(to address: HTTPAddress) throws -> Int32 {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(address.host, "\(address.port)", &hints, &found)
        guard status == 0, let found else { throw BenchError("\(address.host): \(String(cString: gai_strerror(status)))") }
        defer { freeaddrinfo(found) }
        let descriptor = socket(found.pointee.ai_family, found.pointee.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Files.failure("socket") }
        guard connect(descriptor, found.pointee.ai_addr, found.pointee.ai_addrlen) == 0 else {
            defer { close(descriptor) }
            throw Files.failure("\(address.host):\(address.port)")
        }
        return descriptor
    }

    // MARK: Requests

    /// Sends a request and collects the answer.
    func request(_ method: String, _ path: String, _ body: [UInt8] = []) throws -> Answer {
        var collected: [UInt8] = []
        var answer = try request(method, path, body) { collected += $0 }
        answer.body = collected
        return answer
    }

    /// Like ``request(_:_:_:)``, but any other status than these is an error.
    @discardableResult
    func request(_ method: String, _ path: String, _ body: [UInt8] = [], expecting statuses: Set<Int>) throws -> Answer {
        let answer = try request(method, path, body)
        guard statuses.contains(answer.status) else {
            throw BenchError("\(address.host):\(address.port): \(method) \(path) is answered \(answer.status): \(answer.text.prefix(300))")
        }
        return answer
    }

    /// Sends a request and passes the answer's body on as it arrives.
    func request(_ method: String, _ path: String, _ body: [UInt8] = [], _ take: (ArraySlice<UInt8>) throws -> Void) throws -> Answer {
        // In one write: a second one would wait for the first one's acknowledgement if the other side delays those.
        try send(head(method, path, length: body.count) + body)
        return try answer(take)
    }

    /// Starts a request whose body is sent piece by piece, and whose answer is read with ``answer(_:)``.
    func begin(_ method: String, _ path: String, type: String, length: Int) throws { try send(head(method, path, length: length, type: type)) }

    func send(_ bytes: [UInt8]) throws { try Files.write(bytes, to: descriptor, "\(address.host):\(address.port)") }

    private func head(_ method: String, _ path: String, length: Int, type: String = "application/json") -> [UInt8] {
        var text = "\(method) \(path) HTTP/1.1\r\nHost: \(address.host):\(address.port)\r\nAccept: */*\r\n"
        if let login = address.login, !isAnonymous { text += "Authorization: Basic \(Base64.encode(Array(login.utf8)))\r\n" }
        if length > 0 { text += "Content-Type: \(type)\r\n" }
        if length > 0 || method == "POST" || method == "PUT" { text += "Content-Length: \(length)\r\n" }
        return Array((text + "\r\n").utf8)
    }

    // MARK: Answers

    /// Reads an answer.
    func answer(_ take: (ArraySlice<UInt8>) throws -> Void) throws -> Answer {
        let (status, length) = try answerHead()
        guard let length else {
            while true {
                let size = try line()
                guard let count = Int(size.prefix { $0 != ";" }, radix: 16) else { throw BenchError("a chunk of \"\(size)\" bytes") }
                try pieces(count, take)
                _ = try line()
                if count == 0 { return Answer(status: status) }
            }
        }
        try pieces(length, take)
        return Answer(status: status)
    }

    /// The status and the body's length; nil if it is chunked.
    func answerHead() throws -> (status: Int, length: Int?) {
        let first = try line().split(separator: " ")
        guard first.count > 1, let status = Int(first[1]) else { throw BenchError("no answer of HTTP: \(first)") }
        var length: Int? = 0
        while true {
            let field = try line()
            if field.isEmpty { return (status, length) }
            let lower = field.lowercased()
            if lower.hasPrefix("content-length:") {
                length = Int(lower.dropFirst("content-length:".count).drop { $0 == " " })
            } else if lower.hasPrefix("transfer-encoding:") {
                length = nil
            }
        }
    }

    private func pieces(_ count: Int, _ take: (ArraySlice<UInt8>) throws -> Void) throws {
        var left = count
        while left > 0 {
            if start == end { try receive() }
            let size = min(left, end - start)
            try take(buffer[start..<start + size])
            start += size
            left -= size
        }
    }

    /// The next line without its line break.
    func line() throws -> String {
        var bytes: [UInt8] = []
        while true {
            if start == end { try receive() }
            let rest = buffer[start..<end]
            guard let stop = rest.firstIndex(of: 0x0A) else {
                bytes += rest
                start = end
                continue
            }
            bytes += rest[..<stop]
            start = stop + 1
            if bytes.last == 0x0D { bytes.removeLast() }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    private func receive() throws {
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw Files.failure("\(address.host):\(address.port)") }
            guard count > 0 else { throw BenchError("\(address.host):\(address.port) ended the connection in the middle of an answer") }
            (start, end) = (0, count)
            return
        }
    }
}
