import Environment

/// Accounts for the memory of output that waits in a connection's buffers because its client does not read it. Confined to the connection's
/// event loop.
final class UnreadBytes {
    private let memory: MemoryBudget
    private let origin: String
    private let cut: @Sendable () -> Void
    private var share: MemoryBudget.Share?

    /// Not worth counting.
    private static let few = 4 << 10

    /// - Parameters:
    ///   - origin: the client's address, with whose other connections this one counts.
    ///   - cut: closes the connection, from any thread.
    init(_ memory: MemoryBudget, of origin: String, cut: @escaping @Sendable () -> Void) { (self.memory, self.origin, self.cut) = (memory, origin, cut) }

    /// From now on this many bytes wait.
    func note(_ bytes: Int) {
        guard bytes > Self.few else {
            share = nil
            return
        }
        // A large answer is still sent when there is little memory. What made it counts it as well.
        let bytes = min(bytes, memory.limit / 16)
        let share = share ?? memory.register(origin: origin) { [cut] in if $0 == .evicted { cut() } }
        self.share = share
        if share.hold(bytes, owedByPeer: bytes) == .evicted { cut() }
    }
}
