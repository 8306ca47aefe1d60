import Documents

/// The result of one comparison: a candidate was given the same input as the serving plugin.
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
    /// Both answers, in words and without bodies; empty if they agree.
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

/// Counts the results of comparisons.
public protocol ShadowCounter: Sendable {
    /// - Parameters:
    ///   - serving: the version of the serving plugin.
    ///   - candidate: the version of the candidate.
    func count(_ findings: [ShadowFinding], serving: String, candidate: String)
    /// This many were skipped because the queue was full.
    func skipped(_ count: Int)
}
