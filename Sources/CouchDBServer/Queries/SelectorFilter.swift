import Documents
import Interfaces
import Selectors

/// `filter=_selector` of `_changes`: lets pass what a selector means.
struct SelectorFilter: DocumentFilter {
    let selector: Selector

    var pluginName: String { "_selector" }
    var version: String { "" }

    func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        documents.map { document in
            let fields = DocumentFields(document.id, document.revision, isDeleted: document.isDeleted, body: document.body)
            guard let found = fields.document(with: selector.roots) else { return .reject }
            do throws(SelectorError) { return try selector.matches(found) ? .pass : .reject } catch {
                return .failed(PolicyFailure(plugin: pluginName, version: version, kind: "selector_steps", message: error.reason))
            }
        }
    }

    func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}
