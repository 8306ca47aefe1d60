import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Testing

@testable import Replication

/// The client's half of each captured session is replayed against our passive side: every request gets the kind of answer that
/// the real listener gave, and what the client pulled is sent.
@Suite(.timeLimit(.minutes(10)), .serialized)
struct CaptureReplayTests {
    static let files = (try? Captures.files()) ?? []

    @Test func theCapturesAreThere() { #expect(Self.files.count > 140) }

    @Test(arguments: files)
    func replay(_ file: String) async throws {
        var database = try TestDatabase("server", collections: try Self.collections(file))
        var hadCheckpoint = false
        let connections = try Captures.read(file)
        // The client proves the blobs that it has, whether or not it was asked to send them.
        var held: [String: [UInt8]] = [:]
        for connection in connections {
            for request in connection.serverRequests where request.profile == "getAttachment" {
                guard let digest = request.properties["digest"], let reply = connection.repliesToServer[request.number], reply.error == nil
                else { continue }
                held[digest] = [UInt8](reply.body.readableBytesView)
            }
        }
        for (index, connection) in connections.enumerated() {
            // It is the same client, but its checkpoint is gone because the server is a new one.
            if hadCheckpoint, connection.startsWithoutCheckpoint {
                database = try TestDatabase("server", collections: try Self.collections(file))
            }
            try await Replay(file: file, database: database, connection, held: held).run(index)
            hadCheckpoint = hadCheckpoint || connection.savesCheckpoint
        }
    }

    /// The collections of the captured server.
    private static func collections(_ file: String) throws -> [String] {
        var names: Set<String> = []
        for connection in try Captures.read(file) {
            for request in connection.clientRequests where request.profile == "getCollections" {
                guard let wanted = json(request.body)?["collections"]?.asArray, let reply = connection.repliesToClient[request.number],
                    let found = json(reply.body)?.asArray
                else { continue }
                for (name, answer) in zip(wanted, found) where !answer.isNull {
                    if let name = name.asString, name.contains(".") { names.insert(name) }
                }
            }
        }
        return names.filter { $0 != "_default._default" }.sorted()
    }
}

extension CapturedConnection {
    var startsWithoutCheckpoint: Bool {
        clientRequests.contains { request in
            guard let reply = repliesToClient[request.number] else { return false }
            switch request.profile {
            case "getCollections": return json(reply.body)?.asArray?.contains { $0.asObject?.isEmpty == true } == true
            case "getCheckpoint": return reply.error?.code == 404
            default: return false
            }
        }
    }

    var savesCheckpoint: Bool {
        clientRequests.contains { $0.profile == "setCheckpoint" && repliesToClient[$0.number].map { $0.error == nil } == true }
    }
}

/// A revision that the captured server evidently had.
private struct Seed {
    var collection: String
    var id: String
    var revision: String
    var history = ""
    var body = "{}"
    var isDeleted = false
}

private struct Replay {
    let file: String
    let database: TestDatabase
    let captured: CapturedConnection
    /// The names of the collections, by number.
    private var names: [String: String] = [:]

    /// The client's blobs.
    private let held: [String: [UInt8]]

    private var naming: RevisionNaming { file.hasPrefix("vv-") ? .versionsOnly : .trees }

    init(file: String, database: TestDatabase, _ captured: CapturedConnection, held: [String: [UInt8]]) {
        self.held = held
        self.file = file
        self.database = database
        self.captured = captured
        for request in captured.clientRequests where request.profile == "getCollections" {
            for (index, name) in (json(request.body)?["collections"]?.asArray ?? []).enumerated() { names[String(index)] = name.asString }
        }
    }

    private func name(_ request: IncomingRequest) -> String { request.properties["collection"].flatMap { names[$0] } ?? "_default" }

    func run(_ connectionIndex: Int) async throws {
        // How the client answered each row, and the blobs that it served.
        var wishes: [String: JSONValue] = [:]
        var blobs: [String: IncomingReply] = [:]
        var failures: [String: BLIPErrorReply] = [:]
        for request in captured.serverRequests {
            guard let reply = captured.repliesToServer[request.number] else { continue }
            switch request.profile {
            case "changes":
                let answers = json(reply.body)?.asArray ?? []
                for (index, row) in (json(request.body)?.asArray ?? []).enumerated() {
                    guard let items = row.asArray, items.count > 2, let id = items[1].asString else { continue }
                    wishes["\(name(request))/\(id)"] = index < answers.count ? answers[index] : .int(0)
                }
            case "getAttachment": if let digest = request.properties["digest"] { blobs[digest] = reply }
            case "rev": if let error = reply.error, let id = request.properties["id"] { failures[id] = error }
            default: break
            }
        }
        let (wanted, served, refused, names, held) = (wishes, blobs, failures, names, held)
        let subprotocol = naming == .trees ? Subprotocol.generation3 : .generation4
        let passive = PassiveConfiguration(listener: "hub", database: database.database, subprotocol: subprotocol)
        let peer = try await Peer(Hub(passive, owner: database, peersHaveBothNames: false)) { request in
            let name = request.properties["collection"].flatMap { names[$0] } ?? "_default"
            switch request.profile {
            case "changes":
                let rows = json(request.body)?.asArray ?? []
                let answers = rows.map { row in row.asArray.flatMap { $0[1].asString }.flatMap { wanted["\(name)/\($0)"] } ?? .int(0) }
                return OutgoingReply(json: JSONValue.array(answers).text)
            case "getAttachment":
                guard let reply = request.properties["digest"].flatMap({ served[$0] }) else { return OutgoingReply(error: "LiteCore", 7) }
                return reply.error.map { OutgoingReply(error: $0) } ?? OutgoingReply(body: reply.body)
            case "proveAttachment":
                guard let bytes = request.properties["digest"].flatMap({ held[$0] }) else { return OutgoingReply(error: "LiteCore", 7) }
                let nonce = [UInt8](request.body.readableBytesView)
                return OutgoingReply(json: BlobDigest.of([UInt8(nonce.count)] + nonce + bytes).text)
            case "rev": return request.properties["id"].flatMap { refused[$0] }.map { OutgoingReply(error: $0) } ?? OutgoingReply()
            default: return OutgoingReply()
            }
        }
        try await seedForProposals()
        for request in captured.clientRequests where request.profile == "getAttachment" {
            // The server had whatever it gave.
            guard let reply = captured.repliesToClient[request.number], reply.error == nil else { continue }
            _ = try await database.blob([UInt8](reply.body.readableBytesView))
        }
        var marked: Set<String> = []
        var subscriptions = 0
        var number = 0
        for (at, message) in captured.messages.enumerated() {
            guard case .request(let request) = message.kind else { continue }
            if !message.toServer {
                // Live changes, after the backlog.
                if request.profile == "changes", marked.contains(name(request)) { try await seed(rows(of: request, from: at)) }
                if request.profile == "changes", json(request.body)?.asArray?.isEmpty != false { marked.insert(name(request)) }
                continue
            }
            // We accept this, as Sync Gateway does, but the captured client did not get such a feed.
            if naming == .trees, request.properties["versioning"] == "version-vectors" { continue }
            var outgoing = OutgoingRequest(request)
            if request.profile == "subChanges" {
                let collection = try database.collection(name(request))
                let last = try await database.database.read { try $0.lastSequence(collection) }
                try await seed(backlog(from: at, of: request))
                if outgoing.properties["since"] != nil { outgoing.properties["since"] = String(last) }
                subscriptions += captured.repliesToClient[request.number].map { $0.error == nil } == true ? 1 : 0
            }
            guard !request.isNoReply, let original = captured.repliesToClient[request.number] else {
                peer.send(outgoing)
                continue
            }
            let place = "\(file) connection \(connectionIndex), request \(number) (\(request.profile))"
            let reply = await peer.ask(outgoing)
            try compare(request, original, try #require(reply, "\(place): the connection ended"), place, number)
            number += 1
        }
        await expectPulled(peer, subscriptions)
        peer.close()
    }

    // MARK: - What the server had

    /// Revisions that a list of changes announced, with what the `rev` messages after it say.
    private func rows(of request: IncomingRequest, from index: Int) -> [Seed] {
        let collection = name(request)
        return (json(request.body)?.asArray ?? []).compactMap { row in
            guard let items = row.asArray, items.count > 2, let id = items[1].asString, let revision = items[2].asString else { return nil }
            return detailed(Seed(collection: collection, id: id, revision: revision, isDeleted: items.count > 3 && items[3].asInt64 == 1 || items.count > 3 && items[3].asBool == true), from: index)
        }
    }

    private func detailed(_ seed: Seed, from index: Int) -> Seed {
        var seed = seed
        for message in captured.messages[index...] {
            guard !message.toServer, case .request(let request) = message.kind, request.profile == "rev", request.properties["id"] == seed.id,
                request.properties["rev"] == seed.revision, name(request) == seed.collection
            else { continue }
            seed.history = request.properties["history"] ?? ""
            if request.properties["deltaSrc"] == nil { seed.body = String(buffer: request.body) }
            seed.isDeleted = isTrue(request.properties["deleted"])
            return seed
        }
        return seed
    }

    private func backlog(from index: Int, of subscription: IncomingRequest) -> [Seed] {
        var seeds: [Seed] = []
        for (at, message) in captured.messages.enumerated() where at > index && !message.toServer {
            guard case .request(let request) = message.kind, request.profile == "changes", name(request) == name(subscription) else { continue }
            let found = rows(of: request, from: at)
            if found.isEmpty { break }
            seeds += found
        }
        return seeds
    }

    /// Derives what the server had from its answers to proposals.
    private func seedForProposals() async throws {
        for (at, message) in captured.messages.enumerated() {
            guard message.toServer, case .request(let request) = message.kind, request.profile == "proposeChanges",
                let reply = captured.repliesToClient[request.number], let statuses = json(reply.body)?.asArray
            else { continue }
            for (row, status) in zip(json(request.body)?.asArray ?? [], statuses) {
                guard let items = row.asArray, items.count > 1, let id = items[0].asString, let proposed = items[1].asString else { continue }
                // Pushed earlier in the same session, so that nothing has to be made up.
                let earlier = captured.messages[..<at].contains {
                    guard $0.toServer, case .request(let other) = $0.kind else { return false }
                    return other.profile == "rev" && other.properties["id"] == id
                }
                let known = try await database.get(id, in: name(request))
                if earlier || (known != nil && status["rev"] == nil) { continue }
                if status == 304 {
                    try await seed([detailed(Seed(collection: name(request), id: id, revision: proposed), from: 0)])
                } else if status == 409 || status["status"] == 409 {
                    let announced = captured.serverRequests.filter { $0.profile == "changes" }.flatMap { rows(of: $0, from: 0) }.first { $0.id == id }
                    let revision = status["rev"]?.asString ?? announced?.revision ?? "1-00"
                    try await seed([detailed(Seed(collection: name(request), id: id, revision: revision), from: 0)])
                }
            }
        }
    }

    private func seed(_ seeds: [Seed]) async throws {
        for seed in seeds {
            guard let named = try? PeersRevision(seed.revision, naming) else { continue }
            let collection = try database.collection(seed.collection)
            let known = try await database.database.read { try $0.tree(collection, doc(seed.id)) }
            if known?.revision(named: named.revision) != nil { continue }
            var incoming = IncomingRevision(
                id: doc(seed.id), revision: named.revision, history: [], isDeleted: seed.isDeleted, body: Array(seed.body.utf8))
            let joins: Bool
            if named.revision.kind == .version {
                let vector = try VectorHistory(seed.revision, history: seed.history)
                incoming.vector = vector
                joins = known.map { $0.place(of: vector, current: $0.winner?.revision ?? named.revision) != .below(nil) } ?? true
            } else {
                incoming.history = RevisionHistory(seed.history.split(separator: ",").map { rev(String($0)) })
                joins = incoming.history.contains { known?.contains($0) == true }
            }
            if known != nil, !joins { _ = try await database.database.write { try $0.purge(collection, doc(seed.id)) } }
            try await database.database.write { [incoming] in _ = try $0.insert(incoming, into: collection, conflicts: .store) }
        }
    }

    // MARK: - Answers

    private func compare(
        _ request: IncomingRequest, _ original: IncomingReply, _ ours: IncomingReply, _ place: String, _ number: Int
    ) throws {
        let comment = Comment(rawValue: "\(place): they \(describe(original)), we \(describe(ours))")
        if let difference = Difference.all.first(where: { $0.matches(file, request) }) {
            #expect(difference.holds(ours), "\(comment) — \(difference.reason)")
            return
        }
        #expect(original.error?.code == ours.error?.code && original.error?.domain == ours.error?.domain, comment)
        guard original.error == nil, ours.error == nil else { return }
        switch request.profile {
        case "proposeChanges":
            let count = json(request.body)?.asArray?.count ?? 0
            func statuses(_ reply: IncomingReply) -> [String] {
                let read = ChangeRows.readProposalReply([UInt8](reply.body.readableBytesView), rows: count, naming: naming)
                return read.map { "\($0.status) \($0.current?.text ?? "")" }
            }
            #expect(statuses(original) == statuses(ours), comment)
            #expect(ours.properties["maxHistory"] == "50" && ours.properties["blobs"] == "true", comment)
        case "setCheckpoint": #expect(ours.properties["rev"]?.isEmpty == false, comment)
        case "getCheckpoint": #expect(json(original.body) == json(ours.body) && ours.properties["rev"] == original.properties["rev"], comment)
        case "getCollections": #expect(json(original.body) == json(ours.body), comment)
        case "getAttachment", "proveAttachment": #expect(original.body == ours.body, comment)
        default: break
        }
    }

    private func describe(_ reply: IncomingReply) -> String {
        if let error = reply.error { return "refused with \(error)" }
        return "answered \(reply.properties.pairs.map { "\($0.key)=\($0.value)" }) \(String(buffer: reply.body).prefix(200))"
    }

    /// The last revision of each document that the captured server sent arrives, and the end of the backlog is reported.
    private func expectPulled(_ peer: Peer, _ subscriptions: Int) async {
        guard subscriptions > 0 else { return }
        var missing: Set<String> = []
        var latest: [String: String] = [:]
        // (A revision that was replaced by a newer one between announcement and sending cannot be repeated.)
        for request in captured.serverRequests where request.profile == "rev" && request.properties["replacedRev"] == nil {
            if let id = request.properties["id"] { latest["\(name(request))/\(id)"] = request.properties["rev"] ?? "" }
        }
        // Documents that the client changed later need not arrive as they were.
        let pushed = Set(captured.clientRequests.filter { $0.profile == "rev" }.compactMap { request in
            request.properties["id"].map { "\(name(request))/\($0)" }
        })
        for (id, revision) in latest where !pushed.contains(id) { missing.insert("\(id) \(revision)") }
        var markers = captured.serverRequests.contains { $0.profile == "changes" && $0.isNoReply } ? 1 : 0
        if missing.isEmpty, markers == 0 { return }
        for await request in peer.requests {
            if request.profile == "changes", request.isNoReply { markers = 0 }
            if request.profile == "rev", let id = request.properties["id"], let revision = request.properties["rev"] {
                missing.remove("\(name(request))/\(id) \(revision)")
            }
            if missing.isEmpty, markers == 0 { return }
        }
        Issue.record("\(file): the connection ended before \(missing) and the marker came")
    }
}

extension OutgoingRequest {
    /// A copy of the same request.
    fileprivate init(_ request: IncomingRequest) {
        self.init(
            profile: request.profile, properties: request.properties, body: request.body, isCompressed: request.isCompressed,
            isUrgent: request.isUrgent, isNoReply: request.isNoReply)
    }
}
