import Documents
import DocumentStore

/// What is stored of one document may be damaged. It is named in the database's state and left out of lists, and nothing else waits for it.
extension ReadTransaction {
    /// - Returns: nil where the document is damaged.
    func unlessDamaged<T>(_ collection: Collection, _ work: () throws(StoreError) -> T) throws(StoreError) -> T? {
        do throws(StoreError) { return try work() } catch {
            guard setAside(collection, error) else { throw error }
            return nil
        }
    }
}

extension FoundDocument {
    /// - Parameter isTold: else the client hears what it hears of one that is not here.
    init(damaged question: DocumentReading.Question, isTold: Bool) {
        self.init(id: question.id)
        isDamaged = isTold
        if !isTold, case .named(let revisions, _) = question.wanted { (missing, asked) = (revisions, revisions) }
    }
}

extension FoundRevision {
    /// That the body is no JSON any more: in an answer it would spoil what is said of all other documents. Nil where it is.
    var damage: StoreError? {
        if body.isEmpty { return nil }
        do throws(JSONError) { _ = try JSONScanner.scanDocument(body) } catch {
            switch error.kind {
            // Of texts that an older version has let in.
            case .duplicateKey, .tooDeep, .notFinite, .emptyKey, .nulInKey, .tooManyKeys, .loneSurrogate: return nil
            default: return .documentDamaged(id: id, detail: "its body is no JSON: \(error)")
            }
        }
        return nil
    }
}
