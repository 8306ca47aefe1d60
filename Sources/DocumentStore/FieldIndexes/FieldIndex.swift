import Documents
import Selectors

/// An index of a collection by fields of its documents, see `IndexDefinition`.
package struct FieldIndex: Sendable {
    /// Never reused.
    package let number: Int64
    /// The two names by which clients refer to it.
    package let design: String
    package let name: String
    package let definition: IndexDefinition
    /// Whether it contains every document; otherwise it is being built.
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
    /// It contains documents up to the sequence `built`, and those written since it was created.
    static let building: Int64 = 0
    static let ready: Int64 = 1
    /// Its entries are being removed, and then the index itself.
    static let dropped: Int64 = 2
}
