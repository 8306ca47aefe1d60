import Documents
import Encodings
import Logging

extension Replicator {
    /// A few lines a batch: a filter that fails for every document must not fill the disk with its log.
    nonisolated func log(_ events: [DocumentEvent]) {
        let limit = configuration.limits.loggedDocumentsPerBatch
        var failures = 0
        for event in events {
            guard let error = event.error else { continue }
            failures += 1
            guard failures <= limit else { continue }
            logger(event.correlationID).warning(
                "document \(event.id) in \(event.collection): \(error)", metadata: ["direction": "\(event.direction.rawValue)"])
        }
        if failures > limit {
            let (more, name) = (Plural.count(failures - limit, "more document", "more documents"), configuration.name)
            logger.warning("\(more) failed; \"nightjar replicator \(name) pending\", \"held\" and \"refused\" list them")
        }
    }
}
