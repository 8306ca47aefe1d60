import Documents
import Encodings
import Interfaces
import NIOCore

extension PeerRequest {
    /// A request with a JSON body, for a JSON answer of at most this many bytes.
    init(_ method: String, _ path: String, json: JSONValue?, atMost bytes: Int = CouchBounds.answerBytes) {
        self.init(method, path)
        headers = [("Accept", "application/json")]
        maximumAnswer = bytes
        guard let json else { return }
        headers.append(("Content-Type", "application/json"))
        body = .bytes(ByteBuffer(bytes: json.serialize()))
    }
}

extension PeerAnswer {
    /// Memory of its parsed values, in bytes: every other byte from a peer can be a value.
    var valueBytes: Int {
        if let counted, counted.text == body.readableBytes { return counted.values }
        return body.withUnsafeReadableBytes { JSONTreeSize.bytes(of: $0.bindMemory(to: UInt8.self)) }
    }

    /// Counts the values once for several callers.
    mutating func countValues() { counted = (body.readableBytes, valueBytes) }

    /// Whether its values take more memory than allowed.
    var hasTooManyValues: Bool { valueBytes > CouchBounds.treeBytes }

    /// Whether the part collected so far is an object whose first member is an object about this document.
    func begins(with id: DocumentID) -> Bool {
        guard isGood else { return false }
        return [UInt8](body.readableBytesView.prefix(CouchBounds.beginningBytes)).withUnsafeBufferPointer { text in
            func isThere(_ byte: Unicode.Scalar, _ at: Int) -> Bool { at < text.count && text[at] == UInt8(ascii: byte) }
            let start = text.skippingJSONSpace(0)
            guard isThere("{", start) else { return false }
            let key = text.skippingJSONSpace(start + 1)
            let keyEnd = text.endOfJSONValue(key)
            guard (try? JSONValue(parsing: Array(text[key..<keyEnd])))?.asString == id.text else { return false }
            let colon = text.skippingJSONSpace(keyEnd)
            return isThere(":", colon) && isThere("{", text.skippingJSONSpace(colon + 1))
        }
    }

    /// What is wrong with a well-formed document that readers would interpret differently or not at all: not an error of the answer, nor of any other
    /// document.
    var flaw: JSONError? {
        do throws(JSONError) { _ = try body.withUnsafeReadableBytes { bytes throws(JSONError) in try JSONValue(parsing: bytes) } } catch {
            switch error.kind {
            case .duplicateKey, .tooDeep, .notFinite, .emptyKey, .nulInKey, .tooManyKeys, .loneSurrogate: return error
            default: return nil
            }
        }
        return nil
    }

    func json(_ what: String) throws(ReplicationError) -> JSONValue {
        guard !isTooLarge else {
            throw ReplicationError(
                domain: .http, code: 502,
                message: "\(what.prefix(200)): the answer has more than \(receivedBytes ?? body.readableBytes) bytes, more than it can have; does CouchDB answer there?")
        }
        guard !hasTooManyValues else {
            throw ReplicationError(
                domain: .http, code: 502,
                message: "\(what.prefix(200)): the values of the answer would take more than \(CouchBounds.treeBytes) bytes of memory (couch_tree_bytes)")
        }
        do { return try body.withUnsafeReadableBytes { bytes throws(JSONError) in try JSONValue(parsing: bytes) } } catch {
            throw ReplicationError(domain: .http, code: 502, message: "\(what): the answer is not JSON (\(error)); does CouchDB answer there?")
        }
    }
}

extension ReplicationError {
    /// A failed request, in the peer's own words.
    init(_ answer: PeerAnswer, to what: String) {
        let object = (try? JSONValue(parsing: [UInt8](answer.body.readableBytesView.prefix(CouchBounds.beginningBytes))))?.asObject
        let words = [object?["error"]?.asString, object?["reason"]?.asString].compactMap(\.self).joined(separator: ": ")
        self.init(domain: .http, code: answer.status, message: "\(what.prefix(200)): HTTP \(answer.status)\(words.isEmpty ? "" : ", \(PeersSettings.marked(String(words.prefix(400))))")")
        retryAfterSeconds = RetryAfter.seconds(answer.header("retry-after"), date: answer.header("date"))
    }

    /// CouchDB's error for one document.
    init(document id: DocumentID, error: String, reason: String) {
        let code =
            switch error {
            case "forbidden": 403
            case "unauthorized": 401
            case "conflict": 409
            case "not_found": 404
            case "missing_stub", "file_exists": 412
            case "bad_request", "doc_validation", "illegal_docid", "bad_content_type": 400
            case "too_large", "document_too_large", "attachment_too_large", "request_entity_too_large": 413
            case "timeout": 408
            case "service_unavailable": 503
            default: 500
            }
        self.init(domain: .http, code: code, message: "the peer refused document \(id): \(error.prefix(100)), \(PeersSettings.marked(String(reason.prefix(400))))")
    }

    init(couch error: any Error) {
        self = error as? ReplicationError ?? ReplicationError(store: error)
    }

    /// The request was too much for the peer, or one of its documents was: in halves it may succeed.
    var mayBeOneDocument: Bool {
        switch domain {
        case .http: [400, 408, 413, 422, 500, 504].contains(code)
        case .network: code == NetworkCode.timeout.rawValue
        default: false
        }
    }
}

extension CouchDialect {
    /// An answer whose shape differs from CouchDB's. The documents asked about count as unknown there, and those sent as not accepted.
    func unexpected(_ came: JSONValue, in what: String, wanted: String) -> ReplicationError {
        let shown = peer.withoutSecrets(came.text).prefix(100)
        return ReplicationError(
            domain: .http, code: 502, message: "\(what.prefix(200)): the answer has \(shown) instead of \(wanted); does CouchDB answer there?")
    }
}
