import TestSupport
import Testing

/// Configurations of which `check` says what is wrong and with which `run` does not start.
@Suite("Configurations that would not be secure")
struct SecurityRefusalTests {
    private static let listener = "listeners:\n  - { name: edge, databases: [ main ], port: 0, "
    private static let replicator = "replicators:\n  - { name: hub, database: main, target: \"ws://hub/main\", "

    @Test("check and run refuse them, naming the keys and what to do", arguments: [
        (listener + "interface: lo, disable_tls: true, client_certificates: require, roots: [ ca.pem ] }", ["\"client_certificates\" needs TLS", "\"disable_tls\" is true"]),
        (listener + "interface: lo, disable_tls: true, identity: gateway }", ["\"identity\" needs TLS", "\"disable_tls\" is true"]),
        (listener + "interface: lo, disable_tls: true, min_tls_version: 1.3 }", ["\"min_tls_version\" needs TLS", "\"disable_tls\" is true"]),
        (listener + "interface: lo, min_tls_version: 1.1 }", ["min_tls_version", "1.2 or 1.3"]), (replicator + "min_tls_version: 1.3 }", ["min_tls_version", "needs TLS"]),
        (listener + "disable_tls: true }", ["has no authenticator", "authenticator: none"]),
        (listener + "interface: 0.0.0.0 }", ["has no authenticator", "authenticator: none"]),
        (listener + "client_certificates: request, roots: [ ca.pem ] }", ["has no authenticator"]),
        (listener + "interface: lo, client_certificates: require }", ["nothing judges the certificates", "roots"]),
        (listener + "interface: lo, roots: [ ca.pem ] }", ["\"roots\" has no effect", "client_certificates"]),
        (replicator + "pinned_server_certificate: ca.pem }", ["pinned_server_certificate", "needs TLS"]),
        (replicator + "accept_only_self_signed_server_certificate: true }", ["accept_only_self_signed_server_certificate", "needs TLS"]),
        (replicator + "unsafe_skip_server_certificate_verification: true }", ["unsafe_skip_server_certificate_verification", "needs TLS"]),
        (replicator + "roots: [ ca.pem ] }", ["roots", "needs TLS"]), (replicator + "authenticator: { identity: me } }", ["an identity needs TLS"]),
    ])
    func refused(_ section: String, _ words: [String]) async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", "data: data\nadmin: { port: 0, open: true }\ndatabases: { main: {} }\n\(section)\n")
        for command in ["check", "run"] {
            let outcome = try await NightjarExecutable.run(command, "--config", folder.path("nightjar.yaml"), folder: folder.path)
            #expect(outcome.status == 78 && outcome.errors.contains("nightjar.yaml:5:"), "\(outcome)")
            for word in words { #expect(outcome.errors.contains(word), "\(word): \(outcome)") }
            #expect(!folder.exists("data"))
        }
    }
}
