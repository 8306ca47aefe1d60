import Documents
import DocumentStore

/// What happened in a run as its users saw it, which is what the checks go by.
///
/// Unchecked: used only on the simulation's one thread.
package final class SimulationRecord: @unchecked Sendable {
    package struct Acknowledged: Sendable {
        var sequence: SequenceNumber
        var revision: RevisionID
    }

    /// By machine: the newest write of each document that was acknowledged.
    var acknowledged: [Int: [DocumentID: Acknowledged]] = [:]
    /// Acknowledged edits of documents that are edited and never deleted.
    var edits: [DocumentID: Set<String>] = [:]
    /// What the only machine that writes a document has made of it, in order, with "" where it was deleted; and the index of what was acknowledged last.
    var branches: [DocumentID: [String]] = [:]
    var answeredBranches: [DocumentID: Int] = [:]
    var purged: Set<DocumentID> = []
    /// Documents that had a conflict: the losing branch was dropped somewhere, so a machine may lack a revision that it once had.
    var decided: Set<DocumentID> = []
    /// By machine: how many conflicts were decided there.
    var decisions: [Int: Int] = [:]
    /// Writes that succeeded, writes that failed and, by machine, writes that have not been answered yet.
    package var commits = 0
    package var failures = 0
    var unanswered: [Int: Int] = [:]
    var commitsByMachine: [Int: Int] = [:]
    package var crashes = 0
    /// Machines whose disk corrupted what it stored, until an operator has seen to it; and those of them that have reported it.
    var damaged: Set<Int> = []
    var named: Set<Int> = []
    /// Machines whose damaged database was replaced with an empty one, which their peers may not know yet.
    var renewed: Set<Int> = []
    /// All machines whose database was ever replaced: they may hear nothing of earlier deletions.
    var everRenewed: Set<Int> = []
    /// By machine: the edits of documents that are edited and never deleted.
    private var editors: [Int: [(DocumentID, String)]] = [:]

    func edited(_ id: DocumentID, _ mark: String, by machine: Int) {
        edits[id, default: []].insert(mark)
        editors[machine, default: []].append((id, mark))
    }

    /// The machine's database is gone, and with it whatever nobody else had.
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
    /// The last answer to the question of what waits to be pushed.
    var pending: [String]?
}
