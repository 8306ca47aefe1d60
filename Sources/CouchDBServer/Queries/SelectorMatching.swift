import Documents
import Environment
import Selectors

/// Matches a client's selector against documents, which may take long: on threads where nobody else has to wait, with a check for cancellation
/// before each document, and only until the client's budget is used up.
enum SelectorMatching {
    /// - Parameter turn: the number of steps after which it returns early, so that others get their turn.
    /// - Returns: the results for the first documents: all of them, or as many as the turn allowed, at least one.
    /// - Throws: ``SelectorError`` beyond the limits for one document or for the budget; `CancellationError`.
    static func each<Document: Sendable, Found: Sendable>(
        _ documents: [Document], _ budget: SelectorBudget, turn: Int = CouchLimits.matchingTurn, _ environment: Environment,
        _ body: @escaping @Sendable (Document, inout SelectorBudget) throws -> Found
    ) async throws -> (found: [Found], budget: SelectorBudget) {
        guard !documents.isEmpty else { return ([], budget) }
        return try await environment.backgroundWork {
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
    /// Whether the selector matches the revision.
    func means(_ found: FoundRevision, _ budget: inout SelectorBudget) throws -> Bool {
        let fields = DocumentFields(found.id, found.revision, isDeleted: found.isDeleted, body: found.body)
        guard let document = try fields.document(with: roots) else { return false }
        return try matches(document, &budget)
    }
}
