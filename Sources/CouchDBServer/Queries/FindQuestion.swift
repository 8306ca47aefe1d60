import Documents
import DocumentStore
import Encodings
import HTTPServer
import Selectors

/// The parameters of a request for `_find`.
struct FindQuestion: Sendable {
    /// The index that the client requests, by its names.
    struct NamedIndex: Sendable {
        var design: String
        var name: String?

        func fits(_ index: FieldIndex) -> Bool {
            index.design.utf8.elementsEqual(design.utf8) && (name.map { index.name.utf8.elementsEqual($0.utf8) } ?? true)
        }
    }

    let selector: Selector
    private(set) var sort = SortOrder.none
    /// Nil for whole documents.
    private(set) var fields: [FieldPath]?
    private(set) var limit = CouchLimits.findLimit
    private(set) var skip = 0
    private(set) var bookmark: Bookmark?
    private(set) var wanted: NamedIndex?
    private(set) var allowsFallback = true
    private(set) var withConflicts = false
    private(set) var withStatistics = false

    /// - Throws: ``HTTPError`` 400, ``SelectorError``.
    init(_ object: JSONObject) throws {
        guard let json = object["selector"] else { throw CouchError.query("missing_required_key", "Missing required key: selector") }
        selector = try Selector(json)
        for member in object.members { try take(member.key, member.value) }
        // As in CouchDB, an empty list of alternatives alone matches nothing, although as a feed's selector it matches everything.
        if let only = json.asObject?.members, only.count == 1, ["$or", "$and"].contains(only[0].key), only[0].value.asArray?.isEmpty == true { limit = 0 }
    }

    private mutating func take(_ key: String, _ value: JSONValue) throws {
        switch key {
        case "selector": break
        case "limit": limit = try Self.number(value)
        case "skip": skip = try Self.number(value)
        case "sort": sort = try SortOrder(value)
        case "fields": fields = try Self.fields(value)
        case "bookmark": bookmark = try Self.bookmark(value)
        case "use_index": wanted = try Self.index(value)
        case "allow_fallback": allowsFallback = try Self.flag(value)
        case "conflicts": withConflicts = try Self.flag(value)
        case "execution_stats": withStatistics = try Self.flag(value)
        // Options for clusters and for indexes that lag behind, neither of which exists here.
        case "r", "update", "stable", "stale": break
        case "partition":
            guard value.asString?.utf8.isEmpty ?? value.isNull else { throw CouchError.notServedHere("a partitioned query") }
        default: throw CouchError.query("invalid_key", "Invalid key \(JSONValue.string(key).text) for this request.")
        }
    }

    private static func number(_ value: JSONValue) throws -> Int {
        guard let number = value.asInt64, number >= 0 else {
            throw CouchError.query("invalid_non_neg_integer", "\(value.text) is not an integer greater than or equal to zero")
        }
        // So that the sum of two such numbers cannot overflow.
        return Int(min(number, 1 << 60))
    }

    private static func flag(_ value: JSONValue) throws -> Bool {
        guard let flag = value.asBool else { throw CouchError.query("invalid_boolean", "Invalid boolean value: \(value.text)") }
        return flag
    }

    private static func fields(_ value: JSONValue) throws -> [FieldPath]? {
        if value.asString == "all_fields" { return nil }
        guard let items = value.asArray else { throw CouchError.query("invalid_fields", "Fields must be an array of strings, not: \(value.text)") }
        guard items.count <= SelectorLimits.fields else {
            throw CouchError.query("invalid_fields", "\(items.count) fields are more than selector_fields = \(SelectorLimits.fields)")
        }
        if items.isEmpty { return nil }
        return try items.map { item in
            guard let name = item.asString else { throw CouchError.query("invalid_field", "Invalid JSON for field spec: \(item.text)") }
            return try FieldPath(parsing: name)
        }
    }

    private static func bookmark(_ value: JSONValue) throws -> Bookmark? {
        if value.isNull { return nil }
        guard let text = value.asString else { throw Bookmark.invalid(value.text) }
        if text.utf8.isEmpty || text == Bookmark.none { return nil }
        return try Bookmark(text)
    }

    private static func index(_ value: JSONValue) throws -> NamedIndex? {
        var parts: [String]
        switch value {
        case .null: return nil
        case .string(let text):
            parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { String(Substring($0)) }
            if parts.first == "_design", parts.count > 1 { parts.removeFirst() }
        case .array(let items):
            parts = items.compactMap(\.asString)
            if parts.count != items.count { parts = [] }
            if items.isEmpty { return nil }
        default: parts = []
        }
        guard let design = parts.first, parts.count <= 2 else { throw CouchError.query("invalid_index_name", "Invalid index name: \(value.text)") }
        return NamedIndex(design: IndexNames.design(design), name: parts.count == 2 ? parts[1] : nil)
    }
}

/// The position at which the next page of a query begins.
struct Bookmark: Sendable, Equatable {
    static let none = "nil"

    /// The number of the index that was used; 0 for none.
    var index: Int64
    /// The last document of the page.
    var last: IndexEntry

    init(index: Int64, last: IndexEntry) { (self.index, self.last) = (index, last) }

    static func invalid(_ text: String) -> HTTPError {
        CouchError.query("invalid_bookmark", "Invalid bookmark value: \(String(text.unicodeScalars.prefix(200)))")
    }

    /// - Throws: ``HTTPError`` 400.
    init(_ text: String) throws(HTTPError) {
        guard let json = Base64.decode(text).flatMap({ try? JSONValue(parsing: $0) }), let items = json.asArray, items.count == 3,
            let index = items[0].asInt64, index >= 0, let key = items[1].asString.flatMap({ Base64.decode($0) }),
            let id = items[2].asString.flatMap({ try? DocumentID($0) })
        else { throw Self.invalid(text) }
        self.init(index: index, last: IndexEntry(key: key, id: id))
    }

    var text: String {
        Base64.encode(JSONValue.array([.int(index), .string(Base64.encode(last.key)), .string(last.id.text)]).serialize())
    }
}
