import Documents
import DocumentStore
import Interfaces

/// Asks a listener's sync function about a peer's writes, with the document's current revision and the peer's rights.
struct SyncAsking: Sendable {
    let database: Database
    let collection: Collection
    let function: any SyncFunction
    let principal: Principal
    let peer: ChannelPeer
    let context: PolicyContext
    /// The channels that the authenticator reported have to be recorded first.
    let setsAccess: Bool
    /// If set, documents that the peer may not see are also judged as if they did not exist.
    var sender: SenderView?
    /// Whether the function is shown the document's current revision; otherwise it is asked as for a document that does not exist.
    var showsPresent = true

    /// One judgement for each revision.
    ///
    /// What the function answered before a revision's blobs were fetched counts if it would be asked the same: the same version of the function, the
    /// same current revision, and a caller with the same channels and roles. Otherwise it is asked again.
    func judge(_ revisions: [CheckedRevision]) async -> Result<[SyncJudgement], any Error> {
        do {
            if setsAccess { try await setAccess() }
            var judgements: [SyncJudgement] = []
            judgements.reserveCapacity(revisions.count)
            while judgements.count < revisions.count {
                let (plugin, version) = (function.pluginName, function.version)
                let page = try await questions(revisions[judgements.count...], plugin, version)
                let requests = page.compactMap(\.request)
                var verdicts = requests.isEmpty ? [] : await function.assign(requests, context)
                while verdicts.count < requests.count { verdicts.append(function.missingVerdict) }
                var next = verdicts.makeIterator()
                for question in page {
                    if let known = question.known {
                        judgements.append(known)
                        continue
                    }
                    let verdict = next.next() ?? function.missingVerdict
                    // The function may answer a wrong guess differently from a right one.
                    if question.isHidden, case .rejected = verdict { sender?.account.note() }
                    judgements.append(
                        SyncJudgement(
                            verdict: verdict, seen: question.seen, plugin: plugin, version: version, caller: question.caller, isHidden: question.isHidden))
                }
            }
            return .success(judgements)
        } catch {
            return .failure(error)
        }
    }

    /// Records what the authenticator reported, once per session: rights reported earlier and missing this time end here.
    func setAccess() async throws {
        let (collection, peer, principal) = (collection, peer, principal)
        try await database.write {
            try $0.setAccess(of: peer, collection, channels: principal.channels ?? [], roles: principal.roles ?? [])
        }
    }

    /// The question to the function about a revision.
    private struct Question {
        /// Nil if it has already answered.
        var request: SyncRequest?
        var known: SyncJudgement?
        var caller: SyncCaller
        var seen: RevisionID?
        var isHidden: Bool
    }

    /// The questions for the first of the revisions, at least one.
    private func questions(_ revisions: ArraySlice<CheckedRevision>, _ plugin: String, _ version: String) async throws -> [Question] {
        let (collection, peer, name, showsPresent, sender) = (collection, peer, principal.name, showsPresent, sender)
        return try await database.read { transaction in
            let access = try transaction.channelAccess(collection, of: peer)
            let caller = SyncCaller(name: name, roles: access.roles, channels: access.channels)
            var questions: [Question] = []
            var bytes = 0
            var known: ChannelAccess? = access
            for revision in revisions where bytes < DriverBounds.syncedBytes {
                let current = showsPresent ? try transaction.document(collection, revision.id) : nil
                let isHidden = try current != nil && sender?.isUnaware(SenderView.Claim(revision), collection, transaction, &known) == true
                var question = Question(caller: caller, seen: current?.revision, isHidden: isHidden)
                bytes += current?.body.count ?? 0
                if let said = revision.judgement, said.isAnswer(to: caller, seen: current?.revision, isHidden: isHidden, by: plugin, version) {
                    question.known = said
                } else {
                    let old = current.flatMap { current in
                        current.isDeleted || isHidden
                            ? nil : PolicyDocument(id: current.id, revision: current.revision, isDeleted: false, body: current.body)
                    }
                    let document = PolicyDocument(
                        id: revision.id, revision: revision.revision, isDeleted: revision.isDeleted, body: revision.body)
                    question.request = SyncRequest(document: document, old: old, caller: caller)
                }
                questions.append(question)
            }
            return questions
        }
    }
}
