import Synchronization

/// Numbers states, so that a use made by one is not taken for a use of another.
enum Serial {
    private static let last = Atomic<UInt64>(0)
    static func next() -> UInt64 { last.add(1, ordering: .relaxed).newValue }
}
