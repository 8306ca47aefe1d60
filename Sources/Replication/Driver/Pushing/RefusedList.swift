import Documents
import DocumentStore
import Interfaces

/// Documents that the peer refused or could not get completely: a list that outlives the connection.
struct RefusedList {
    let driver: SessionDriver

    /// Puts documents on the list; entries already there keep their time. Documents with a missing or damaged blob here are listed as held.
    func excludeRefused(_ kept: [KeptBack], _ link: CollectionLink) {
        let ids = kept.map(\.document.id)
        guard let remote = link.remote else { return driver.tell(link, push: .excluded(ids)) }
        let (slot, generation, limit, refusals) = (link.slot, link.generation, driver.limits.refusedDocuments, link.refusals)
        let (collection, trustsBehind) = (link.collection, link.source.trustsBehind)
        driver.write { transaction in
            var count = try refusals.value { try transaction.exclusionCount(collection, remote: remote, direction: .push, kind: .refused) }
            var beyond = 0
            for each in kept {
                guard let error = each.refusal else { continue }
                let before = try transaction.exclusion(collection, remote: remote, direction: .push, id: each.document.id)
                let isListed = before?.kind == .refused
                let name = transaction.listName(of: each.document.version, collection, each.document.id)
                // From before the peer lost its data, it may still be noted as being there, and would count as delivered.
                if each.document.wasWanted, each.document.sequence <= trustsBehind {
                    try transaction.forgetRemoteRevision(remote, collection, each.document.id, ifItIs: name)
                }
                if error.isOfOwnBlob {
                    if isListed { count -= 1 }
                    let row = Exclusion(
                        remote: remote, direction: .push, kind: .held, id: each.document.id, sequence: each.document.sequence, revision: name, error: error.message)
                    try transaction.exclude(collection, [row])
                    continue
                }
                guard isListed || count < limit else {
                    beyond += 1
                    continue
                }
                if !isListed { count += 1 }
                let row = Exclusion(
                    remote: remote, direction: .push, kind: .refused, id: each.document.id, sequence: each.document.sequence,
                    revision: name, error: error.message, plugin: error.domain.rawValue, version: "\(error.code)")
                try transaction.exclude(collection, [row])
            }
            refusals.set(count)
            return beyond
        } then: { (driver, beyond: Int) in
            if beyond > 0 {
                driver.logger.error(
                    "the peer refuses more documents of \(collection.name) than the \(limit) that are listed (refused_documents)")
            }
            driver.tell(slot, generation, push: .excluded(ids))
        }
    }
}
