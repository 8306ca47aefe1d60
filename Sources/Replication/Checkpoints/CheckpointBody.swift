import Documents

/// A position in a peer's changes feed: JSON that only the peer understands, kept exactly as received.
public struct RemoteSequence: Hashable, Sendable, CustomStringConvertible {
    /// JSON text: an integer, or Sync Gateway's compound form including the quotes.
    public let json: String

    public init(json: String) { self.json = json }

    /// The number, if the sequence is a plain number.
    public var integer: UInt64? { UInt64(json) }
    public var description: String { json }

    /// Memory that it takes beyond the value itself, in bytes.
    var heldBytes: Int { HeldBytes.text(json) }
}

/// The content of a replicator's checkpoint: how far the push and the pull have come.
///
/// The same JSON as Couchbase Lite's: `{"time":…,"local":n,"remote":seq}`.
public struct CheckpointBody: Equatable, Sendable {
    /// Every local sequence up to this one has been pushed or needs no push; 0 if there is none.
    public var local: UInt64
    /// Everything from the peer up to this sequence has been pulled; nil if nothing has.
    public var remote: RemoteSequence?

    public init(local: UInt64 = 0, remote: RemoteSequence? = nil) {
        self.local = local
        self.remote = remote
    }

    /// Parses a body; anything unusable counts as no progress, which costs time but loses nothing.
    public init(parsing bytes: [UInt8]) {
        self.init()
        guard case .object(let object)? = try? JSONValue(parsing: bytes) else { return }
        if case .number(let number)? = object["local"], let value = number.asInt64, value > 0 {
            local = UInt64(value)
        }
        switch object["remote"] {
        case .number(let number)?: remote = RemoteSequence(json: number.text)
        case .string(let text)?: remote = RemoteSequence(json: String(decoding: JSONValue.string(text).serialize(), as: UTF8.self))
        default: break
        }
    }

    /// For the log.
    var words: String { "pushed through \(local), pulled through \(remote.map { $0.json.prefix(100) } ?? "nothing")" }

    static func words(_ text: [UInt8]?) -> String { text.map { CheckpointBody(parsing: $0).words } ?? "none" }

    /// - Parameter time: seconds since 1970, for people who read checkpoints.
    public func bytes(time: Int64) -> [UInt8] {
        var text = "{\"time\":\(time)"
        if local > 0 { text += ",\"local\":\(local)" }
        if let remote { text += ",\"remote\":\(remote.json)" }
        return Array((text + "}").utf8)
    }

    /// The text of a checkpoint that only this side keeps.
    ///
    /// - Parameter token: the token of the peer's copy, which is older, or empty if it has none. As long as the peer's copy is that one, it is not
    ///   evidence of a loss.
    static func hereOnly(_ text: [UInt8], besides token: String) -> [UInt8] {
        guard case .object(var object)? = try? JSONValue(parsing: text) else { return text }
        object["here_only"] = .string(token)
        return JSONValue.object(object).serialize()
    }

    /// Whether the peer refused to keep this checkpoint, and still has the copy it had then. If it has another copy, or lost the one that it had, it
    /// may have lost data as well.
    static func isHereOnly(_ text: [UInt8], besides token: String) -> Bool { (try? JSONValue(parsing: text))?["here_only"]?.asString == token }

    /// The text of our copy while everything up to a sequence is being compared again: if a connection breaks in the meantime, the notes on the
    /// remaining documents are still not to be trusted.
    static func comparing(_ text: [UInt8], through sequence: UInt64) -> [UInt8] {
        guard case .object(var object)? = try? JSONValue(parsing: text) else { return text }
        object["compared_through"] = .int(sequence)
        return JSONValue.object(object).serialize()
    }

    /// The sequence up to which everything has to be compared again; 0 if nothing has to be.
    static func comparedThrough(_ text: [UInt8]) -> UInt64 { (try? JSONValue(parsing: text))?["compared_through"]?.asUInt64 ?? 0 }

    /// The text of our copy with the login that made it: another one may see documents at the peer that this one could not.
    static func made(as login: String, _ text: [UInt8]) -> [UInt8] {
        guard case .object(var object)? = try? JSONValue(parsing: text) else { return text }
        object["login"] = .string(login)
        return JSONValue.object(object).serialize()
    }

    /// Whether it was made with another login. A copy that names none may be this login's.
    static func isAboutAnother(_ text: [UInt8], than login: String?) -> Bool {
        guard let login, let maker = (try? JSONValue(parsing: text))?["login"]?.asString else { return false }
        return !maker.utf8.elementsEqual(login.utf8)
    }

    /// What the peer's copy reveals about the peer: the peer's copy is saved before ours, so a copy that is behind ours is an earlier one.
    public enum PeerLoss: Equatable, Sendable {
        /// The peer has no copy, but we do.
        case missing
        /// The peer's copy is older than ours.
        case wentBack
    }

    /// Whether it contains any progress.
    var isProgress: Bool { local > 0 || remote != nil }

    /// What both sides agree on, once the peer's copy was fetched.
    public struct Agreement: Equatable, Sendable {
        public var local: UInt64
        public var remote: RemoteSequence?
        /// False if the peer's copy is behind or missing: the peer may have lost data, so our notes on its documents are not trusted in this run, and
        /// everything after ``local`` is proposed again.
        public var trustsKnownRevisions: Bool
        /// What the peer lost of its copy; nil if it lost nothing, or if that is unknown.
        public var loss: PeerLoss?
    }

    /// Compares our copy with the peer's, as Couchbase Lite 3.2 does: the smaller progress counts; sequences that cannot be compared make the pull
    /// start over.
    public static func agree(own: CheckpointBody?, peer: CheckpointBody?) -> Agreement {
        guard let own else { return Agreement(local: 0, remote: nil, trustsKnownRevisions: false) }
        guard let peer else {
            return Agreement(local: 0, remote: nil, trustsKnownRevisions: false, loss: own.isProgress ? .missing : nil)
        }
        let remote: RemoteSequence?
        var isBehind = peer.local < own.local
        if own.remote == peer.remote {
            remote = own.remote
        } else if let mine = own.remote?.integer, let theirs = peer.remote?.integer {
            remote = mine < theirs ? own.remote : peer.remote
            isBehind = isBehind || theirs < mine
        } else {
            remote = nil
        }
        return Agreement(
            local: min(own.local, peer.local), remote: remote, trustsKnownRevisions: own.local == peer.local,
            loss: isBehind ? .wentBack : nil)
    }
}
