import Encodings
import Glibc
import Synchronization

/// An HTTP or SOCKS5 proxy on loopback that resolves every name to this machine.
package final class TestProxy: Sendable {
    package enum Kind: Sendable { case http, socks5 }

    package let port: Int
    private let kind: Kind
    private let login: (user: String, password: String)?
    private let listener: Int32
    private let asked = Mutex([String]())

    /// Every HOST:PORT that a client with the right login has asked for.
    package var requests: [String] { asked.withLock { $0 } }

    /// - Parameter login: the only login that it lets in; nil lets everybody in.
    package init(_ kind: Kind, login: (user: String, password: String)? = nil) throws {
        (self.kind, self.login) = (kind, login)
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = Self.loopback(0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = listener
        let failed = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) != 0 || listen(descriptor, 16) != 0 || getsockname(descriptor, $0, &size) != 0
            }
        }
        guard !failed else { throw SupportError("there is no port for the proxy") }
        port = Int(UInt16(bigEndian: address.sin_port))
        detached { [weak self] in
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0, let self else { return }
                detached { self.serve(client) }
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }

    private func serve(_ client: Int32) {
        let target = kind == .http ? connect(client) : socks(client)
        guard let (host, port, answer) = target else {
            // Lets the client read all of the refusal before the connection ends.
            shutdown(client, Int32(SHUT_WR))
            _ = read(client, until: { _ in false })
            close(client)
            return
        }
        asked.withLock { $0.append("\(host):\(port)") }
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var there = Self.loopback(port)
        _ = withUnsafePointer(to: &there) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        send(client, answer)
        detached { self.carry(client, server) }
        carry(server, client)
    }

    private func connect(_ client: Int32) -> (String, UInt16, [UInt8])? {
        let head = String(decoding: read(client) { $0.suffix(4).elementsEqual("\r\n\r\n".utf8) }, as: UTF8.self)
        let lines = head.replacing("\r\n", with: "\n").split(separator: "\n").map(String.init)
        let wanted = login.map { "Proxy-Authorization: Basic \(Base64.encode(Array("\($0.user):\($0.password)".utf8)))" }
        guard wanted.map(lines.contains) ?? true else {
            send(client, Array("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\n\r\n".utf8))
            return nil
        }
        let words = lines.first?.split(separator: " ").map(String.init) ?? []
        guard words.count == 3, words[0] == "CONNECT", let colon = words[1].lastIndex(of: ":"), let port = UInt16(words[1][words[1].index(after: colon)...])
        else {
            send(client, Array("HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".utf8))
            return nil
        }
        return (String(words[1][..<colon]), port, Array("HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n".utf8))
    }

    private func socks(_ client: Int32) -> (String, UInt16, [UInt8])? {
        let hello = read(client) { $0.count >= 2 && $0.count == 2 + Int($0[1]) }
        let method: UInt8 = login == nil ? 0 : 2
        guard hello.dropFirst(2).contains(method) else {
            send(client, [5, 0xFF])
            return nil
        }
        send(client, [5, method])
        if let login {
            let (user, password) = (Array(login.user.utf8), Array(login.password.utf8))
            let expected = [1, UInt8(user.count)] + user + [UInt8(password.count)] + password
            let given = read(client) { bytes in
                guard bytes.count >= 2, bytes.count > 2 + Int(bytes[1]) else { return false }
                return bytes.count == 3 + Int(bytes[1]) + Int(bytes[2 + Int(bytes[1])])
            }
            send(client, [1, given == expected ? 0 : 1])
            guard given == expected else { return nil }
        }
        let request = read(client) { $0.count >= 5 && $0.count == 6 + ($0[3] == 3 ? 1 + Int($0[4]) : $0[3] == 4 ? 16 : 4) }
        guard request.count > 6, request[1] == 1 else { return nil }
        let address = request[4..<(request.count - 2)]
        let host: String
        switch request[3] {
        case 3: host = String(decoding: address.dropFirst(), as: UTF8.self)
        case 1: host = address.map { "\($0)" }.joined(separator: ".")
        default: host = "[\(address.count) bytes]"
        }
        let port = UInt16(request[request.count - 2]) << 8 | UInt16(request[request.count - 1])
        return (host, port, [5, 0, 0, 1, 127, 0, 0, 1, 0, 0])
    }

    /// Reads byte by byte, so as not to take anything of what follows.
    private func read(_ client: Int32, until isComplete: ([UInt8]) -> Bool) -> [UInt8] {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while bytes.count < 64 << 10, recv(client, &byte, 1, 0) == 1 {
            bytes.append(byte)
            if isComplete(bytes) { break }
        }
        return bytes
    }

    @discardableResult
    private func send(_ to: Int32, _ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let done = bytes[sent...].withUnsafeBytes { Glibc.send(to, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard done > 0 else { return false }
            sent += done
        }
        return true
    }

    private func carry(_ from: Int32, _ to: Int32) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let got = recv(from, &buffer, buffer.count, 0)
            guard got > 0, send(to, Array(buffer[..<got])) else { break }
        }
        shutdown(to, Int32(SHUT_WR))
    }
}
