/// An answer that a caller waits for. It is given exactly once: giving it consumes it, and if it is dropped instead, the waiting caller gets an error
/// saying that the database is closed.
struct Answer<Value: Sendable>: ~Copyable, Sendable {
    private let database: String
    private var completion: (@Sendable (Result<Value, any Error>) -> Void)?

    init(database: String, _ completion: @escaping @Sendable (Result<Value, any Error>) -> Void) {
        self.database = database
        self.completion = completion
    }

    consuming func give(_ result: Result<Value, any Error>) {
        let completion = self.completion
        self.completion = nil
        completion?(result)
    }

    deinit { completion?(.failure(StoreError.closed(database: database))) }
}
