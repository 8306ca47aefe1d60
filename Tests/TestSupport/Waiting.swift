/// Something that a test waited for did not happen in time, or a helper could not do its work.
package struct SupportError: Error, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// How long tests wait for something before they call it a failure. This is long because machines may be busy; a test that
/// passes never waits that long.
package let patience = Duration.seconds(60)

/// Checks again and again until the condition holds.
///
/// - Parameter what: what the test waits for, as a clause for the error: "the document arrives".
/// - Throws: ``SupportError`` when `within` has passed, or what the condition throws.
package func eventually(
    _ what: String, within: Duration = patience, _ condition: @Sendable () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + within
    while true {
        if try await condition() { return }
        guard ContinuousClock.now < deadline else { throw SupportError("timed out after \(within) waiting for this: \(what)") }
        try await Task.sleep(for: .milliseconds(10))
    }
}

/// Checks again and again until there is a value.
package func eventually<T: Sendable>(
    _ what: String, within: Duration = patience, _ value: @Sendable () async throws -> T?
) async throws -> T {
    let deadline = ContinuousClock.now + within
    while true {
        if let value = try await value() { return value }
        guard ContinuousClock.now < deadline else { throw SupportError("timed out after \(within) waiting for this: \(what)") }
        try await Task.sleep(for: .milliseconds(10))
    }
}
