import Synchronization

/// The context for new connections, which a reload replaces; existing connections keep theirs.
package final class CurrentContext: Sendable {
    private let context: Mutex<TLSContext>

    package init(_ context: TLSContext) {
        self.context = Mutex(context)
    }

    package var value: TLSContext { context.withLock { $0 } }

    package func replace(with newer: TLSContext) {
        context.withLock { $0 = newer }
    }
}
