import Synchronization

/// Numbers the states, so that one state's use is not mistaken for another's.
enum Serial {
    private static let last = Atomic<UInt64>(0)
    static func next() -> UInt64 { last.add(1, ordering: .relaxed).newValue }
}
