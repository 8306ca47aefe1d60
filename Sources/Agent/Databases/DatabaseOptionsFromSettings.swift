import AgentConfiguration
import DocumentStore

extension DeltaBaseBounds {
    /// Nil if the database keeps none.
    package init?(_ settings: DeltaSyncSettings) {
        guard settings.enabled else { return nil }
        self.init()
        maxAgeSeconds = Int64(settings.maxAgeSeconds)
        maxBytes = Int64(settings.maxBytes)
    }
}

extension DatabaseOptions {
    /// A database's settings as the store's options, for the agent and for commands alike.
    package init(_ settings: DatabaseSettings) {
        self.init()
        historyDepth = settings.history.revisions
        conflictHistory = settings.history.conflicts
        unusualKeys = settings.unusualKeys
        versionsEdits = settings.versionVectors
        maxBodyBytes = settings.maxDocumentBytes
        largeDocuments.limit = settings.warnDocumentBytes
        deltaBases = DeltaBaseBounds(settings.deltaSync)
        // Below that size a delta saves nothing, but a resolver that merges needs the body that both sides
        // had.
        if settings.conflictResolver != nil { deltaBases?.minBodyBytes = 0 }
    }
}

extension DatabaseOptions {
    /// Divides the memory for pages of database files among all databases: many of them must not take many times what a single one takes.
    ///
    /// - Parameter memory: `limits.memory`, in bytes: the caches of all databases together take up to as much again, but no less than 8 MiB.
    mutating func sharePageCaches(databases: Int, memory: Int) {
        let most = writerCacheBytes + readers * readerCacheBytes
        let share = min(most, max(memory, 8 << 20) / max(1, databases))
        // SQLite needs some hundred kilobytes to get on at all.
        writerCacheBytes = max(512 << 10, Int(Double(writerCacheBytes) / Double(most) * Double(share)))
        readerCacheBytes = max(128 << 10, Int(Double(readerCacheBytes) / Double(most) * Double(share)))
    }
}
