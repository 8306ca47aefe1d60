import Interfaces
import NIOCore

@testable import DocumentStore
@testable import Documents
@testable import Replication

extension FuzzTarget {
    /// What a CouchDB answers our replicator: feeds, documents, its copy of the checkpoint, errors. What was read can be written as we push it, and is
    /// read as the same again; a feed resumes where the peer said.
    static let couchAnswers = FuzzTarget("couch-answers", longestInput: 4_096) { bytes in
        guard let kind = bytes.first else { return }
        let rest = Array(bytes.dropFirst())
        switch kind {
        case UInt8(ascii: "f"): try feed(rest)
        case UInt8(ascii: "d"): try documents(rest)
        case UInt8(ascii: "l"): try log(rest)
        case UInt8(ascii: "e"): try error(rest)
        default: return
        }
    }

    private static func answer(_ bytes: [UInt8], status: Int = 200) -> PeerAnswer {
        PeerAnswer(status: status, headers: [("Retry-After", String(decoding: bytes.prefix(8), as: UTF8.self))], body: ByteBuffer(bytes: bytes))
    }

    private static func feed(_ bytes: [UInt8]) throws {
        guard let value = try? answer(bytes).json("GET _changes"), let page = try? FeedAnswer(value, since: "7-x", limits: ReplicationLimits()) else { return }
        let results = value["results"]?.asArray ?? []
        try hold(page.count == results.count, "rows were counted otherwise")
        let named = results.reduce(0) { $0 + ($1["changes"]?.asArray?.count ?? 0) }
        let offered = page.entries.flatMap(\.rows)
        let rows = offered.compactMap { if case .row(let row) = $0 { row } else { nil } }
        try hold(rows.count <= named, "\(rows.count) rows of \(named) revisions")
        try hold(offered.count <= named + results.count, "\(offered.count) rows, bad ones too, of \(results.count) of the peer's")
        for row in rows {
            guard let sequence = try? JSONValue(parsing: row.sequence.json) else { throw FuzzFinding(description: "a sequence that is no JSON: \(row.sequence.json)") }
            let isText = sequence.asString != nil
            try hold(isText || !row.sequence.isOfBranch, "a branch's place that is no text")
        }
        // A checkpoint is written and read between two sessions.
        for row in rows {
            let body = CheckpointBody(local: 3, remote: row.sequence)
            var log = ReplicationLog()
            log.session = "s"
            log.note(body)
            try hold(ReplicationLog(parsing: log.text(time: 0)).history.first?.body == body, "a place that does not come back from a checkpoint: \(row.sequence.json)")
        }
        if results.isEmpty, value["last_seq"] == nil { try hold(page.last == "7-x", "an empty page moves the feed") }
    }

    private static func documents(_ bytes: [UInt8]) throws {
        guard let value = try? answer(bytes).json("POST _bulk_get") else { return }
        var limits = ReplicationLimits()
        limits.maximumDocumentBytes = 2_000
        limits.maximumReceivedHistory = 10
        for result in value["results"]?.asArray ?? value.asArray ?? [] {
            for each in result["docs"]?.asArray ?? [result] {
                guard case .document(let document) = FoundRevision(each) else { continue }
                try hold(document.content.members.allSatisfy { !["_id", "_rev", "_revisions", "_deleted", "_attachments"].contains($0.key) }, "the protocol's keys are content")
                switch document.arrival(RemoteSequence(json: "1"), limits) {
                case .arrived(let received):
                    try hold(received.body.readableBytes <= 2_000 && received.history.count <= 10, "what is above the limits arrives")
                    try hold((try? JSONValue(stored: Array(received.body.readableBytesView)))?.asObject != nil, "a body that is no object")
                case .arrivalRefused: break
                default: throw FuzzFinding(description: "a document is neither taken nor refused")
                }
                try pushedAgain(document)
            }
        }
    }

    /// What goes to the next CouchDB is what came from the last.
    private static func pushedAgain(_ document: FoundDocument) throws {
        var outgoing = OutgoingDocument(sequence: 1, id: document.id, version: document.revision)
        outgoing.isDeleted = document.isDeleted
        outgoing.history = document.history
        let content = JSONValue.object(document.content).serialize()
        for attachments in [nil, document.attachments.isEmpty ? nil : JSONObject(document.attachments)] as [JSONObject?] {
            let text = try outgoing.couchText(content, attachments: attachments)
            guard let object = try? JSONValue(stored: text).asObject, let again = try? FoundDocument(object) else {
                throw FuzzFinding(description: "what is pushed cannot be read: \(String(decoding: text, as: UTF8.self))")
            }
            try hold(again.id == document.id && again.revision == document.revision && again.isDeleted == document.isDeleted, "another document is pushed")
            try hold(document.history.starts(with: again.history), "another history is pushed")
            try hold(again.content == document.content, "another body is pushed")
            if let attachments { try hold(JSONObject(again.attachments) == attachments, "other attachments are pushed") }
        }
    }

    private static func log(_ bytes: [UInt8]) throws {
        let log = ReplicationLog(parsing: bytes)
        try hold(log.history.count <= CouchBounds.logEntries, "a history of \(log.history.count)")
        let again = ReplicationLog(parsing: log.text(time: 1))
        try hold(again == log, "a log reads differently when written again: \(again), \(log)")
        if let newest = log.history.first {
            try hold(ReplicationLog.common(log, log).remote == newest.body.remote, "a log has nothing in common with itself")
        }
    }

    private static func error(_ bytes: [UInt8]) throws {
        let error = ReplicationError(answer(bytes, status: 400 + Int(bytes.first ?? 0)), to: "GET /x")
        try hold(error.message.unicodeScalars.count <= 2_000, "a message of \(error.message.unicodeScalars.count) characters")
        if let wait = error.retryAfterSeconds { try hold((0...86_400).contains(wait), "a wait of \(wait) s") }
    }
}
