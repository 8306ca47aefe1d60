/// A waiting write. It runs inside a transaction, and is answered when the outcome of the transaction is known.
///
/// Unchecked, like its subclass: handed from the caller to the writer through a locked queue, and used by the writer only.
class WriteJob: @unchecked Sendable {
    fileprivate init() {}

    /// Runs the closure; returns false if it failed.
    func run(_ transaction: WriteTransaction) -> Bool { false }
    /// The closure's work was rolled back although it reported success.
    func undo(_ failure: StoreError) {}
    /// The transaction is durable: the closure's result stands.
    func commit() {}
    /// The transaction was rolled back, or never began.
    func refuse(_ failure: StoreError) {}
}

final class ClosureJob<Value: Sendable>: WriteJob, @unchecked Sendable {
    private let body: @Sendable (WriteTransaction) throws -> Value
    private var answer: Answer<Value>?
    /// The closure's result; nil until it has run.
    private var result: Result<Value, any Error>?

    init(_ answer: consuming Answer<Value>, _ body: @escaping @Sendable (WriteTransaction) throws -> Value) {
        self.body = body
        self.answer = consume answer
    }

    override func run(_ transaction: WriteTransaction) -> Bool {
        do {
            result = .success(try body(transaction))
            return true
        } catch {
            result = .failure(error)
            return false
        }
    }

    override func undo(_ failure: StoreError) { result = .failure(failure) }

    override func commit() {
        // Without a result the closure never ran: dropping the answer says so.
        guard let answer = answer.take(), let result else { return }
        answer.give(result)
    }

    override func refuse(_ failure: StoreError) {
        guard let answer = answer.take() else { return }
        // A closure's own error says more than the outcome of the transaction.
        if case .failure(let own)? = result {
            answer.give(.failure(own))
        } else {
            answer.give(.failure(failure))
        }
    }
}
