import Synchronization

/// Something that goes to a closure and is nobody else's from then on: what a closure captures, it holds to its end.
final class Handover<Value: Sendable>: Sendable {
    private let value: Mutex<Value?>

    init(_ value: Value) { self.value = Mutex(value) }

    func take() -> Value? { value.withLock { $0.take() } }
}
