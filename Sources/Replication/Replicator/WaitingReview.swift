import Documents
import DocumentStore
import Interfaces

extension Replicator {
    /// Looks whether documents that could not be pushed are still to be: they may have been purged, or a filter keeps them back now.
    public nonisolated func reviewWaiting() async {
        for document in waiting.all.prefix(50) where document.direction == .push {
            guard let isPending = try? await isPending(document.id, in: document.collection), !isPending else { continue }
            waiting.forget { $0.direction == .push && $0.collection == document.collection && $0.id == document.id }
        }
    }
}
