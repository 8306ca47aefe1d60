import Documents
import Environment
import NIOCore

/// Deltas that are made or applied together: so many of those that wait, and memory for them.
struct DeltaBatch: Sendable {
    /// What goes with a base.
    enum Other: Sendable {
        /// Is applied to it.
        case delta(ByteBuffer)
        /// Is what a delta is to make of it.
        case body([UInt8])

        var count: Int {
            switch self {
            case .delta(let delta): delta.readableBytes
            case .body(let body): body.count
            }
        }

        var makesDelta: Bool { if case .body = self { true } else { false } }

        /// Bytes that the work on it takes.
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
    /// Held until what was made of them is counted. Nil: there is none, and whole bodies travel.
    var memory: MemoryBudget.Reservation?

    /// - Parameter others: what goes with each base.
    init(_ questions: [BaseLookUp.Question], others: [Other], _ lookUp: BaseLookUp, _ memory: MemoryBudget, _ limits: ReplicationLimits) async throws {
        let sizes = try await lookUp.sizes(questions, countingValues: others.contains(where: \.makesDelta), upTo: limits.maximumDeltaBodyBytes)
        var batch: [BaseLookUp.Question] = []
        var (bytes, needed) = (0, 0)
        for (index, question) in questions.enumerated() {
            var question = question
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
