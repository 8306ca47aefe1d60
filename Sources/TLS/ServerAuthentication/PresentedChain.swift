/// What a server presented and what was found out about it, as the basis for a decision.
struct PresentedChain: Sendable, Equatable {
    /// The subject of the server's own certificate.
    var subject: String
    /// Its public key as a pin, `sha256/BASE64`.
    var publicKeyPin: String
    /// Whether it was signed with its own key.
    var isSelfSigned: Bool
    var pin: PinMatch
    /// What prevents it from being trusted; empty if nothing does.
    var problems: [ChainProblem]

    enum PinMatch: Sendable, Equatable {
        case none
        /// The server's own certificate is pinned.
        case leaf
        /// The server's certificate leads, signature by signature, to this pinned one.
        case authority(subject: String)
        /// A pinned certificate was sent but has not signed the server's: anybody can send it.
        case shownOnly(subject: String)
    }
}

/// One problem that OpenSSL found in a chain.
struct ChainProblem: Sendable, Equatable {
    enum Kind: Sendable, Equatable {
        case selfSigned, unknownRoot, expired, notYetValid, wrongName, weak, revoked, other

        var errorKind: TLSError.Kind {
            switch self {
            case .selfSigned, .unknownRoot: .unknownRoot
            case .expired: .certificateExpired
            case .notYetValid: .certificateNotYetValid
            case .wrongName: .nameMismatch
            case .revoked: .certificateRevoked
            case .weak, .other: .certificateUntrusted
            }
        }

        /// Determines which of several problems the error reports.
        fileprivate var weight: Int {
            switch self {
            case .revoked: 0
            case .selfSigned: 1
            case .unknownRoot: 2
            case .other: 3
            case .weak: 4
            case .expired: 5
            case .notYetValid: 6
            case .wrongName: 7
            }
        }
    }

    var kind: Kind
    /// The subject of the certificate concerned.
    var certificate: String
    /// OpenSSL's message.
    var reason: String

    var words: String {
        switch kind {
        case .selfSigned: "it is self-signed"
        case .unknownRoot: "its root is not trusted, or an intermediate certificate is missing"
        case .expired: "it has expired"
        case .notYetValid: "it is not valid yet"
        case .wrongName: "it is for other hosts"
        case .weak: "its key or signature is too weak"
        case .revoked: "it is revoked"
        case .other: "it cannot be verified"
        }
    }
}

extension ServerAuthentication {
    enum Decision: Sendable, Equatable {
        case accepted(ServerTrust)
        case refused(TLSError)
    }

    /// Applies the rules to the facts.
    func decide(_ chain: PresentedChain, host: String) -> Decision {
        switch rule {
        case .pinned: decidePinned(chain)
        case .selfSignedOnly: chain.isSelfSigned ? .accepted(.selfSigned) : .refused(notSelfSigned(chain))
        case .unsafelyNone: .accepted(.unsafelyNone)
        case .roots:
            if let worst = chain.problems.min(by: { $0.kind.weight < $1.kind.weight }) {
                .refused(untrusted(chain, worst, host))
            } else {
                .accepted(.roots)
            }
        }
    }

    private func decidePinned(_ chain: PresentedChain) -> Decision {
        switch chain.pin {
        case .leaf: return .accepted(.pinnedCertificate)
        case .authority(let subject): return .accepted(.pinnedAuthority(subject: subject))
        case .shownOnly(let subject):
            return .refused(
                TLSError(
                    .certificateUntrusted,
                    "the server presented the pinned certificate \(subject), but it did not sign the server's own, \(chain.subject)",
                    certificate: chain.subject, advice: "there may be a man in the middle between this machine and the server"))
        case .none:
            return .refused(
                TLSError(
                    .certificateUntrusted, "the server's certificate \(chain.subject) is not the pinned one, and none that is pinned signed it",
                    certificate: chain.subject,
                    advice: "if the server has a new certificate, pin it too (\(chain.publicKeyPin)); "
                        + "otherwise there may be a man in the middle between this machine and the server"))
        }
    }

    private func notSelfSigned(_ chain: PresentedChain) -> TLSError {
        TLSError(
            .certificateUntrusted, "the server's certificate \(chain.subject) is not self-signed, and only self-signed ones are accepted",
            certificate: chain.subject,
            advice: "remove accept_only_self_signed_server_certificate, or pin the certificate (\(chain.publicKeyPin))")
    }

    private func untrusted(_ chain: PresentedChain, _ worst: ChainProblem, _ host: String) -> TLSError {
        var reasons: [String] = []
        for problem in chain.problems {
            let text = problem.certificate == chain.subject ? problem.reason : "\(problem.certificate): \(problem.reason)"
            if !reasons.contains(text), reasons.count < 4 { reasons.append(text) }
        }
        let advice =
            switch worst.kind {
            case .selfSigned:
                "pin it (pinned_server_certificate: \(chain.publicKeyPin); compare it with \"nightjar identity show\" at the server) or set accept_only_self_signed_server_certificate"
            case .unknownRoot:
                "add its root to the trusted ones or pin it (\(chain.publicKeyPin)); a server has to send its intermediates"
            case .expired: "renew the server's certificate, and check this machine's clock"
            case .notYetValid: "check this machine's clock and the server's certificate"
            case .wrongName: "connect to a host that the certificate names, or pin it (\(chain.publicKeyPin))"
            case .weak: "give the server a key of at least RSA 2048 or EC 256 bits, or pin its certificate (\(chain.publicKeyPin))"
            case .revoked, .other: "give the server a new certificate"
            }
        let subject = worst.certificate == chain.subject ? "" : ": \(worst.certificate)"
        let message =
            worst.kind == .wrongName
            ? "the server's certificate \(chain.subject) is not for \(host)"
            : "the server's certificate \(chain.subject) is not trusted\(subject): \(worst.words)"
        return TLSError(worst.kind.errorKind, message, certificate: chain.subject, reason: reasons.joined(separator: ", "), advice: advice)
    }
}
