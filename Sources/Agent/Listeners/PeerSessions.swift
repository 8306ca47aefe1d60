import Digests
import Encodings
import Environment
import HTTPServer
import Interfaces
import Synchronization

/// Sessions that a listener's peers opened with name and password, and that a cookie stands for (`POST /DATABASE/_session`).
///
/// Ids are 32 random bytes; only a keyed hash of each is stored, so that the time of a lookup reveals nothing about an id.
final class PeerSessions: Sendable {
    enum Limits {
        /// `session_seconds`: a session without a connection ends after this time. The same as Sync Gateway's default.
        static let seconds: UInt64 = 86_400
        /// `sessions_per_user`: a further session replaces the user's least recently used one.
        static let perUser = 100
        /// `sessions`: of one listener; a further session replaces the least recently used one.
        static let count = 10_000
    }

    /// Sync Gateway's cookie name, which Couchbase Lite's SessionAuthenticator uses by default.
    static let cookie = "SyncGatewaySession"

    /// CouchDB's cookie name, for sessions on the whole server (`POST /_session`), which are not tied to a database.
    static let serverCookie = "AuthSession"

    struct Key: Hashable, Sendable {
        fileprivate let bytes: [UInt8]
    }

    struct Session: Sendable {
        var database: String
        var principal: Principal
        /// The credentials that opened the session, to be judged again when the authenticator's answers may have changed.
        var proof: PeerAuthentication.Proof
        /// The authenticator's generation when the session was last judged.
        var generation: Int
        fileprivate var end: UInt64
        /// When the client was last told how long the session lives.
        fileprivate var told: UInt64
        fileprivate var number: UInt64
        /// A counter over all sessions that increases with each use, to order sessions by their last use.
        fileprivate var lastUse: UInt64
    }

    private struct State {
        var sessions: [Key: Session] = [:]
        var next: UInt64 = 0

        /// Ends the least recently used of the chosen sessions.
        mutating func makeRoom(among chosen: [Key: Session]) -> Session? {
            guard let (key, session) = chosen.min(by: { $0.value.lastUse < $1.value.lastUse }) else { return nil }
            sessions[key] = nil
            return session
        }
    }

    private let state = Mutex(State())
    private let time: any TimeSource
    private let random: any RandomSource
    private let secret: [UInt8]
    private let ended: @Sendable (Session, NamedLimit) -> Void

    /// - Parameter ended: called for each session that is replaced by another, with the limit.
    init(_ environment: Environment, ended: @escaping @Sendable (Session, NamedLimit) -> Void = { _, _ in }) {
        self.ended = ended
        time = environment.time
        random = environment.random
        secret = environment.random.bytes(32)
    }

    var count: Int { state.withLock { $0.sessions.count } }

    /// - Returns: the id, which is not stored anywhere.
    func open(_ database: String, _ principal: Principal, _ proof: PeerAuthentication.Proof, generation: Int) -> String {
        let id = Hex.encode(random.bytes(32))
        let now = time.monotonicNanoseconds()
        let gone = state.withLock { state in
            Self.removeEnded(&state, now)
            var gone: [(Session, NamedLimit)] = []
            let own = state.sessions.filter { Self.isSame($0.value.principal.name, principal.name) }
            if own.count >= Limits.perUser, let session = state.makeRoom(among: own) {
                gone.append((session, NamedLimit("sessions_per_user", Limits.perUser)))
            }
            if state.sessions.count >= Limits.count, let session = state.makeRoom(among: state.sessions) {
                gone.append((session, NamedLimit("sessions", Limits.count)))
            }
            state.next += 1
            state.sessions[key(id)] = Session(
                database: database, principal: principal, proof: proof, generation: generation, end: Self.end(now), told: now, number: state.next,
                lastUse: state.next)
            return gone
        }
        for (session, limit) in gone { ended(session, limit) }
        return id
    }

    /// The session that a request's cookie stands for, if it is valid for the database.
    ///
    /// - Parameter database: empty for a session on the whole server.
    func find(_ cookies: String?, _ database: String) -> (key: Key, session: Session)? {
        guard let id = Self.id(cookies, database.utf8.isEmpty ? Self.serverCookie : Self.cookie) else { return nil }
        let (key, now) = (key(id), time.monotonicNanoseconds())
        return state.withLock { state in
            guard let session = state.sessions[key], session.end > now, session.database.utf8.elementsEqual(database.utf8) else { return nil }
            return (key, session)
        }
    }

    /// Extends a session that was used, and that this generation of the authenticator has accepted.
    func use(_ key: Key, generation: Int) {
        let end = Self.end(time.monotonicNanoseconds())
        state.withLock { state in
            state.sessions[key]?.end = end
            state.sessions[key]?.generation = generation
            state.next += 1
            state.sessions[key]?.lastUse = state.next
        }
    }

    /// The id in a request's cookie, if the client should be sent the cookie again: a browser forgets the cookie after the lifetime it was last told,
    /// however much the session is used. Sent again after a tenth of that time, as in CouchDB and Sync Gateway.
    func due(_ cookies: String?, _ database: String) -> String? {
        guard let id = Self.id(cookies, database.utf8.isEmpty ? Self.serverCookie : Self.cookie) else { return nil }
        let (key, now) = (key(id), time.monotonicNanoseconds())
        return state.withLock { state in
            guard let session = state.sessions[key], session.end > now, session.database.utf8.elementsEqual(database.utf8),
                now - session.told >= Limits.seconds * 100_000_000
            else { return nil }
            state.sessions[key]?.told = now
            return id
        }
    }

    /// Whether the session has not ended.
    func has(_ key: Key) -> Bool { state.withLock { $0.sessions[key] != nil } }

    func end(_ key: Key) {
        state.withLock { $0.sessions[key] = nil }
    }

    /// Active sessions, by user and age.
    var all: [(session: Session, secondsLeft: UInt64)] {
        let now = time.monotonicNanoseconds()
        return state.withLock { $0.sessions.values.filter { $0.end > now } }
            .sorted { ($0.principal.name ?? "", $0.number) < ($1.principal.name ?? "", $1.number) }
            .map { ($0, ($0.end - now) / 1_000_000_000) }
    }

    /// Ends all sessions of a user.
    ///
    /// - Returns: how many.
    func end(of user: String) -> Int {
        let now = time.monotonicNanoseconds()
        return state.withLock { state in
            let own = state.sessions.filter { Self.isSame($0.value.principal.name, user) }
            for key in own.keys { state.sessions[key] = nil }
            return own.values.count { $0.end > now }
        }
    }

    /// The header that gives a peer its session cookie, or removes it.
    static func setCookie(_ id: String?, name: String = cookie, path: String, isSecure: Bool, forOtherSites: Bool = false) -> String {
        "\(name)=\(id ?? ""); Path=\(path); Max-Age=\(id == nil ? 0 : Limits.seconds); HttpOnly; SameSite=\(forOtherSites && isSecure ? "None" : "Strict")\(isSecure ? "; Secure" : "")"
    }

    private func key(_ id: String) -> Key { Key(bytes: hmacSHA256(key: secret, message: Array(id.utf8))) }

    private static func end(_ now: UInt64) -> UInt64 { now + Limits.seconds * 1_000_000_000 }

    private static func removeEnded(_ state: inout State, _ now: UInt64) {
        guard state.sessions.contains(where: { $0.value.end <= now }) else { return }
        state.sessions = state.sessions.filter { $0.value.end > now }
    }

    private static func isSame(_ a: String?, _ b: String?) -> Bool { (a ?? "").utf8.elementsEqual((b ?? "").utf8) }

    /// The value of our cookie in a `Cookie` header.
    private static func id(_ cookies: String?, _ cookie: String) -> String? {
        for pair in (cookies ?? "").utf8.split(separator: UInt8(ascii: ";")) {
            let text = pair.drop { $0 == 0x20 || $0 == 0x09 }
            let wanted = Array("\(cookie)=".utf8)
            guard text.starts(with: wanted) else { continue }
            let id = text.dropFirst(wanted.count)
            return id.isEmpty || id.count > 256 ? nil : String(Substring(id))
        }
        return nil
    }
}
