import Environment

/// Deltas that are made or applied together: so many of those that wait, and memory for them.
struct DeltaBatch: Sendable {
    var questions: [BaseLookUp.Question]
    /// Held until what was made of them is handed on. Nil: there is none, and whole bodies travel.
    var memory: MemoryBudget.Reservation?

    /// - Parameter others: the size of what goes with each base: the new body, or the delta.
    init(_ questions: [BaseLookUp.Question], others: [Int], _ lookUp: BaseLookUp, _ memory: MemoryBudget, _ limits: ReplicationLimits) async throws {
        let sizes = try await lookUp.sizes(questions)
        var batch: [BaseLookUp.Question] = []
        var bytes = 0
        for (index, question) in questions.enumerated() {
            var question = question
            if let size = sizes[index], max(size, others[index]) <= limits.maximumDeltaBodyBytes {
                guard bytes == 0 || bytes + size + others[index] <= limits.deltaBatchBytes else { break }
                bytes += size + others[index]
                question.atMost = size
            }
            batch.append(question)
        }
        self.questions = batch
        self.memory = await memory.reserve(bytes * limits.deltaExpansion)
    }
}
