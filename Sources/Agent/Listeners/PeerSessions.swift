import Digests
import Encodings
import Environment
import HTTPServer
import Interfaces
import Synchronization

/// Sessions that peers of a listener opened with name and password, and that a cookie stands for (`POST /DATABASE/_session`).
///
/// Ids are 32 random bytes; what is kept is a keyed hash of each, so that how long a look takes says nothing of one.
final class PeerSessions: Sendable {
    enum Limits {
        /// `session_seconds`: without a connection by it a session ends. Sync Gateway's default.
        static let seconds: UInt64 = 86_400
        /// `sessions_per_user`: a further one ends that of the user which nobody has used for longest.
        static let perUser = 100
        /// `sessions`: of one listener; a further one ends that which nobody has used for longest.
        static let count = 10_000
    }

    /// The name that Sync Gateway gives it, and Couchbase Lite's SessionAuthenticator uses by default.
    static let cookie = "SyncGatewaySession"

    /// CouchDB's name, for sessions of the whole server (`POST /_session`): they have no database of their own.
    static let serverCookie = "AuthSession"

    struct Key: Hashable, Sendable {
        fileprivate let bytes: [UInt8]
    }

    struct Session: Sendable {
        var database: String
        var principal: Principal
        /// What was shown when it was opened: it is judged again when the authenticator may judge otherwise.
        var proof: PeerAuthentication.Proof
        /// The authenticator's when it was judged last.
        var generation: Int
        fileprivate var end: UInt64
        /// When its client heard last how long it lives.
        fileprivate var told: UInt64
        fileprivate var number: UInt64
        /// Counts on with each use of any session, so that it tells which was used before which.
        fileprivate var lastUse: UInt64
    }

    private struct State {
        var sessions: [Key: Session] = [:]
        var next: UInt64 = 0

        /// Ends the one that nobody has used for longest.
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

    /// - Parameter ended: told of each session that makes room for another, and of the limit.
    init(_ environment: Environment, ended: @escaping @Sendable (Session, NamedLimit) -> Void = { _, _ in }) {
        self.ended = ended
        time = environment.time
        random = environment.random
        secret = environment.random.bytes(32)
    }

    var count: Int { state.withLock { $0.sessions.count } }

    /// - Returns: the id, which is nowhere kept.
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

    /// The session that a request's cookie stands for, and has the database.
    ///
    /// - Parameter database: empty for a session of the whole server.
    func find(_ cookies: String?, _ database: String) -> (key: Key, session: Session)? {
        guard let id = Self.id(cookies, database.utf8.isEmpty ? Self.serverCookie : Self.cookie) else { return nil }
        let (key, now) = (key(id), time.monotonicNanoseconds())
        return state.withLock { state in
            guard let session = state.sessions[key], session.end > now, session.database.utf8.elementsEqual(database.utf8) else { return nil }
            return (key, session)
        }
    }

    /// It was used, and judged by this generation of the authenticator: it lives on.
    func use(_ key: Key, generation: Int) {
        let end = Self.end(time.monotonicNanoseconds())
        state.withLock { state in
            state.sessions[key]?.end = end
            state.sessions[key]?.generation = generation
            state.next += 1
            state.sessions[key]?.lastUse = state.next
        }
    }

    /// The id in a request's cookie, where its client is to be given the cookie again: a browser forgets it when the time is over that it heard
    /// last, however much the session is used. Once in a tenth of that time, as CouchDB and Sync Gateway do it.
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

    /// It has not been ended.
    func has(_ key: Key) -> Bool { state.withLock { $0.sessions[key] != nil } }

    func end(_ key: Key) {
        state.withLock { $0.sessions[key] = nil }
    }

    /// Those that have not ended, by user and age.
    var all: [(session: Session, secondsLeft: UInt64)] {
        let now = time.monotonicNanoseconds()
        return state.withLock { $0.sessions.values.filter { $0.end > now } }
            .sorted { ($0.principal.name ?? "", $0.number) < ($1.principal.name ?? "", $1.number) }
            .map { ($0, ($0.end - now) / 1_000_000_000) }
    }

    /// Ends all of a user.
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

    /// The header that gives a peer its session, or takes it away.
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
