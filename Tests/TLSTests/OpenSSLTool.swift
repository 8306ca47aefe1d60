import Environment
import Glibc
import Synchronization
import TLS
import TestSupport
import Testing

/// Certificates and keys made by the `openssl` tool, which is also asked what it thinks of ours.
struct OpenSSLTool: Sendable {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Runs `openssl` in the folder; fails unless it succeeds.
    @discardableResult
    func callAsFunction(_ arguments: String..., input: Subprocess.Input = .none) async throws -> String {
        let outcome = try await Subprocess.run("/usr/bin/openssl", arguments, folder: folder.path, input: input)
        guard outcome.status == 0 else { throw SupportError("openssl \(arguments.joined(separator: " ")): \(outcome)") }
        return outcome.output
    }

    /// A self-signed certificate `NAME.pem` with its key `NAME.key`.
    func selfSigned(_ name: String, days: Int = 30, key: String = "ec:P-256", _ more: [String] = []) async throws {
        var arguments = ["req", "-x509", "-nodes", "-keyout", "\(name).key", "-out", "\(name).pem", "-subj", "/CN=\(name)", "-days", "\(days)"]
        arguments += key.hasPrefix("ec:") ? ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:\(key.dropFirst(3))"] : ["-newkey", key]
        let outcome = try await Subprocess.run("/usr/bin/openssl", arguments + more, folder: folder.path)
        guard outcome.status == 0 else { throw SupportError("\(outcome)") }
        chmod(folder.path("\(name).key"), 0o600)
    }

    /// A certificate `NAME.pem` that `issuer` signs, with its key.
    func issued(_ name: String, by issuer: String, days: Int = 30, isCA: Bool = false) async throws {
        try folder.write("\(name).ext", isCA ? "basicConstraints=critical,CA:TRUE\n" : "basicConstraints=CA:FALSE\n")
        try await self("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "\(name).key", "-out", "\(name).csr", "-subj", "/CN=\(name)")
        try await self(
            "x509", "-req", "-in", "\(name).csr", "-CA", "\(issuer).pem", "-CAkey", "\(issuer).key", "-CAcreateserial", "-days", "\(days)",
            "-extfile", "\(name).ext", "-out", "\(name).pem")
        chmod(folder.path("\(name).key"), 0o600)
    }

    func path(_ name: String) -> String { folder.path(name) }
    func certificates(_ name: String) throws -> [Certificate] { try CertificateFile.read(path(name)) }
    func key(_ name: String, _ passphrase: String? = nil) throws -> PrivateKey {
        try PrivateKey.readPEM(secret(name), passphrase: passphrase.map { SecretBytes($0) }, path: path(name))
    }
    func secret(_ name: String) throws -> SecretBytes { try folder.read(name).withUnsafeBytes { SecretBytes(copying: $0) } }
}

extension SecretBytes {
    var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }
    var array: [UInt8] { withBytes { Array($0) } }
}

/// The error of a call that must fail.
func fileError(_ body: () throws -> Void) -> TLSFileError? {
    do {
        try body()
        return nil
    } catch { return error as? TLSFileError }
}

/// A clock that a test sets.
final class TestClock: TimeSource {
    private let value: Mutex<Int64>

    init(_ value: Int64 = 1_800_000_000) { self.value = Mutex(value) }

    var now: Int64 {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }

    func wallSeconds() -> Int64 { now }
    func monotonicNanoseconds() -> UInt64 { 0 }
    func sleep(nanoseconds: UInt64) async throws {}
}
