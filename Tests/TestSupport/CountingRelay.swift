import Glibc
import Synchronization

/// Stands between an agent and a listener, and counts the bytes that cross it. Serves one connection after another for as long as it exists.
package final class CountingRelay: Sendable {
    package let port: Int
    private let count = Atomic(0)
    private let listener: Int32

    /// Bytes so far, in both directions.
    package var bytes: Int { count.load(ordering: .relaxed) }

    package init(to target: Int) throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = Self.address(0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = listener
        let failed = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) != 0 || listen(descriptor, 8) != 0 || getsockname(descriptor, $0, &size) != 0
            }
        }
        guard !failed else { throw SupportError("there is no port for the relay") }
        port = Int(UInt16(bigEndian: address.sin_port))
        detached { [weak self] in
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0, let self else { return }
                let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
                var there = Self.address(UInt16(target))
                _ = withUnsafePointer(to: &there) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
                }
                detached { self.carry(client, server) }
                detached { self.carry(server, client) }
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private static func address(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }

    private func carry(_ from: Int32, _ to: Int32) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let got = recv(from, &buffer, buffer.count, 0)
            guard got > 0 else { break }
            count.add(got, ordering: .relaxed)
            var sent = 0
            while sent < got {
                let done = buffer[sent..<got].withUnsafeBytes { send(to, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                guard done > 0 else { break }
                sent += done
            }
        }
        shutdown(to, Int32(SHUT_WR))
    }
}
