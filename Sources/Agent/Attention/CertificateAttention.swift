import Documents
import Encodings
import Replication
import TLS

/// Certificates that are about to expire: those in use, their authorities, pins, and that of the server last connected to.
extension Agent {
    nonisolated func certificateAttention(of listener: PeerListener, now: Int64) -> [Attention] {
        let subject = "listener \(listener.settings.name.value)"
        var tokens = listener.policies.tokens?.failure.map { [Self.refused(subject, "authenticator.jwt", "\($0)")] } ?? []
        if let problem = listener.policies.tokens?.secretProblem { tokens.append(Self.refused(subject, "authenticator.jwt.secret", problem)) }
        guard let security = listener.security else { return tokens }
        var list = tokens + Self.attention(of: security.identity, subject, now: now)
        if let failure = security.rootsFailure { list.append(Self.refused(subject, "roots", "\(failure)")) }
        if let failure = security.revokedFailure { list.append(Self.refused(subject, "crl", "\(failure)")) }
        for root in security.rootCertificates { list += Self.ending(root, "the authority \(root.subject)", subject, now: now, gravely: true) }
        return list
    }

    nonisolated func certificateAttention(of replicator: Replicator, now: Int64) -> [Attention] {
        let name = replicator.configuration.name
        guard let security = shared.withLock({ $0.replicatorSecurity[name] }) else { return [] }
        let subject = "replicator \(name)"
        var list = security.identity.map { Self.attention(of: $0, subject, now: now) } ?? []
        for (what, failure) in security.fileFailures { list.append(Self.refused(subject, what, "\(failure)")) }
        for root in security.rootCertificates { list += Self.ending(root, "the authority \(root.subject)", subject, now: now, gravely: true) }
        let met = security.server?.certificate
        // If the server has since presented a later certificate with the pinned key, it was renewed and the pin still holds.
        for pin in security.pinnedCertificates where !(met.map { $0.notAfter > pin.notAfter && CertificatePin.certificate(pin).matches($0) } ?? false) {
            list += Self.ending(
                pin, "the pinned certificate \(pin.subject)", subject, now: now, gravely: false,
                remedy: "the pin is on its key, so it stays valid after this date and when the server's certificate is renewed with that key; if the server is to "
                    + "get another key, pin its new certificate as well first")
        }
        if let met, !security.isPinned(met) {
            list += Self.ending(
                met, "the server's certificate \(met.subject)", subject, now: now, gravely: false, remedy: "have it renewed by the server's operator")
        }
        return list
    }

    private static func attention(of identity: IdentitySource, _ subject: String, now: Int64) -> [Attention] {
        var list: [Attention] = []
        if let failure = identity.failure { list.append(refused(subject, "identity \(identity.label)", "\(failure)")) }
        let leaf = identity.current.leaf
        if let file = identity.damagedFile {
            list.append(
                Attention(
                    .tlsFilesRefused, subject,
                    "identity \(identity.label): no key could be read from its file, which is kept as \(file), and the agent made a new one: peers that pin the old "
                        + "key refuse it; the pin in force is \(leaf.pin)",
                    remedy: "restore the file of the identity from a backup, or have the peers pin the new key; then remove \(file)"))
        }
        // A certificate that the agent renews automatically is reported only if the renewal did not happen.
        if identity.renewsItself, leaf.notAfter >= now { return list }
        let isLabel = if case .label = identity.setting { true } else { false }
        return list
            + ending(
                leaf, "the identity \(identity.label)", subject, now: now, gravely: true,
                remedy: isLabel && leaf.isSelfSigned
                    ? "nightjar identity create \(identity.label) --replace; this keeps its names and its key, so pins of the key stay valid"
                    : "replace it; a running agent picks up the new one by itself")
    }

    /// - Parameter gravely: whether nobody accepts the certificate once it has expired.
    private static func ending(
        _ certificate: Certificate, _ what: String, _ subject: String, now: Int64, gravely: Bool, remedy: String = "replace it"
    ) -> [Attention] {
        let left = certificate.notAfter - now
        guard left < Identity.warningDays * 86_400 else { return [] }
        let end = Timestamp.format(certificate.notAfter)
        if left < 0 {
            return [Attention(gravely ? .certificateExpired : .certificateEnding, subject, since: certificate.notAfter, "\(what) expired at \(end)", remedy: remedy)]
        }
        let days = left / 86_400
        let rest = days == 0 ? "today" : "in \(Plural.count(days, "day"))"
        return [Attention(.certificateEnding, subject, "\(what) expires \(rest) (\(end))", remedy: remedy)]
    }

    private static func refused(_ subject: String, _ what: String, _ failure: String) -> Attention {
        Attention(
            .tlsFilesRefused, subject, "\(what): the files are invalid, and what was read before is in use: \(failure)", remedy: "fix the files: they are read again "
                + "by themselves")
    }
}
