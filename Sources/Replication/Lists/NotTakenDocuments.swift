import Documents
import DocumentStore
import Interfaces

/// Documents of a remote that cannot be stored here: nested too deeply, with an id that is too long, with revisions of an unknown form. The checkpoint
/// passes them, so they are listed until they change at the remote, or are here after all.
public enum NotTakenDocuments {
    /// Bytes of an id that is not valid here, as it is listed.
    static let nameBytes = 1_000

    /// The name under which a document is listed, whatever its id at the remote: the id itself if it is valid. Otherwise control characters are escaped as in
    /// JSON, and the text is cut.
    public static func name(of text: String) -> DocumentID {
        if let id = try? DocumentID(text) { return id }
        var name = ""
        for scalar in text.unicodeScalars {
            guard name.utf8.count < nameBytes else {
                name += "…"
                break
            }
            if scalar.value < 0x20 || scalar.value == 0x7F {
                let digits = String(scalar.value, radix: 16)
                name += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
            } else {
                name.unicodeScalars.append(scalar)
            }
        }
        return DocumentID(stored: name)
    }

    /// - Returns: how many did not fit.
    static func note(
        _ refused: [NotTaken], limit: Int, _ known: RefusalCount, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) -> Int {
        var count = try count(known, remote, collection, transaction)
        var (rows, beyond): ([Exclusion], Int) = ([], 0)
        var new: Set<DocumentID> = []
        for each in refused {
            if !new.contains(each.id), try transaction.exclusion(collection, remote: remote, direction: .untaken, id: each.id) == nil {
                guard count < limit else {
                    beyond += 1
                    continue
                }
                count += 1
                new.insert(each.id)
            }
            rows.append(
                Exclusion(
                    remote: remote, direction: .untaken, kind: .refused, id: each.id, remoteSequence: each.sequence?.json ?? "", revision: each.revision,
                    error: each.error.message, plugin: each.error.domain.rawValue, version: "\(each.error.code)"))
        }
        try transaction.exclude(collection, rows)
        known.set(count)
        return beyond
    }

    /// The remote announces these revisions: documents that were listed with another one have changed.
    static func announced(
        _ offers: [RevisionOffer], _ known: RefusalCount, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        guard try count(known, remote, collection, transaction) > 0 else { return }
        var (changed, same): (Set<DocumentID>, Set<DocumentID>) = ([], [])
        for offer in offers {
            guard let listed = try transaction.exclusion(collection, remote: remote, direction: .untaken, id: offer.id) else { continue }
            if listed.revision == offer.revision { same.insert(offer.id) } else { changed.insert(offer.id) }
        }
        try forget(changed.subtracting(same).sorted(), known, remote, collection, transaction)
    }

    static func forget(
        _ ids: [DocumentID], _ known: RefusalCount, _ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction
    ) throws(StoreError) {
        try transaction.unexclude(collection, remote: remote, direction: .untaken, ids: ids)
        if !ids.isEmpty { known.forget() }
    }

    /// Everything is requested again, and what still cannot be stored is listed again.
    static func forgetAll(_ remote: RemoteID, _ collection: Collection, _ transaction: WriteTransaction) throws(StoreError) {
        while true {
            let page = try transaction.exclusions(collection, remote: remote, direction: .untaken, limit: 1_000)
            if page.isEmpty { return }
            try transaction.unexclude(collection, remote: remote, direction: .untaken, ids: page.map(\.id))
        }
    }

    static func count(
        _ known: RefusalCount, _ remote: RemoteID, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> Int {
        try known.value { () throws(StoreError) -> Int in try transaction.exclusionCount(collection, remote: remote, direction: .untaken, kind: .refused) }
    }
}
