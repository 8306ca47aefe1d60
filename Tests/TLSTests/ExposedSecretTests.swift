import Glibc
import TestSupport
import Testing

@testable import TLS

/// Secrets that other users than their reader can read, and what is advised.
@Suite("Exposed secrets")
struct ExposedSecretTests {
    private static let agent = SecretFile.Reader(user: 7, group: 8)

    private static func judged(_ content: TLSFile.Content, owner: uid_t, group: gid_t, _ mode: mode_t, reader: SecretFile.Reader?) -> TLSFileError? {
        var facts = stat()
        (facts.st_uid, facts.st_gid, facts.st_mode) = (owner, group, S_IFREG | mode)
        return TLSFile.looseness(facts, content, "/etc/hub.secret", reader: reader)
    }

    @Test("the reader can still read the file after what is advised", arguments: [
        (7, 8, 0o644, "chmod 600 /etc/hub.secret"), (7, 9, 0o640, "chmod 600 /etc/hub.secret"), (0, 0, 0o644, "chgrp 8 /etc/hub.secret && chmod 640 /etc/hub.secret"),
        (5, 5, 0o604, "chown 7 /etc/hub.secret && chmod 600 /etc/hub.secret"),
    ] as [(uid_t, gid_t, mode_t, String)])
    func advice(_ owner: uid_t, _ group: gid_t, _ mode: mode_t, _ command: String) throws {
        let error = try #require(Self.judged(.secret, owner: owner, group: group, mode, reader: Self.agent))
        #expect(error.kind == .loosePermissions && error.advice == "run: \(command)", "\(error)")
    }

    @Test("the reader's own group may read it, and one group what belongs to root", arguments: [(7, 7, 0o600), (7, 8, 0o640), (0, 8, 0o640), (0, 0, 0o440)] as [(uid_t, gid_t, mode_t)])
    func fine(_ owner: uid_t, _ group: gid_t, _ mode: mode_t) {
        #expect(Self.judged(.secret, owner: owner, group: group, mode, reader: Self.agent) == nil)
    }

    @Test("no group may read what is refused otherwise, unless it belongs to root; and nobody may change it")
    func strict() {
        let own = SecretFile.Reader.current
        #expect(own.user == 0 || Self.judged(.secret, owner: own.user, group: own.group, 0o640, reader: nil) != nil)
        #expect(Self.judged(.stored, owner: 0, group: 8, 0o640, reader: nil) != nil)
        #expect(Self.judged(.secret, owner: 7, group: 8, 0o660, reader: Self.agent) != nil)
    }

    @Test("a file is not exposed below a folder that keeps others out, also where a link leads to it")
    func folders() throws {
        let folder = try TemporaryFolder()
        chmod(try folder.write("etc/hub.secret", "hush\n"), 0o644)
        symlink(folder.path("etc/hub.secret"), folder.path("link"))
        let own = SecretFile.Reader.current
        for (mode, above, isExposed) in [(0o755, 0o755, true), (0o750, 0o755, false), (0o700, 0o755, false), (0o755, 0o700, false), (0o711, 0o755, true)] as [(mode_t, mode_t, Bool)] {
            chmod(folder.path("etc"), mode)
            chmod(folder.path, above)
            for name in ["etc/hub.secret", "link"] {
                #expect((SecretFile.exposure(folder.path(name), reader: own) != nil) == isExposed, "\(name) \(String(mode, radix: 8)) \(String(above, radix: 8))")
            }
        }
        chmod(folder.path("etc"), 0o750)
        chmod(folder.path, 0o755)
        #expect(SecretFile.exposure(folder.path("etc/hub.secret"), reader: SecretFile.Reader(user: own.user, group: own.group + 1)) != nil)
        chmod(folder.path, 0o700)
    }
}
