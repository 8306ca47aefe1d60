import Agent
import ArgumentParser
import Documents
import NIOCore
import NIOPosix
import Synchronization
import TLS
import Transport

struct PinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin", abstract: "Shows the certificate that a server presents, and the text that pins its key in a configuration.",
        discussion: """
            Nothing is sent but a request for the root, without a login. Anybody on the way could answer in the server's place: compare the pin with what the server's \
            own operator reads there (nightjar identity show, on that machine) over another channel, such as the telephone or paper, before you write it into a configuration.
            """)

    @Argument(help: "wss://HOST:PORT or https://HOST:PORT, with or without a database; or HOST:PORT.") var url: String
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let place = try EndpointURL(url.contains("://") ? url : "wss://\(url)")
            guard place.isSecure else { throw AgentError(.invalid, "\(url): \(place.scheme): is clear text, where nobody shows a certificate; use wss: or https:") }
            let leaf = try await Self.certificate(of: place)
            let setting = "pinned_server_certificate: \(leaf.pin)"
            if json {
                return Output.json(
                    JSONOutput.object([
                        "subject": .string(leaf.subject), "issuer": .string(leaf.issuer), "self_signed": .bool(leaf.isSelfSigned),
                        "expires_at": .string(Timestamp.format(leaf.notAfter)), "sha256": .string(leaf.sha256), "pin": .string(leaf.pin), "setting": .string(setting),
                    ]))
            }
            Output.line("subject  \(TextTable.printable(leaf.subject))")
            Output.line("issuer   \(leaf.isSelfSigned ? "itself" : TextTable.printable(leaf.issuer))")
            Output.line("expires  \(Timestamp.format(leaf.notAfter))")
            Output.line("sha256   \(leaf.sha256)")
            Output.line("pin      \(leaf.pin)")
            Output.line(setting)
            Output.errorLine(
                "nightjar: warning: a man in the middle could have answered: before you use the pin, verify it over another channel against what nightjar identity "
                    + "show prints on the server")
        }
    }

    /// The certificate that the server presents, without verifying it: the connection only serves to read it, and nothing confidential is sent.
    private static func certificate(of place: EndpointURL) async throws -> Certificate {
        let shown = Shown()
        var client = HTTPClient(.tcp(host: place.host, port: place.port), group: MultiThreadedEventLoopGroup.singleton)
        client.secureLayer = .tls(
            client: CurrentContext(try TLSContext(client: TLSClientOptions(serverAuthentication: ServerAuthentication(unsafelySkipsVerification: true)))))
        client.onSecured = { peer in shown.leaf.withLock { $0 = peer.certificates.first } }
        // Once it has presented its certificate, the answer does not matter.
        do { _ = try await client.request("GET", "/", timeout: .seconds(15), maximumBody: 1 << 20) } catch {
            guard shown.leaf.withLock({ $0 }) != nil else { throw error }
        }
        guard let leaf = shown.leaf.withLock({ $0 }) else { throw AgentError(.failed, "\(place.authority) shows no certificate") }
        return try Certificate(der: leaf)
    }

    private final class Shown: Sendable {
        let leaf = Mutex<[UInt8]?>(nil)
    }
}
