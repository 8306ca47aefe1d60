import Encodings

/// A collection as named in a configuration: `scope.collection`; without a dot it is in the scope `_default`.
package struct CollectionReference: Sendable, Hashable, CustomStringConvertible {
    package let scope: String
    package let collection: String

    /// The collection that every database has.
    package static let defaultCollection = CollectionReference(scope: "_default", collection: "_default")

    private init(scope: String, collection: String) {
        self.scope = scope
        self.collection = collection
    }

    /// nil if the text is not the name of a collection. The syntax is Couchbase Lite's: names of 1 to 251 letters, digits,
    /// `_`, `-` and `%`, not beginning with `_` or `%`, except `_default` for the scope and for its default collection.
    package init?(parsing text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard (1...2).contains(parts.count) else { return nil }
        let scope = parts.count == 2 ? parts[0] : "_default"
        let collection = parts[parts.count - 1]
        guard scope == "_default" || Self.isName(scope) else { return nil }
        guard Self.isName(collection) || (collection == "_default" && scope == "_default") else { return nil }
        self.init(scope: scope, collection: collection)
    }

    /// Always both parts: `_default._default`.
    package var description: String { "\(scope).\(collection)" }

    private static func isName(_ text: String) -> Bool {
        Bytes.matches(
            text, first: { Bytes.isAlphanumeric($0) || $0 == UInt8(ascii: "-") },
            rest: { Bytes.isAlphanumeric($0) || Bytes.isDash($0) || $0 == UInt8(ascii: "%") }, 1...251)
    }
}

extension Form where Value == CollectionReference {
    static let collection = Form<String>.text(.collection).map(
        { text, _ in CollectionReference(parsing: text) ?? .defaultCollection }, json: { JSONString.quoted($0.description) })
}
