import SQLite

// The database's own notes, by name.
extension ReadTransaction {
    func property(_ key: String) throws(StoreError) -> String? {
        let statement = try active().cached("SELECT value FROM properties WHERE key = ?1")
        statement.bind(1, key)
        defer { statement.reset() }
        return try session.step(statement) ? statement.text(0) : nil
    }
}

extension WriteTransaction {
    func setProperty(_ key: String, _ value: String) throws(StoreError) {
        let statement = try active().cached("INSERT OR REPLACE INTO properties(key, value) VALUES(?1, ?2)")
        statement.bind(1, key)
        statement.bind(2, value)
        try session.run(statement)
    }
}
