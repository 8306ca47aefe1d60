import Documents
import Environment
import Selectors

/// Asks a client's selector about documents, which may take long: on threads that keep nobody else waiting, with a look at cancellation before
/// each document, and no longer than the client's budget lasts.
enum SelectorMatching {
    /// - Parameter turn: steps after which it ends early, so that others get their turn.
    /// - Returns: what was found of the first documents: of all, or as many as the turn was long enough for, at least one.
    /// - Throws: ``SelectorError`` beyond the bounds of one document or of the budget; `CancellationError`.
    static func each<Document: Sendable, Found: Sendable>(
        _ documents: [Document], _ budget: SelectorBudget, turn: Int = CouchLimits.matchingTurn, _ environment: Environment,
        _ body: @escaping @Sendable (Document, inout SelectorBudget) throws -> Found
    ) async throws -> (found: [Found], budget: SelectorBudget) {
        guard !documents.isEmpty else { return ([], budget) }
        return try await environment.lengthyWork {
            var found: [Found] = []
            var spent = budget
            var yielded = budget.spent
            for document in documents {
                try Task.checkCancellation()
                found.append(try body(document, &spent))
                if spent.spent - budget.spent >= turn { break }
                if spent.spent - yielded >= CouchLimits.matchingSteps {
                    await Task.yield()
                    yielded = spent.spent
                }
            }
            return (found, spent)
        }
    }
}

extension Selector {
    /// Whether it means the revision.
    func means(_ found: FoundRevision, _ budget: inout SelectorBudget) throws -> Bool {
        let fields = DocumentFields(found.id, found.revision, isDeleted: found.isDeleted, body: found.body)
        guard let document = try fields.document(with: roots) else { return false }
        return try matches(document, &budget)
    }
}
