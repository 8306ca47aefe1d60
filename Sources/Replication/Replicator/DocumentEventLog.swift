import Documents
import Encodings
import Logging

extension Replicator {
    /// At most a few lines per batch: a filter that fails on every document must not fill the disk with its log.
    nonisolated func log(_ events: [DocumentEvent]) {
        let limit = configuration.limits.loggedDocumentsPerBatch
        var failures = 0
        var unnamed: (first: DocumentID, last: DocumentID)?
        for event in events {
            guard let error = event.error else { continue }
            failures += 1
            guard failures <= limit else {
                unnamed = (unnamed?.first ?? event.id, event.id)
                continue
            }
            logger(event.correlationID).warning(
                "document \(event.id) in \(event.collection): \(error)", metadata: ["direction": "\(event.direction.rawValue)"])
        }
        if let (first, last) = unnamed {
            let (more, name) = (Plural.count(failures - limit, "more document", "more documents"), configuration.name)
            // Names some of them: the next batch has a line like this one, with the same count.
            let which = first == last ? "\(first)" : "\(first) to \(last)"
            logger.warning("\(more) failed, \(which); \"nightjar replicator \(name) pending\", \"held\" and \"refused\" list them")
        }
    }
}
