import Documents
import Interfaces

/// Limits what a listener's peers may do with the collection `nightjar.fleet`: read what was published, and write the status that bears
/// their own name. An anonymous peer, unless it is a publisher, may write a status but read none. The listener's own filter decides
/// about the documents of other collections.
///
/// A plugin written there by a stranger would do no harm (no gateway trusts it), but it would be noise on every gateway.
struct FleetGuard: DocumentFilter {
    let inner: (any DocumentFilter)?
    /// According to the configuration in force.
    let publishers: @Sendable () -> Set<ExactName>

    static let statusPrefix = "status:"

    var pluginName: String { inner?.pluginName ?? "fleet" }
    var version: String { inner?.version ?? "" }
    var changesBodies: Bool { inner?.changesBodies ?? false }
    func versionChanges() -> AsyncStream<String> { inner?.versionChanges() ?? AsyncStream { $0.finish() } }
    func allVersionChanges() -> [AsyncStream<String>] { inner?.allVersionChanges() ?? [] }

    func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        guard context.collection.description == FleetDocument.collection else {
            guard let inner else { return documents.map { _ in .pass } }
            return await inner.evaluate(documents, context)
        }
        if let user = context.user, publishers().contains(ExactName(user)) { return documents.map { _ in .pass } }
        return documents.map { allows($0.id.text, context) ? .pass : .reject }
    }

    private func allows(_ id: String, _ context: PolicyContext) -> Bool {
        guard id.utf8.starts(with: Self.statusPrefix.utf8) else { return context.direction == .push }
        guard let user = context.user else { return context.direction == .pull }
        return id.utf8.elementsEqual((Self.statusPrefix + user).utf8)
    }
}
