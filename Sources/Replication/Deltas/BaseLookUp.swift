import Documents
import DocumentStore
import Interfaces

/// Finds the bodies that deltas are based on, and only those that the peer may have: a delta reveals its base, and so does its refusal.
struct BaseLookUp: Sendable {
    /// What the peer may be assumed to have, besides the revisions exchanged on this connection.
    enum Access: Sendable {
        case everything
        /// What the store knows about the remote.
        case remote(RemoteID)
        /// What the push filter passes.
        case judged(any DocumentFilter, PolicyContext)
        /// Current revisions in the peer's channels that the push filter passes.
        case visible(PeerView)
        case nothing
    }

    struct Question: Sendable {
        var id: DocumentID
        var base: Version
        /// Its body was transferred on this connection.
        var isExchanged: Bool
        /// The revision that will result, if the store alone decides whether it is accepted: then the store is asked before the base is read.
        var incoming: IncomingRevision?
        /// Size of the delta.
        var deltaBytes = 0
        /// The store's answer.
        var outcome: InsertOutcome?
        /// Memory is reserved for a body up to this size; a larger one is not read.
        var atMost = 0

        init(id: DocumentID, base: Version, isExchanged: Bool, incoming: IncomingRevision? = nil, deltaBytes: Int = 0) {
            (self.id, self.base, self.isExchanged, self.incoming, self.deltaBytes) = (id, base, isExchanged, incoming, deltaBytes)
        }
    }

    enum Answer: Sendable {
        case base([UInt8])
        case absent
        case notOpen
        case tooLarge
        /// It was not read, because the outcome for the resulting revision is already certain.
        case needless(InsertOutcome)
    }

    let database: Database
    let collection: Collection
    let access: Access

    struct Size: Sendable {
        var bytes: Int
        /// Memory of its parsed values in bytes, if counted.
        var values = 0
        /// Set if it need not be read: the outcome for the resulting revision.
        var outcome: InsertOutcome?
    }

    /// The sizes of the bases.
    ///
    /// - Parameters:
    ///   - countingValues: also determine the memory of their parsed values, for which each is read and released.
    ///   - limit: larger bases are left out.
    func sizes(_ questions: [Question], countingValues: Bool, upTo limit: Int) async throws -> [Size?] {
        let collection = collection
        return try await database.read { transaction in
            try questions.map { question -> Size? in
                guard var size = try transaction.deltaBaseSize(collection, question.id, question.base).map({ Size(bytes: $0) }) else { return nil }
                if max(size.bytes, question.deltaBytes) <= limit { size.outcome = try Self.outcome(question, size.bytes, collection, transaction) }
                if countingValues, size.bytes <= limit, let base = try transaction.deltaBase(collection, question.id, question.base) {
                    size.values = JSONTreeSize.bytes(of: base)
                }
                return size
            }
        }
    }

    private static func outcome(
        _ question: Question, _ bytes: Int, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> InsertOutcome? {
        guard let incoming = question.incoming else { return nil }
        return try transaction.refusal(of: incoming, bytes: bytes + question.deltaBytes, in: collection)
    }

    func bases(_ questions: [Question]) async throws -> [Answer] {
        let (collection, access) = (collection, access)
        var answers = try await database.read { transaction in try questions.map { try Self.answer($0, access, collection, transaction) } }
        try await judge(&answers, questions)
        return answers
    }

    private static func answer(
        _ question: Question, _ access: Access, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> Answer {
        if let outcome = question.outcome { return .needless(outcome) }
        if !question.isExchanged {
            switch access {
            case .nothing: return .notOpen
            case .remote(let remote):
                let base = try transaction.revision(named: question.base, collection, question.id)
                guard base != nil, try transaction.remoteRevision(remote, collection, question.id) == base else { return .notOpen }
            case .everything, .judged, .visible: break
            }
        }
        guard let size = try transaction.deltaBaseSize(collection, question.id, question.base) else { return .absent }
        guard size <= question.atMost else { return .tooLarge }
        // Another connection may have stored the revision while this one waited for memory.
        if let outcome = try outcome(question, size, collection, transaction) { return .needless(outcome) }
        return try transaction.deltaBase(collection, question.id, question.base).map { .base($0) } ?? .absent
    }

    private func judge(_ answers: inout [Answer], _ questions: [Question]) async throws {
        var asked: [(index: Int, document: PolicyDocument)] = []
        for (index, answer) in answers.enumerated() where !questions[index].isExchanged {
            guard case .base(let body) = answer else { continue }
            asked.append((index, PolicyDocument(id: questions[index].id, revision: questions[index].base, isDeleted: false, body: body)))
        }
        if asked.isEmpty { return }
        switch access {
        case .everything, .remote, .nothing: break
        case .judged(let filter, let context):
            for (question, verdict) in zip(asked, await filter.verdicts(asked.map(\.document), context)) where verdict != .pass {
                answers[question.index] = .notOpen
            }
        case .visible(let view):
            let visible = try await view.visible(asked.map(\.document.id))
            for question in asked where visible[question.document.id] != question.document.revision { answers[question.index] = .notOpen }
        }
    }
}
