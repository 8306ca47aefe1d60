/// A filter's decision about one document.
public enum FilterVerdict: Sendable, Equatable {
    case pass
    /// The document passes with this body in place of its own; it is checked like input from outside.
    case replace([UInt8])
    case reject
    case failed(PolicyFailure)

    /// Whether the document passes, changed or not.
    public var passes: Bool {
        switch self {
        case .pass, .replace: true
        case .reject, .failed: false
        }
    }
}

/// Decides which documents may leave (push filter) or enter (pull filter) a database.
public protocol DocumentFilter: Sendable {
    var pluginName: String { get }
    /// Determines the verdicts: a hash of the version in force and of the parameters. A filter without a version may pass and reject documents, but
    /// not replace their bodies.
    var version: String { get }
    /// One verdict for each document, in the same order. Never throws and never blocks an event loop.
    func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict]
    /// Yields the new version each time another one comes into force.
    func versionChanges() -> AsyncStream<String>
    /// Likewise for all components of which it consists.
    func allVersionChanges() -> [AsyncStream<String>]
    /// Whether it may answer ``FilterVerdict/replace(_:)``: then the document sent differs from the stored one, and cannot be a base for deltas.
    var changesBodies: Bool { get }
}

extension DocumentFilter {
    public func allVersionChanges() -> [AsyncStream<String>] { [versionChanges()] }
    public var changesBodies: Bool { false }

    /// The verdict for documents about which a filter returned none.
    package var missingVerdict: FilterVerdict {
        .failed(
            PolicyFailure(
                plugin: pluginName, version: version, kind: "plugin_result", message: "the filter gave no verdict for this document"))
    }

    /// The verdict if a filter without a version replaces a document's body: it would be asked again once the blobs of the new body are here, since
    /// nothing shows that the filter is still the same, and would have them fetched again, forever.
    package var namelessVerdict: FilterVerdict {
        .failed(
            PolicyFailure(
                plugin: pluginName, version: version, kind: "plugin_result",
                message: "the filter changes the document and has no version; expected is a text that changes with what the filter does"))
    }
}
