/// Errors by what they mean, for those who decide what follows. The numbers are HTTP's, as the peers of this field send and expect them.
extension ReplicationError {
    /// What came is not what it should be, and the same again would be refused again.
    package static func malformed(_ message: String) -> Self { Self(domain: .http, code: 400, message: message) }

    /// It may not be, whatever is in it.
    package static func forbidden(_ message: String) -> Self { Self(domain: .http, code: 403, message: message) }

    /// Another revision stands in its way.
    package static func conflict(_ message: String) -> Self { Self(domain: .http, code: 409, message: message) }

    package static func tooLarge(_ message: String) -> Self { Self(domain: .http, code: 413, message: message) }

    /// It cannot be done now: whoever has it keeps it, and tries again. 503 is the one status that every client survives and retries.
    package static func busy(_ message: String) -> Self { Self(domain: .http, code: 503, message: message) }

    /// What came is not what was asked for, and what was may come yet.
    package static func mistaken(_ message: String) -> Self { Self(domain: .http, code: 502, message: message) }

    /// A policy that could not decide holds the document.
    package init(_ failure: PolicyFailure) {
        self.init(domain: .plugin, code: 503, message: "\(failure.kind): \(failure.message)")
    }

    /// A policy that could not decide holds the conflict.
    package static func undecided(_ failure: PolicyFailure) -> Self {
        Self(domain: .plugin, code: 409, message: "conflict pending: \(failure.kind): \(failure.message)")
    }

    /// The peer may not have it, or does not let us.
    package var isForbidden: Bool { domain == .http && code == 403 }

    /// The peer does not have it, or does not give it to us.
    package var isNotGiven: Bool { domain == .http && (code == 403 || code == 404) }

    /// The peer cannot do it now.
    package var isBusy: Bool { domain == .http && code == 503 }

    /// The peer lets us read and not write, or has no such request at all.
    package var forbidsWriting: Bool { domain == .http && (code == 403 || code == 405) }
}
