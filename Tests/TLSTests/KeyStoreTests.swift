import Environment
import Glibc
import TLS
import TestSupport
import Testing

@Suite struct KeyStoreTests {
    private static func label(_ text: String) throws -> IdentityLabel { try IdentityLabel(text) }

    private static func mode(_ path: String) -> mode_t {
        var facts = stat()
        return stat(path, &facts) == 0 ? facts.st_mode & 0o7777 : 0
    }

    @Test func anIdentityIsMadeKeptAndRemoved() async throws {
        let tool = try OpenSSLTool()
        let store = KeyStore(dataFolder: tool.path("deep/data"), time: SystemTime())
        #expect(try store.list().isEmpty)
        let gateway = try Self.label("plant-gateway.7")
        let names = AlternativeNames(dns: ["gateway.example", "*.plant.example"], ip: ["10.0.0.7", "fe80::7"])
        let made = try store.create(gateway, IdentityRequest(names: names, validityDays: 90))
        #expect(try store.load(gateway).chain == made.chain)
        #expect(made.leaf.alternativeNames == names && made.leaf.commonName == "gateway.example")
        #expect(made.leaf.isSelfSigned && !made.leaf.isCA)
        #expect(made.leaf.notAfter - made.leaf.notBefore == 90 * 86_400 + 3600)

        let file = store.path(of: gateway)
        #expect(Self.mode(file) == 0o600 && Self.mode(store.folder) == 0o700)
        #expect(try await tool("x509", "-in", file, "-noout", "-checkip", "fe80::7").contains("does match"))
        #expect(try await tool("x509", "-in", file, "-noout", "-checkhost", "a.plant.example").contains("does match"))
        #expect(try await tool("verify", "-CAfile", file, "-purpose", "sslserver", "-x509_strict", file).contains("OK"))
        #expect(try await tool("verify", "-CAfile", file, "-purpose", "sslclient", file).contains("OK"))
        try await tool("pkey", "-in", file, "-noout", "-check")

        let again = fileError { _ = try store.create(gateway, IdentityRequest()) }
        #expect(again?.kind == .exists && again?.path == file)
        let other = try store.create(gateway, IdentityRequest(), replaces: true)
        #expect(try store.load(gateway).leaf == other.leaf && other.leaf != made.leaf)
        #expect(other.leaf.pin == made.leaf.pin, "a renewal keeps the key")
        #expect(try store.create(gateway, IdentityRequest(), replaces: true, newKey: true).leaf.pin != made.leaf.pin)
        #expect(try store.create(gateway, IdentityRequest(key: .ed25519), replaces: true).leaf.pin != made.leaf.pin, "another kind is another key")
        #expect(try store.list().map(\.label) == [gateway])
        try store.remove(gateway)
        #expect(fileError { try store.remove(gateway) }?.kind == .missing)
        let missing = fileError { _ = try store.load(gateway) }
        #expect(missing?.kind == .missing && missing?.description.contains("nightjar identity create") == true)
    }

    @Test func aKeyThatFollowsTakesThePlaceAndBack() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path("data"), time: SystemTime())
        let gateway = try Self.label("gateway")
        let next = try KeyStore.label(.next, of: gateway)
        let before = try KeyStore.label(.before, of: gateway)
        let first = try store.create(gateway, IdentityRequest())
        #expect(fileError { _ = try store.exchange(gateway, with: .next) }?.kind == .missing)
        let second = try store.create(next, IdentityRequest(), newKey: true)
        #expect(second.leaf.pin != first.leaf.pin)
        let source = try IdentitySource(.label(gateway), store: store)
        #expect(source.lookForNext()?.pin == second.leaf.pin && source.next?.pin == second.leaf.pin)
        #expect(source.lookForNext() == nil && source.next != nil, "told once")

        #expect(try store.exchange(gateway, with: .next).leaf == second.leaf)
        #expect(try store.load(gateway).leaf == second.leaf)
        #expect(try store.load(before).leaf == first.leaf)
        #expect(try store.list().map(\.label) == [gateway, before])
        #expect(try source.reload() && source.current.leaf == second.leaf)
        _ = source.lookForNext()
        #expect(source.next == nil)

        #expect(try store.exchange(gateway, with: .before).leaf == first.leaf)
        #expect(try store.load(gateway).leaf == first.leaf)
        #expect(try store.list().map(\.label) == [gateway, next])
    }

    @Test(arguments: IdentityRequest.KeyKind.allCases)
    func everyKindOfKey(_ kind: IdentityRequest.KeyKind) async throws {
        let tool = try OpenSSLTool()
        let store = KeyStore(dataFolder: tool.folder.path, time: SystemTime())
        let identity = try store.create(try Self.label("k"), IdentityRequest(key: kind))
        #expect(!identity.key.facts.isWeak && identity.leaf.isSelfSigned)
        let file = store.path(of: try Self.label("k"))
        #expect(try await tool("verify", "-CAfile", file, "-x509_strict", file).contains("OK"))
    }

    @Test(arguments: ["", "-a", ".a", "a/b", "..", "a b", "é", "a\n", "a\0b", String(repeating: "a", count: 129)])
    func labelsAreNoPaths(_ text: String) {
        #expect(fileError { _ = try IdentityLabel(text) }?.kind == .invalid)
    }

    @Test func requestsAreChecked() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let wrong = [
            IdentityRequest(validityDays: 0), IdentityRequest(validityDays: -5), IdentityRequest(validityDays: 1_000_000),
            IdentityRequest(commonName: ""), IdentityRequest(commonName: String(repeating: "x", count: 65)),
            IdentityRequest(commonName: "a\nb"),
        ] + ["", "a,DNS:b", "a b", "10.0.0.1", "-a", "a..b", "*", "*.com", "é.example", "dirName:x"].map {
            IdentityRequest(names: AlternativeNames(dns: [$0]))
        } + ["10.0.0", "x", "1.2.3.4,DNS:b"].map { IdentityRequest(names: AlternativeNames(ip: [$0])) }
        for request in wrong {
            #expect(fileError { _ = try store.create(try Self.label("a"), request) }?.kind == .invalid, "\(request)")
        }
        #expect(!folder.exists("identities"))
        // Up to a hundred years, past the year 2050, where certificates write times another way.
        let long = try store.create(try Self.label("a"), IdentityRequest(commonName: "Größe, \"x\" + y", validityDays: 36_525))
        #expect(long.leaf.notAfter - long.leaf.notBefore == 36_525 * 86_400 + 3600)
        #expect(long.leaf.commonName == "Größe, \"x\" + y")
    }

    @Test func looserPermissionsAndForeignOwnersAreRefused() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let label = try Self.label("a")
        _ = try store.create(label, IdentityRequest())
        let file = store.path(of: label)
        for mode: mode_t in [0o644, 0o640, 0o604, 0o660] {
            chmod(file, mode)
            let error = fileError { _ = try store.load(label) }
            #expect(error?.kind == .loosePermissions && error?.path == file)
            #expect(error?.advice == "run: chmod 600 \(file)")
        }
        chmod(file, 0o400)
        _ = try store.load(label)
        chmod(store.folder, 0o755)
        let loose = fileError { _ = try store.load(label) }
        #expect(loose?.kind == .loosePermissions && loose?.advice == "run: chmod 700 \(store.folder)")
        #expect(fileError { _ = try store.list() }?.kind == .loosePermissions)
        #expect(fileError { _ = try store.create(try Self.label("b"), IdentityRequest()) }?.kind == .loosePermissions)
        #expect(fileError { _ = try store.anonymous() }?.kind == .loosePermissions)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a file away")) func whatBelongsToAnotherUserIsRefused() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let label = try Self.label("a")
        _ = try store.create(label, IdentityRequest())
        let file = store.path(of: label)
        chown(file, 1234, 1234)
        let foreign = fileError { _ = try store.load(label) }
        #expect(foreign?.kind == .foreignOwner && foreign?.advice == "run: chown 0 \(file)")
        chown(file, 0, 0)
        chown(store.folder, 1234, 1234)
        #expect(fileError { _ = try store.load(label) }?.kind == .foreignOwner)
    }

    /// `sudo nightjar identity create` must not make a key that the agent cannot read.
    @Test(.enabled(if: geteuid() == 0, "needs root")) func rootWorksForTheAgentsUser() async throws {
        func owner(_ path: String) -> uid_t {
            var facts = stat()
            return stat(path, &facts) == 0 ? facts.st_uid : 0
        }
        let tool = try OpenSSLTool()
        tool.folder.makeFolder("data")
        chown(tool.path("data"), 1234, 1234)
        let store = KeyStore(dataFolder: tool.path("data"), time: SystemTime())
        let label = try Self.label("a")
        _ = try store.create(label, IdentityRequest())
        _ = try store.anonymous()
        for path in [store.folder, store.path(of: label), store.path(of: .anonymous)] { #expect(owner(path) == 1234, "\(path)") }
        #expect(Self.mode(store.path(of: label)) == 0o600)
        _ = try store.load(label)
        try await tool.selfSigned("b")
        chown(tool.path("b.key"), 1234, 1234)
        let files = IdentitySetting.files(certificate: tool.path("b.pem"), key: tool.path("b.key"), passphrase: nil)
        #expect(TLSFileCheck.identity(files, store: store, now: Int64(time(nil))).isEmpty)
        // A third user is still a stranger.
        chown(store.path(of: label), 4321, 4321)
        #expect(fileError { _ = try store.load(label) }?.kind == .foreignOwner)
    }

    @Test func whatACrashLeftBehindIsNoIdentity() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        _ = try store.create(try Self.label("a"), IdentityRequest())
        // Half of a file that was being written when power failed.
        try folder.write("identities/b.pem.\(getpid()).part", "-----BEGIN CERT")
        #expect(try store.list().map(\.label.text) == ["a"])
        _ = try store.create(try Self.label("b"), IdentityRequest())
        #expect(try store.list().map(\.label.text) == ["a", "b"])
        #expect(!folder.exists("identities/b.pem.\(getpid()).part"))
        // A damaged one is listed with its reason alongside the good ones.
        try folder.write("identities/a.pem", "garbage")
        let entries = try store.list()
        #expect(entries.count == 2)
        guard case .failure(let error) = entries[0].identity else {
            Issue.record("garbage was taken")
            return
        }
        #expect(error.path == store.path(of: try Self.label("a")))
    }

    @Test func aFolderThatCannotBeWrittenLeavesNothing() throws {
        let folder = try TemporaryFolder()
        try folder.write("identities", "a file")
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        #expect(fileError { _ = try store.create(try Self.label("a"), IdentityRequest()) }?.kind == .notAFile)
        let inFile = KeyStore(dataFolder: folder.path("identities"), time: SystemTime())
        #expect(fileError { _ = try inFile.create(try Self.label("a"), IdentityRequest()) } != nil)
    }

    // MARK: - The anonymous identity

    @Test func theAnonymousIdentityIsMadeOnceAndRenewedInTime() throws {
        let folder = try TemporaryFolder()
        let clock = TestClock(1_800_000_000)
        let store = KeyStore(dataFolder: folder.path, time: clock)
        let first = try store.anonymous()
        #expect(first.event == .made)
        #expect(first.identity.leaf.alternativeNames.dns.contains("localhost"))
        #expect(first.identity.leaf.alternativeNames.ip == ["127.0.0.1", "::1"])
        // Another process, the next start.
        let next = try KeyStore(dataFolder: folder.path, time: clock).anonymous()
        #expect(next.event == .kept && next.identity.leaf == first.identity.leaf)

        let end = first.identity.leaf.notAfter
        clock.now = end - 86_400
        #expect(try store.anonymous().event == .kept)
        clock.now = end - 86_399
        let renewed = try store.anonymous()
        guard case .renewed(let reason) = renewed.event else {
            Issue.record("not renewed: \(renewed.event)")
            return
        }
        #expect(reason.contains("expires at"))
        #expect(renewed.identity.leaf != first.identity.leaf && renewed.identity.leaf.notAfter > end)
        #expect(renewed.identity.leaf.pin == first.identity.leaf.pin, "who has pinned it still knows it")
        // A clock that is back in the past takes the fingerprint from nobody.
        clock.now = 0
        #expect(try store.anonymous().event == .kept)
        #expect(try store.anonymous().identity.leaf == renewed.identity.leaf)
    }

    @Test func theFirstBootMayBeIn1970() throws {
        let folder = try TemporaryFolder()
        let clock = TestClock(10)
        let store = KeyStore(dataFolder: folder.path, time: clock)
        let source = try IdentitySource(.anonymous, store: store)
        let first = source.current.leaf
        #expect(first.notBefore == 0)
        #expect(try !source.reload())
        // Then the clock is set.
        clock.now = 1_800_000_000
        #expect(try source.reload())
        #expect(source.current.leaf.notAfter > clock.now && source.current.leaf != first)
        #expect(try !source.reload())
    }

    @Test func aDamagedAnonymousIdentityIsMadeAnewAndAnExposedOneIsNot() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let file = store.path(of: .anonymous)
        _ = try store.anonymous()
        chmod(file, 0o644)
        #expect(fileError { _ = try store.anonymous() }?.kind == .loosePermissions)
        chmod(file, 0o600)
        try folder.write("identities/anonymous.pem", "")
        chmod(file, 0o600)
        guard case .replaced = try store.anonymous().event else {
            Issue.record("not replaced")
            return
        }
        #expect(fileError { _ = try store.create(.anonymous, IdentityRequest()) }?.kind == .invalid)
        try store.remove(.anonymous)
        #expect(try store.anonymous().event == .made)
    }

    /// A file of the key store: what is before its key, and the key.
    private static func parts(_ pem: String) throws -> (certificate: String, key: String) {
        let lines = pem.split(separator: "\n", omittingEmptySubsequences: false).map { String($0) }
        let begin = try #require(lines.firstIndex(of: "-----BEGIN PRIVATE KEY-----"))
        return (lines[..<begin].map { "\($0)\n" }.joined(), lines[begin...].joined(separator: "\n"))
    }

    @Test(arguments: ["no PEM", "no header", "no certificate", "another certificate's signature"])
    func aDamagedCertificateCostsTheKeyNothing(_ damage: String) throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let first = try store.anonymous().identity
        let file = "identities/anonymous.pem"
        let pem = try folder.text(file)
        let key = try Self.parts(pem).key
        var bytes = Array(pem.utf8)
        switch damage {
        case "no PEM": bytes[200] = UInt8(ascii: "!")
        case "no header": bytes[3] = UInt8(ascii: "x")
        case "no certificate": bytes = Array(key.utf8)
        default:
            // The last byte of a certificate is one of its signature.
            var der = first.leaf.der
            der[der.count - 1] ^= 1
            let certificate = try Certificate(der: der).pem
            bytes = Array((certificate + key).utf8)
        }
        try folder.write(file, bytes: bytes)
        chmod(store.path(of: .anonymous), 0o600)
        let next = try store.anonymous()
        guard case .renewed(let reason) = next.event else {
            Issue.record("not renewed: \(next.event)")
            return
        }
        #expect(reason.contains("its key is kept"))
        #expect(next.identity.leaf.pin == first.leaf.pin && next.identity.leaf.isSelfSigned)
        #expect(!folder.exists("\(file).damaged"))
        #expect(try store.anonymous().event == .kept)
    }

    @Test(arguments: ["garbage", "empty", "half", "no key", "another's key"])
    func aFileWithoutItsKeyIsSetAside(_ damage: String) throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let source = try IdentitySource(.anonymous, store: store)
        let first = source.current
        let file = "identities/anonymous.pem"
        let pem = try folder.text(file)
        let certificate = try Self.parts(pem).certificate
        let other = try store.create(try Self.label("other"), IdentityRequest()).pem(passphrase: nil)
        let foreign = try Self.parts(other.withBytes { String(decoding: $0, as: UTF8.self) }).key
        let text: String
        switch damage {
        case "garbage": text = String(repeating: "garbage\n", count: 200)
        case "empty": text = ""
        case "half": text = String(pem.prefix(pem.count / 2))
        case "no key": text = certificate
        default: text = certificate + foreign
        }
        try folder.write(file, text)
        chmod(store.path(of: .anonymous), 0o600)
        // Who runs has the key.
        #expect(try source.reload())
        #expect(source.current.leaf.pin == first.leaf.pin && source.damagedFile == nil)
        let told = try #require(source.takeIdentityEvents().first)
        guard case .renewed = told else {
            Issue.record("not renewed: \(told)")
            return
        }
        #expect(source.takeIdentityEvents().isEmpty)

        // The next start has not.
        try folder.write(file, text)
        let later = try IdentitySource(.anonymous, store: store)
        #expect(later.current.leaf.pin != first.leaf.pin)
        let aside = "\(store.path(of: .anonymous)).damaged"
        let news = try #require(later.takeIdentityEvents().first)
        guard case .replaced(let reason, let kept) = news else {
            Issue.record("not replaced: \(news)")
            return
        }
        #expect(reason.contains("anonymous.pem: ") && kept == aside && later.damagedFile == aside)
        #expect(try folder.text("\(file).damaged") == text)
        #expect(try store.list().map { $0.label.text } == ["anonymous", "other"])
        folder.remove("\(file).damaged")
        #expect(later.damagedFile == nil)
        #expect(try store.anonymous().event == .kept)
    }

    @Test func aKeyThatIsNoPairIsNoKey() throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let first = try store.anonymous().identity
        let file = "identities/anonymous.pem"
        var bytes = try folder.read(file)
        // Bytes 36 to 67 of a P-256 key in PKCS#8 are the secret number: the end of the first line is within it.
        let begin = Array("-----BEGIN PRIVATE KEY-----\n".utf8)
        let start = try #require((0..<(bytes.count - begin.count)).first { bytes[$0..<($0 + begin.count)].elementsEqual(begin) })
        let place = start + begin.count + 60
        bytes[place] = bytes[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        try folder.write(file, bytes: bytes)
        chmod(store.path(of: .anonymous), 0o600)
        let next = try store.anonymous()
        guard case .replaced(let reason, _) = next.event else {
            Issue.record("not replaced: \(next.event)")
            return
        }
        #expect(reason.contains("the private key is damaged"))
        #expect(next.identity.leaf.pin != first.leaf.pin)
    }
}
