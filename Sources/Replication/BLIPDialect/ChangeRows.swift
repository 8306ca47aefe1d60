import Documents
import DocumentStore
import Encodings
import Interfaces

/// Parses the rows of change lists, and the answers to ours. The values in a text are counted before they are made, since they may take many times its
/// size.
enum ChangeRows {
    /// The rows of a list, or why it is refused, for the engine.
    static func rows(_ read: () throws(MessageError) -> ListRows) -> Result<ListRows, ReplicationError> {
        do throws(MessageError) { return .success(try read()) } catch { return .failure(ReplicationError(error)) }
    }

    /// Parses the rows of `changes`, each `[sequence, docID, revID, deleted, bodySize]`. `null` and `[]` are the caught-up marker.
    static func readChanges(
        _ bytes: [UInt8], naming: RevisionNaming = .trees, limits: ReplicationLimits
    ) throws(MessageError) -> [RowResult<OfferedRow>] {
        try readArray(bytes, limits, "changes").map { value throws(MessageError) in
            guard case .array(let items) = value, items.count >= 3 else {
                return .bad("a row of changes is [sequence, docID, revID, …]", sequence: nil)
            }
            guard let sequence = sequenceText(items[0]) else {
                return .bad("the sequence of a changes row is a number or a string", sequence: nil)
            }
            // Fails the whole list: if only the row were refused, the feed would count as pulled without it.
            try sequence.check(limits)
            let flags = items.count > 3 ? ChangeFlags(items[3]) : ChangeFlags(bits: 0)
            do throws(MessageError) {
                let (id, name) = try identity(items[1], items[2], naming)
                return .row(
                    OfferedRow(
                        sequence: sequence, id: id, revision: name.revision, isDeletion: flags.isDeletion,
                        isAccessRemoved: flags.isAccessRemoved, bodySize: items.count > 4 ? size(items[4]) : 0))
            } catch {
                // A document that is deleted there, or taken away, is not missing here.
                return .bad(
                    error.message, sequence: sequence, id: items[1].asString.map(NotTakenDocuments.name), isGone: flags.isDeletion || flags.isAccessRemoved)
            }
        }
    }

    /// Parses the rows of `proposeChanges`, each `[docID, revID, serverRevID, bodySize]`.
    static func readProposals(
        _ bytes: [UInt8], naming: RevisionNaming = .trees, limits: ReplicationLimits
    ) throws(MessageError) -> [RowResult<ProposedRow>] {
        try readArray(bytes, limits, "proposeChanges").map { value in
            guard case .array(let items) = value, items.count >= 2 else {
                return .bad("a row of proposeChanges is [docID, revID, serverRevID, …]", sequence: nil)
            }
            do throws(MessageError) {
                let (id, name) = try identity(items[0], items[1], naming)
                var parent: RevisionID?
                if items.count > 2 {
                    switch items[2] {
                    case .string(let text) where !text.isEmpty: parent = try PeersRevision(text, naming).revision
                    case .string, .null: break
                    default: throw MessageError.bad("the server revision of a proposal is a string")
                    }
                }
                return .row(
                    ProposedRow(
                        id: id, revision: name.revision, vector: name.vector, parent: parent, bodySize: items.count > 3 ? size(items[3]) : 0))
            } catch {
                return .bad(error.message, sequence: nil)
            }
        }
    }

    /// Parses the reply to `proposeChanges`: one status per row, trailing zeros omitted.
    static func readProposalReply(_ bytes: [UInt8], rows: Int, naming: RevisionNaming = .trees) -> [ProposalStatus] {
        guard case .array(let items)? = answers(bytes, rows: rows) else {
            return Array(repeating: ProposalStatus(status: 500, current: nil), count: rows)
        }
        return (0..<rows).map { index in
            guard index < items.count else { return ProposalStatus(status: 0, current: nil) }
            switch items[index] {
            case .number(let number): return ProposalStatus(status: Int(clamping: number.asInt64 ?? 500), current: nil)
            case .object(let object):
                var status = ProposalStatus(status: 409, current: nil)
                if case .number(let number)? = object["status"] { status.status = Int(clamping: number.asInt64 ?? 500) }
                if case .string(let text)? = object["rev"] { status.current = try? PeersRevision(text, naming).revision }
                return status
            default: return ProposalStatus(status: 0, current: nil)
            }
        }
    }

    /// Parses the reply to `changes`: for each wanted row the ancestors that the peer holds; nil means "not wanted".
    static func readChangesReply(_ bytes: [UInt8], rows: Int, naming: RevisionNaming = .trees) -> [[RevisionID]?] {
        guard case .array(let items)? = answers(bytes, rows: rows) else {
            return Array(repeating: nil, count: rows)
        }
        return (0..<rows).map { index in
            guard index < items.count, case .array(let ancestors) = items[index] else { return nil }
            return ancestors.compactMap { value in
                guard case .string(let text) = value else { return nil }
                return try? PeersRevision(text, naming).revision
            }
        }
    }

    /// Nil if it is not JSON, or would take many times its size as values.
    private static func answers(_ bytes: [UInt8], rows: Int) -> JSONValue? {
        if bytes.isEmpty { return .array([]) }
        guard JSONTreeSize.values(in: bytes[...]) <= (rows + 1) * BLIPBounds.valuesPerAnswer else { return Optional.none }
        return try? JSONValue(parsing: bytes)
    }

    private static func readArray(
        _ bytes: [UInt8], _ limits: ReplicationLimits, _ profile: String
    ) throws(MessageError) -> [JSONValue] {
        guard bytes.count <= limits.maximumChangeListBytes else {
            throw MessageError(
                code: 413,
                message: "\(profile) has \(bytes.count) bytes, max_change_list_bytes is \(limits.maximumChangeListBytes)")
        }
        if bytes.isEmpty { return [] }
        // Counted before parsing: a few bytes of text take a hundred as a value.
        guard JSONTreeSize.values(in: bytes[...]) <= limits.maximumRowsInChangeList * limits.maximumValuesPerRow else {
            throw MessageError(
                code: 413,
                message: "\(profile) has more values than max_rows_in_change_list (\(limits.maximumRowsInChangeList)) rows of "
                    + "max_values_per_row (\(limits.maximumValuesPerRow))")
        }
        let value: JSONValue
        do { value = try JSONValue(parsing: bytes) } catch { throw .bad("\(profile) is not JSON: \(error)") }
        switch value {
        case .null: return []
        case .array(let items):
            guard items.count <= limits.maximumRowsInChangeList else {
                throw MessageError(
                    code: 413,
                    message: "\(profile) has \(items.count) rows, max_rows_in_change_list is \(limits.maximumRowsInChangeList)")
            }
            return items
        default: throw .bad("\(profile) is a JSON array")
        }
    }

    private static func identity(
        _ id: JSONValue, _ revision: JSONValue, _ naming: RevisionNaming
    ) throws(MessageError) -> (DocumentID, PeersRevision) {
        guard case .string(let idText) = id, case .string(let revisionText) = revision else {
            throw .bad("document and revision ids are strings")
        }
        let document: DocumentID
        do { document = try DocumentID(idText) } catch { throw .bad("\(error)") }
        return (document, try PeersRevision(revisionText, naming))
    }

    private static func size(_ value: JSONValue) -> Int {
        guard case .number(let number) = value, let size = number.asInt64, size > 0 else { return 0 }
        return Int(clamping: size)
    }

    /// The JSON text of a sequence, byte for byte as it is sent back to the peer.
    static func sequenceText(_ value: JSONValue) -> RemoteSequence? {
        switch value {
        case .number(let number): RemoteSequence(json: number.text)
        case .string: RemoteSequence(json: String(decoding: value.serialize(), as: UTF8.self))
        default: nil
        }
    }
}

/// A revision as a peer names it: by its id, or by its version, with as much of its version vector as the peer sends.
struct PeersRevision {
    var revision: RevisionID
    var vector: VectorHistory?

    init(_ text: String, _ naming: RevisionNaming) throws(MessageError) {
        guard naming != .trees, text.utf8.contains(UInt8(ascii: "@")) else {
            do { revision = try RevisionID(text) } catch { throw .bad("\(error)") }
            return
        }
        do throws(VersionError) {
            let history = try VectorHistory(text, history: "")
            revision = RevisionID(history.vector.current)
            if text.utf8.count > revision.text.utf8.count { vector = history }
        } catch { throw .bad("\(error)") }
    }
}

extension RemoteSequence {
    /// - Throws: ``MessageError`` if it is longer than any real peer's.
    func check(_ limits: ReplicationLimits) throws(MessageError) {
        guard json.utf8.count > limits.maximumSequenceBytes else { return }
        throw MessageError(
            code: 413, message: "a sequence of the peer has \(json.utf8.count) bytes, max_sequence_bytes is \(limits.maximumSequenceBytes)")
    }
}

/// The flag bits in a row of `changes`: 1 deleted, 2 access revoked, 4 removed from the channels (Sync Gateway's; LiteCore writes 0 and 1, others a
/// Boolean).
struct ChangeFlags {
    var bits: Int

    var isDeletion: Bool { bits & 1 != 0 }
    /// The document was taken away, as opposed to deleted: 5 is a deletion that also removed it from its channels.
    var isAccessRemoved: Bool { bits >= 2 && bits != 5 }
}

extension ChangeFlags {
    init(_ value: JSONValue) {
        switch value {
        case .bool(let isDeleted): bits = isDeleted ? 1 : 0
        case .number(let number): bits = Int(clamping: number.asInt64 ?? 0)
        default: bits = 0
        }
    }
}

/// A peer's answer to one proposed row.
struct ProposalStatus: Equatable {
    /// 0: send it; 304: the peer has it; 409: conflict; anything else is an error for this document.
    var status: Int
    /// With 409: the peer's current revision, if it says so.
    var current: RevisionID?

    /// The same in the engine's terms.
    ///
    /// - Parameter refusal: the peer's refusal of everything that it does not have.
    func answer(refusal: ReplicationError? = nil) -> OfferAnswer {
        switch status {
        case 0: refusal.map { OfferAnswer.forbidden($0) } ?? .wanted(known: [])
        case 304: .has
        case 409: .conflict(current: current)
        default: .refused(ReplicationError(domain: .http, code: status, message: "the peer refused the document"))
        }
    }
}

/// Writes JSON arrays of ids without building values first: the rows of a change list are on the hot path of a push.
struct RowWriter {
    private(set) var bytes: [UInt8] = [UInt8(ascii: "[")]
    private var items = 0
    private var itemsOutside = 0

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    /// Starts a nested array.
    mutating func beginRow() {
        separate()
        itemsOutside = items
        items = 0
        bytes.append(UInt8(ascii: "["))
    }

    mutating func endRow() {
        bytes.append(UInt8(ascii: "]"))
        items = itemsOutside
    }

    /// Writes JSON text as is.
    mutating func raw(_ json: String) {
        separate()
        bytes.append(contentsOf: json.utf8)
    }

    mutating func number(_ value: some BinaryInteger) {
        separate()
        bytes.append(contentsOf: String(value).utf8)
    }

    /// Writes a string that needs no escaping: the id of a revision, or a version (`TIME@SOURCE`).
    mutating func plain(_ text: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: text.utf8)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes a document id, which may contain quotes and backslashes.
    mutating func escaped(_ text: String) {
        separate()
        JSONString.append(text.utf8, to: &bytes)
    }

    private mutating func separate() {
        if items > 0 { bytes.append(UInt8(ascii: ",")) }
        items += 1
    }

    consuming func finish() -> [UInt8] {
        bytes.append(UInt8(ascii: "]"))
        return bytes
    }
}
