import Documents
import DocumentStore
import Interfaces

extension Replicator {
    /// Checks whether documents that could not be pushed still have to be: they may have been purged, or a filter may keep them back.
    public nonisolated func reviewWaiting() async {
        for document in waiting.all.prefix(50) where document.direction == .push {
            guard let isPending = try? await isPending(document.id, in: document.collection), !isPending else { continue }
            waiting.forget { $0.direction == .push && $0.collection == document.collection && $0.id == document.id }
        }
    }
}
