import Environment
import Glibc
import TLS
import TestSupport
import Testing

/// Identities and authorities that change while the agent runs.
@Suite struct IdentitySourceTests {
    @Test func aReplacedIdentityIsInForceAndABrokenOneIsNot() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let label = try IdentityLabel("gateway")
        #expect(fileError { _ = try IdentitySource(.label(label), store: store) }?.kind == .missing)
        let first = try store.create(label, IdentityRequest())
        let source = try IdentitySource(.label(label), store: store)
        #expect(source.current.leaf == first.leaf && source.label == "gateway")
        #expect(try !source.reload())
        #expect(try !source.reload(always: true))

        let second = try store.create(label, IdentityRequest(), replaces: true)
        #expect(source.current.leaf == first.leaf)
        #expect(try source.reload())
        #expect(source.current.leaf == second.leaf)

        // Broken: told once, kept in mind, and the working one stays.
        try folder.write("identities/gateway.pem", "garbage")
        #expect(fileError { _ = try source.reload() }?.kind == .noCertificate)
        #expect(try !source.reload())
        #expect(source.failure?.kind == .noCertificate && source.current.leaf == second.leaf)
        // A repair that changes nothing but a permission is seen too.
        _ = try store.create(label, IdentityRequest(), replaces: true)
        chmod(store.path(of: label), 0o644)
        #expect(fileError { _ = try source.reload() }?.kind == .loosePermissions)
        chmod(store.path(of: label), 0o600)
        #expect(try source.reload())
        #expect(source.failure == nil)
        try store.remove(label)
        #expect(fileError { _ = try source.reload() }?.kind == .missing)
        #expect(source.current.leaf != second.leaf)
    }

    @Test func twoFilesAreReplacedOneAfterTheOther() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        try await tool.selfSigned("b")
        let setting = IdentitySetting.files(certificate: tool.path("a.pem"), key: tool.path("a.key"), passphrase: nil)
        let source = try IdentitySource(setting, store: KeyStore(dataFolder: tool.path("data"), time: SystemTime()))
        let before = source.current.leaf
        try tool.folder.rename("b.pem", to: "a.pem")
        // The moment between: the key is still the old one.
        #expect(fileError { _ = try source.reload() }?.kind == .keyMismatch)
        #expect(source.current.leaf == before)
        try tool.folder.rename("b.key", to: "a.key")
        #expect(try source.reload())
        #expect(source.current.leaf.commonName == "b" && source.failure == nil)
    }

    @Test func aLostAnonymousIdentityIsPutBack() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let memory = AnonymousMemory()
        let source = try IdentitySource(.anonymous, store: store, memory: memory)
        let other = try IdentitySource(.anonymous, store: store, memory: memory)
        let before = try folder.read("identities/anonymous.pem")
        #expect(source.loss == nil && source.takeIdentityEvents().isEmpty)
        folder.remove("identities")
        #expect(try !source.reload())
        #expect(try folder.read("identities/anonymous.pem") == before)
        #expect(source.takeIdentityEvents() == [.putBack])
        #expect(try !other.reload())
        #expect(other.loss == .putBack && other.takeIdentityEvents().isEmpty)

        // With something in its place: told once, and tried until that is gone.
        folder.remove("identities")
        try folder.write("identities", "a file")
        #expect(fileError { _ = try source.reload() }?.kind == .notAFile)
        #expect(try !source.reload())
        #expect(source.failure?.kind == .notAFile)
        folder.remove("identities")
        #expect(try !source.reload())
        #expect(source.failure == nil)
        #expect(try folder.read("identities/anonymous.pem") == before)
    }

    @Test(arguments: [KeyStore.EarlierIdentity.none, .unknown, .pinned("sha256/old")])
    func aNewKeyIsALossIfThereWasOneBefore(_ earlier: KeyStore.EarlierIdentity) throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let memory = AnonymousMemory()
        memory.expect(earlier)
        let source = try IdentitySource(.anonymous, store: store, memory: memory)
        let loss: KeyStore.AnonymousEvent? = earlier == .none ? nil : .lost(earlier)
        let news = source.takeIdentityEvents()
        #expect(source.loss == loss && news.first == loss && news.count <= 1)
        // Another key in its place, as from a backup, ends that.
        let restored = try KeyStore(dataFolder: folder.path + "/backup", time: SystemTime()).anonymous().identity
        try folder.rename("backup/identities/anonymous.pem", to: "identities/anonymous.pem")
        #expect(try source.reload())
        #expect(source.current.leaf == restored.leaf && source.loss == nil)
    }

    @Test func authoritiesReload() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        try await tool.selfSigned("b")
        let roots = try ReloadableFiles.certificates([tool.path("a.pem")])
        #expect(roots.current.map(\.commonName) == ["a"])
        try tool.folder.write("a.pem", try tool.folder.text("a.pem") + tool.folder.text("b.pem"))
        #expect(try roots.reload())
        #expect(roots.current.map(\.commonName) == ["a", "b"])
        tool.folder.remove("a.pem")
        #expect(fileError { _ = try roots.reload() }?.kind == .missing)
        #expect(roots.current.count == 2)
    }

    @Test func anEndThatIsNearIsSaid() throws {
        let folder = try TemporaryFolder()
        let clock = TestClock()
        let store = KeyStore(dataFolder: folder.path, time: clock)
        let label = try IdentityLabel("gateway")
        let end = try store.create(label, IdentityRequest(validityDays: 60)).leaf.notAfter
        let source = try IdentitySource(.label(label), store: store)
        #expect(source.warning == nil)
        for (left, words) in [(30 * 86_400 as Int64, nil), (30 * 86_400 - 1, "expires in 29 days"), (86_400, "expires in 1 day"), (60, "expires today"), (-1, "expired at")] {
            clock.now = end - left
            #expect(words.map { source.warning?.contains($0) == true } ?? (source.warning == nil), "\(left): \(source.warning ?? "none")")
            #expect(source.warning == source.end(now: clock.now).map { "\($0.text): \($0.remedy)" } && source.end(now: clock.now)?.isGrave == words.map { _ in left < 0 })
        }
        clock.now = 1_700_000_000
        #expect(source.warning?.contains("not valid before") == true)
    }

    // MARK: - Providers

    @Test func aProviderThatIsNotThereIsSaidWithoutThePIN() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let uri = "pkcs11:token=plant;object=gateway?pin-value=271828&module-name=softhsm"
        let problems = TLSFileCheck.identity(.provider(uri: uri), store: store, now: 0)
        #expect(problems.count == 1 && problems[0].kind == .unsupported)
        let text = problems[0].description
        #expect(text.contains("a provider for pkcs11: has to be installed and activated in openssl.cnf"))
        #expect(text.contains("pin-value=(secret)&module-name=softhsm") && !text.contains("271828"), "\(text)")
        #expect(!"\(IdentitySetting.provider(uri: uri))".contains("271828"))
        let files = IdentitySetting.files(certificate: uri, key: uri, passphrase: nil)
        #expect(!"\(files) \(TLSFileCheck.identity(files, store: store, now: 0))".contains("271828"))
    }
}
