import Documents
import Selectors

/// An index of a collection by fields of its documents, see `IndexDefinition`.
package struct FieldIndex: Sendable {
    /// Never given twice.
    package let number: Int64
    /// The two names by which clients know it.
    package let design: String
    package let name: String
    package let definition: IndexDefinition
    /// Every document is in it; else it is being built.
    package let isReady: Bool
}

/// One row of an index.
package struct IndexEntry: Sendable, Equatable {
    package let key: [UInt8]
    package let id: DocumentID

    package init(key: [UInt8], id: DocumentID) { (self.key, self.id) = (key, id) }
}

/// The `state` column of the table of indexes.
enum FieldIndexState {
    /// Documents up to the sequence `built` are in it, and those that were written since it was made.
    static let building: Int64 = 0
    static let ready: Int64 = 1
    /// What it holds is being removed, and then it.
    static let dropped: Int64 = 2
}
