/// What a filter says of one document.
public enum FilterVerdict: Sendable, Equatable {
    case pass
    case reject
    case failed(PolicyFailure)
}

/// Decides which documents may leave (push filter) or enter (pull filter) a database.
public protocol DocumentFilter: Sendable {
    var pluginName: String { get }
    /// What verdicts depend on now: a hash of the version in force and of the parameters.
    var version: String { get }
    /// One verdict for each document, in the same order. Never throws and never blocks an event loop.
    func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict]
    /// Yields the new version each time another one comes into force.
    func versionChanges() -> AsyncStream<String>
}

extension DocumentFilter {
    /// What counts when a filter gives fewer verdicts than it was asked for.
    package var missingVerdict: FilterVerdict {
        .failed(
            PolicyFailure(
                plugin: pluginName, version: version, kind: "plugin_result", message: "the filter gave no verdict for this document"))
    }
}
