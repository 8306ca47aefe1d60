import AgentConfiguration
import Testing

/// Keys about who may connect, who this side is, and whom it trusts.
@Suite struct SecurityTests {
    private static func listener(_ lines: String) throws -> ListenerSettings {
        try #require(
            try settings("databases: { main: {} }\nlisteners:\n  - name: edge\n    databases: [ main ]\n    \(lines)\n", environment: ["PASS": "hunter2"])
                .listeners.first)
    }

    private static func replicator(_ lines: String) throws -> ReplicatorSettings {
        try #require(
            try settings(
                "databases: { main: {} }\nreplicators:\n  - name: hub\n    database: main\n    target: wss://hub/main\n    \(lines)\n",
                environment: ["PASS": "hunter2"]
            ).replicators.first)
    }

    @Test(arguments: [
        "interface: 127.0.0.1", "interface: 127.0.0.9", "interface: \"::1\"", "interface: lo", "authenticator: none",
        "authenticator: password-file", "authenticator: { plugin: none }", "client_certificates: require\n    roots: [ ca.pem ]",
        "client_certificates: request\n    authenticator: by-certificate", "interface: eth0\n    authenticator: none",
    ])
    func listenersThatMayStart(_ lines: String) throws {
        _ = try Self.listener(lines)
    }

    @Test func noneIsNoPlugin() throws {
        #expect(try Self.listener("authenticator: none").authenticator == nil)
        #expect(try Self.listener("authenticator: { plugin: none }").authenticator?.plugin.value == "none")
        #expect(try Self.listener("authenticator: password-file").authenticator?.plugin.value == "password-file")
    }

    @Test func identities() throws {
        let prefix = "interface: lo\n    identity: "
        #expect(try Self.listener(prefix + "plant.7").identity == .label(Located("plant.7")))
        #expect(
            try Self.listener(prefix + "\"pkcs11:token=plant;object=gw\"").identity == .provider(Located("pkcs11:token=plant;object=gw")))
        let files = try Self.listener(prefix + "{ certificate: c.pem, key: \"pkcs11:object=gw\", passphrase: \"${PASS}\" }")
        #expect(
            files.identity
                == .files(certificate: Located("/etc/nightjar/c.pem"), key: Located("pkcs11:object=gw"), passphrase: Secret("hunter2")))
        #expect(!"\(files)".contains("hunter2"))
        #expect(
            try Self.replicator("authenticator: { identity: { certificate: c.pem, key: k.pem } }").authenticator?.identity
                == .files(certificate: Located("/etc/nightjar/c.pem"), key: Located("/etc/nightjar/k.pem"), passphrase: nil))
    }

    @Test func pins() throws {
        let pin = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        #expect(try Self.replicator("").pinnedServerCertificates.isEmpty)
        #expect(try Self.replicator("pinned_server_certificate: \(pin)").pinnedServerCertificates == [.publicKey(Located(pin))])
        #expect(
            try Self.replicator("pinned_server_certificate: sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=").pinnedServerCertificates
                == [.publicKey(Located(pin))])
        let several = try Self.replicator("pinned_server_certificate: [ hub.pem, \(pin), /a/b.der ]")
        #expect(several.pinnedServerCertificates == [.file(Located("/etc/nightjar/hub.pem")), .publicKey(Located(pin)), .file(Located("/a/b.der"))])
        // The seeds' precedence: a pin wins over the others, which may stand beside it.
        let both = try Self.replicator("pinned_server_certificate: hub.pem\n    accept_only_self_signed_server_certificate: true\n    roots: [ ca.pem ]")
        #expect(both.roots == [Located("/etc/nightjar/ca.pem")])
        #expect(try Self.replicator("unsafe_skip_server_certificate_verification: true").unsafeSkipServerCertificateVerification.value)
    }

    @Test func valuesThatMayBeSecretsAreNotShown() {
        for lines in ["authenticator: hunter2", "headers: \"X-Token: hunter2\"", "headers: [ hunter2 ]", "authenticator: [ hunter2 ]"] {
            let found = problems("databases: { main: {} }\nreplicators:\n  - name: hub\n    database: main\n    target: wss://hub/main\n    \(lines)\n")
            #expect(found.count == 1 && !"\(found)".contains("hunter2"), "\(found)")
        }
    }

    @Test func aCommandIsShownByItsProgramAndRememberedAsItIs() throws {
        let text = "exec:sh -c 'exit # hunter7' --password hunter8"
        let settings = try settings("databases: { main: {} }\nreplicators: [ { name: r, database: main, target: \"\(text)\" } ]\n")
        let replicator = try #require(settings.replicators.first)
        #expect(replicator.target.value.shown == "exec:sh" && ReplicatorTarget.shown(text) == "exec:sh")
        // Checkpoints go by it.
        #expect(replicator.remoteKey == text)
        for other in ["wss://hub/main", "unix:hub.sock", "serial:/dev/ttyUSB0?speed=9600", "no target"] { #expect(ReplicatorTarget.shown(other) == other) }
    }

    @Test func whatParametersExpandToIsAmongTheSecrets() throws {
        let settings = try settings(
            """
            databases: { main: { validate: { plugin: v, params: { key: "${ONE}" } } } }
            listeners: [ { name: l, databases: [ main ], interface: 127.0.0.1, pull_filter: { plugin: p, params: { list: [ plain-text, "x-${TWO}" ] } } } ]
            replicators:
              - name: r
                database: main
                target: http://h/main
                collections: { _default: { source_filter: { filter: a/b, params: { secret: "${THREE}", shown: plain-text } } } }
            """, environment: ["ONE": "hush-one", "TWO": "hush-two", "THREE": "hush-three"])
        #expect(Set(settings.secretTexts) == ["hush-one", "x-hush-two", "hush-three"])
    }

    @Test("the files of parameters are secrets by the parameters' names; a public key is none")
    func filesOfParameters() throws {
        let folder = try TemporaryFolder()
        let path = folder.path
        for name in ["a", "b", "c", "d", "e"] { try folder.write("hush\n", to: name) }
        let settings = try settings(
            """
            databases:
              main:
                validate:
                  plugin: v
                  params: { api_key: "${file:a}", public_key: "${file:b}", keywords: "${file:c}", hubs: { Password: "${file:d}" }, unit: "${file:e}" }
            """, folder: path)
        #expect(settings.secretFiles.sorted() == ["\(path)/a", "\(path)/d"])
    }
}
