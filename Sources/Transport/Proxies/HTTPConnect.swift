import Encodings
import Interfaces

/// CONNECT through an HTTP proxy (RFC 9110, section 9.3.6).
struct HTTPConnect: ProxyNegotiation {
    let proxy: ProxyServer
    let host: String
    let port: Int
    let userAgent: String
    /// `header_bytes`: for the whole answer, including interim answers.
    let limit: Int
    private var answer: [UInt8] = []
    /// Bytes of interim answers (1xx).
    private var passed = 0

    init(proxy: ProxyServer, host: String, port: Int, userAgent: String, limit: Int) {
        (self.proxy, self.host, self.port, self.userAgent, self.limit) = (proxy, host, port, userAgent, limit)
    }

    func begin() -> [UInt8] {
        let target = HostAndPort.text(host, port)
        var text = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\nUser-Agent: \(userAgent)\r\n"
        if let login = proxy.credentials {
            text += "Proxy-Authorization: Basic \(Base64.encode(Array("\(login.username):\(login.password)".utf8)))\r\n"
        }
        return Array((text + "\r\n").utf8)
    }

    mutating func receive(_ bytes: some Collection<UInt8>) throws(ReplicationError) -> ProxyStep {
        var bytes = bytes[...]
        while let byte = bytes.popFirst() {
            answer.append(byte)
            if answer.count <= Self.beginning.count, answer[answer.count - 1] != Self.beginning[answer.count - 1] {
                throw proxy.isNone("the answer to CONNECT is not HTTP")
            }
            guard passed + answer.count <= limit else {
                throw proxy.isNone("the header of the answer to CONNECT is larger than header_bytes (\(limit))")
            }
            guard Self.ends.contains(where: { answer.suffix($0.count) == $0[...] }) else { continue }
            let head = Head(answer)
            switch head.status {
            case 200..<300: return .connected(Array(bytes))
            case 100..<200:
                passed += answer.count
                answer = []
            default: throw refusal(head)
            }
        }
        return .wait
    }

    private static let beginning = Array("HTTP/1.".utf8)
    /// An empty line. Some proxies omit the carriage return.
    private static let ends = [Array("\n\r\n".utf8), Array("\n\n".utf8)]

    /// The status line and fields of an answer.
    private struct Head {
        var status = 0
        var phrase = ""
        private var fields: [(name: String, value: String)] = []

        init(_ bytes: [UInt8]) {
            let lines = bytes.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0.last == 0x0D ? $0.dropLast() : $0, as: UTF8.self) }
            let words = lines.first?.split(separator: " ", maxSplits: 2).map(String.init) ?? []
            if words.count > 1 { status = Int(words[1]) ?? 0 }
            if words.count > 2 { phrase = Self.shown(words[2]) }
            for line in lines.dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                if parts.count == 2 { fields.append((parts[0].lowercased(), Self.shown(String(parts[1])))) }
            }
        }

        func values(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

        /// A stranger's text: made printable and short.
        private static func shown(_ text: String) -> String {
            let printable = text.utf8.filter { (0x20..<0x7F).contains($0) }.prefix(100)
            return String(decoding: printable.drop { $0 == 0x20 }, as: UTF8.self)
        }
    }

    private func refusal(_ head: Head) -> ReplicationError {
        let target = HostAndPort.text(host, port)
        let words = "HTTP \(head.status)\(head.phrase.isEmpty ? "" : ", \(head.phrase)")"
        if head.status == 407 {
            let offered = head.values("proxy-authenticate").compactMap { $0.split(separator: " ").first.map(String.init) }
            guard offered.isEmpty || offered.contains(where: { $0.lowercased() == "basic" }) else {
                return ReplicationError(
                    domain: .http, code: 407, message: "\(proxy): \(words); it accepts \(offered.joined(separator: ", ")), which is not supported here",
                    remedy: "have the proxy accept Basic authentication, or this machine without a login")
            }
            return proxy.wantsLogin(words)
        }
        let message = "\(proxy): CONNECT \(target) was answered with \(words)"
        var error = ReplicationError(domain: .http, code: head.status, message: message)
        error.retryAfterSeconds = RetryAfter.seconds(head.values("retry-after").first, date: head.values("date").first)
        guard !error.isTransient else { return error }
        return ReplicationError(
            domain: .http, code: head.status, message: message,
            remedy: head.status == 403 || head.status == 401
                ? "have the proxy allow CONNECT to \(target)" : "check proxy.url, and whether the proxy allows CONNECT to \(target)")
    }
}
