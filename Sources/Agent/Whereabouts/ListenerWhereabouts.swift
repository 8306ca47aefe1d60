import Documents
import DocumentStore
import Encodings
import Interfaces
import Replication

/// The state of a document for a listener's peers, in words.
struct ListenerWhereabouts: Sendable {
    let listener: PeerListener
    let collection: CollectionName
    let database: String
    /// Whether any listener serves the database with a sync function.
    let isRouted: Bool

    private var name: String { listener.settings.name.value }

    /// What the listener's own state means for all documents; nil if peers can connect.
    var condition: WhereaboutsStatement? {
        guard listener.serves(database) else {
            return WhereaboutsStatement("other_database", "it serves other databases", remedy: "name \(database) in its databases")
        }
        switch listener.binding.condition {
        case .listening, .partly: return nil
        case .stopped: return WhereaboutsStatement("stopped", "stopped by an operator", remedy: "nightjar listener \(name) start")
        case .waiting(let error, _, let next):
            return WhereaboutsStatement(
                "waiting", "it does not listen: \(error.message); next attempt at \(Timestamp.format(next))", remedy: "free what it is waiting for")
        }
    }

    /// Whether an answer is about this particular document: a peer pushes it, or mentioned it, so its id is not unknown.
    static func names(_ answer: JSONValue) -> Bool {
        if let pushed = answer["not_taken"], !pushed.isNull { return true }
        return ["refused_by_peers", "kept_by_peers"].contains { answer[$0]?.asArray?.isEmpty == false }
    }

    func statement(_ standing: PeerDocumentState) -> WhereaboutsStatement {
        switch standing {
        case .otherCollection:
            WhereaboutsStatement("other_collection", "the peer has not asked for \(collection)", remedy: "name the collection in the peer's configuration")
        case .doesNotPull:
            WhereaboutsStatement("not_pulled", "the peer has not asked for documents: it only pushes, or has only just connected")
        case .notChosen:
            WhereaboutsStatement("excluded", "it is not among the documents that the peer asked for", remedy: "add it to the peer's document ids")
        case .noLocalDocument: WhereaboutsStatement("nothing_here", "there is nothing here to pull")
        case .unrouted(let route?):
            WhereaboutsStatement(
                "unrouted", "sync function \(route.plugin) could not put it into channels: \(route.error)",
                remedy: "fix the plugin, and the document is retried by itself; if it was rejected, change or remove it (nightjar doc rm)"
            ).with(["plugin": .string(route.plugin), "version": .string(route.version), "error": .string(route.error)])
        case .unrouted(nil):
            isRouted
                ? WhereaboutsStatement("unrouted", "the sync function has not put its current revision into channels", remedy: "nightjar plugin retry asks it again")
                : WhereaboutsStatement(
                    "unrouted", "the peer may pull only what is in its channels, and no listener serves the database with a sync function, which would put documents into channels",
                    remedy: "add sync: PLUGIN to the listener, or let the user pull everything: nightjar user permit NAME --channel '*', with the --read-only and the roles that the user has now")
        case .notInChannels(let document, let peer):
            WhereaboutsStatement(
                "not_in_channels", "it is in \(Self.listed(document)), and the peer gets \(Self.listed(peer))",
                remedy: "have the sync function put it into a channel of this user, or give the user one of its channels"
            ).with(["document_channels": .array(document.map { .string($0) }), "peer_channels": .array(peer.map { .string($0) })])
        case .rejected(let plugin):
            WhereaboutsStatement("rejected", "push_filter \(plugin) of the listener rejects it", remedy: "change the document or the filter")
                .with(["plugin": .string(plugin)])
        case .held(let failure):
            WhereaboutsStatement(
                "held", "push_filter \(failure.plugin) of the listener fails on it: \(failure.message)",
                remedy: "fix the plugin, and the document is retried by itself; if it was rejected, change or remove it (nightjar doc rm)"
            ).with(["plugin": .string(failure.plugin), "error": .string(failure.message)])
        case .deletionSkipped:
            WhereaboutsStatement("deletion_skipped", "it was deleted before the peer's first visit, and the peer does not want such deletions")
        case .underWay: WhereaboutsStatement("under_way", "it was offered or sent, and the peer has not answered", remedy: "if it stays, check the line and the peer")
        case .taken: WhereaboutsStatement("sent", "the peer has its current revision")
        case .kept(let kept): Self.statement(kept)
        case .before:
            WhereaboutsStatement(
                "told", "the peer started after it in the feed: it has it, holds it back there, or did not ask for it, and its reply is no longer known",
                remedy: "if it is not there, find out why at the peer: nightjar doc why, or the log")
        case .declined:
            WhereaboutsStatement(
                "told", "the peer was told of its current revision and did not ask for it: it has it, does not want it, or has no room for it at the moment",
                remedy: "if it is not there, find out why at the peer: nightjar doc why, or the log")
        case .refused(let error):
            WhereaboutsStatement(
                "waiting", "the peer was sent its current revision and could not accept it: \(error)",
                remedy: error.isOfOwnBlob ? BlobMend.text(database: database) : "check the peer: it asks for it again once it can"
            ).with(["error": Agent.report(error)])
        case .told:
            WhereaboutsStatement(
                "told", "the peer was told of its current revision, and took it, had it, or did not take it: its reply is no longer known",
                remedy: "if it is not there, find out why at the peer: nightjar doc why, or the log")
        case .pending(let sequence):
            WhereaboutsStatement(
                "pending", "the peer's feed is at sequence \(sequence) and has not reached it", remedy: "if it stays, check what stops the feed: held"
            ).with(["feed_sequence": JSONOutput.number(sequence)])
        case .askedBefore: WhereaboutsStatement("pending", "the peer asked once, before the document arrived; it gets it on its next visit")
        }
    }

    /// What the peer said about the document: that it refuses it, or, if its feed has already passed the document, that it holds it back.
    func answer(of peer: PeerListener.Peer, _ id: DocumentID, _ standing: PeerDocumentState) -> WhereaboutsStatement? {
        let key = RefusedByPeers.Key(peer: peer.user ?? PeerListener.host(of: peer.address), database: database, collection: collection, id: id)
        let said = listener.refusedByPeers
        if let refusal = said.refusals[key] { return Self.statement(refusal) }
        guard case .before = standing else { return nil }
        return said.kept[key].map { Self.statement($0) }
    }

    static func statement(_ kept: RefusedByPeers.Kept) -> WhereaboutsStatement {
        statement(kept.kept).with(["since": .string(Timestamp.format(kept.since))])
    }

    private static func statement(_ kept: KeptByPeer) -> WhereaboutsStatement {
        let took = "the peer took \(kept.revision.text) but holds it back, as it replied then"
        let statement =
            switch kept.reason {
            case .rejected:
                WhereaboutsStatement("rejected_there", "\(took): its pull filter rejected it", remedy: "change the document, or the filter at the peer")
            case .held:
                WhereaboutsStatement("held_there", "\(took): its pull filter failed on it", remedy: "fix the plugin at the peer, which then retries it by itself")
            case .blob:
                WhereaboutsStatement(
                    "held_there", "\(took): a blob of it could not be fetched or accepted",
                    remedy: "nightjar doc why at the peer names the blob: have its bytes stored here (nightjar blob put), or the limit raised there")
            case .size:
                WhereaboutsStatement(
                    "held_there", "\(took): it is larger than the database there accepts",
                    remedy: "have max_document_bytes of the database raised there, or make the document smaller")
            }
        return statement.with(["rev": .string(kept.revision.text)])
    }

    static func statement(_ refusal: RefusedByPeers.Refusal) -> WhereaboutsStatement {
        let isUnsent = refusal.error.exceedsLocalSize
        return WhereaboutsStatement(
            "refused", isUnsent ? "the peer did not get it: \(refusal.error)" : "the peer refused it: \(refusal.error)",
            remedy: isUnsent ? refusal.error.remedy : "fix the reason there, or change the document; then have the peer reconnect"
        ).with([
            "domain": .string(refusal.error.domain.rawValue), "code": JSONOutput.number(refusal.error.code), "reason": .string(refusal.error.message),
            "since": .string(Timestamp.format(refusal.since)),
        ])
    }

    /// What a peer pushes cannot be stored at the moment.
    static func statement(_ waiting: WaitingDocument) -> WhereaboutsStatement {
        WhereaboutsStatement(
            "waiting", "a peer pushes it, but it cannot be accepted: \(waiting.error)", remedy: "fix the cause that is named; the peer offers it again"
        ).with(["tries": JSONOutput.number(waiting.tries), "since": .string(Timestamp.format(waiting.since))])
    }

    /// What a peer pushed was too large.
    static func statement(_ refusal: TooLargePushes.Refusal) -> WhereaboutsStatement {
        WhereaboutsStatement(
            "not_accepted", "\(refusal.peer) pushed it, and it was refused as too large: \(refusal.error)",
            remedy: "raise the limit that is named, if it is a setting, and nightjar reload (restart the agent if it is limits.memory), or have the document made "
                + "smaller; a Nightjar pushes it again by itself within an hour (at once with nightjar replicator NAME retry-refused there), another peer once it changes"
        ).with(["since": .string(Timestamp.format(refusal.since))])
    }

    /// The document may have been in a request that was refused as too large before its documents were known.
    static func statement(_ refusals: TooLargeRequests.Refusals) -> WhereaboutsStatement {
        WhereaboutsStatement(
            "requests_refused",
            "\(Plural.count(refusals.count, "request")) with documents of this collection refused as too large, most recently from \(refusals.peer): \(refusals.error); "
                + "which documents \(refusals.count == 1 ? "it" : "they") had is not known",
            remedy: "raise the limit that is named, if it is a setting (limits.memory: restart the agent), or have the client send less at once"
        ).with(["count": JSONOutput.number(refusals.count), "since": .string(Timestamp.format(refusals.since))])
    }

    private static func listed(_ channels: [String]) -> String {
        guard !channels.isEmpty else { return "no channel" }
        return (channels.count == 1 ? "channel " : "channels ") + channels.prefix(10).joined(separator: ", ") + (channels.count > 10 ? ", ..." : "")
    }
}
