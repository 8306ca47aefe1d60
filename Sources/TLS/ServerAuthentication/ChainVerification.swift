import COpenSSL
import Glibc

/// Verifies certificate chains with OpenSSL.
enum ChainVerification {
    /// An `X509_STORE`: the trust anchors.
    final class Anchors: Sendable {
        // Unsafe only in name: OpenSSL reference-counts and locks it.
        nonisolated(unsafe) let handle: OpaquePointer

        init() throws(TLSError) {
            guard let store = X509_STORE_new() else { throw TLSError(.configuration, "out of memory for trusted certificates") }
            handle = store
            // A pinned or configured intermediate counts like a root.
            X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        }

        deinit { X509_STORE_free(handle) }

        func add(_ certificate: Certificate) throws(TLSError) {
            guard X509_STORE_add_cert(handle, certificate.handle) == 1 else {
                throw TLSError(
                    .configuration, "OpenSSL refuses the root \(certificate.subject)", certificate: certificate.subject,
                    reason: OpenSSLErrors.text(otherwise: "no reason given"))
            }
        }

        func add(_ lists: [RevocationList]) throws(TLSError) {
            guard Revocation.add(lists, to: handle) else {
                throw TLSError(.configuration, "OpenSSL refuses a revocation list", reason: OpenSSLErrors.text(otherwise: "no reason given"))
            }
        }

        /// The distribution's bundle, or `SSL_CERT_FILE` and `SSL_CERT_DIR`.
        func addSystemRoots(file: String?) throws(TLSError) {
            let isLoaded = if let file { X509_STORE_load_file(handle, file) } else { X509_STORE_set_default_paths(handle) }
            guard isLoaded == 1 else {
                throw TLSError(
                    .configuration, "the system's trusted certificates cannot be read",
                    reason: OpenSSLErrors.text(otherwise: file ?? "no reason given"),
                    advice: "install the package ca-certificates")
            }
        }
    }

    /// The certificates in OpenSSL's stack, in order, without unreadable ones.
    static func certificates(_ chain: OpaquePointer?) -> [Certificate] {
        var found: [Certificate] = []
        for index in 0..<max(0, nightjar_chain_count(chain)) {
            if let x509 = nightjar_chain_at(chain, index), let certificate = try? Certificate(borrowing: x509) { found.append(certificate) }
        }
        return found
    }

    /// Everything that prevents a chain from being trusted for a server at `host`.
    static func problems(leaf: Certificate, chain: OpaquePointer?, anchors: Anchors, host: String, depth: Int) -> [ChainProblem] {
        final class Collector {
            var problems: [ChainProblem] = []
        }
        let collector = Collector()
        let isVerified = verify(leaf, chain, anchors) { store, parameters in
            X509_STORE_CTX_set_default(store, "ssl_server")
            X509_VERIFY_PARAM_set_auth_level(parameters, 2)
            X509_VERIFY_PARAM_set_depth(parameters, Int32(clamping: depth))
            X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
            let name = bareHost(host)
            if isAddress(name) { X509_VERIFY_PARAM_set1_ip_asc(parameters, name) } else { X509_VERIFY_PARAM_set1_host(parameters, name, 0) }
            nightjar_store_ctx_set_owner(store, Unmanaged.passUnretained(collector).toOpaque())
            // Continues after each problem, so that all of them are found.
            X509_STORE_CTX_set_verify_cb(store) { isSound, store in
                if isSound == 0, !Revocation.isTolerated(X509_STORE_CTX_get_error(store)), let owner = nightjar_store_ctx_owner(store) {
                    let about = X509_STORE_CTX_get_current_cert(store).flatMap { try? Certificate(borrowing: $0) }
                    Unmanaged<Collector>.fromOpaque(owner).takeUnretainedValue().problems
                        .append(ChainProblem(code: X509_STORE_CTX_get_error(store), certificate: about?.subject ?? ""))
                }
                return 1
            }
        } onEnd: { store, result in
            // Failures for which the callback is not called.
            if result != 1, collector.problems.isEmpty {
                collector.problems.append(ChainProblem(code: X509_STORE_CTX_get_error(store), certificate: leaf.subject))
            }
        }
        withExtendedLifetime(collector) {}
        if !isVerified, collector.problems.isEmpty {
            collector.problems.append(ChainProblem(code: X509_V_ERR_UNSPECIFIED, certificate: leaf.subject))
        }
        return collector.problems
    }

    /// Whether the server's certificate is pinned, or leads to a pinned one by signatures. Dates, names and strength do not count: with
    /// pins, nothing else matters.
    static func pinMatch(leaf: Certificate, shown: [Certificate], chain: OpaquePointer?, pins: [CertificatePin]) -> PresentedChain.PinMatch {
        func isPinned(_ certificate: Certificate) -> Bool { pins.contains { $0.matches(certificate) } }
        guard !pins.isEmpty else { return .none }
        if isPinned(leaf) { return .leaf }
        guard let anchors = try? Anchors() else { return .none }
        let shownPins = shown.filter { $0 != leaf && isPinned($0) }
        // A pinned root is rarely sent by the server: then the signature of the last certificate that was sent decides.
        var known = shownPins
        for case .certificate(let pinned) in pins { known.append(pinned) }
        for certificate in known { try? anchors.add(certificate) }
        var anchor: String?
        let leadsToPin = verify(leaf, chain, anchors) { store, parameters in
            X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_NO_CHECK_TIME | X509_V_FLAG_PARTIAL_CHAIN))
            X509_VERIFY_PARAM_set_auth_level(parameters, 0)
        } onEnd: { store, result in
            if result == 1 { anchor = certificates(X509_STORE_CTX_get0_chain(store)).last?.subject }
        }
        if leadsToPin { return .authority(subject: anchor ?? "") }
        return shownPins.first.map { .shownOnly(subject: $0.subject) } ?? .none
    }

    /// Whether a client's chain, its own certificate first, leads to one of these roots at this moment, and is not revoked.
    static func leads(_ chain: [Certificate], to roots: [Certificate], unless revoked: [RevocationList]) -> Bool {
        guard let leaf = chain.first, let anchors = try? Anchors(), let rest = nightjar_chain_new() else { return false }
        defer { nightjar_chain_free(rest) }
        for root in roots { guard (try? anchors.add(root)) != nil else { return false } }
        guard (try? anchors.add(revoked)) != nil else { return false }
        for certificate in chain.dropFirst() { guard nightjar_chain_push(rest, certificate.handle) > 0 else { return false } }
        return withExtendedLifetime(chain) {
            verify(leaf, rest, anchors, { store, _ in
                X509_STORE_CTX_set_default(store, "ssl_client")
                Revocation.tolerateMissingLists(store)
            }, onEnd: { _, _ in })
        }
    }

    private static func verify(
        _ leaf: Certificate, _ chain: OpaquePointer?, _ anchors: Anchors, _ prepare: (OpaquePointer, OpaquePointer) -> Void,
        onEnd: (OpaquePointer, Int32) -> Void
    ) -> Bool {
        defer { OpenSSLErrors.clear() }
        guard let store = X509_STORE_CTX_new() else { return false }
        defer { X509_STORE_CTX_free(store) }
        guard X509_STORE_CTX_init(store, anchors.handle, leaf.handle, chain) == 1,
            let parameters = X509_STORE_CTX_get0_param(store)
        else { return false }
        prepare(store, parameters)
        let result = X509_verify_cert(store)
        onEnd(store, result)
        return result == 1
    }

    // MARK: Hosts

    static func isAddress(_ host: String) -> Bool {
        var room = in6_addr()
        let name = bareHost(host)
        return inet_pton(AF_INET, name, &room) == 1 || inet_pton(AF_INET6, name, &room) == 1
    }

    /// Without an IPv6 address's zone, or a trailing dot.
    private static func bareHost(_ host: String) -> String {
        if let zone = host.firstIndex(of: "%") { return String(host[..<zone]) }
        return host.utf8.last == UInt8(ascii: ".") ? String(host.dropLast()) : host
    }
}

extension ChainProblem {
    /// - Parameter code: one of `X509_V_ERR_…`.
    init(code: Int32, certificate: String) {
        self.certificate = certificate
        reason = X509_verify_cert_error_string(Int(code)).map { String(cString: $0) } ?? "verification error \(code)"
        kind =
            switch code {
            case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: .selfSigned
            case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
                X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED:
                .unknownRoot
            case X509_V_ERR_CERT_HAS_EXPIRED: .expired
            case X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid
            case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: .wrongName
            case X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL, X509_V_ERR_CA_MD_TOO_WEAK: .weak
            case X509_V_ERR_CERT_REVOKED: .revoked
            default: .other
            }
    }
}
