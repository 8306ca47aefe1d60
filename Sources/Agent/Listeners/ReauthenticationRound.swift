import Interfaces

/// Judges connected peers again after a change of the authenticator. It is asked only once about each login from an address, however many connections
/// used it: a login by name and password costs a password hash, and a user may have many feeds.
struct ReauthenticationRound {
    private let authentication: PeerAuthentication
    /// By credentials and address: an authenticator may consider the address too, but hardly the port.
    private var verdicts: [[[UInt8]]: AuthenticationVerdict] = [:]

    init(_ authentication: PeerAuthentication) { self.authentication = authentication }

    /// As ``PeerAuthentication/accepts(_:as:remote:)``.
    mutating func accepts(_ proof: PeerAuthentication.Proof, as principal: Principal, remote: String) async -> Bool {
        let shown: [String]
        switch proof {
        case .nothing: return true
        case .password(let credentials): shown = [credentials.username, credentials.password]
        case .certificate(let chain): shown = chain.map(\.sha256)
        case .token(let token): shown = [token.text]
        }
        let login = (shown + [PeerListener.host(of: remote)]).map { Array($0.utf8) }
        if let known = verdicts[login] { return PeerAuthentication.isSame(known, principal) }
        let verdict = await authentication.verdict(on: proof, of: principal, remote: remote)
        switch verdict {
        case .accepted, .refused: verdicts[login] = verdict
        // A failure now says nothing about the next attempt.
        case .failed, nil: break
        }
        return PeerAuthentication.isSame(verdict, principal)
    }
}

/// The users of a file, each with a mark that changes with its line.
struct UserMarks: Sendable, Equatable {
    private var marks: [[UInt8]: Int] = [:]

    init(_ lines: UserLines) {
        for (name, line) in lines.counting { marks[Array(name)] = line.hashValue }
    }

    /// Whether two files differ in what they say about a user.
    func differ(from other: UserMarks?, on user: String) -> Bool {
        let name = Array(user.utf8)
        return marks[name] != other?.marks[name]
    }
}
