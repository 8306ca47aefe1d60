import Documents
import DocumentStore

/// What happened in a run as its users saw it, for the checks.
///
/// Unchecked: used by the one thread of a simulation.
package final class SimulationRecord: @unchecked Sendable {
    package struct Acknowledged: Sendable {
        var sequence: SequenceNumber
        var revision: RevisionID
    }

    /// By machine: the newest write of each document that was answered.
    var acknowledged: [Int: [DocumentID: Acknowledged]] = [:]
    /// Edits that were answered, of documents that are only edited.
    var edits: [DocumentID: Set<String>] = [:]
    /// What was made of documents that one machine writes, in order; empty where they were deleted. And what of it was answered last.
    var branches: [DocumentID: [String]] = [:]
    var answeredBranches: [DocumentID: Int] = [:]
    var purged: Set<DocumentID> = []
    /// Documents that had a conflict: its losing branch was dropped somewhere, so a machine may lack a revision that it had.
    var decided: Set<DocumentID> = []
    /// By machine: conflicts that were decided there.
    var decisions: [Int: Int] = [:]
    /// Writes by machine that were answered, and writes that were not yet.
    package var commits = 0
    package var failures = 0
    var unanswered: [Int: Int] = [:]
    var commitsByMachine: [Int: Int] = [:]
    package var crashes = 0
    /// Machines whose disk altered what it had, until an operator has seen to it; and those of them that have said so.
    var damaged: Set<Int> = []
    var named: Set<Int> = []
    /// Machines with an empty database in place of a damaged one, whose peers may not know it yet.
    var renewed: Set<Int> = []
    /// All that ever were: of deletions before that they may hear nothing.
    var everRenewed: Set<Int> = []
    /// Edits by machine, of documents that are only edited.
    private var editors: [Int: [(DocumentID, String)]] = [:]

    func edited(_ id: DocumentID, _ mark: String, by machine: Int) {
        edits[id, default: []].insert(mark)
        editors[machine, default: []].append((id, mark))
    }

    /// The machine's database is gone, and what nobody else had of it.
    func forget(_ machine: Int) {
        renewed.insert(machine)
        everRenewed.insert(machine)
        acknowledged[machine] = [:]
        unanswered[machine] = 0
        for (id, mark) in editors.removeValue(forKey: machine) ?? [] {
            edits[id]?.remove(mark)
            if edits[id]?.isEmpty == true { edits[id] = nil }
        }
    }
    /// The last answer to the question what waits to be pushed.
    var pending: [String]?
}
