import CouchDBServer
import HTTPServer
import Interfaces
import Logging
import Replication
import Synchronization

/// Disconnects peers that have lost their permission, whether connected by WebSocket or being answered by the CouchDB API.
extension PeerListener {
    /// Ends everything that uses a session which has ended.
    func disconnectSession(_ login: PeerSessions.Key) async {
        for caller in callers.all where caller.login == login { end(caller, "its session has ended") }
        for connection in state.withLock({ $0.connections.values.filter { $0.login == login } }) {
            await end(connection, "its session has ended", "log in again")
        }
    }

    /// Ends the connections of a user, or those from an address, given with or without a port. The peers may reconnect and log in.
    ///
    /// - Returns: how many.
    func disconnect(_ who: String) async -> Int {
        func isMeant(_ user: String?, _ address: String) -> Bool {
            let host = Self.host(of: address)
            return [user, address, host, host.filter { $0 != "[" && $0 != "]" }].contains { $0?.utf8.elementsEqual(who.utf8) == true }
        }
        var count = 0
        for caller in callers.all where isMeant(caller.principal.name, caller.address) {
            if end(caller, "an operator asked for it") { count += 1 }
        }
        for connection in state.withLock({ $0.connections.values.filter { isMeant($0.peer.user, $0.peer.address) } }) {
            await end(connection, "an operator asked for it", "disconnected by the operator")
            count += 1
        }
        return count
    }

    private func end(_ connection: Connection, _ why: String, _ reason: String) async {
        note(connection.peer.user, connection.peer.address, why)
        await connection.session.stop(code: 4001, reason: reason)
    }

    /// - Returns: false if it had already ended.
    @discardableResult
    private func end(_ caller: CouchCallers.Caller, _ why: String) -> Bool {
        guard let admission = caller.admission, admission.end() else { return false }
        note(caller.principal.name, caller.address, why)
        return true
    }

    private func note(_ user: String?, _ address: String, _ why: String) {
        logger.notice("a peer is disconnected: \(why)", metadata: ["user": "\(user ?? "")", "peer": "\(address)"])
    }

    // MARK: - Authenticator changes

    /// The authenticator, or the data it uses, has changed: every peer that would no longer be let in, or only as a different principal, has to log
    /// in again. Answers in progress are suspended until their callers have been judged. Peers affected by a change of the users file come first,
    /// because each login takes as long as a password hash.
    func reauthenticate() async {
        loginCache?.forget()
        let users = policies.users().map { UserMarks($0) }
        let (generation, before, peers) = state.withLock { state in
            (state.generations.authenticatorChanges(), state.users, state.connections.sorted { $0.key < $1.key }.map { (key: $0.key, proof: $0.value.proof) })
        }
        let callers = callers.all
        for caller in callers { caller.admission?.doubt(generation) }
        var round = ReauthenticationRound(authentication)
        func isAffected(_ proof: PeerAuthentication.Proof) -> Bool {
            guard let users, case .password(let shown) = proof else { return false }
            return users.differ(from: before, on: shown.username)
        }
        for areConcerned in [true, false] {
            for caller in callers where !Task.isCancelled && isAffected(caller.proof) == areConcerned {
                await reauthenticate(caller, generation, &round)
            }
            for peer in peers where !Task.isCancelled && isAffected(peer.proof) == areConcerned { await reauthenticate(peer.key, &round) }
        }
        if !Task.isCancelled { state.withLock { $0.users = users } }
    }

    private func reauthenticate(_ caller: CouchCallers.Caller, _ generation: Int, _ round: inout ReauthenticationRound) async {
        guard let admission = caller.admission else { return }
        let isAccepted = await round.accepts(caller.proof, as: caller.principal, remote: caller.address)
        // If cancelled, the authenticator was not asked.
        guard !Task.isCancelled else { return }
        guard isAccepted else {
            if let login = caller.login { sessions.end(login) }
            end(caller, Self.anotherLogin)
            return
        }
        if let login = caller.login { sessions.use(login, generation: generation) }
        admission.confirm(generation)
    }

    func reauthenticate(_ key: Int, _ round: inout ReauthenticationRound) async {
        guard let connection = state.withLock({ $0.connections[key] }) else { return }
        guard await !round.accepts(connection.proof, as: connection.principal, remote: connection.peer.address) else { return }
        guard !Task.isCancelled else { return }
        await end(connection, Self.anotherLogin, "log in again")
    }

    private static var anotherLogin: String { "its login has changed" }

    // MARK: - Tokens

    /// Takes in keys that changed, and puts off those whose tokens have ended or are signed by none of the keys any more. By the clock of the wall, which
    /// is the one that tokens are dated by, or what is known to be later.
    func refreshTokens() async {
        guard let tokens = policies.tokens else { return }
        if tokens.refresh(logger) { await recheckTokens() }
        let now = tokens.now.seconds
        func isOver(_ proof: PeerAuthentication.Proof) -> Bool {
            if case .token(let token) = proof { token.end <= now } else { false }
        }
        for caller in callers.all where isOver(caller.proof) { end(caller, Self.endedToken) }
        for connection in state.withLock({ $0.connections.values.filter { isOver($0.proof) } }) { await end(connection, Self.endedToken, "log in again") }
    }

    /// As ``reauthenticate()``, for those who came by a token: other logins are what they were, and so are sessions. One who is on the way in with a token is
    /// judged by the new number.
    private func recheckTokens() async {
        func isToken(_ proof: PeerAuthentication.Proof) -> Bool { if case .token = proof { true } else { false } }
        let (generation, peers) = state.withLock { state in
            (state.generations.tokenKeysChange(), state.connections.filter { isToken($0.value.proof) }.keys.sorted())
        }
        let callers = callers.all.filter { isToken($0.proof) }
        for caller in callers { caller.admission?.doubt(generation) }
        var round = ReauthenticationRound(authentication)
        for caller in callers { await reauthenticate(caller, generation, &round) }
        for key in peers { await reauthenticate(key, &round) }
    }

    private static var endedToken: String { "its token has ended" }

    // MARK: - Authority changes

    /// Loads changed TLS files, and disconnects peers whose certificate no longer comes from any of the authorities.
    func refreshSecurity() async {
        guard let security, security.refresh(logger) else { return }
        let keys = state.withLock { state in
            // Not the authenticator's generation: names and passwords are as good as before, and all sessions would be judged again.
            state.authorities += 1
            return state.connections.keys.sorted()
        }
        for caller in callers.all { disconnectUnlessVouchedFor(caller) }
        for key in keys { await disconnectUnlessVouchedFor(key) }
    }

    private func disconnectUnlessVouchedFor(_ caller: CouchCallers.Caller) {
        if security?.accepts(caller.chain) == false { end(caller, Self.noAuthority) }
    }

    func disconnectUnlessVouchedFor(_ key: Int) async {
        guard let security, let connection = state.withLock({ $0.connections[key] }), !security.accepts(connection.chain) else { return }
        await end(connection, Self.noAuthority, "log in again")
    }

    private static var noAuthority: String { "no authority in roots vouches for its certificate any more" }

    // MARK: - Callers who arrive during a change

    /// Registers a caller, so that from now on it is disconnected with the others. Catches up with changes that happened between its login and this
    /// call.
    ///
    /// - Throws: ``HTTPError`` 401 if it must be turned away at once.
    func takeIn(_ caller: CouchCallers.Caller) async throws(HTTPError) -> Admission {
        let admission = callers.add(caller)
        var caller = caller
        caller.admission = admission
        let (generations, authorities) = state.withLock { ($0.generations, $0.authorities) }
        let generation = generations.last(for: caller.proof)
        if authorities != caller.authorities { disconnectUnlessVouchedFor(caller) }
        if let login = caller.login, !sessions.has(login) { admission.end() }
        if generation != caller.generation, admission.standing != .ended {
            admission.doubt(generation)
            var round = ReauthenticationRound(authentication)
            await reauthenticate(caller, generation, &round)
        }
        guard admission.standing != .ended else { throw HTTPError(401, "log in again") }
        return admission
    }
}
