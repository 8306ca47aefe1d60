import SQLite

/// Reads a database apart from its own readers, on the caller's thread and without a queue: for an observer that must not influence the order of
/// events. Must be closed before its database.
package final class SideReader {
    private let session: Session

    init(_ path: String, vfs: String?, _ idHash: IDHash) throws(StoreError) {
        var options = DatabaseOptions()
        options.readerCacheBytes = 256 << 10
        // Problems that it encounters are not reported.
        session = try Session(path: path, writer: false, options: options, vfs: vfs, problems: DatabaseProblems { _ in })
        session.idHash = idHash
    }

    package func read<T>(_ body: (ReadTransaction) throws -> T) throws -> T { try Reader.view(session, body).get() }
}
