/// What waits in a queue for a worker: its work, and whom to answer.
///
/// Unchecked, with its subclass: handed from the caller to one worker through a locked queue, and touched by that worker only.
class Job<Resource>: @unchecked Sendable {
    fileprivate init() {}

    /// Works with what the worker has, and answers.
    func run(_ resource: Resource) {}
    /// Answers without having run.
    func refuse(_ error: StoreError) {}
}

final class AnsweringJob<Resource, Value: Sendable>: Job<Resource>, @unchecked Sendable {
    private let body: @Sendable (Resource) -> Result<Value, any Error>
    private var answer: Answer<Value>?

    init(_ answer: consuming Answer<Value>, _ body: @escaping @Sendable (Resource) -> Result<Value, any Error>) {
        self.body = body
        self.answer = consume answer
    }

    override func run(_ resource: Resource) {
        guard let answer = answer.take() else { return }
        answer.give(body(resource))
    }

    override func refuse(_ error: StoreError) {
        guard let answer = answer.take() else { return }
        answer.give(.failure(error))
    }
}
