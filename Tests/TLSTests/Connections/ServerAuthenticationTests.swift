import NIOCore
import TestSupport
import Testing

@testable import TLS

/// The truth table of server authentication: every rule against every kind of chain.
@Suite(.timeLimit(.minutes(10))) struct ServerAuthenticationTests {
    enum Column: String, CaseIterable, Sendable {
        case pinnedLeaf, pinnedIntermediate, pinnedRoot, wrongPin, twoPins, keyPin, intermediateKeyPin, selfSignedOnly, systemRoots, extraRoot, unsafelyNone
        /// Pins win over what else is set.
        case pinnedLeafAndAllElse, wrongPinAndAllElse, selfSignedOnlyAndUnsafe
    }

    enum Expected: Equatable, CustomStringConvertible {
        case accepted
        case refused(TLSError.Kind)

        var description: String {
            switch self {
            case .accepted: "accepted"
            case .refused(let kind): "refused (\(kind))"
            }
        }
    }

    /// The rule in words of the test, not of the code.
    static func expected(_ column: Column, _ chain: TestServers.Chain) -> Expected {
        /// Chains that are signed, link by link as shown, by our authorities.
        let isOurs: Set<TestServers.Chain> = [.good, .expired, .notYetValid, .wrongName, .weakKey]
        switch column {
        case .pinnedLeaf, .keyPin, .twoPins, .pinnedLeafAndAllElse, .unsafelyNone: return .accepted
        case .wrongPin, .wrongPinAndAllElse: return .refused(.certificateUntrusted)
        // The pinned intermediate itself vouches for a leaf that came alone.
        case .pinnedIntermediate: return isOurs.contains(chain) || chain == .intermediateMissing ? .accepted : .refused(.certificateUntrusted)
        // A key alone cannot be used for verification if its certificate was not presented.
        case .pinnedRoot, .intermediateKeyPin: return isOurs.contains(chain) ? .accepted : .refused(.certificateUntrusted)
        case .selfSignedOnly, .selfSignedOnlyAndUnsafe: return chain == .selfSigned ? .accepted : .refused(.certificateUntrusted)
        case .systemRoots, .extraRoot:
            switch chain {
            case .good: return .accepted
            case .selfSigned, .unknownRoot, .intermediateMissing: return .refused(.unknownRoot)
            case .expired: return .refused(.certificateExpired)
            case .notYetValid: return .refused(.certificateNotYetValid)
            case .wrongName: return .refused(.nameMismatch)
            case .weakKey: return .refused(.certificateUntrusted)
            }
        }
    }

    static func rule(_ column: Column, _ chain: TestServers.Chain, _ servers: TestServers, rootFile: String) throws -> ServerAuthentication {
        let leaf = try servers.identity(chain).leaf
        var rule = ServerAuthentication()
        switch column {
        case .pinnedLeaf: rule.pins = [.certificate(leaf)]
        case .pinnedIntermediate: rule.pins = [.certificate(servers.intermediate.leaf)]
        case .pinnedRoot: rule.pins = [.certificate(servers.root.leaf)]
        case .wrongPin: rule.pins = [.certificate(servers.stranger.leaf)]
        case .twoPins: rule.pins = [.certificate(servers.stranger.leaf), .certificate(leaf)]
        case .keyPin: rule.pins = [try #require(CertificatePin(publicKeyText: leaf.pin))]
        case .intermediateKeyPin: rule.pins = [.publicKey(sha256: servers.intermediate.leaf.publicKeyDigest)]
        case .selfSignedOnly: rule.acceptsOnlySelfSigned = true
        case .systemRoots: rule.systemRootsFile = rootFile
        case .extraRoot: rule = ServerAuthentication(trustsSystemRoots: false, extraRoots: [servers.root.leaf])
        case .unsafelyNone: rule.unsafelySkipsVerification = true
        case .pinnedLeafAndAllElse:
            rule = ServerAuthentication(pins: [.certificate(leaf)], acceptsOnlySelfSigned: true, trustsSystemRoots: false)
        case .wrongPinAndAllElse:
            rule = ServerAuthentication(
                pins: [.certificate(servers.stranger.leaf)], acceptsOnlySelfSigned: true, extraRoots: [servers.root.leaf], unsafelySkipsVerification: true)
        case .selfSignedOnlyAndUnsafe: rule = ServerAuthentication(acceptsOnlySelfSigned: true, unsafelySkipsVerification: true)
        }
        return rule
    }

    /// What `openssl s_client` has to be told for the same question; nil where it has no opinion.
    static func clientArguments(_ column: Column, _ chain: TestServers.Chain, _ servers: TestServers, _ files: PEMFiles) throws -> [String]? {
        let pinned = ["-no_check_time", "-auth_level", "0", "-cipher", "DEFAULT@SECLEVEL=0"]
        func trusting(_ certificate: Certificate) throws -> [String] {
            ["-no-CApath", "-no-CAstore", "-partial_chain", "-CAfile", try files.write("\(certificate.sha256).pem", [certificate])]
        }
        switch column {
        case .pinnedLeaf: return try trusting(servers.identity(chain).leaf) + pinned
        case .pinnedIntermediate: return try trusting(servers.intermediate.leaf) + pinned
        case .pinnedRoot: return try trusting(servers.root.leaf) + pinned
        case .wrongPin: return try trusting(servers.stranger.leaf) + pinned
        case .systemRoots, .extraRoot: return try trusting(servers.root.leaf) + ["-verify_hostname", "localhost"]
        default: return nil
        }
    }

    @Test(arguments: TestServers.Chain.allCases) func everyRuleDecides(chain: TestServers.Chain) async throws {
        let servers = try TestServers.get()
        let files = try PEMFiles()
        let rootFile = try files.write("root.pem", [servers.root.leaf])
        let server = try await TLSTestServer.start(servers.serverContext(chain))
        for column in Column.allCases {
            let rule = try Self.rule(column, chain, servers, rootFile: rootFile)
            let context = try servers.clientContext { $0.serverAuthentication = rule }
            let (channel, tap) = try await connectTLS(server.port, context)
            let got: Expected
            switch try await tap.outcome() {
            case .success: got = .accepted
            case .failure(let error):
                got = .refused(error.kind)
                #expect(error.certificate == "CN=\(try servers.identity(chain).leaf.commonName ?? "")")
                #expect(error.advice != nil)
            }
            try? await channel.close()
            let expected = Self.expected(column, chain)
            #expect(got == expected, "\(column) with \(chain): \(got), expected \(expected)")

            if let arguments = try Self.clientArguments(column, chain, servers, files) {
                let outcome = try await openssl(
                    ["s_client", "-connect", "\(tlsTestHost):\(server.port)", "-servername", "localhost", "-verify_return_error", "-brief"] + arguments)
                #expect((outcome.status == 0) == (expected == .accepted), "s_client, \(column) with \(chain): \(outcome)")
            }
        }
        await server.stop()
    }

    /// Anybody can present a public certificate alongside their own.
    @Test func aPinThatIsOnlyShownDoesNotCount() async throws {
        let servers = try TestServers.get()
        let attacker = try TestPKI.identity("attacker", sends: [servers.intermediate.leaf, servers.identity(.good).leaf])
        let server = try await TLSTestServer.start(TLSContext(server: TLSServerOptions(identity: attacker)))
        for pin in [servers.intermediate.leaf, try servers.identity(.good).leaf] {
            for text in [CertificatePin.certificate(pin), .publicKey(sha256: pin.publicKeyDigest)] {
                let context = try servers.clientContext { $0.serverAuthentication = ServerAuthentication(pins: [text]) }
                let (channel, tap) = try await connectTLS(server.port, context)
                guard case .failure(let error) = try await tap.outcome() else {
                    Issue.record("accepted by \(text)")
                    continue
                }
                #expect(error.kind == .certificateUntrusted)
                #expect(error.message.contains("did not sign"))
                try? await channel.close()
            }
        }
        await server.stop()
    }

    /// A leaf is no authority: what it signs does not inherit the trust in the pin above it.
    @Test func aLeafCannotVouchForAnother() async throws {
        let servers = try TestServers.get()
        let good = try servers.identity(.good)
        let forged = try TestPKI.identity("forged", issuer: good, sends: [good.leaf, servers.intermediate.leaf])
        let server = try await TLSTestServer.start(TLSContext(server: TLSServerOptions(identity: forged)))
        for rule in [
            ServerAuthentication(pins: [.certificate(servers.intermediate.leaf)]), ServerAuthentication(pins: [.publicKey(sha256: servers.root.leaf.publicKeyDigest)]),
            ServerAuthentication(pins: [.certificate(servers.root.leaf)]), ServerAuthentication(trustsSystemRoots: false, extraRoots: [servers.root.leaf]),
        ] {
            let (channel, tap) = try await connectTLS(server.port, servers.clientContext { $0.serverAuthentication = rule })
            guard case .failure = try await tap.outcome() else {
                Issue.record("accepted by \(rule.rule)")
                continue
            }
            try? await channel.close()
        }
        await server.stop()
    }

    @Test func addressesAreCheckedAsAddresses() async throws {
        let servers = try TestServers.get()
        let named = try TestPKI.identity("named", issuer: servers.intermediate, names: ["DNS:localhost", "DNS:127.0.0.1"], sends: [servers.intermediate.leaf])
        for (identity, host, isAccepted) in [
            (try servers.identity(.good), "127.0.0.1", true), (named, "127.0.0.1", false), (named, "localhost", true), (named, "localhost.", true),
            (named, "::1", false), (try servers.identity(.good), "LOCALHOST", true),
        ] {
            let server = try await TLSTestServer.start(TLSContext(server: TLSServerOptions(identity: identity)))
            let (channel, tap) = try await connectTLS(server.port, servers.clientContext(), host: host)
            switch try await tap.outcome() {
            case .success: #expect(isAccepted, "\(host)")
            case .failure(let error):
                #expect(!isAccepted && error.kind == .nameMismatch, "\(host): \(error)")
                #expect(error.message.contains(host))
            }
            try? await channel.close()
            await server.stop()
        }
    }

    @Test func refusalsSayWhatToDo() {
        var chain = PresentedChain(subject: "CN=hub", publicKeyPin: "sha256/ab12", isSelfSigned: true, pin: .none, problems: [])
        chain.problems = [
            ChainProblem(kind: .wrongName, certificate: "CN=hub", reason: "hostname mismatch"),
            ChainProblem(kind: .selfSigned, certificate: "CN=hub", reason: "self-signed certificate"),
        ]
        guard case .refused(let error) = ServerAuthentication().decide(chain, host: "hub.example") else {
            Issue.record("accepted")
            return
        }
        #expect(error.kind == .unknownRoot)
        #expect(
            "\(error)"
                == "the server's certificate CN=hub is not trusted: it is self-signed (hostname mismatch, self-signed certificate); "
                + "pin it (pinned_server_certificate: sha256/ab12; compare it with \"nightjar identity show\" at the server) or set accept_only_self_signed_server_certificate")
    }

    @Test func pinsAreReadFromText() {
        let digest = String(repeating: "A", count: 43) + "="
        #expect(CertificatePin(publicKeyText: "sha256/\(digest)") == .publicKey(sha256: [UInt8](repeating: 0, count: 32)))
        #expect(CertificatePin(publicKeyText: "sha256//\(digest)") == .publicKey(sha256: [UInt8](repeating: 0, count: 32)))
        for wrong in ["", "sha256/", "sha1/\(digest)", digest, "sha256/AAAA", "sha256/\(digest)x"] { #expect(CertificatePin(publicKeyText: wrong) == nil) }
    }
}
