import Glibc

/// `openssl s_server` on a loopback port, and `openssl s_time`, which connects to it as fast as it can.
final class OpenSSLServer {
    private let tool: String
    private let port: Int
    private let server: Child

    init(_ tool: String, _ identity: BenchIdentity) throws {
        guard access(tool, X_OK) == 0 else { throw BenchError("\(tool): no executable; name one with --openssl") }
        self.tool = tool
        port = try Self.freePort()
        server = try Child(
            tool,
            [
                "s_server", "-quiet", "-ignore_unexpected_eof", "-accept", "127.0.0.1:\(port)", "-cert", identity.path, "-key", identity.path,
                "-tls1_3", "-groups", "X25519",
            ], isSilent: true)
        for _ in 0..<500 {
            if Self.connects(port) { return }
            usleep(10_000)
        }
        throw BenchError("openssl s_server does not listen within five seconds")
    }

    func stop() { server.kill() }

    /// Full handshakes. The tool counts whole calendar seconds, so the time is measured here.
    func handshakesPerSecond(seconds: Int) throws -> Double {
        let start = Stopwatch()
        let client = try Child(tool, ["s_time", "-new", "-connect", "127.0.0.1:\(port)", "-time", "\(seconds)", "-tls1_3", "-no-CAfile", "-no-CApath", "-no-CAstore"])
        while true {
            let words = try client.line().split(separator: " ")
            guard words.count > 2, words[1] == "connections", let count = Double(words[0]) else { continue }
            let passed = start.cost.seconds
            client.wait()
            guard count > 0 else { throw BenchError("openssl s_time made no connection") }
            return count / passed
        }
    }

    private static func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(truncatingIfNeeded: port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    /// A port that is free at the moment; the tool cannot report a port chosen by the system.
    private static func freePort() throws -> Int {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw Files.failure("socket") }
        defer { close(descriptor) }
        var address = address(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, length) == 0 ? getsockname(descriptor, pointer, &length) : -1
            }
        }
        guard status == 0 else { throw Files.failure("127.0.0.1") }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    private static func connects(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = address(port)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                connect(descriptor, pointer, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
