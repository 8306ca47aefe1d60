import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore

/// Pull: revisions that the engine wants are fetched by `_bulk_get`.
extension CouchDialect {
    /// Starts the requests that may be sent now.
    func fetch() {
        while let portion = nextFetch() {
            if !portion.over.isEmpty {
                tell(portion.over.map { .pull(slot: 0, .withdrawn($0.row.sequence)) })
                endLosers(of: portion.over.map(\.row.id), isReview: true)
            }
            if portion.wanted.isEmpty { continue }
            run { dialect in
                await dialect.peer.untilReading()
                try await dialect.fetch(portion.wanted, large: portion.isLarge ? portion : nil)
                try await dialect.pauseIfAttachmentsWereSlow()
            } finally: {
                $0.fetches -= 1
                if portion.isLarge { $0.largeFetches -= 1 }
            }
        }
    }

    private func nextFetch() -> Portion? {
        let fetches = fetches
        return state.withLock { state in
            guard !state.isOver, state.fetches < fetches else { return nil }
            guard var next = state.nextLarge(of: fetches, memory.limit) ?? state.nextWanted() else { return nil }
            next.over = next.wanted.filter { state.branches[$0.row.id]?.isOver($0.row.revision) == true }
            if !next.over.isEmpty { next.wanted.removeAll { state.branches[$0.row.id]?.isOver($0.row.revision) == true } }
            if !next.wanted.isEmpty {
                state.fetches += 1
                if next.isLarge { state.largeFetches += 1 }
                state.wasLarge = next.isLarge
            }
            return next
        }
    }

    /// - Parameter large: set if it is one document that is known to be large.
    private func fetch(_ wanted: [WantedRevision], large: Portion? = nil) async throws {
        if state.withLock({ $0.lacksBulkGet }) { return try await fetchOneByOne(wanted) }
        let docs = JSONValue.array(
            wanted.map { ["id": .string($0.row.id.text), "rev": .string($0.row.revision.text), "atts_since": .array($0.ancestors.map { .string($0.text) })] })
        let path = "/_bulk_get?revs=true&latest=true&attachments=false&att_encoding_info=true"
        let isOne = wanted.count == 1
        let start = environment.time.monotonicNanoseconds()
        var answer: PeerAnswer
        do {
            let request = PeerRequest("POST", path, json: ["docs": docs], atMost: isOne ? documentBytes : answerBytes(isOne: false))
            answer = try await ask(request, keepsBeginning: true)
            if isOne {
                if let failure = try await leaveOutOthers(&answer, wanted[0], isBulk: true) { return refuse(wanted[0], failure, isFinal: false) }
                if try await takeLarge(&answer, wanted[0]) { return }
            }
        } catch let error as ReplicationError where error.isShortOfMemory {
            if postpone(wanted, large) { return }
            return try await fetchLess(of: wanted) { _ in error }
        }
        defer { withExtendedLifetime(answer) {} }
        if [400, 404, 405, 415, 501].contains(answer.status) {
            state.withLock { $0.lacksBulkGet = true }
            return try await fetchOneByOne(wanted)
        }
        let seconds = Int((environment.time.monotonicNanoseconds() - start) / 1_000_000_000)
        if !isOne, answer.isGood, exceedsBounds(answer, isOne: false) {
            let rest = try await takeEntries(answer, wanted, seconds)
            let isSetAside = large == nil && setAside(rest, answer)
            answer.keepBeginning()
            if isSetAside { return }
            return rest.count == wanted.count ? try await fetchLess(of: wanted) { tooLarge($0) } : try await fetchInPortions(rest)
        }
        if exceedsBounds(&answer, isOne: isOne) || answer.status == 413 {
            let (isLong, length) = (answer.isTooLarge, answer.header("content-length").flatMap { Int($0) })
            return try await fetchLess(of: wanted) { isLong ? tooLong($0, length) : tooLarge($0) }
        }
        if answer.status == 500, mayBeOneDocument(isOne) {
            let error = ReplicationError(answer, to: "POST _bulk_get")
            return try await fetchLess(of: wanted) { _ in error }
        }
        guard answer.isGood else { throw ReplicationError(answer, to: "POST _bulk_get") }
        state.withLock { $0.failedFetches = 0 }
        do {
            try await reading(answer, "POST _bulk_get") { json in
                var found: [FoundRevision] = []
                for result in json["results"]?.asArray ?? [] { found += revisions(in: result) }
                try await take(found, for: wanted, keeping: answer.claim)
            }
            learn(from: wanted.count, bytes: answer.body.readableBytes + answer.valueBytes, seconds: seconds)
        } catch {
            if let error = error as? ReplicationError, error.isShortOfMemory {
                answer.keepBeginning()
                if postpone(wanted, large) { return }
                return try await fetchLess(of: wanted) { _ in error }
            }
            if let flaw = answer.flaw {
                answer.keepBeginning()
                return try await fetchLess(of: wanted) { unreadable($0, flaw) }
            }
            // One document may make all of the answer unreadable. What is no such answer at all is no document's fault.
            guard let broken = error as? ReplicationError, BulkGetEntries(answer.body) != nil, (try? answer.json("")) == nil else { throw error }
            let rest = isOne ? wanted : try await takeEntries(answer, wanted, seconds)
            answer.keepBeginning()
            if rest.count < wanted.count { return try await fetchInPortions(rest) }
            try await fetchLess(of: wanted) { _ in broken }
        }
    }

    /// Whether it may be one document that the peer cannot send: not if it can send hardly any.
    private func mayBeOneDocument(_ isOne: Bool) -> Bool {
        state.withLock { state in
            if isOne { state.failedFetches += 1 }
            return state.failedFetches <= CouchBounds.failedFetches
        }
    }

    /// The revisions in one entry of an answer to `_bulk_get`.
    private func revisions(in entry: JSONValue) -> [FoundRevision] {
        let id = entry["id"]?.asString.flatMap { try? DocumentID($0) }
        return (entry["docs"]?.asArray ?? []).map { FoundRevision($0, of: id) }
    }

    /// Requests as many next as fit, if they are like these, and as arrive soon.
    private func learn(from count: Int, bytes: Int, seconds: Int) {
        let bytesPerDocument = max(1, bytes / count)
        let fitting = memory.limit / 8 / bytesPerDocument
        let timely = seconds > CouchBounds.fetchSeconds
            ? max(count * CouchBounds.fetchSeconds / seconds, CouchBounds.fetchBytes / bytesPerDocument) : CouchBounds.fetch
        state.withLock { $0.fetchSize = max(1, min(CouchBounds.fetch, fitting, timely, max($0.fetchSize, 2 * count))) }
    }

    /// Takes the documents of an answer that is too long to be received whole, or has too many values to be parsed at once: those of them that have arrived,
    /// a few at a time.
    ///
    /// - Returns: the revisions that it leaves to be requested.
    private func takeEntries(_ answer: PeerAnswer, _ wanted: [WantedRevision], _ seconds: Int) async throws -> [WantedRevision] {
        let (text, start) = (answer.body, answer.body.readerIndex)
        // Others, for which nobody asked, are not even parsed.
        let ids = Set(wanted.map(\.row.id))
        let places = (BulkGetEntries(text)?.places ?? []).filter { BulkGetEntries.owner(of: $0, in: text).map { ids.contains(DocumentID(stored: $0)) } ?? false }
        if places.isEmpty { return wanted }
        func slice(_ place: Range<Int>) -> ByteBuffer? { text.getSlice(at: start + place.lowerBound, length: place.count) }
        let sizes = places.map { place in slice(place)?.withUnsafeReadableBytes { JSONTreeSize.bytes(of: $0.bindMemory(to: UInt8.self)) } ?? 0 }
        let most = memory.limit / 8
        var rest = wanted
        var at = 0
        while at < places.count {
            var (end, bytes) = (at, 0)
            while end < places.count, end == at || bytes + sizes[end] <= most {
                bytes += sizes[end]
                end += 1
            }
            defer { at = end }
            // One whose values need too much memory beside the others' text is requested alone.
            guard bytes <= memory.limit / 3 else { continue }
            do { try await claim(text.readableBytes + bytes, for: answer, "POST _bulk_get") } catch let error as ReplicationError where error.isShortOfMemory { break }
            // One that cannot be read is requested alone, too, and fails by its name.
            let values = places[at..<end].compactMap { place in slice(place)?.withUnsafeReadableBytes { try? JSONValue(parsing: $0) } }
            var found = values.flatMap(revisions(in:))
            // The leaves of a document are taken together.
            let counts = Dictionary(grouping: values.compactMap { $0["id"]?.asString }, by: \.self).mapValues(\.count)
            let asked = Dictionary(grouping: rest, by: \.row.id).filter { counts[$0.key.text] ?? 0 >= $0.value.count }
            found.removeAll { $0.id.map { asked[$0] == nil } ?? true }
            let taken = rest.filter { asked[$0.row.id] != nil }
            rest.removeAll { asked[$0.row.id] != nil }
            if !taken.isEmpty { try await take(found, for: taken, keeping: answer.claim) }
            await peer.untilReading()
        }
        let whole = places.reduce(0) { $0 + $1.count } + sizes.reduce(0, +)
        learn(from: places.count, bytes: whole, seconds: seconds)
        return rest
    }

    /// Takes a document whose parsed values would need too much memory directly from the answer's bytes.
    ///
    /// - Parameter answer: its text is released as soon as the document is extracted.
    /// - Returns: false if the answer has to be parsed into values.
    private func takeLarge(_ answer: inout PeerAnswer, _ wanted: WantedRevision) async throws -> Bool {
        let bytes = answer.body.readableBytes
        guard answer.isGood, !answer.isTooLarge, bytes > DriverBounds.smallBodyBytes, !answer.hasTooManyValues else { return false }
        try await claim(2 * bytes, for: answer, "document \(wanted.row.id)")
        guard let large = LargeDocument(answer.body) else { return false }
        var found = FoundRevision(["ok": .object(large.head)], of: wanted.row.id)
        guard case .document(var document) = found else { return false }
        answer.body = ByteBuffer()
        document.text = large.content
        found = .document(document)
        // The document is accounted for where it goes; with attachments it stays here until they have been fetched.
        answer.claim?.complete(at: document.attachments.isEmpty ? 0 : bytes)
        learn(from: 1, bytes: 2 * bytes, seconds: 0)
        try await take([found], for: [wanted], keeping: answer.claim)
        return true
    }

    /// These cannot be obtained together; one of them may not be obtained at all.
    private func fetchLess(of wanted: [WantedRevision], refusal: (WantedRevision) -> ReplicationError) async throws {
        if wanted.count == 1 {
            let error = refusal(wanted[0])
            return refuse(wanted[0], error, isFinal: !error.isTransient)
        }
        // Those that follow are requested in smaller portions at once; these grow again as long as the answers are small enough.
        state.withLock { $0.fetchSize = max(1, min($0.fetchSize, wanted.count / 2)) }
        try await fetchInPortions(wanted)
    }

    /// Requests them in portions of the size that is known by then to be right: each smaller than all of them.
    private func fetchInPortions(_ wanted: [WantedRevision]) async throws {
        var rest = wanted[...]
        while !rest.isEmpty {
            let count = min(max(1, wanted.count / 2), state.withLock { $0.fetchSize })
            try await fetch(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
            // In the meantime, what came is stored.
            if !rest.isEmpty { await peer.untilReading() }
        }
    }

    /// For CouchDB 1.x and peers without `_bulk_get`.
    private func fetchOneByOne(_ wanted: [WantedRevision]) async throws {
        for each in wanted {
            let open = PercentEncoding.encode("[\"\(each.row.revision.text)\"]")
            let path = "/\(PercentEncoding.encode(each.row.id.text))?revs=true&latest=true&att_encoding_info=true&open_revs=\(open)"
            var answer: PeerAnswer
            do {
                answer = try await ask(PeerRequest("GET", path, json: nil, atMost: documentBytes), keepsBeginning: true)
                if let failure = try await leaveOutOthers(&answer, each, isBulk: false) {
                    refuse(each, failure, isFinal: false)
                    continue
                }
                if try await takeLarge(&answer, each) { continue }
            } catch let error as ReplicationError where error.isShortOfMemory {
                refuse(each, error, isFinal: false)
                continue
            }
            defer { withExtendedLifetime(answer) {} }
            if answer.isTooLarge {
                refuse(each, tooLong(each, answer.header("content-length").flatMap { Int($0) }))
                continue
            }
            if exceedsBounds(&answer, isOne: true) { refuse(each, tooLarge(each)); continue }
            if answer.status == 404 { try await giveUp([each]); continue }
            guard answer.isGood else { throw ReplicationError(answer, to: "GET \(path)") }
            do { try await reading(answer, "GET \(path)") { try await take(($0.asArray ?? []).map { FoundRevision($0, of: each.row.id) }, for: [each], keeping: answer.claim) } } catch {
                if let error = error as? ReplicationError, error.isShortOfMemory {
                    refuse(each, error, isFinal: false)
                    continue
                }
                guard let flaw = answer.flaw else { throw error }
                refuse(each, unreadable(each, flaw))
            }
        }
    }
}
