import Documents
import Encodings
import Interfaces

/// What both sides keep of a replication under `_local`: a history from which they find the last point that both have reached, as specified by
/// CouchDB's replication protocol. Ours covers both directions.
struct ReplicationLog: Equatable, Sendable {
    struct Entry: Equatable, Sendable {
        var session: String
        var body: CheckpointBody
    }

    /// The current session's id.
    var session = ""
    /// Newest first, one per session.
    var history: [Entry] = []

    init() {}

    init(parsing bytes: [UInt8]) {
        guard case .object(let object)? = try? JSONValue(parsing: bytes) else { return }
        session = object["session_id"]?.asString ?? ""
        for item in (object["history"]?.asArray ?? []).prefix(CouchBounds.logEntries) {
            guard let session = item["session_id"]?.asString else { continue }
            history.append(Entry(session: session, body: CheckpointBody(parsing: item.serialize())))
        }
    }

    /// How far both sides got together. A peer restored from a backup is behind: then the notes on its documents are not trusted, and it is read from
    /// where it was.
    static func common(_ own: ReplicationLog, _ peer: ReplicationLog) -> CheckpointBody.Agreement {
        for (index, entry) in own.history.enumerated() {
            guard let other = peer.history.first(where: { $0.session == entry.session })?.body else { continue }
            let mine = entry.body
            var isBehind = index > 0 || other.local < mine.local
            var isEarlier = isBehind
            var remote = mine.remote
            if remote != other.remote {
                switch (mine.remote?.place, other.remote?.place) {
                // The peer's copy is saved first, so both have reached ours.
                case (let here?, let there?) where here < there: break
                case (let here?, let there?): (remote, isBehind, isEarlier) = (other.remote, true, isEarlier || there < here)
                default: remote = nil
                }
            }
            return CheckpointBody.Agreement(
                local: min(mine.local, other.local), remote: remote, trustsKnownRevisions: !isBehind, loss: isEarlier ? .wentBack : nil)
        }
        let isLost = own.history.contains { $0.body.isProgress }
        return CheckpointBody.Agreement(local: 0, remote: nil, trustsKnownRevisions: false, loss: isLost ? .missing : nil)
    }

    /// Records how far this session got.
    mutating func note(_ body: CheckpointBody) {
        history.removeAll { $0.session == session }
        history.insert(Entry(session: session, body: body), at: 0)
        if history.count > CouchBounds.logEntries { history.removeLast(history.count - CouchBounds.logEntries) }
    }

    func text(time: Int64) -> [UInt8] {
        var object = JSONObject()
        func put(_ body: CheckpointBody, _ object: inout JSONObject) {
            if body.local > 0 { object["local"] = .int(body.local) }
            if let remote = body.remote, let value = try? JSONValue(parsing: remote.json) { object["remote"] = value }
        }
        object["session_id"] = .string(session)
        object["replication_id_version"] = 4
        object["replicator"] = "nightjar"
        object["time"] = .int(time)
        if let newest = history.first {
            put(newest.body, &object)
            object["source_last_seq"] = object["remote"] ?? object["local"] ?? 0
        }
        object["history"] = .array(
            history.map { entry in
                var item = JSONObject()
                item["session_id"] = .string(entry.session)
                put(entry.body, &item)
                item["recorded_seq"] = item["remote"] ?? item["local"] ?? 0
                return .object(item)
            })
        return JSONValue.object(object).serialize()
    }
}

extension CouchDialect {
    /// Gets the checkpoint of a peer that is a single database: the histories of both copies show how far both sides got together.
    func open(_ opening: Opening) {
        guard opening.checkpointIDs.count == 1 else {
            return opening.fail(
                ReplicationError(
                    domain: .http, code: 400,
                    message: "a CouchDB database is one collection, and \(opening.checkpointIDs.count) are to be replicated with it",
                    remedy: "give each collection a replicator and a database of its own"))
        }
        environment.task {
            do {
                let peer = try await self.open(checkpoint: opening.checkpointIDs[0])
                let log = ReplicationLog(parsing: peer.body)
                self.state.withLock { $0.peerLog = log }
                opening.done.resume(returning: .success([PeerCheckpoint(body: peer.body, token: peer.token)]))
            } catch {
                opening.fail(ReplicationError(couch: error))
            }
        }
    }

    /// The peer's copy and its token; both empty if there is none.
    func open(checkpoint id: String) async throws -> (body: [UInt8], token: String) {
        let path = Self.path(checkpoint: id)
        var answer = try await ask(PeerRequest("GET", path, json: nil, atMost: CouchBounds.logBytes))
        // A peer with read-only access may not even check whether there is one.
        if [403, 404, 405].contains(answer.status) { return ([], "") }
        guard answer.isGood else { throw ReplicationError(answer, to: "GET \(path)") }
        if !answer.isTooLarge, exceedsBounds(&answer, isOne: true) {
            throw ReplicationError(
                domain: .http, code: 502, message: "GET \(path): the values of the replication log would take more of limits.memory (\(memory.limit) bytes) than is left for an answer")
        }
        let token = try await reading(answer, "GET \(path)") { $0["_rev"]?.asString ?? "" }
        return ([UInt8](answer.body.readableBytesView), token)
    }

    /// Whether the peer's copy is not the one with this token. One that it does not show may be; and a peer that never shows any keeps none, or hides them.
    private func hasOther(checkpoint id: String, than token: String) async throws -> Bool {
        let path = Self.path(checkpoint: id)
        let answer = try await ask(PeerRequest("GET", path, json: nil, atMost: CouchBounds.logBytes))
        if answer.status == 404 { return state.withLock { $0.showsCheckpoints } }
        guard answer.isGood, !answer.isTooLarge else { return false }
        let isOther = try await reading(answer, "GET \(path)") { $0["_rev"]?.asString } != token
        if !isOther { state.withLock { $0.showsCheckpoints = true } }
        return isOther
    }

    /// How far both sides got, according to their copies.
    func agree(own text: [UInt8]?, _ peer: PeerCheckpoint) -> CheckpointBody.Agreement {
        let own = ReplicationLog(parsing: text ?? [])
        let theirs = state.withLock { state in
            if !own.history.isEmpty { state.log.history = own.history }
            return state.peerLog
        }
        return ReplicationLog.common(own, peer.refusedOurCopy(of: text) ? own : theirs)
    }

    func checkpointText(_ body: CheckpointBody, time: Int64) -> [UInt8] {
        state.withLock { state in
            state.log.note(body)
            return state.log.text(time: time)
        }
    }

    func saveCheckpoint(_ slot: Int, id: String, body: [UInt8], token: String) {
        run { dialect in
            guard case .object(var object) = try JSONValue(parsing: body) else { return }
            if !token.isEmpty {
                object["_rev"] = .string(token)
                // CouchDB takes a local document with whichever revision it is sent, even for a database that was created anew in the meantime.
                if try await dialect.hasOther(checkpoint: id, than: token) { return dialect.tell([.checkpoint(slot: slot, .peerConflict)]) }
            }
            // Everything the checkpoint claims must first be on the peer's disk.
            let commit = try await dialect.ask(PeerRequest("POST", "/_ensure_full_commit", json: .object(JSONObject()), atMost: CouchBounds.smallAnswerBytes))
            if let error = Self.doubt(commit) { return dialect.tell([.checkpoint(slot: slot, .peerCannotConfirm(error))]) }
            let path = Self.path(checkpoint: id)
            let answer = try await dialect.ask(PeerRequest("PUT", path, json: .object(object), atMost: CouchBounds.smallAnswerBytes))
            switch answer.status {
            case 200..<300:
                let token = try answer.json("PUT \(path)")["rev"]?.asString ?? ""
                // Once, to know whether it would show one.
                if !token.isEmpty, !dialect.state.withLock({ $0.showsCheckpoints }) { _ = try await dialect.hasOther(checkpoint: id, than: token) }
                dialect.tell([.checkpoint(slot: slot, .peerSaved(token: token))])
            case 409: dialect.tell([.checkpoint(slot: slot, .peerConflict)])
            default: dialect.tell([.checkpoint(slot: slot, .peerRefused(ReplicationError(answer, to: "PUT \(path)")))])
            }
        }
    }

    /// Why it is unknown whether accepted documents are on the peer's disk. A peer without this request writes through; a peer that forbids it is
    /// sent the checkpoint nevertheless, and its answer decides.
    private static func doubt(_ commit: PeerAnswer) -> ReplicationError? {
        if commit.isGood || [403, 404, 405, 410, 501].contains(commit.status) { return nil }
        var error = ReplicationError(commit, to: "POST /_ensure_full_commit")
        error.message += "; the checkpoint is not saved before the peer says that what it took is on its disk"
        if error.kind == .permanent { error.isTransient = true }
        return error
    }

    func fetchCheckpoint(_ slot: Int, id: String) {
        run { dialect in
            let token = try await dialect.open(checkpoint: id).token
            dialect.tell([.checkpoint(slot: slot, .tokenFetched(token))])
        }
    }

    /// The id is base64; in a path, it is spelled with characters that need no escaping.
    private static func path(checkpoint id: String) -> String {
        "/_local/" + id.with("+", replacedBy: "-").with("/", replacedBy: "_").with("=", replacedBy: "")
    }
}

extension RemoteSequence {
    /// Its position among other sequences of its peer: the number itself, or the number at the start of CouchDB's. Nil if it has none.
    fileprivate var place: UInt64? { integer ?? UInt64(json.drop { $0 == "\"" }.prefix { $0.isASCII && $0.isNumber }) }
}
