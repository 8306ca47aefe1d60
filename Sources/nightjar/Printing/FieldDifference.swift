import Agent
import Documents
import Encodings

/// One field in which two documents differ.
struct FieldDifference: Sendable, Equatable {
    /// `address.city`, `tags[2]`; empty for the whole document.
    var field: String
    /// Nil if the field is absent.
    var before: JSONValue?
    var after: JSONValue?

    /// `max_differences`: the most that are looked for; with more, the documents have little in common.
    static let maximum = 1_000
    /// Characters of a value that are shown.
    static let maximumShown = 200

    /// Differences field by field, in the order of the first document, then of the second.
    ///
    /// - Parameters: nil for a document that is deleted or absent.
    static func between(_ before: JSONValue?, _ after: JSONValue?) -> [FieldDifference] {
        var found: [FieldDifference] = []
        compare("", before, after, &found)
        return found
    }

    private static func compare(_ field: String, _ before: JSONValue?, _ after: JSONValue?, _ found: inout [FieldDifference]) {
        guard found.count < maximum, before != after else { return }
        switch (before, after) {
        case (.object(let old)?, .object(let new)?):
            for member in old.members { compare(path(field, member.key), old[member.key], new[member.key], &found) }
            for member in new.members where old[member.key] == nil { compare(path(field, member.key), JSONValue?.none, member.value, &found) }
        case (.array(let old)?, .array(let new)?):
            for index in 0..<max(old.count, new.count) {
                // A plain `nil` literal here would mean JSON null.
                let before = index < old.count ? old[index] : JSONValue?.none
                compare("\(field)[\(index)]", before, index < new.count ? new[index] : JSONValue?.none, &found)
            }
        default:
            found.append(FieldDifference(field: field, before: before, after: after))
        }
    }

    private static func path(_ field: String, _ key: String) -> String {
        let isPlain = !key.isEmpty && key.utf8.allSatisfy { $0 > 0x20 && $0 != 0x2E && $0 != 0x5B && $0 != 0x22 }
        let name = isPlain ? key : JSONString.quoted(key)
        return field.isEmpty ? name : "\(field).\(name)"
    }

    /// As a change from one to the other: `price: from 1 to 2`.
    var asChange: String {
        switch (before, after) {
        case (let before?, let after?): "\(name): from \(Self.shown(before)) to \(Self.shown(after))"
        case (nil, let after?): field.isEmpty ? "the document is new: \(Self.shown(after))" : "\(name): added, \(Self.shown(after))"
        case (let before?, nil): field.isEmpty ? "the document is deleted" : "\(name): removed, it was \(Self.shown(before))"
        case (nil, nil): "\(name): the same"
        }
    }

    /// As the result of a different decision: `price: 2 instead of 1`.
    var asAlternative: String {
        switch (before, after) {
        case (let before?, let after?): "\(name): \(Self.shown(after)) instead of \(Self.shown(before))"
        case (nil, let after?): field.isEmpty ? "\(Self.shown(after)) instead of a deletion" : "\(name): \(Self.shown(after)) instead of nothing"
        case (let before?, nil): field.isEmpty ? "a deletion instead of \(Self.shown(before))" : "\(name): nothing instead of \(Self.shown(before))"
        case (nil, nil): "\(name): the same"
        }
    }

    /// `{"field", "before", "after"}`, omitting the one that is absent.
    var json: JSONValue {
        var object = JSONObject([.init(key: "field", value: .string(field))])
        if let before { object["before"] = before }
        if let after { object["after"] = after }
        return .object(object)
    }

    private var name: String { field.isEmpty ? "the document" : TextTable.printable(field) }

    private static func shown(_ value: JSONValue) -> String {
        let text = TextTable.printable(value.text)
        return text.count <= maximumShown ? text : "\(text.prefix(maximumShown))… (\(text.utf8.count) bytes)"
    }
}
