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
