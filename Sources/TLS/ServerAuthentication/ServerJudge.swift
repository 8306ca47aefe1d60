/// Collects the facts about a server's chain that the rule in force needs, and applies the rule.
final class ServerJudge: Sendable {
    let authentication: ServerAuthentication
    private let limits: TLSConnectionLimits
    /// Loaded only if they are needed: a bundle takes a few MB.
    private let roots: ChainVerification.Anchors?

    init(_ authentication: ServerAuthentication, limits: TLSConnectionLimits) throws(TLSError) {
        self.authentication = authentication
        self.limits = limits
        guard authentication.rule == .roots else {
            roots = nil
            return
        }
        let anchors = try ChainVerification.Anchors()
        if authentication.trustsSystemRoots { try anchors.addSystemRoots(file: authentication.systemRootsFile) }
        for root in authentication.extraRoots { try anchors.add(root) }
        try anchors.add(authentication.revocationLists)
        roots = anchors
    }

    /// - Parameters:
    ///   - leaf: the server's `X509`.
    ///   - chain: the `STACK_OF(X509)` that it presented.
    func judge(leaf: OpaquePointer, chain: OpaquePointer?, host: String) -> ServerAuthentication.Decision {
        let certificate: Certificate
        do throws(CertificateError) { certificate = try Certificate(borrowing: leaf) } catch {
            return .refused(TLSError(.certificateUntrusted, "the server's certificate cannot be read: \(error.reason)"))
        }
        return authentication.decide(facts(certificate, chain: chain, host: host), host: host)
    }

    private func facts(_ leaf: Certificate, chain: OpaquePointer?, host: String) -> PresentedChain {
        var facts = PresentedChain(
            subject: leaf.subject, publicKeyPin: leaf.pin, isSelfSigned: leaf.isSelfSigned, pin: .none, problems: [])
        if authentication.rule == .pinned {
            facts.pin = ChainVerification.pinMatch(
                leaf: leaf, shown: ChainVerification.certificates(chain), chain: chain, pins: authentication.pins)
        }
        if let roots {
            facts.problems = ChainVerification.problems(leaf: leaf, chain: chain, anchors: roots, host: host, depth: limits.chainDepth)
        }
        return facts
    }
}
