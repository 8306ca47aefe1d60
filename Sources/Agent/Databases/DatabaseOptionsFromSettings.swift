import AgentConfiguration
import DocumentStore

extension DeltaBaseBounds {
    /// Nil where a database is to keep none.
    package init?(_ settings: DeltaSyncSettings) {
        guard settings.enabled else { return nil }
        self.init()
        maxAgeSeconds = Int64(settings.maxAgeSeconds)
        maxBytes = Int64(settings.maxBytes)
    }
}

extension DatabaseOptions {
    /// What the configuration says of a database, whoever opens it.
    package init(_ settings: DatabaseSettings) {
        self.init()
        historyDepth = settings.history.revisions
        conflictHistory = settings.history.conflicts
        unusualKeys = settings.unusualKeys
        versionsEdits = settings.versionVectors
        maxBodyBytes = settings.maxDocumentBytes
        largeDocuments.limit = settings.warnDocumentBytes
        deltaBases = DeltaBaseBounds(settings.deltaSync)
        // Below that size a delta saves nothing, but whoever merges has to know what both sides had.
        if settings.conflictResolver != nil { deltaBases?.minBodyBytes = 0 }
    }
}
