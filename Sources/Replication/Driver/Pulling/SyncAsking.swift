import Documents
import DocumentStore
import Interfaces

/// Asks a listener's sync function about what a peer writes: with the document's present revision, and with what the peer may do.
struct SyncAsking: Sendable {
    let database: Database
    let collection: Collection
    let function: any SyncFunction
    let principal: Principal
    let peer: ChannelPeer
    let context: PolicyContext
    /// What the authenticator said of the peer's channels is to be noted first.
    let setsAccess: Bool
    /// Of what the peer may not see, the function is asked as about documents that are not here, too.
    var sender: SenderView?
    /// Whether the function is shown the document's present revision; else it is asked as about a document that is not here.
    var showsPresent = true

    /// One judgement for each revision.
    ///
    /// What the function said before the blobs of a revision were fetched counts where it would be asked the same: the same version of it, about the
    /// same present revision, for a caller with the same channels and roles. Else it is asked again.
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
                    // What the function says of a wrong guess may be something else than of a right one.
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

    /// Notes what the authenticator said, once a session: what it said on an earlier visit and says no longer ends here.
    func setAccess() async throws {
        let (collection, peer, principal) = (collection, peer, principal)
        try await database.write {
            try $0.setAccess(of: peer, collection, channels: principal.channels ?? [], roles: principal.roles ?? [])
        }
    }

    /// Bytes of present bodies that the function is shown at once: what is written may be small, and what it replaces large.
    private static let pageBytes = 4 << 20

    /// What the function is to say of a revision.
    private struct Question {
        /// Nil where it has said it.
        var request: SyncRequest?
        var known: SyncJudgement?
        var caller: SyncCaller
        var seen: RevisionID?
        var isHidden: Bool
    }

    /// Of the first of the revisions: one at least.
    private func questions(_ revisions: ArraySlice<CheckedRevision>, _ plugin: String, _ version: String) async throws -> [Question] {
        let (collection, peer, name, showsPresent, sender) = (collection, peer, principal.name, showsPresent, sender)
        return try await database.read { transaction in
            let access = try transaction.channelAccess(collection, of: peer)
            let caller = SyncCaller(name: name, roles: access.roles, channels: access.channels)
            var questions: [Question] = []
            var bytes = 0
            var known: ChannelAccess? = access
            for revision in revisions where bytes < Self.pageBytes {
                let current = showsPresent ? try transaction.document(collection, revision.id) : nil
                let isHidden = try current != nil && sender?.isBlind(SenderView.Claim(revision), collection, transaction, &known) == true
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
