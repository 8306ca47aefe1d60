import Glibc
import Synchronization

/// Bytes on their way to a server that may not want them: a separate thread sends as many as the server takes.
/// The connection stays open for as long as this exists.
package final class Outflow: Sendable {
    private final class Shared: Sendable {
        let sent = Atomic(0)
        let isAtRest = Atomic(false)
        let isOver = Atomic(false)
    }

    private let shared = Shared()
    private let owner: any Sendable

    /// - Parameter owner: the object that keeps the descriptor open.
    init(_ bytes: [UInt8], into descriptor: Int32, of owner: any Sendable) {
        self.owner = owner
        let shared = shared
        detached { withExtendedLifetime(owner) { Self.send(bytes, descriptor, shared) } }
    }

    deinit { shared.isOver.store(true, ordering: .relaxed) }

    /// How many bytes the system has taken.
    package var sent: Int { shared.sent.load(ordering: .relaxed) }

    /// Whether everything has been sent, the server has closed, or it has taken nothing for a while.
    package var isAtRest: Bool { shared.isAtRest.load(ordering: .relaxed) }

    private static func send(_ bytes: [UInt8], _ descriptor: Int32, _ shared: Shared) {
        bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty, !shared.isOver.load(ordering: .relaxed) {
                let count = Glibc.send(
                    descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, min(rest.count, 1 << 18), Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
                if count > 0 {
                    rest = rest.dropFirst(count)
                    shared.sent.add(count, ordering: .relaxed)
                    continue
                }
                guard errno == EAGAIN || errno == EINTR else { break }
                var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                shared.isAtRest.store(poll(&wanted, 1, 250) == 0, ordering: .relaxed)
            }
        }
        shared.isAtRest.store(true, ordering: .relaxed)
    }
}
