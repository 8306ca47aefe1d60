import SQLite

/// Reads a database beside its own readers, on the caller's thread and in no queue: for who looks on, and must not change in which order
/// things happen. Closed before its database.
package final class SideReader {
    private let session: Session

    init(_ path: String, vfs: String?, _ idHash: IDHash) throws(StoreError) {
        var options = DatabaseOptions()
        options.readerCacheBytes = 256 << 10
        // What it meets is nobody's problem.
        session = try Session(path: path, writer: false, options: options, vfs: vfs, problems: DatabaseProblems { _ in })
        session.idHash = idHash
    }

    package func read<T>(_ body: (ReadTransaction) throws -> T) throws -> T { try Reader.view(session, body).get() }
}
