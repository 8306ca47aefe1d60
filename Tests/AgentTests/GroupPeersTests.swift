@testable import Agent
@testable import Discovery
import Environment
import Interfaces
import NIOPosix
import Synchronization
import TestSupport
import Testing
import Transport

/// Which listener of a group a replicator connects to.
@Suite("Peers of a group")
struct GroupPeersTests {
    private static let own = String(repeating: "0", count: 32)

    private static func peers(pins: Set<String> = [], own: String? = own, usesTLS: Bool = true) -> GroupPeers {
        GroupPeers(target: "discover:*?group=hubs", group: "hubs", usesTLS: usesTLS, own: own, pins: pins, time: SystemTime())
    }

    private static func service(_ name: String, peer: String? = nil, group: String? = "hubs", pin: String? = nil, tls: Bool = true) throws -> FoundService {
        var text = ServiceText()
        (text.group, text.peer, text.pin, text.usesTLS, text.databases) = (group, peer, pin, tls, ["main"])
        return try #require(
            FoundService(resolved: [
                .int32(2), .int32(0), .text(name), .text(FoundService.type), .text("local"), .text("\(name).local"), .int32(0), .text("192.0.2.1"), .number(4984),
                .array(text.strings.map { .array($0.map { .number(UInt64($0)) }) }), .number(0),
            ]))
    }

    private static func identifier(_ number: Int) -> String { String(repeating: "0", count: 31 - String(number).count) + "a\(number)" }

    @Test("candidates are the other listeners of the group, with or without TLS as the target says; never this agent itself")
    func candidates() throws {
        let found = try [
            Self.service("a"), Self.service("own", peer: Self.own), Self.service("clear", tls: false), Self.service("other", group: "gateways"),
            Self.service("none", group: nil),
        ]
        #expect(Self.peers().candidates(found).map(\.service.name) == ["a"])
        #expect(Self.peers(usesTLS: false).candidates(found).map(\.service.name) == ["clear"])
        var local = try Self.service("local")
        local.isLocal = true
        #expect(Self.peers().candidates([local]).count == 1)
        // An agent that does not know its own id connects to no listener that may be its own.
        #expect(Self.peers(own: nil).candidates([local]).isEmpty)
    }

    @Test("the order is the same each time, spreads agents over the hubs, and when a hub is lost moves only its agents")
    func spreading() throws {
        let hubs = try (1...3).map { try Self.service("hub-\($0)", peer: Self.identifier($0)) }
        var counts: [String: Int] = [:]
        for number in 1...300 {
            let agent = Self.peers(own: Self.identifier(1_000 + number))
            let first = try #require(agent.candidates(hubs).first?.service.name)
            #expect(agent.candidates(hubs.reversed()).first?.service.name == first)
            counts[first, default: 0] += 1
            if first != "hub-3" { #expect(agent.candidates(Array(hubs.dropLast())).first?.service.name == first) }
        }
        #expect(counts.count == 3 && counts.values.allSatisfy { $0 > 60 }, "\(counts)")
    }

    @Test("the last hub comes first while it is announced, then those with a known pin; never more than 64")
    func ranks() throws {
        let strangers = try (0..<200).map { try Self.service("stranger-\($0)") }
        let peers = Self.peers(pins: ["sha256/A"])
        let ours = try Self.service("ours", pin: "sha256/A")
        let all = peers.candidates(strangers + [ours])
        #expect(all.count == GroupPeers.most && all.first?.service.name == "ours")
        let last = try #require(all.last)
        peers.connected(to: last)
        #expect(peers.candidates(strangers + [ours]).first?.key == last.key)
        #expect(peers.candidates([ours]).first?.service.name == "ours")
    }

    @Test("each candidate has its own key, and what happened with it is remembered")
    func memory() throws {
        let peers = Self.peers()
        let found = try [Self.service("hub", peer: Self.identifier(1)), Self.service("odd", peer: "no id")]
        let candidates = peers.candidates(found)
        #expect(Set(candidates.map(\.key)) == ["discover:*?group=hubs hub \(Self.identifier(1))", "discover:*?group=hubs odd"])
        let first = try #require(candidates.first)
        peers.failed(first, String(repeating: "x", count: 1_000))
        #expect(peers.candidates(found).first { $0.key == first.key }?.lastError?.utf8.count == GroupPeers.errorBytes)
        peers.connected(to: first)
        let after = peers.candidates(found).first
        #expect(after?.key == first.key && after?.lastError == nil && after?.lastSuccess != nil)
    }

    /// Gives the answer that a test sets, and records what it was asked.
    private final class Chooser: PeerSelector {
        let pluginName = "chooser"
        let asked = Mutex<[[OfferedPeer]]>([])
        let answer: @Sendable ([OfferedPeer]) -> Result<String?, PolicyFailure>

        init(_ answer: @escaping @Sendable ([OfferedPeer]) -> Result<String?, PolicyFailure>) { self.answer = answer }

        func select(_ peers: [OfferedPeer], database: String, replicator: String, remote: String) async -> Result<String?, PolicyFailure> {
            asked.withLock { $0.append(peers) }
            return answer(peers)
        }
    }

    /// Connects to services with two databases: choosing a database fails before any connection is made.
    private static func connect(_ chooser: Chooser?, _ names: [String]) async throws -> ReplicationError? {
        let services = try names.map { name in
            var service = try service(name)
            service.text.databases = ["main", "other"]
            return service
        }
        let environment = Environment.system
        let client = DiscoveredClient(database: nil, usesTLS: true, client: .init(url: try EndpointURL("wss://discovered/"))) {
            WebSocketClient($0, group: MultiThreadedEventLoopGroup.singleton, environment: environment)
        }
        let choice = chooser.map { PeerChoice(selector: $0, database: "main", replicator: "hub", target: "discover:*?group=hubs") }
        let connector = GroupConnector(peers: peers(), client: client, choice: choice) { () async throws(DiscoveryError) in services }
        do {
            _ = try await connector.connect()
            return nil
        } catch let error as ReplicationError { return error }
    }

    @Test("without a plugin every candidate is tried, and the error names all of them")
    func trying() async throws {
        let error = try await Self.connect(nil, ["hub-a", "hub-b"])
        #expect(error?.message.contains("hub-a: ") == true && error?.message.contains("hub-b: ") == true, "\(String(describing: error))")
        #expect(try await Self.connect(nil, [])?.message.contains("nobody else on the local network announces a listener of the group hubs") == true)
    }

    @Test("one whose name only looks like that of another one is tried as well")
    func lookAlike() async throws {
        let message = try await Self.connect(nil, ["hub-\u{E9}", "hub-e\u{301}"])?.message
        #expect(message?.unicodeScalars.contains("\u{E9}") == true && message?.unicodeScalars.contains("\u{301}") == true, "\(message ?? "connected")")
    }

    @Test("a plugin is asked again with the error of the one that it chose, and once it repeats itself the attempt is over")
    func choosing() async throws {
        let chooser = Chooser { peers in .success(peers.first { $0.lastError == nil }?.name ?? "hub-a") }
        let error = try await Self.connect(chooser, ["hub-a", "hub-b"])
        #expect(error != nil)
        let asked = chooser.asked.withLock { $0 }
        #expect(asked.map { $0.filter { $0.lastError != nil }.count } == [0, 1, 2])
        #expect(asked.first?.first?.group == "hubs" && asked.first?.first?.port == 4984)

        let waiting = try await Self.connect(Chooser { _ in .success(nil) }, ["hub-a"])
        #expect(waiting?.isTransient == true && waiting?.message.contains("chooser chose none of 1 listener") == true, "\(String(describing: waiting))")
    }

    @Test("if the plugin fails, the replicator connects to no peer and asks again later")
    func failing() async throws {
        let failure = PolicyFailure(plugin: "chooser", version: "1", kind: "plugin_error", message: "chooser.lua:1: no")
        let chooser = Chooser { _ in .failure(failure) }
        let error = try await Self.connect(chooser, ["hub-a", "hub-b"])
        #expect(error?.domain == .plugin && error?.isTransient == true && error?.message.contains("chooser.lua:1: no") == true, "\(String(describing: error))")
        #expect(chooser.asked.withLock { $0.count } == 1)
    }
}
