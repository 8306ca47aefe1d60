import TestSupport

/// A small world of authorities and certificates, made by the `openssl` tool: `NAME.pem` with `NAME.key` beside it, `CN=NAME`.
///
/// - `root` signs `middle`; `stranger` is an authority that nobody trusts; `alone` is self-signed.
/// - Servers for `localhost` and 127.0.0.1: `good` by `middle` (`good-chain.pem` has both), `expired` by `root`, `foreign` by
///   `stranger`; `elsewhere` by `root` is for another host.
/// - Clients: `plant-7` and `kiosk-1` by `root`, `intruder` by `stranger`.
struct Certificates: Sendable {
    let folder: TemporaryFolder

    init() async throws {
        folder = try TemporaryFolder()
        try folder.write("make", Self.script)
        let outcome = try await Subprocess.run("/bin/sh", ["-e", "make"], folder: folder.path)
        guard outcome.status == 0 else { throw SupportError("certificates: \(outcome)") }
    }

    func path(_ name: String) -> String { folder.path(name) }

    /// The value of `identity`, for a certificate and the key of `name`.
    func identity(_ name: String, certificate: String? = nil) -> String {
        "{ certificate: \(path(certificate ?? "\(name).pem")), key: \(path("\(name).key")) }"
    }

    private static let script = """
        key() {
          openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $1.key
          chmod 600 $1.key
        }
        root() {
          key $1
          openssl req -x509 -key $1.key -subj /CN=$1 -days 40 -addext keyUsage=critical,keyCertSign,cRLSign -out $1.pem
        }
        issue() { # NAME ISSUER DAYS EXTENSIONS
          key $1
          printf "$4\\n" > $1.cnf
          openssl req -new -key $1.key -subj /CN=$1 |
            openssl x509 -req -CA $2.pem -CAkey $2.key -set_serial 0x$(openssl rand -hex 8) -days $3 -extfile $1.cnf -out $1.pem
        }
        here=subjectAltName=DNS:localhost,IP:127.0.0.1
        root root
        root stranger
        key alone
        openssl req -x509 -key alone.key -subj /CN=alone -days 40 -addext $here -out alone.pem
        issue middle root 40 'basicConstraints=critical,CA:true\\nkeyUsage=critical,keyCertSign'
        issue good middle 40 $here
        cat good.pem middle.pem > good-chain.pem
        issue expired root -1 $here
        issue foreign stranger 40 $here
        issue elsewhere root 40 subjectAltName=DNS:other.example
        issue plant-7 root 40 extendedKeyUsage=clientAuth
        issue kiosk-1 root 40 extendedKeyUsage=clientAuth
        issue intruder stranger 40 extendedKeyUsage=clientAuth
        """
}
