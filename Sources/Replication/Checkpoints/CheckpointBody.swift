import Documents

/// A position in a peer's changes feed: JSON that only the peer understands, kept as the text it came as.
public struct RemoteSequence: Hashable, Sendable, CustomStringConvertible {
    /// JSON text: an integer, or Sync Gateway's compound form with its quotes.
    public let json: String

    public init(json: String) { self.json = json }

    /// The number, where the sequence is one.
    public var integer: UInt64? { UInt64(json) }
    public var description: String { json }
}

/// What a replicator's checkpoint says: how far the push and the pull have come.
///
/// The same JSON as Couchbase Lite's: `{"time":…,"local":n,"remote":seq}`.
public struct CheckpointBody: Equatable, Sendable {
    /// Every local sequence up to this one has been pushed or needs no push; 0 for none.
    public var local: UInt64
    /// Everything of the peer up to this sequence has been pulled; nil for nothing.
    public var remote: RemoteSequence?

    public init(local: UInt64 = 0, remote: RemoteSequence? = nil) {
        self.local = local
        self.remote = remote
    }

    /// Reads a body; anything unusable counts as no progress, which costs time but loses nothing.
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

    /// The text of a checkpoint that the peer does not keep as well.
    ///
    /// - Parameter token: of the copy that the peer has, an older one or none. While it has that one, it says nothing.
    static func hereOnly(_ text: [UInt8], besides token: String) -> [UInt8] {
        guard case .object(var object)? = try? JSONValue(parsing: text) else { return text }
        object["here_only"] = .string(token)
        return JSONValue.object(object).serialize()
    }

    /// Whether the peer refused to keep it as well, and has what it had then. If it has another copy, or lost the one that it had, it may have
    /// lost data as well.
    static func isHereOnly(_ text: [UInt8], besides token: String) -> Bool { (try? JSONValue(parsing: text))?["here_only"]?.asString == token }

    /// The text of our copy while everything up to a sequence is compared anew: a connection that breaks meanwhile is no reason to believe what was
    /// noted of the documents that it has not come to.
    static func comparing(_ text: [UInt8], through sequence: UInt64) -> [UInt8] {
        guard case .object(var object)? = try? JSONValue(parsing: text) else { return text }
        object["compared_through"] = .int(sequence)
        return JSONValue.object(object).serialize()
    }

    /// How far everything is to be compared anew; 0 where nothing is.
    static func comparedThrough(_ text: [UInt8]) -> UInt64 { (try? JSONValue(parsing: text))?["compared_through"]?.asUInt64 ?? 0 }

    /// The text of our copy with the login that it was made as: another one may see documents at the peer that this one could not.
    static func made(as login: String, _ text: [UInt8]) -> [UInt8] {
        guard case .object(var object)? = try? JSONValue(parsing: text) else { return text }
        object["login"] = .string(login)
        return JSONValue.object(object).serialize()
    }

    /// Whether it was made as another login. A copy that names none may be this one's.
    static func isOfAnother(_ text: [UInt8], than login: String?) -> Bool {
        guard let login, let maker = (try? JSONValue(parsing: text))?["login"]?.asString else { return false }
        return !maker.utf8.elementsEqual(login.utf8)
    }

    /// What the peer's copy says of the peer: what is saved here was saved there first, so a copy that is behind ours is an earlier one.
    public enum PeerLoss: Equatable, Sendable {
        /// There is none where ours is.
        case missing
        /// It stands before ours.
        case wentBack
    }

    /// Whether it says anything of how far the two have come.
    var isProgress: Bool { local > 0 || remote != nil }

    /// What both sides agree on, after the peer's copy was fetched.
    public struct Agreement: Equatable, Sendable {
        public var local: UInt64
        public var remote: RemoteSequence?
        /// False when the peer's copy is behind or missing: it may have lost data, so what we noted of its documents is
        /// not trusted in this run and everything after ``local`` is proposed anew.
        public var trustsKnownRevisions: Bool
        /// What the peer lost of its copy; nil where it lost nothing, or that cannot be told.
        public var loss: PeerLoss?
    }

    /// Compares our copy with the peer's, as Couchbase Lite 3.2 does: the smaller progress counts; sequences that
    /// cannot be compared start the pull over.
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
