import Agent
import Documents

/// One line of `nightjar doctor`.
struct Finding: Sendable {
    enum Verdict: String, Sendable {
        case ok
        /// Worth a look, but nothing is broken.
        case warning
        case wrong
        /// Not examined; the text says why.
        case skipped
    }

    /// `configuration`, `time`, `disk`, `dns`, `peer`, `certificate`, `plugins`, `store`, `agent`.
    var area: String
    var verdict: Verdict
    var text: String
    /// What to do; empty if nothing needs to be done.
    var mend: String

    init(_ area: String, _ verdict: Verdict, _ text: String, mend: String = "") {
        self.area = area
        self.verdict = verdict
        self.text = text
        self.mend = mend
    }

    var json: JSONValue {
        JSONOutput.object(["area": .string(area), "verdict": .string(verdict.rawValue), "text": .string(text), "mend": .string(mend)])
    }
}
