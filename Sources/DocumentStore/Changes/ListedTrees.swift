import Documents

/// Trees of the documents named by the rows of one list, within one transaction. A peer may name a document a thousand times in a list: its tree is
/// decoded once, whatever rows come in between.
struct ListedTrees {
    private var trees: [DocumentID: RevisionTree] = [:]
    private var bytes = 0

    /// Maximum memory of the trees kept for several documents: those of a thousand documents in conflict would take more than the list itself.
    private static let keptBytes = 256 << 10

    /// - Throws: `.documentDamaged`, again for each row.
    mutating func tree(
        of row: ReadTransaction.Row, _ id: DocumentID, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> RevisionTree {
        // Without a stored tree there is only one revision.
        guard row.tree != nil else { return try transaction.tree(collection, of: row, id) }
        if let known = trees[id] { return known }
        let tree = try transaction.tree(collection, of: row, id)
        bytes += tree.memorySize
        if bytes > Self.keptBytes { (trees, bytes) = ([:], tree.memorySize) }
        trees[id] = tree
        return tree
    }
}
