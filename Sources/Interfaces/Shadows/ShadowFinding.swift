import Documents

/// What one comparison has shown: a candidate was asked the same as the plugin that serves.
public struct ShadowFinding: Sendable, Equatable {
    public enum Outcome: String, Sendable {
        case same
        case different
        /// The candidate gave no answer.
        case failed
    }

    public var outcome: Outcome
    public var id: DocumentID
    public var collection: CollectionName
    /// What each said, in words and without bodies; empty where both said the same.
    public var serving: String
    public var candidate: String

    public init(_ outcome: Outcome, id: DocumentID, collection: CollectionName, serving: String = "", candidate: String = "") {
        self.outcome = outcome
        self.id = id
        self.collection = collection
        self.serving = serving
        self.candidate = candidate
    }
}

/// Counts what comparisons have shown.
public protocol ShadowCounter: Sendable {
    /// - Parameters:
    ///   - serving: the version of the plugin that serves.
    ///   - candidate: that of the candidate.
    func count(_ findings: [ShadowFinding], serving: String, candidate: String)
    /// For so many there was no room.
    func skipped(_ count: Int)
}
