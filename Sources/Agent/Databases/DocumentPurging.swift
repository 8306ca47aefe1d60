import Documents

extension DocumentAccess {
    /// Removes a document with all its revisions, without leaving a tombstone: peers keep their copies, and may
    /// bring it back.
    ///
    /// - Throws: ``AgentError`` of kind notFound if there is none.
    package func purge(_ id: String) async throws {
        let name: DocumentID
        do { name = try DocumentID(id) } catch { throw AgentError(.invalid, "\(error)") }
        let isThere = try await database.write { [collection] in try $0.purge(collection, name) }
        guard isThere else { throw AgentError(.notFound, "there is no document \"\(id)\"") }
    }
}
