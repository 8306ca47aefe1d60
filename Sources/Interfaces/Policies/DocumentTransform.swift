/// A transform's result for one document.
public enum TransformResult: Sendable, Equatable {
    /// It is sent unchanged.
    case same
    /// It is sent with this body: JSON that has not been checked.
    case changed([UInt8])
    case failed(PolicyFailure)
}

/// Changes documents on their way out of a database or into it. The revision keeps its id, so that no replica mistakes the result for an edit and
/// sends it back.
public protocol DocumentTransform: Sendable {
    var pluginName: String { get }
    /// Determines the results: a hash of the version in force and of the parameters.
    var version: String { get }
    /// One result for each document, in the same order. Never throws and never blocks an event loop.
    func transform(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [TransformResult]
    /// Yields the new version each time another one comes into force.
    func versionChanges() -> AsyncStream<String>
}
