import Documents
import DocumentStore
import HTTPServer
import Interfaces
import Selectors
import Synchronization

/// The first page of a feed, if it was read before the answer began.
private final class ChangesOpening: Sendable {
    private let page: Mutex<ChangesPage?>

    init(_ page: ChangesPage?) { self.page = Mutex(page) }

    /// Works once: a feed may last long, and must not keep the page in memory.
    func take() -> ChangesPage? {
        page.withLock { page in
            defer { page = nil }
            return page
        }
    }
}

/// Answers `_changes`.
enum ChangesFeed {
    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        let question = try await ChangesQuestion(call)
        let reading = ChangesReading(call: call, question: question)
        let start = try await reading.start()
        if question.isDescending { return try await descending(call, reading) }
        if question.feed != .normal { call.admission.becomes(Admission.Feed(kind: question.feed.rawValue, collection: call.collection.name)) }
        let opening = ChangesOpening(try await Self.opening(reading, from: start))
        switch question.feed {
        case .normal, .longpoll:
            // A feed that waits must not hold memory for compression.
            let packing = question.feed == .normal ? call.packing : nil
            return .pieces(headers: ["Cache-Control": "must-revalidate"], call.database.blobs, packing: packing, keeping: call.answer) { writer in
                do { try await list(call, reading, opening, from: start, &writer) } catch let error as SelectorError {
                    try await writer.write(inPlaceOfTheRest: error)
                }
            }
        case .continuous:
            return .pieces(headers: ["Cache-Control": "must-revalidate"], call.database.blobs, keeping: call.answer) { writer in
                do { try await stream(call, reading, opening, from: start, &writer) } catch let error as SelectorError {
                    try await writer.write("{\(PieceWriter.members(error))}\n")
                }
            }
        case .eventsource:
            return .pieces(type: "text/event-stream", headers: ["Cache-Control": "no-cache"], call.database.blobs, keeping: call.answer) { writer in
                do { try await stream(call, reading, opening, from: start, &writer) } catch let error as SelectorError {
                    try await writer.write("event: error\ndata: {\(PieceWriter.members(error))}\n\n")
                }
            }
        }
    }

    /// Reads the first page of a feed whose client named a filter: if that filter fails on the first document, the answer is an error instead of a
    /// feed that seems to be complete.
    private static func opening(_ reading: ChangesReading, from start: ChannelPlace) async throws -> ChangesPage? {
        guard let filter = reading.question.filter else { return nil }
        var place = start
        while true {
            let page = try await reading.page(from: place, limit: max(1, reading.question.limit ?? .max))
            if !page.rows.isEmpty || page.isEnd { return page }
            if page.isHeld { throw CouchError.filterFailed(filter.pluginName) }
            place = page.place
        }
    }

    /// A `normal` feed, or a `longpoll` feed, which waits for the first row.
    private static func list(
        _ call: CouchCall, _ reading: ChangesReading, _ opening: ChangesOpening, from start: ChannelPlace, _ writer: inout PieceWriter
    ) async throws {
        let question = reading.question
        var left = question.limit ?? .max
        var place = start
        var count = 0
        try await writer.write("{\"results\":[")
        let waiter = question.feed == .longpoll && left > 0 ? ChangesWaiter(call, question) : nil
        var pending: SequenceNumber = 0
        while true {
            let known = opening.take()
            let page = if let known { known } else { try await reading.page(from: place, limit: max(1, left)) }
            if left == 0 {
                pending = page.pending + SequenceNumber(page.rows.count)
                break
            }
            for row in page.rows {
                try await writer.write(count == 0 ? "\n" : ",\n")
                try await write(row, question, &writer)
                count += 1
            }
            (place, pending) = (page.place, page.pending)
            left -= page.rows.count
            if left <= 0 || page.isHeld { break }
            // A page read before the waiter existed may miss changes that came since; those would not end the wait.
            guard page.isEnd, known == nil || waiter == nil else { continue }
            guard count == 0, let waiter else { break }
            // Send the headers and known rows before waiting.
            try await writer.flush()
            guard try await waiter.wait(sign: { try await writer.write("\n"); try await writer.flush() }) else { break }
        }
        try await writer.write("\n],\n\"last_seq\":\(place.json),\"pending\":\(pending)}\n")
    }

    /// A `continuous` feed, or the same as server-sent events.
    private static func stream(
        _ call: CouchCall, _ reading: ChangesReading, _ opening: ChangesOpening, from start: ChannelPlace, _ writer: inout PieceWriter
    ) async throws {
        let question = reading.question
        let isEvents = question.feed == .eventsource
        var left = question.limit ?? .max
        var place = start
        var pending: SequenceNumber = 0
        let waiter = ChangesWaiter(call, question)
        while left > 0 {
            let known = opening.take()
            let page = if let known { known } else { try await reading.page(from: place, limit: left) }
            for row in page.rows {
                if isEvents { try await writer.write("data: ") }
                try await write(row, question, &writer)
                try await writer.write(isEvents ? "\nid: \(row.place)\n\n" : "\n")
            }
            (place, pending) = (page.place, page.isEnd ? 0 : page.pending)
            left -= page.rows.count
            if !page.rows.isEmpty { waiter.changed() }
            // The client will reconnect, and then gets the error.
            if page.isHeld { break }
            // As above, for a page that was read before the wait began.
            guard page.isEnd, known == nil else { continue }
            guard left > 0 else { break }
            try await writer.flush()
            let sign = isEvents ? "event: heartbeat\ndata: \n\n" : "\n"
            guard try await waiter.wait(sign: { try await writer.write(sign); try await writer.flush() }) else { break }
        }
        if !isEvents { try await writer.write("{\"last_seq\":\(place.json),\"pending\":\(pending)}\n") }
    }

    /// Newest first. Sequences can only be read in ascending order, so the rows have to be held in memory: a bounded number of them.
    private static func descending(_ call: CouchCall, _ reading: ChangesReading) async throws -> HTTPResponse {
        let wanted = min(reading.question.limit ?? CouchLimits.descendingRows + 1, CouchLimits.descendingRows + 1)
        var place = ChannelPlace()
        var rows: [ChangesRow] = []
        var bytes = 0
        while true {
            var page = try await reading.page(from: place, limit: .max, beside: bytes)
            if !reading.question.includesDocuments { for index in page.rows.indices { page.rows[index].document.body = [] } }
            rows = (rows + page.rows).suffix(wanted)
            bytes = rows.reduce(0) { $0 + $1.bytes }
            guard bytes <= CouchLimits.descendingBytes else {
                throw CouchError.badRequest(
                    "descending comes to more than couchdb_descending_bytes (\(CouchLimits.descendingBytes)), with the documents' branches and contents: ask for fewer")
            }
            place = page.place
            // The newest changes are after that document.
            if page.isHeld, let filter = reading.question.filter { throw CouchError.filterFailed(filter.pluginName) }
            if page.isEnd { break }
        }
        guard rows.count <= CouchLimits.descendingRows, !reading.question.includesDocuments || rows.count <= CouchLimits.pageRows else {
            throw CouchError.badRequest(
                "descending needs a limit: of at most couchdb_descending_rows (\(CouchLimits.descendingRows)), with include_docs \(CouchLimits.pageRows)")
        }
        call.answer.hold(bytes)
        let shown = rows.reversed().map(\.self)
        return .pieces(call.database.blobs, keeping: call.answer) { writer in
            try await writer.write("{\"results\":[")
            for (index, row) in shown.enumerated() {
                try await writer.write(index == 0 ? "\n" : ",\n")
                try await write(row, reading.question, &writer)
            }
            try await writer.write("\n],\n\"last_seq\":\(shown.last?.place ?? "0"),\"pending\":0}\n")
        }
    }

    private static func write(_ row: ChangesRow, _ question: ChangesQuestion, _ writer: inout PieceWriter) async throws {
        var text = JSONWriter()
        text.text("{\"seq\":\(row.place),\"id\":")
        text.string(row.document.id.text)
        text.raw(",\"changes\":[")
        text.list(row.revisions) { $0.text("{\"rev\":\"\($1.text)\"}") }
        text.raw("]")
        if row.document.isDeleted { text.raw(",\"deleted\":true") }
        try await writer.write(text.bytes)
        if question.includesDocuments {
            try await writer.write(",\"doc\":")
            try await writer.write(DocumentText.ofRow(row.document, question.form, writer.blobs).pieces)
        }
        try await writer.write("}")
    }
}
