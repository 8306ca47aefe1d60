import Interfaces
import NIOCore

@testable import BLIP
@testable import DocumentStore
@testable import Documents
@testable import Replication

extension FuzzTarget {
    /// Messages of the replication protocol in their text form, for the passive or the active side: each request is answered or passed on,
    /// what was read can be written for another peer and read there, and our answers are what we would accept ourselves.
    static let messages = FuzzTarget("replication-messages", longestInput: 4_096) { bytes in
        let parts = bytes.split(separator: 0x1E, omittingEmptySubsequences: false).prefix(40).map { MessageText($0) }
        var session = FuzzedSession(isPassive: parts.first?.head != "active")
        for part in parts { try session.take(part) }
        try session.end()
    }
}

/// One message: `PROFILE` with `~` for compressed, `!` for urgent and `-` for no reply behind it, lines `KEY:VALUE`, an empty line, and the body.
private struct MessageText {
    var head = ""
    var marks: Set<Character> = []
    var properties = BLIPProperties()
    var body = ByteBuffer()

    init(_ bytes: ArraySlice<UInt8>) {
        var lines = bytes[...]
        func line() -> ArraySlice<UInt8>? {
            guard !lines.isEmpty else { return nil }
            let line = lines.prefix { $0 != 0x0A }
            lines = lines.dropFirst(line.count + 1)
            return line
        }
        head = String(decoding: line() ?? [], as: UTF8.self)
        while let last = head.last, "~!-".contains(last) { marks.insert(head.removeLast()) }
        var raw: [UInt8] = []
        while let next = line(), !next.isEmpty {
            let key = next.prefix { $0 != UInt8(ascii: ":") }
            guard !next.contains(0) else { continue }
            raw += Array(key) + [0] + Array(next.dropFirst(key.count + 1)) + [0]
        }
        properties = BLIPProperties(checkedBlock: ByteBuffer(bytes: raw))
        body = ByteBuffer(bytes: lines)
    }

    var request: OutgoingRequest {
        OutgoingRequest(
            profile: head, properties: properties, body: body, isCompressed: marks.contains("~"), isUrgent: marks.contains("!"),
            isNoReply: marks.contains("-"))
    }
}

private struct FuzzedSession: ~Copyable {
    private var dialect: BLIPDialect
    private var peer = BLIPConnection()
    private let limits: ReplicationLimits
    private let isPassive: Bool
    private let rows = 3
    /// Requests of ours that the peer has not answered.
    private var asked: [IncomingRequest] = []
    private var hasSpoken = false
    private var isOver = false

    init(isPassive: Bool) {
        var limits = ReplicationLimits()
        limits.maximumRowsInChangeList = 20
        limits.maximumReceivedHistory = 20
        limits.maximumDocumentIDs = 10
        limits.maximumCollections = 5
        limits.inlineListBytes = 200
        limits.maximumCheckpointBytes = 500
        limits.maximumDocumentBytes = 3_000
        self.limits = limits
        self.isPassive = isPassive
        dialect = BLIPDialect(isPassive: isPassive, takesDeltas: true, limits: limits)
    }

    mutating func take(_ text: MessageText) throws {
        guard !isOver else { return }
        if !hasSpoken, !isPassive { try open() }
        hasSpoken = true
        switch text.head {
        case "active", "passive": return
        case "reply", "error":
            guard !asked.isEmpty else { return }
            let request = asked.removeFirst()
            var reply = OutgoingReply(properties: text.properties, body: text.body, isCompressed: text.marks.contains("~"))
            if text.head == "error" {
                let code = text.properties["Error-Code"].flatMap { Int($0) } ?? 404
                reply = OutgoingReply(error: BLIPErrorReply(domain: text.properties["Error-Domain"] ?? "HTTP", code: code, message: String(buffer: text.body)))
            }
            peer.reply(to: request.number, reply)
        default: peer.send(text.request)
        }
        try exchange()
    }

    /// What the active side says first.
    private mutating func open() throws {
        dialect.speak(.collections, collections: 1, isOnlyDefault: true)
        var document = OutgoingDocument(sequence: 7, id: try DocumentID("doc\"\\-1"), version: try RevisionID("2-bb"))
        document.history = [try RevisionID("1-aa")]
        document.body = Array(#"{"b":{"@type":"blob","digest":"sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA="}}"#.utf8)
        document.blobs = [try BlobDigest("sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=")]
        dialect.push(0, .propose, generation: 0)
        dialect.offer(0, ChangeListID(number: 1), Array(repeating: document, count: rows))
        dialect.push(0, .announce, generation: 0)
        dialect.offer(0, ChangeListID(number: 2), Array(repeating: document, count: rows))
        dialect.send(0, document)
        dialect.subscribe(0, PullSubscription(isContinuous: true, isFirst: false, documentIDs: [document.id]))
        dialect.fetchCheckpoint(0, id: "cp-x")
        dialect.saveCheckpoint(0, id: "cp-x", body: Array("{}".utf8), token: "")
        dialect.requestBlob(BlobTransfer(digest: document.blobs[0], number: 1), 0, for: document.id, compresses: true, offset: 0)
    }

    /// Carries frames until both sides are still.
    private mutating func exchange() throws {
        for _ in 0..<1_000 {
            var events: [DialectEvent] = []
            var isMoving = false
            if let frame = peer.nextFrame() {
                isMoving = true
                let before = dialect.blip.unansweredRequests
                do throws(ReplicationError) { try dialect.receive(frame, inflationLimit: .max, into: &events) } catch {
                    isOver = true
                    guard error.message.hasPrefix("BLIP: limit ") else { throw FuzzFinding(description: "a well-framed message ended the connection: \(error)") }
                }
                var isPassedOn = false
                for event in events where try see(event) { isPassedOn = true }
                try hold(isOver || dialect.blip.unansweredRequests == before || isPassedOn, "a request without an answer")
            }
            var own: [DialectEvent] = []
            if let frame = dialect.nextFrame(into: &own) {
                isMoving = true
                var told: [BLIPEvent] = []
                do throws(BLIPError) { try peer.receive(frame, into: &told) } catch { throw FuzzFinding(description: "the peer cannot read us: \(error)") }
                for event in told { try hear(event) }
            }
            for event in own { _ = try see(event) }
            if !isMoving { return }
        }
        throw FuzzFinding(description: "it does not come to rest")
    }

    /// Looks at what was read; true if it has an answer to give.
    private mutating func see(_ event: DialectEvent) throws -> Bool {
        switch event {
        case .parseElsewhere(_, let read): return try see(read())
        case .refuse(let handle, let error):
            dialect.refuse(handle, error)
            return true
        case .collectionsWanted(let handle, let request):
            try hold(request.items.count <= limits.maximumCollections, "too many collections")
            dialect.speak(.collections, collections: request.items.count, isOnlyDefault: false)
            let stored = StoredCheckpoint(revision: "1-cc", body: Array(#"{"local":7}"#.utf8))
            dialect.answer(handle, collections: request.items.map { $0.name == nil ? nil : .some(.some(stored)) })
            return true
        case .defaultCollectionWanted:
            dialect.speak(.legacy, collections: 1, isOnlyDefault: true)
            return false
        case .passive(_, let handle, let request):
            try see(request, handle)
            return true
        case .blob(let event): return try see(event)
        case .pull(_, let event): return try see(event)
        case .push(_, .answered(_, let answers)):
            try hold(answers.count == rows, "\(answers.count) answers to \(rows) rows")
            return false
        default: return false
        }
    }

    private mutating func see(_ event: BlobEvent) throws -> Bool {
        switch event {
        case .wanted(let request):
            dialect.refuse(request.handle, MessageError(code: 404, message: "no"))
            return true
        case .bytesArrived(let digest, let bytes):
            dialect.consumed(digest, bytes: bytes.readableBytes)
            return false
        default: return false
        }
    }

    private mutating func see(_ request: PassiveRequest, _ handle: AnswerHandle?) throws {
        switch request {
        case .setCheckpoint(let id, let body, _):
            try hold(body.count <= limits.maximumCheckpointBytes && id.utf8.count <= limits.maximumCheckpointIDBytes, "a checkpoint beyond its limits")
            // What is kept for one peer is listed to it again.
            dialect.answer(handle, collections: [StoredCheckpoint(revision: "1-cc", body: body)])
            let own = CheckpointBody(parsing: body)
            try hold(CheckpointBody(parsing: own.bytes(time: 7)) == own, "a checkpoint reads differently")
        case .subscribe(let wanted):
            try hold((wanted.documentIDs?.count ?? 0) <= limits.maximumDocumentIDs, "too many ids")
            for id in wanted.documentIDs ?? [] { try hold((try? DocumentID(id.text)) == id, "\(id) is no id") }
            dialect.answer(handle, checkpoint: nil)
        case .checkpoint: dialect.answer(handle, checkpoint: StoredCheckpoint(revision: "1-cc", body: Array("{}".utf8)))
        case .unsubscribe: dialect.reply(handle)
        }
    }

    private mutating func see(_ event: PullEvent) throws -> Bool {
        switch event {
        case .listArrived(let list):
            // The dialect leaves parsing to the driver.
            guard case .text(let text, _) = list.content else { throw FuzzFinding(description: "the dialect has parsed a list") }
            let body = Array(text.readableBytesView)
            try seeOffered(body)
            try seeProposed(body)
            dialect.answer(list.handle, changes: [.notWanted, .wanted(ancestors: [])])
            return true
        case .arrived(let revision):
            try hold(revision.history.count <= limits.maximumReceivedHistory && revision.body.readableBytes <= limits.maximumDocumentBytes, "beyond its limits")
            try seeIdentity(revision.id, revision.revision)
            for ancestor in revision.history { try seeIdentity(revision.id, ancestor) }
            if case .checked(let checked)? = RevisionChecking.check([revision], unusualKeys: true).first {
                guard (try? JSONScanner.scanDocument(checked.body)) != nil else { throw FuzzFinding(description: "a body that is no JSON") }
                var document = OutgoingDocument(sequence: 1, id: checked.id, version: checked.revision)
                (document.body, document.blobs, document.isDeleted) = (checked.body, checked.blobs.map(\.digest), checked.isDeleted)
                dialect.send(0, document)
            }
            if let handle = revision.replyTo { dialect.settle(handle, .stored) }
            return true
        case .arrivalRefused, .withdrawn: return true
        default: return false
        }
    }

    private func seeIdentity(_ id: DocumentID, _ revision: RevisionID) throws {
        try hold((try? DocumentID(id.text)) == id, "\(id) is no id")
        try hold((try? RevisionID(revision.text)) == revision, "\(revision) is no revision")
    }

    private func seeOffered(_ body: [UInt8]) throws {
        guard let read = try? ChangeRows.readChanges(body, limits: limits) else { return }
        try hold(read.count <= limits.maximumRowsInChangeList, "too many rows")
        var writer = RowWriter(capacity: 100)
        for case .row(let row) in read {
            try seeIdentity(row.id, row.revision)
            let checkpoint = CheckpointBody(local: 3, remote: row.sequence)
            try hold(CheckpointBody(parsing: checkpoint.bytes(time: 1)) == checkpoint, "the sequence \(row.sequence) does not survive in a checkpoint")
            try hold(row.bodySize >= 0, "a size below zero")
            writer.beginRow()
            writer.raw(row.sequence.json)
            writer.escaped(row.id.text)
            writer.plain(row.revision.text)
            writer.number((row.isDeletion ? 1 : 0) | (row.isAccessRemoved ? 2 : 0))
            writer.number(row.bodySize)
            writer.endRow()
        }
        guard let again = try? ChangeRows.readChanges(writer.finish(), limits: limits) else { throw FuzzFinding(description: "rows that we write are no rows") }
        try hold(again.map(Self.text) == read.filter { if case .row = $0 { true } else { false } }.map(Self.text), "rows read differently")
    }

    private static func text(_ result: RowResult<OfferedRow>) -> String {
        switch result {
        case .row(let row): "\(row.sequence) \(row.id) \(row.revision) \(row.isDeletion) \(row.isAccessRemoved) \(row.bodySize)"
        case .bad(let why, _, _, _): "bad: \(why)"
        }
    }

    private func seeProposed(_ body: [UInt8]) throws {
        guard let read = try? ChangeRows.readProposals(body, limits: limits) else { return }
        for case .row(let row) in read {
            try seeIdentity(row.id, row.revision)
            if let parent = row.parent { try seeIdentity(row.id, parent) }
        }
    }

    /// What the peer hears: lists and checkpoints that it could read.
    private mutating func hear(_ event: BLIPEvent) throws {
        switch event {
        case .request(let request):
            asked.append(request)
            if request.profile == Profile.changes || request.profile == Profile.proposeChanges || request.profile == Profile.rev {
                try hold((try? JSONValue(parsing: Array(request.body.readableBytesView))) != nil, "the body of our \(request.profile) is no JSON")
            }
        case .reply(_, let reply):
            guard reply.error == nil, reply.body.readableBytes > 0 else { return }
            let body = Array(reply.body.readableBytesView)
            try hold((try? JSONValue(parsing: body)) != nil, "our answer is no JSON: \(String(decoding: body, as: UTF8.self))")
        default: break
        }
    }

    mutating func end() throws {
        try hold(dialect.bufferedBytes < 8 << 20, "\(dialect.bufferedBytes) bytes held")
        dialect.end()
        _ = peer.fail()
    }
}
