import Documents
import DocumentStore
import Interfaces
import Replication

/// One answer to "why did this document not arrive?": a keyword for programs, a sentence, what to do, and the figures behind it.
struct WhereaboutsStatement: Sendable {
    var state: String
    var text: String
    /// Nil if nothing needs to be done.
    var remedy: String?
    var details: [JSONObject.Member] = []

    init(_ state: String, _ text: String, remedy: String? = nil) {
        (self.state, self.text, self.remedy) = (state, text, remedy)
    }

    func with(_ details: KeyValuePairs<String, JSONValue?>) -> WhereaboutsStatement {
        var copy = self
        copy.details += details.compactMap { key, value in value.flatMap { $0.isNull ? nil : .init(key: key, value: $0) } }
        return copy
    }

    /// Adds what was recorded when the document was held back.
    func with(_ noted: Exclusion) -> WhereaboutsStatement {
        with([
            "rev": JSONOutput.text(noted.revision?.text), "tries": JSONOutput.number(noted.tries), "since": .string(Timestamp.format(noted.since)),
        ])
    }

    var members: [JSONObject.Member] {
        [
            .init(key: "state", value: .string(state)), .init(key: "text", value: .string(text)), .init(key: "remedy", value: JSONOutput.text(remedy)),
        ] + details
    }

    var json: JSONValue { .object(JSONObject(members)) }
}
