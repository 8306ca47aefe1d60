import Documents
import Replication
import TLS

/// Certificates that are about to expire, as far as ``CertificateEnd`` tells them: those in use, authorities, pins, and that of the server last connected to.
extension Agent {
    nonisolated func certificateAttention(of listener: PeerListener, now: Int64) -> [Attention] {
        let subject = "listener \(listener.settings.name.value)"
        var tokens = listener.policies.tokens?.failure.map { [Self.refused(subject, "authenticator.jwt", "\($0)")] } ?? []
        if let problem = listener.policies.tokens?.secretProblem { tokens.append(Self.refused(subject, "authenticator.jwt.secret", problem)) }
        guard let security = listener.security else { return tokens }
        var list = tokens + Self.attention(of: security.identity, subject, now: now)
        if let failure = security.rootsFailure { list.append(Self.refused(subject, "roots", "\(failure)")) }
        if let failure = security.revokedFailure { list.append(Self.refused(subject, "crl", "\(failure)")) }
        return list + CertificateEnd.ofAuthorities(security.rootCertificates, now: now).map { Self.attention(of: $0, subject) }
    }

    nonisolated func certificateAttention(of replicator: Replicator, now: Int64) -> [Attention] {
        let name = replicator.configuration.name
        guard let security = shared.withLock({ $0.replicatorSecurity[name] }) else { return [] }
        let subject = "replicator \(name)"
        var list = security.identity.map { Self.attention(of: $0, subject, now: now) } ?? []
        for (what, failure) in security.fileFailures { list.append(Self.refused(subject, what, "\(failure)")) }
        return list + security.ends(now: now).map { Self.attention(of: $0, subject) }
    }

    private static func attention(of identity: IdentitySource, _ subject: String, now: Int64) -> [Attention] {
        var list: [Attention] = []
        if let failure = identity.failure, identity.renewsItself, failure.kind == .unwritable {
            list.append(
                Attention(
                    .tlsFilesRefused, subject,
                    "identity \(identity.label): its file is gone or has to be renewed, and cannot be written; the key in memory is in use, and the next start would make another: \(failure)",
                    remedy: "let the agent write there, or restore the file from a backup; it tries again by itself, so do not stop it before"))
        } else if let failure = identity.failure { list.append(refused(subject, "identity \(identity.label)", "\(failure)")) }
        let leaf = identity.current.leaf
        if let file = identity.damagedFile {
            list.append(
                Attention(
                    .tlsFilesRefused, subject,
                    "identity \(identity.label): no key could be read from its file, which is kept as \(file), and the agent made a new one: peers that pin the old "
                        + "key refuse it; the pin in force is \(leaf.pin)",
                    remedy: "restore the file of the identity from a backup, or have the peers pin the new key; then remove \(file)"))
        }
        if let loss = attention(to: identity.loss, of: identity, subject) { list.append(loss) }
        if let end = identity.end(now: now) { list.append(attention(of: end, subject)) }
        return list
    }

    /// That the file of the agent's own identity was gone; told until the next start, so that somebody sees it.
    private static func attention(to loss: KeyStore.AnonymousEvent?, of identity: IdentitySource, _ subject: String) -> Attention? {
        switch loss {
        case .putBack:
            Attention(
                .tlsFilesRefused, subject,
                "identity \(identity.label): its file was gone and has been written again with the same key, so pins stay valid",
                remedy: "find out what removed it, and restore what else was in DATA/identities from a backup; this is reported until the next start")
        case .lost(let earlier):
            Attention(
                .tlsFilesRefused, subject,
                "identity \(identity.label): its file is gone, and the agent made a new key: \(earlier.refusers) refuse this agent; the pin in force is "
                    + identity.current.leaf.pin,
                remedy: "restore DATA/identities from a backup, which a running agent takes by itself, or give the peers the new pin; this is reported until the next start")
        case nil, .kept, .made, .renewed, .replaced: nil
        }
    }

    private static func attention(of end: CertificateEnd, _ subject: String) -> Attention {
        Attention(end.isGrave ? .certificateExpired : .certificateEnding, subject, since: end.expiredAt, end.text, remedy: end.remedy)
    }

    private static func refused(_ subject: String, _ what: String, _ failure: String) -> Attention {
        Attention(
            .tlsFilesRefused, subject, "\(what): the files are invalid, and what was read before is in use: \(failure)", remedy: "fix the files: they are read again "
                + "by themselves")
    }
}
