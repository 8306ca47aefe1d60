import Documents
import Interfaces
import NIOCore

/// Pull: answers about one document in which the peer put others as well. Only what is about the document counts for or against it.
extension CouchDialect {
    /// Removes from an answer what is about other documents than the requested one.
    ///
    /// - Returns: the peer's failure, if so much is about others, or about nothing, that the document is not in what could be received: it is requested again.
    func leaveOutOthers(_ answer: inout PeerAnswer, _ wanted: WantedRevision, isBulk: Bool) async throws -> ReplicationError? {
        guard answer.isGood else { return nil }
        let (text, exceeds) = (answer.body, exceedsBounds(answer, isOne: true))
        guard let entries = isBulk ? BulkGetEntries(text) : BulkGetEntries(openRevisions: text) else {
            return exceeds ? othersInstead(of: wanted, answer, nil) : nil
        }
        guard exceeds || entries.places.count > 1 else { return nil }
        let owners = entries.places.map { BulkGetEntries.owner(of: $0, in: text) }
        let own = zip(entries.places, owners).filter { wanted.row.id.isNamed($0.1) }.map(\.0)
        if own.isEmpty {
            guard exceeds else { return nil }
            // It alone exceeds what is received if the answer begins with it.
            if let cut = entries.cut, cut.lowerBound <= CouchBounds.beginningBytes, owners.isEmpty,
                BulkGetEntries.owner(of: cut, in: text).map(wanted.row.id.isNamed) ?? true
            {
                return nil
            }
            return othersInstead(of: wanted, answer, owners.compactMap(\.self).first ?? entries.cut.flatMap { BulkGetEntries.owner(of: $0, in: text) })
        }
        let bytes = own.reduce(0) { $0 + $1.count + 1 }
        guard answer.isTooLarge || own.count < entries.places.count || text.readableBytes > bytes + CouchBounds.beginningBytes else { return nil }
        try await claim(text.readableBytes + bytes, for: answer, "document \(wanted.row.id)")
        var rest = ByteBufferAllocator().buffer(capacity: bytes + 16)
        rest.writeString(isBulk ? "{\"results\":[" : "[")
        for (index, place) in own.enumerated() {
            if index > 0 { rest.writeInteger(UInt8(ascii: ",")) }
            if let slice = text.getSlice(at: text.readerIndex + place.lowerBound, length: place.count) { rest.writeImmutableBuffer(slice) }
        }
        rest.writeString(isBulk ? "]}" : "]")
        (answer.body, answer.isTooLarge) = (rest, false)
        answer.countValues()
        return nil
    }

    /// - Parameter other: one of the documents that nobody asked for, if any is named.
    private func othersInstead(of wanted: WantedRevision, _ answer: PeerAnswer, _ other: String?) -> ReplicationError {
        let what = other.map { "documents that were not asked for, such as \(peer.withoutSecrets($0).prefix(100))," } ?? "something else"
        var error = ReplicationError(
            domain: .http, code: 502,
            message: "the peer was asked for document \(wanted.row.id) alone, and of the \(answer.body.readableBytes) bytes that can be received of its answer, \(what) take so "
                + "much that the document is not among them; does CouchDB answer there?")
        error.isTransient = true
        return error
    }
}

extension DocumentID {
    /// Whether it is this id, compared as ids are.
    func isNamed(_ text: String?) -> Bool { text.map { DocumentID(stored: $0) == self } ?? false }
}
