import Documents

/// What a reload that was not refused did, and what its operator should know.
package struct ReloadOutcome: Sendable {
    /// One line each.
    package var done: [String] = []
    /// What `nightjar check` warns of as well, and what would keep the agent from starting again.
    package var warnings: [String] = []

    /// As the admin API answers.
    var json: JSONValue {
        JSONOutput.object(["done": .array(done.map { .string($0) }), "warnings": .array(warnings.map { .string($0) })])
    }
}
