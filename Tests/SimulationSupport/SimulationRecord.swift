import Documents
import DocumentStore

/// What happened in a run as its users saw it, for the checks.
///
/// Unchecked: used by the one thread of a simulation.
package final class SimulationRecord: @unchecked Sendable {
    package struct Acknowledged {
        var sequence: SequenceNumber
        var revision: RevisionID
    }

    /// By machine: the newest write of each document that was answered.
    var acknowledged: [Int: [DocumentID: Acknowledged]] = [:]
    /// Edits that were answered, of documents that are only edited.
    var edits: [DocumentID: Set<String>] = [:]
    var purged: Set<DocumentID> = []
    /// Documents that had a conflict: its losing branch was dropped somewhere, so a machine may lack a revision that it had.
    var decided: Set<DocumentID> = []
    /// Writes by machine that were answered, and writes that were not yet.
    package var commits = 0
    package var failures = 0
    var unanswered: [Int: Int] = [:]
    var commitsByMachine: [Int: Int] = [:]
    package var crashes = 0
    /// The last answer to the question what waits to be pushed.
    var pending: [String]?
}
