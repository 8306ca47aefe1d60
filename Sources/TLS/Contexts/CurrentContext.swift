import Synchronization

/// The context for new connections, which a reload swaps; connections that exist keep theirs.
public final class CurrentContext: Sendable {
    private let context: Mutex<TLSContext>

    public init(_ context: TLSContext) {
        self.context = Mutex(context)
    }

    public var value: TLSContext { context.withLock { $0 } }

    public func replace(with newer: TLSContext) {
        context.withLock { $0 = newer }
    }
}
