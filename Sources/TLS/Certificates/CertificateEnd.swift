import Encodings

/// The end of a certificate that should be told, and what it means. Status, health, the log, `nightjar doctor` and `nightjar identity` all take it from
/// here, so that they tell the same from the same day on.
package struct CertificateEnd: Sendable, Equatable {
    /// A certificate is reported from this many days before its end.
    package static let warningDays: Int64 = 30

    /// What a certificate serves for, which decides what happens at its end.
    package enum Use: Sendable, Equatable {
        /// The agent presents it, under this name.
        case identity(String)
        /// What it signed is accepted.
        case authority
        /// A server is recognised by its key, or by its signature on the server's certificate. No dates are checked then, neither its own nor those of the
        /// certificates that the server presents: the pin keeps working.
        case pinned
        /// A server presents it, and authorities vouch for it: see ``ServerAuthentication/Rule/checksDates``.
        case server
    }

    /// What ends, when, and what follows.
    package let text: String
    /// What to do.
    package let remedy: String
    /// When it expired (seconds since 1970); nil if it has not.
    package let expiredAt: Int64?
    /// Whether it has expired and the agent itself needs it, to be accepted or to accept others. A server's does not count: what a peer can cause alone
    /// must not make the agent unhealthy.
    package private(set) var isGrave: Bool

    /// Nil for a certificate that lasts longer than ``warningDays``.
    ///
    /// - Parameters:
    ///   - now: seconds since 1970.
    ///   - remedy: for identities; nil for the usual one.
    package init?(of certificate: Certificate, as use: Use, now: Int64, remedy: String? = nil) {
        let left = certificate.notAfter - now
        guard left < Self.warningDays * 86_400 else { return nil }
        let hasExpired = left < 0
        let time = TimeText.utc(certificate.notAfter)
        let days = left / 86_400
        let when = hasExpired ? "expired at \(time)" : "expires \(days == 0 ? "today" : "in \(Plural.count(days, "day"))") (\(time))"
        let then = hasExpired ? "since then" : "from then on"
        switch use {
        case .identity(let name):
            text = "the identity \(name) \(when)"
            self.remedy = remedy ?? "replace it"
        case .authority:
            text = "the authority \(certificate.subject) \(when): what it signed is refused \(then)"
            self.remedy = remedy ?? "replace it"
        case .pinned:
            text = "the pinned certificate \(certificate.subject) \(when): the pin keeps working\(hasExpired ? "" : " after that"), because no dates are checked where a "
                + "certificate is pinned"
            self.remedy = remedy ?? "nothing has to be done unless the server is to get another key: then pin its new certificate as well first"
        case .server:
            text = "the server's certificate \(certificate.subject) \(when): it is refused \(then)"
            self.remedy = remedy ?? "have it renewed by the server's operator"
        }
        expiredAt = hasExpired ? certificate.notAfter : nil
        isGrave = hasExpired && use.isOwn
    }

    /// The ends of the authorities of one place. One that has expired is not grave while another is valid: bundles keep old ones, and so does who replaces an
    /// authority.
    package static func ofAuthorities(_ authorities: [Certificate], now: Int64) -> [CertificateEnd] {
        let isAnyValid = authorities.contains { $0.notBefore <= now && $0.notAfter >= now }
        return authorities.compactMap { authority in
            var end = CertificateEnd(of: authority, as: .authority, now: now)
            if isAnyValid { end?.isGrave = false }
            return end
        }
    }
}

extension CertificateEnd.Use {
    fileprivate var isOwn: Bool {
        switch self {
        case .identity, .authority: true
        case .pinned, .server: false
        }
    }
}
