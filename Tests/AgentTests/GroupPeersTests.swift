@testable import Agent
@testable import Discovery
import Environment
import Interfaces
import Logging
import NIOPosix
import Synchronization
import TestSupport
import Testing
import Transport

/// Which listener of a group a replicator connects to.
@Suite("Peers of a group")
struct GroupPeersTests {
    private static let own = String(repeating: "0", count: 32)

    private static func peers(pins: Set<String> = [], own: String? = own, usesTLS: Bool = true, memory: GroupMemory? = nil) -> GroupPeers {
        GroupPeers(target: "discover:*?group=hubs", group: "hubs", usesTLS: usesTLS, own: own, pins: pins, time: SystemTime(), memory: memory)
    }

    private static func service(
        _ name: String, peer: String? = nil, group: String? = "hubs", pin: String? = nil, tls: Bool = true, address: String = "192.0.2.1"
    ) throws -> FoundService {
        var text = ServiceText()
        (text.group, text.peer, text.pin, text.usesTLS, text.databases) = (group, peer, pin, tls, ["main"])
        return try #require(
            FoundService(resolved: [
                .int32(2), .int32(0), .text(name), .text(FoundService.type), .text("local"), .text("\(name).local"), .int32(0), .text(address), .number(4984),
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

    /// Announcements with the same pin, each from an address of its own.
    private static func services(_ prefix: String, _ numbers: Range<Int>, pin: String? = nil) throws -> [FoundService] {
        try numbers.map { try service("\(prefix)-\($0)", pin: pin, address: "10.0.\($0 / 250).\($0 % 250)") }
    }

    @Test("the last hub comes first while it is announced, then those with a known pin; never more than 64")
    func ranks() throws {
        let strangers = try (0..<200).map { try Self.service("stranger-\($0)") }
        let peers = Self.peers(pins: ["sha256/A"])
        let ours = try Self.service("ours", pin: "sha256/A")
        let all = peers.candidates(strangers + [ours])
        #expect(all.count == GroupOrder.most && all.first?.service.name == "ours")
        let last = try #require(all.last)
        peers.connected(to: last)
        #expect(peers.candidates(strangers + [ours]).first?.key == last.key)
        #expect(peers.candidates([ours]).first?.service.name == "ours")
    }

    @Test("each announcement has its turn: those that failed go to the end, and names that were made up meanwhile come behind them")
    func turns() throws {
        let peers = Self.peers(pins: ["sha256/A"])
        let announced = try Self.services("hub", 0..<150, pin: "sha256/A")
        var tried: Set<String> = []
        for attempt in 0..<3 {
            let madeUp = attempt == 0 ? [] : try Self.services("made-up-\(attempt)", 200..<300, pin: "sha256/A")
            let candidates = peers.candidates(madeUp + announced)
            #expect(candidates.count == GroupOrder.most)
            for peer in candidates {
                peers.failed(peer, "no answer")
                tried.insert(peer.service.name)
            }
        }
        #expect(tried == Set(announced.map(\.name)))
    }

    @Test("announcements with a pin leave some of the places to those without, because a pin can be copied")
    func copiedPins() throws {
        let found = try Self.services("pinned", 0..<100, pin: "sha256/A") + Self.services("other", 100..<130)
        let candidates = Self.peers(pins: ["sha256/A"]).candidates(found)
        #expect(candidates.count == GroupOrder.most)
        #expect(candidates.prefix(48).allSatisfy { $0.service.text.pin != nil } && candidates.suffix(16).allSatisfy { $0.service.text.pin == nil })
    }

    @Test("however many names one address has, others do not wait for more than four of them")
    func oneAddress() throws {
        let liars = try (0..<100).map { try Self.service("liar-\($0)", pin: "sha256/A", address: "192.0.2.66") }
        let hubs = try Self.services("hub", 0..<3, pin: "sha256/A")
        let candidates = Self.peers(pins: ["sha256/A"]).candidates(liars + hubs)
        #expect(candidates.count == GroupOrder.most)
        #expect(candidates.prefix(GroupOrder.mostPerAddress + 3).filter { $0.service.name.hasPrefix("hub-") }.count == 3)
    }

    @Test("the hubs that were reached come first after a restart, the last one before the others, and only for the same target")
    func restart() throws {
        let folder = try TemporaryFolder()
        func memory() -> GroupMemory { GroupMemory(dataFolder: folder.path, replicator: "a/b", logger: Logger(label: "test")) }
        let found = try Self.services("hub", 0..<200, pin: "sha256/A")
        let before = Self.peers(pins: ["sha256/A"], memory: memory())
        var reached: [String] = []
        // More than are remembered.
        for peer in before.candidates(found).suffix(GroupOrder.mostReached + 2) {
            before.connected(to: peer)
            reached.insert(peer.key, at: 0)
        }
        let after = Self.peers(pins: ["sha256/A"], memory: memory())
        #expect(after.candidates(found).prefix(GroupOrder.mostReached).map(\.key) == Array(reached.prefix(GroupOrder.mostReached)))
        #expect(memory().reached(by: "discover:*?group=others").isEmpty)
        // A damaged file is as none, and what it has of others does not count.
        for text in [
            "", "{\"reached\":[", "[]", "7", "{\"reached\":7}", "{\"reached\":[7,null,\"discover:*?group=hubs\"]}", String(repeating: "[", count: 16_384),
            "{\"reached\":[\"\(String(repeating: "x", count: 20_000))\"]}",
        ] {
            try folder.write("replicators/a%2Fb.hubs", text)
            #expect(memory().reached(by: "discover:*?group=hubs").isEmpty, "\(text.prefix(60))")
        }
        let first = try #require(before.candidates(found).first)
        let again = Self.peers(pins: ["sha256/A"], memory: memory())
        again.connected(to: first)
        #expect(memory().reached(by: "discover:*?group=hubs") == [first.key])
    }

    @Test("what removed replicators have reached is forgotten, and nothing else in the folder")
    func forgotten() throws {
        let folder = try TemporaryFolder()
        let kept = ["a%2Fb.hubs", "hub.hubs", "gone.json", "notes.txt", "hubs", ".hubs", "not%2fours.hubs", "%zz.hubs", "gone.hubs.old"]
        for name in kept + ["gone.hubs", "a.hubs", "a%2Fb%2Fc.hubs"] { try folder.write("replicators/\(name)", "{\"reached\":[]}") }
        folder.makeFolder("replicators/folder.hubs")
        func names() throws -> [String] { try SystemFiles().names(in: folder.path("replicators")).sorted() }
        GroupMemory.forget(except: ["a/b", "hub", "new"], dataFolder: folder.path, files: SystemFiles(), logger: Logger(label: "test"))
        #expect(try names() == (kept + ["folder.hubs"]).sorted())
        // Where nothing was ever kept there is no folder.
        GroupMemory.forget(except: [], dataFolder: folder.path("other"), files: SystemFiles(), logger: Logger(label: "test"))
        #expect(!folder.exists("other"))
    }

    @Test("a search is told the names of those that were reached, exactly and for this target only")
    func reachedNames() throws {
        let peers = Self.peers()
        let found = try [Self.service("hub", peer: Self.identifier(1)), Self.service("plain"), Self.service("never")]
        for peer in peers.candidates(found) where peer.service.name != "never" { peers.connected(to: peer) }
        for (name, isReached) in [
            ("hub", true), ("plain", true), ("never", false), ("hu", false), ("hub \(Self.identifier(1))", true), ("hub ", false), ("plai", false), ("", false),
        ] {
            #expect(peers.hasReached(name) == isReached, "\(name)")
        }
    }

    @Test("what a plugin took none of makes room for others, if there are more than it can be offered")
    func passedOver() async throws {
        let names = (0..<100).map { "hub-\($0)" }
        let chooser = Chooser { _ in .success(nil) }
        let peers = Self.peers()
        for _ in 0..<2 { #expect(try await Self.connect(chooser, names, peers) != nil) }
        let offered = chooser.asked.withLock { $0 }.map { Set($0.map(\.name)) }
        #expect(offered.map(\.count) == [GroupOrder.most, GroupOrder.most])
        #expect(offered.reduce(into: Set<String>()) { $0.formUnion($1) } == Set(names))
    }

    @Test("nor does it stay with those that a plugin fails on")
    func failsOnSome() async throws {
        let names = (0..<100).map { "hub-\($0)" }
        let failure = PolicyFailure(plugin: "chooser", version: "1", kind: "plugin_error", message: "no")
        let chooser = Chooser { _ in .failure(failure) }
        let peers = Self.peers()
        for _ in 0..<2 { #expect(try await Self.connect(chooser, names, peers)?.domain == .plugin) }
        #expect(Set(chooser.asked.withLock { $0 }.flatMap { $0.map(\.name) }) == Set(names))
    }

    @Test("a turn over one network interface is none over another one")
    func interfaces() throws {
        let peers = Self.peers(pins: ["sha256/A"])
        let found = try Self.services("hub", 0..<(2 * GroupOrder.most), pin: "sha256/A")
        var tried: [String: Set<String>] = [:]
        for _ in 0..<2 {
            for interface in ["eth0", "wwan0"] {
                for peer in peers.candidates(found, over: interface) {
                    peers.failed(peer, "no answer")
                    tried[interface, default: []].insert(peer.service.name)
                }
            }
        }
        #expect(tried["eth0"] == Set(found.map(\.name)) && tried["wwan0"] == Set(found.map(\.name)), "\(tried.mapValues(\.count))")
        // One that was reached comes first over both.
        let last = try #require(peers.candidates(found, over: "eth0").last)
        peers.connected(to: last)
        for interface in ["eth0", "wwan0", "lte0"] { #expect(peers.candidates(found, over: interface).first?.key == last.key) }
    }

    @Test("one whose name only looks like that of a hub has its own turn, error and session")
    func lookAlikeTurns() throws {
        let peers = Self.peers()
        let found = try [Self.service("hub-\u{E9}"), Self.service("hub-e\u{301}", address: "192.0.2.2")]
        for _ in 0..<2 {
            let candidates = peers.candidates(found)
            let (first, second) = (try #require(candidates.first), try #require(candidates.last))
            #expect(!first.service.name.utf8.elementsEqual(second.service.name.utf8))
            peers.failed(first, "no answer")
            let after = peers.candidates(found)
            #expect(after.first?.service.name.utf8.elementsEqual(second.service.name.utf8) == true)
            #expect(after.last?.lastError == "no answer")
            #expect(peers.sessions(of: first) !== peers.sessions(of: second))
        }
        let hub = try #require(peers.candidates(found).first)
        peers.connected(to: hub)
        #expect(peers.candidates(found).map { $0.lastSuccess != nil } == [true, false])
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
    private static func connect(_ chooser: Chooser?, _ names: [String], _ known: GroupPeers? = nil) async throws -> ReplicationError? {
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
        let connector = GroupConnector(peers: known ?? peers(), client: client, choice: choice) { () async throws(DiscoveryError) in services }
        do {
            _ = try await connector.connect()
            return nil
        } catch let error as ReplicationError { return error }
    }

    @Test("without a plugin every candidate is tried, and the error names them")
    func trying() async throws {
        let error = try await Self.connect(nil, ["hub-a", "hub-b"])
        #expect(error?.message.contains("hub-a: ") == true && error?.message.contains("hub-b: ") == true, "\(String(describing: error))")
        // Not all of many.
        #expect(try await Self.connect(nil, (0..<100).map { "hub-\($0)" })?.message.hasSuffix("; and \(GroupOrder.most - 8) more") == true)
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
