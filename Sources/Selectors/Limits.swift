/// All limits of selectors, with their reasons. A selector comes from a client, and is evaluated for every document of a scan.
package enum SelectorLimits {
    /// `selector_depth`: nesting of operators and sub-objects. CouchDB has no limit; nobody writes this many by hand.
    package static let depth = 32
    /// `selector_conditions`: operators and fields of one selector. Each may be evaluated for each document.
    package static let conditions = 1_000
    /// `selector_steps`: conditions, list elements and states of regular expressions processed for one document.
    package static let steps = 4_000_000
    /// `selector_index_steps`: the same for one document and the partial selector of one index, which every write of the database pays for. A document that
    /// takes more is not in the index.
    package static let indexSteps = 2_000
    /// `selector_request_steps`: the same for all documents that one query, or one page of a feed, examines: the maximum cost of fifty of them, or an
    /// ordinary selector on millions.
    package static let requestSteps = 200_000_000
    /// `selector_fields`: fields of a sort, of an index or of a projection.
    package static let fields = 64
    /// `index_fields`: fields of one index. Each adds up to `index_key_bytes` to every entry.
    package static let indexFields = 16
    /// `index_key_bytes`: bytes of one field's value that count for sorting; the rest is ignored. Indexes, and sorts without one, agree on this.
    package static let keyBytes = 512
    /// `selector_field_bytes`: memory of the document members that a selector, an index or a projection names. They are parsed into a tree of values,
    /// which can be sixty times as large as a text of small numbers.
    package static let fieldBytes = 16 << 20
    /// `regex_states`: states of a regular expression, with counted repetitions expanded. All of them may be active at each character.
    package static let regexStates = 500
    /// `regex_text_bytes`: longest string on which a regular expression is tried; a longer one does not match.
    package static let regexTextBytes = 64 << 10
    /// Nesting of groups in a regular expression: its parser is recursive.
    static let regexDepth = 50
}
