import Documents

/// Revision trees in the form of the `tree` column: NULL if there is only one revision, without a version vector.
enum StoredTree {
    static func decode(_ bytes: [UInt8]?, _ id: DocumentID, only: RevisionID, deleted: Bool) throws(StoreError) -> RevisionTree {
        do {
            guard let bytes else { return try RevisionTree(only, isDeleted: deleted) }
            let tree = try RevisionTree(decoding: bytes)
            guard tree.contains(only) else {
                throw StoreError.documentDamaged(id: id, detail: "its revision tree lacks the current revision \(only)")
            }
            return tree
        } catch let error as StoreError {
            throw error
        } catch {
            throw .documentDamaged(id: id, detail: "\(error)")
        }
    }

    static func encode(_ tree: RevisionTree) -> [UInt8]? {
        tree.count > 1 || tree.hasVectors ? tree.encode() : nil
    }
}
