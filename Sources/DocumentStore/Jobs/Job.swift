/// A job that waits in a queue for a worker: its work, and whom to answer.
///
/// Unchecked, like its subclass: handed from the caller to one worker through a locked queue, and used by that worker only.
class Job<Resource>: @unchecked Sendable {
    fileprivate init() {}

    /// Does the work with the worker's resource, and answers.
    func run(_ resource: Resource) {}
    /// Answers with an error, without having run.
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
