@testable import Agent
import AgentConfiguration
import Environment
import Interfaces
import NIOCore
import NIOPosix
import Synchronization
@testable import TLS
import TestSupport
import Testing
import Transport

/// Which ends of certificates a replicator tells of, given the server that it met.
@Suite("Certificates of a replicator's server")
struct ServerCertificateTests {
    /// A connection whose server presents what the test says.
    private final class Meeting: MessageTransport, SecuredTransport {
        let executionContext: any SerialContext = EventLoopContext(MultiThreadedEventLoopGroup.singleton.next())
        private let shown: Mutex<Certificate>

        init(_ certificate: Certificate) { shown = Mutex(certificate) }

        var securePeer: SecurePeer? { SecurePeer(certificates: [shown.withLock { $0.der }], summary: "test") }
        var isWritable: Bool { true }
        var peerDescription: String { "test" }

        func present(_ certificate: Certificate) { shown.withLock { $0 = certificate } }
        func start(_ receiver: any MessageReceiver) {}
        func write(_ messages: [ByteBuffer]) {}
        func setReading(_ enabled: Bool) {}
        func close(code: UInt16, reason: String) {}
        func drop() {}
    }

    private struct Connector: TransportConnector {
        let meeting: Meeting

        func connect() async throws -> any MessageTransport { meeting }
    }

    private static let now: Int64 = 1_800_000_000

    /// - Parameter days: until the end, from now on; negative for one that has expired.
    private static func identity(_ name: String, days: Int, key: PrivateKey? = nil) throws -> Identity {
        let request = IdentityRequest(commonName: name, validityDays: 100)
        return try SelfSigning.make(request, label: IdentityLabel(name), now: now + Int64(days - 100) * 86_400, key: key)
    }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func security(_ target: String, pins: [Certificate]) throws -> ReplicatorSecurity {
        var settings = ReplicatorSettings()
        settings.target = Located(try ReplicatorTarget(parsing: target))
        settings.pinnedServerCertificates = try pins.enumerated().map { .file(Located(try folder.write("pin\($0.offset).pem", $0.element.pem))) }
        return try ReplicatorSecurity(settings, store: KeyStore(dataFolder: folder.path, time: SystemTime()))
    }

    private func told(_ security: ReplicatorSecurity) -> [Int64] { security.ends(now: Self.now).compactMap(\.expiredAt) }

    @Test("a pinned certificate that has expired is not told of any more once the server has changed to another pinned one, as was prepared")
    func changed() async throws {
        let (old, new, stranger) = try (Self.identity("old", days: -5).leaf, Self.identity("new", days: 90).leaf, Self.identity("other", days: 90).leaf)
        let security = try security("wss://hub.example/main", pins: [old, new])
        #expect(told(security) == [old.notAfter])
        for (certificate, isTold) in [(old, true), (stranger, true), (new, false), (old, true)] {
            let meeting = Meeting(certificate)
            _ = try await security.watching(Connector(meeting: meeting)).connect()
            let found = told(security)
            #expect(found == (isTold ? [old.notAfter] : []), "\(certificate.subject)")
            withExtendedLifetime(meeting) {}
        }
    }

    @Test("of a group, the pin of another hub is told of, and that of this one until it is renewed")
    func group() async throws {
        let old = try Self.identity("old", days: -5)
        let (renewed, other) = try (Self.identity("old", days: 90, key: old.key).leaf, Self.identity("new", days: 90).leaf)
        let security = try security("discover:*?group=hubs", pins: [old.leaf, other])
        for (certificate, isTold) in [(other, true), (renewed, false)] {
            _ = try await security.watching(Connector(meeting: Meeting(certificate))).connect()
            let found = told(security)
            #expect(found == (isTold ? [old.leaf.notAfter] : []), "\(certificate.subject)")
        }
    }

    @Test("what the server presents in a later connection of the same transport counts, as over HTTP")
    func laterConnection() async throws {
        let old = try Self.identity("hub", days: -5)
        let renewed = try Self.identity("hub", days: 90, key: old.key).leaf
        let security = try security("https://hub.example/main", pins: [old.leaf])
        let meeting = Meeting(old.leaf)
        _ = try await security.watching(Connector(meeting: meeting)).connect()
        #expect(told(security) == [old.leaf.notAfter] && security.server?.certificate == old.leaf)
        meeting.present(renewed)
        #expect(told(security).isEmpty && security.server?.certificate == renewed)
    }
}
