import Documents

/// Revision trees as the `tree` column holds them: NULL while there is one revision only.
enum StoredTree {
    static func decode(_ bytes: [UInt8]?, only: RevisionID, deleted: Bool) throws(StoreError) -> RevisionTree {
        do {
            guard let bytes else { return try RevisionTree(only, isDeleted: deleted) }
            return try RevisionTree(decoding: bytes)
        } catch {
            throw .corrupt(path: "revision tree at \(only)", detail: "\(error)")
        }
    }

    static func encode(_ tree: RevisionTree) -> [UInt8]? {
        tree.count > 1 ? tree.encode() : nil
    }
}
