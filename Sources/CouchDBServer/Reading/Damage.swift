import Documents
import DocumentStore

/// The stored data of single documents may be damaged. Such a document is reported in the database's state and left out of lists, and does
/// not affect others.
extension ReadTransaction {
    /// - Returns: nil if the document is damaged.
    func unlessDamaged<T>(_ collection: Collection, _ work: () throws(StoreError) -> T) throws(StoreError) -> T? {
        do throws(StoreError) { return try work() } catch {
            guard setAside(collection, error) else { throw error }
            return nil
        }
    }
}

extension FoundDocument {
    /// - Parameter isTold: otherwise, the client gets the same answer as for a missing document.
    init(damaged question: DocumentReading.Question, isTold: Bool) {
        self.init(id: question.id)
        isDamaged = isTold
        if !isTold, case .named(let revisions, _) = question.wanted { (missing, asked) = (revisions, revisions) }
    }
}

extension FoundRevision {
    /// The error that the body is no longer valid JSON, which would make a whole list invalid; nil if the body is intact.
    var damage: StoreError? {
        if body.isEmpty { return nil }
        do throws(JSONError) { _ = try JSONScanner.scanDocument(body) } catch {
            switch error.kind {
            // An older version may have accepted such text.
            case .duplicateKey, .tooDeep, .notFinite, .emptyKey, .nulInKey, .tooManyKeys, .loneSurrogate: return nil
            default: return .documentDamaged(id: id, detail: "its body is not JSON: \(error)")
            }
        }
        return nil
    }
}
