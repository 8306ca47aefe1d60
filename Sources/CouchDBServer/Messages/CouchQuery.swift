import Documents
import Encodings
import HTTPServer

/// The parameters in a request's query string, many of which CouchDB encodes as JSON.
struct CouchQuery: Sendable {
    let pairs: [(key: String, value: String)]
    /// Parameters from the body, which take precedence over the query string.
    private var body = JSONObject()

    /// - Throws: ``HTTPError`` 400.
    init(_ query: String?) throws(HTTPError) {
        var pairs: [(key: String, value: String)] = []
        for item in (query ?? "").utf8.split(separator: UInt8(ascii: "&")) {
            let parts = item.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let key = Self.decode(parts[0]), let value = parts.count == 2 ? Self.decode(parts[1]) : "" else {
                throw CouchError.badRequest("the query is not well percent-encoded")
            }
            pairs.append((key, value))
        }
        self.pairs = pairs
    }

    init(pairs: [(key: String, value: String)]) { self.pairs = pairs }

    init(body: JSONObject, over query: CouchQuery) { (pairs, self.body) = (query.pairs, body) }

    private static func decode(_ text: Substring.UTF8View) -> String? {
        PercentEncoding.decode(text.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 })
    }

    func text(_ key: String) -> String? { body[key]?.text ?? pairs.first { $0.key.utf8.elementsEqual(key.utf8) }?.value }

    func flag(_ key: String, default other: Bool = false) throws(HTTPError) -> Bool {
        switch text(key) {
        case nil: other
        case "true": true
        case "false": false
        case let value?: throw CouchError.query("Invalid boolean parameter: \"\(value)\" (\(key))")
        }
    }

    /// Greater numbers mean no limit, as this one does; sums of them must not overflow.
    static let largestNumber = 1 << 48

    /// A non-negative number.
    func number(_ key: String) throws(HTTPError) -> Int? {
        guard let value = text(key), value != "null" else { return nil }
        guard let number = Int(value), number >= 0 else { throw CouchError.query("Invalid value for \(key): \"\(value)\"") }
        return min(number, Self.largestNumber)
    }

    func json(_ key: String) throws(HTTPError) -> JSONValue? {
        if let value = body[key] { return value }
        guard let text = text(key) else { return nil }
        do { return try JSONValue(parsing: text) } catch { throw CouchError.badRequest("invalid UTF-8 JSON in \(key): \(error)") }
    }

    /// A list of revisions, as JSON.
    func revisions(_ key: String) throws(HTTPError) -> [NamedRevision]? {
        guard let value = try json(key) else { return nil }
        guard let items = value.asArray else { throw CouchError.badRequest("\(key) must be a JSON array of revisions") }
        var found: [NamedRevision] = []
        for item in items {
            guard let text = item.asString else { throw CouchError.badRequest("Invalid rev format") }
            found.append(try NamedRevision(text))
        }
        return found
    }

    /// - Throws: ``HTTPError`` 400; 404 for a revision that cannot exist here.
    func revision(_ key: String) throws(HTTPError) -> RevisionID? {
        guard let text = text(key), !text.utf8.isEmpty else { return nil }
        guard case .known(let revision) = try NamedRevision(text) else { throw CouchError.missing() }
        return revision
    }
}

/// A revision as a CouchDB client names it.
///
/// CouchDB accepts any text after the generation. Revisions here are hexadecimal, so a revision with any other text is valid, but cannot exist
/// here.
enum NamedRevision: Sendable {
    case known(RevisionID)
    case elsewhere(String)

    /// - Throws: ``HTTPError`` 400 for text that is not a revision in CouchDB either.
    init(_ text: String) throws(HTTPError) {
        do { self = .known(try RevisionID(known: text)) } catch {
            let generation = text.utf8.prefix { $0 != UInt8(ascii: "-") }
            guard generation.count < text.utf8.count, UInt64(Substring(generation)).map({ $0 > 0 }) == true else {
                throw HTTPError(400, "Invalid rev format: \(error)")
            }
            self = .elsewhere(text)
        }
    }

    var generation: UInt64 {
        switch self {
        case .known(let revision): revision.generation
        case .elsewhere(let text): UInt64(Substring(text.utf8.prefix { $0 != UInt8(ascii: "-") })) ?? 0
        }
    }

    var known: RevisionID? { if case .known(let revision) = self { revision } else { nil } }

    /// For a revision that is to be stored.
    ///
    /// - Throws: ``HTTPError`` 400 that says which form revisions have here.
    static func storable(_ text: String) throws(HTTPError) -> RevisionID {
        do { return try RevisionID(known: text) } catch { throw HTTPError(400, "Invalid rev format: \(error)") }
    }
}
