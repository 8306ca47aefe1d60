import Glibc
import TestSupport

/// A server in clear text on a free port of loopback, whose clients a test answers by hand.
final class ServerSocket: Sendable {
    let port: Int
    private let descriptor: Int32

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let descriptor = descriptor
        let failure = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { plain in
                bind(descriptor, plain, length) != 0 || listen(descriptor, 8) != 0 || getsockname(descriptor, plain, &length) != 0
            }
        }
        guard !failure else { throw SupportError("no server socket: \(String(cString: strerror(errno)))") }
        port = Int(UInt16(bigEndian: address.sin_port))
    }

    deinit { close(descriptor) }

    /// Takes the next client, reads the head of its request, answers and closes.
    func serve(_ answer: String) async throws -> String {
        let descriptor = descriptor
        return try await offThread { try Self.serve(descriptor, answer) }
    }

    private static func serve(_ descriptor: Int32, _ answer: String) throws -> String {
        let client = accept(descriptor, nil, nil)
        guard client >= 0 else { throw SupportError("no client came: \(String(cString: strerror(errno)))") }
        defer { close(client) }
        var request = ""
        var bytes = [UInt8](repeating: 0, count: 4096)
        while !request.contains("\r\n\r\n") {
            let count = read(client, &bytes, bytes.count)
            guard count > 0 else { throw SupportError("the request was cut: \(request)") }
            request += String(decoding: bytes[..<count], as: UTF8.self)
        }
        _ = answer.withCString { write(client, $0, strlen($0)) }
        return request
    }
}
