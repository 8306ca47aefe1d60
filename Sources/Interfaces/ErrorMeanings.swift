/// Errors by their meaning, for code that decides what follows. The codes are HTTP's, as other implementations send and expect them.
extension ReplicationError {
    /// The input is malformed, and would be refused again.
    package static func malformed(_ message: String) -> Self { Self(domain: .http, code: 400, message: message) }

    /// Not allowed, whatever the content.
    package static func forbidden(_ message: String) -> Self { Self(domain: .http, code: 403, message: message) }

    /// It conflicts with another revision.
    package static func conflict(_ message: String) -> Self { Self(domain: .http, code: 409, message: message) }

    package static func tooLarge(_ message: String) -> Self { Self(domain: .http, code: 413, message: message) }

    /// Temporarily impossible: the sender keeps it, and retries. 503 is the one status that every client survives and retries.
    package static func busy(_ message: String) -> Self { Self(domain: .http, code: 503, message: message) }

    /// The answer is not what was requested, and a later one may be.
    package static func mistaken(_ message: String) -> Self { Self(domain: .http, code: 502, message: message) }

    /// The document is held because a policy could not decide.
    package init(_ failure: PolicyFailure) {
        self.init(domain: .plugin, code: 503, message: "\(failure.kind): \(failure.message)")
    }

    /// The conflict stays pending because a policy could not decide.
    package static func undecided(_ failure: PolicyFailure) -> Self {
        Self(domain: .plugin, code: 409, message: "conflict pending: \(failure.kind): \(failure.message)")
    }

    /// What a peer is told whose document a policy here could not decide about: it keeps the document, and its operator should not look for the plugin there.
    package static func busy(_ failure: PolicyFailure) -> Self {
        busy("the agent that receives the document cannot decide about it at the moment, because a plugin of its own fails (\(failure.kind))")
    }

    /// The peer may not have it, or refuses access.
    package var isForbidden: Bool { domain == .http && code == 403 }

    /// The peer does not have it, or refuses to send it.
    package var isNotGiven: Bool { domain == .http && (code == 403 || code == 404) }

    /// The peer is temporarily unable to do it.
    package var isBusy: Bool { domain == .http && code == 503 }

    /// The peer grants only read access, or does not support the request.
    package var forbidsWriting: Bool { domain == .http && (code == 403 || code == 405) }
}
