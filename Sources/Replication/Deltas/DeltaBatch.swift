import Documents
import Environment
import NIOCore

/// Deltas that are computed or applied together: as many of the waiting ones as fit, with the memory reserved for them.
struct DeltaBatch: Sendable {
    /// The counterpart of a base.
    enum Other: Sendable {
        /// A delta to apply to it.
        case delta(ByteBuffer)
        /// The body that the delta has to produce.
        case body([UInt8])

        var count: Int {
            switch self {
            case .delta(let delta): delta.readableBytes
            case .body(let body): body.count
            }
        }

        var makesDelta: Bool { if case .body = self { true } else { false } }

        /// Memory needed to process it, in bytes.
        func memory(with base: BaseLookUp.Size, _ limits: ReplicationLimits) -> Int {
            switch self {
            case .delta(let delta):
                let values = delta.withUnsafeReadableBytes { JSONTreeSize.bytes(of: $0.bindMemory(to: UInt8.self)) }
                return limits.deltaCopies * (base.bytes + delta.readableBytes) + values
            case .body(let body): return base.values + JSONTreeSize.bytes(of: body) + 2 * (base.bytes + body.count)
            }
        }
    }

    var questions: [BaseLookUp.Question]
    /// Kept until the results are accounted for. Nil if there was none, and whole bodies are sent.
    var memory: MemoryBudget.Reservation?

    /// - Parameter others: the counterpart of each base.
    init(_ questions: [BaseLookUp.Question], others: [Other], _ lookUp: BaseLookUp, _ memory: MemoryBudget, _ limits: ReplicationLimits) async throws {
        let sizes = try await lookUp.sizes(questions, countingValues: others.contains(where: \.makesDelta), upTo: limits.maximumDeltaBodyBytes)
        var batch: [BaseLookUp.Question] = []
        var (bytes, needed) = (0, 0)
        var undecided: Set<DocumentID> = []
        for (index, question) in questions.enumerated() {
            var question = question
            question.outcome = sizes[index]?.outcome
            if question.outcome != nil {
                batch.append(question)
                continue
            }
            // Whether the store accepts this revision is known only once the previous one is stored.
            if question.incoming != nil, !undecided.insert(question.id).inserted { break }
            if let size = sizes[index], max(size.bytes, others[index].count) <= limits.maximumDeltaBodyBytes {
                guard bytes == 0 || bytes + size.bytes + others[index].count <= limits.deltaBatchBytes else { break }
                bytes += size.bytes + others[index].count
                needed += others[index].memory(with: size, limits)
                question.atMost = size.bytes
            }
            batch.append(question)
        }
        self.questions = batch
        self.memory = await memory.reserve(needed)
    }
}
