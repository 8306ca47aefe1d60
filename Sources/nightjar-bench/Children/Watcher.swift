import Documents
import DocumentStore

/// Follows a database's change feed as an application would, and records each document's age when it becomes
/// readable.
actor Watcher {
    /// Nanoseconds since the write call.
    private var ages: [Int64] = []
    private var task: Task<Void, Never>?

    init(_ database: Database) {
        Task { await self.begin(database) }
    }

    private func begin(_ database: Database) {
        guard let collection = database.collection(.default) else { return }
        task = Task {
            var since: SequenceNumber = 0
            for await newest in database.changeSignal(collection) {
                while since < newest {
                    let from = since
                    guard let rows = try? await database.read({ view in
                        try view.changes(collection, since: from, limit: 1000, includeBodies: true)
                    }), let last = rows.last else { break }
                    let now = monotonicNanoseconds()
                    self.note(rows.compactMap { Watcher.sent($0.body ?? []) }.map { now - $0 })
                    since = last.sequence
                }
            }
        }
    }

    private func note(_ some: [Int64]) { ages += some }

    func stop() -> [Int64] {
        task?.cancel()
        return ages
    }

    var count: Int { ages.count }

    /// The time of the write, which is at the beginning of the body: `{"sent":N,…`.
    static func sent(_ body: [UInt8]) -> Int64? {
        guard body.starts(with: prefix) else { return nil }
        var value: Int64 = 0
        for byte in body[prefix.count...] {
            guard byte >= 0x30, byte <= 0x39 else { return value }
            value = value &* 10 &+ Int64(byte - 0x30)
        }
        return nil
    }

    static let prefix = Array("{\"sent\":".utf8)
}
