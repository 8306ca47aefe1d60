/// Every bound of selectors, with its reason. A selector comes from a client, and is asked about every document of a scan.
package enum SelectorLimits {
    /// `selector_depth`: levels of operators and sub-objects. CouchDB has none; nobody writes as many by hand.
    package static let depth = 32
    /// `selector_conditions`: operators and fields of one selector. Each of them may be asked of each document.
    package static let conditions = 1_000
    /// `selector_steps`: conditions, elements of lists and states of regular expressions that are gone through for one document.
    package static let steps = 4_000_000
    /// `selector_request_steps`: the same for all documents that one query looks at, or one page of a feed: what fifty of them may cost, or an
    /// ordinary selector asked about millions.
    package static let requestSteps = 200_000_000
    /// `selector_fields`: fields of a sort, of an index and of a projection.
    package static let fields = 64
    /// `index_fields`: fields of one index. Each adds up to `index_key_bytes` to every entry.
    package static let indexFields = 16
    /// `index_key_bytes`: of one field's value that count where documents are put in order; what lies behind counts no more. Indexes and
    /// sorts without one agree on it.
    package static let keyBytes = 512
    /// `selector_field_bytes`: in memory, of a document's members that a selector, an index or a projection names. They are read as a tree of
    /// values, sixty times as large as text of small numbers.
    package static let fieldBytes = 16 << 20
    /// `regex_states`: states of a regular expression, counted repetitions written out. All of them may be alive at each character.
    package static let regexStates = 500
    /// `regex_text_bytes`: of a string that a regular expression is tried on; a longer one does not match.
    package static let regexTextBytes = 64 << 10
    /// Levels of groups in a regular expression: its parser recurses.
    static let regexDepth = 50
}
