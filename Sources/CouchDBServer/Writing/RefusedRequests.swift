import Documents
import HTTPServer
import Interfaces
import Replication

extension JSONParts {
    /// The ids of the documents in a request whose text may end anywhere, because the rest was not accepted.
    ///
    /// - Parameter limit: how many documents are looked at.
    func documents(_ place: AttachmentSieve.Place, atMost limit: Int) -> [DocumentID] {
        let documents: [Range<Int>] =
            switch place {
            case .document: [root]
            case .batch: member("docs", of: root).map { firstElements(of: $0, limit) } ?? []
            }
        return documents.compactMap { document in
            // What reaches the end of the text may be only the beginning of an id.
            guard let member = reservedMembers(of: document).first(where: { $0.key == "_id" }), member.value.upperBound < bytes.count,
                let text = string(member.value), case .document(let id)? = try? CouchID(text)
            else { return nil }
            return id
        }
    }
}

extension ReplicationError {
    /// Why a client's document is not taken, as the listener notes it of any peer. Where there is no room, the client may come again.
    init(refusal error: HTTPError) {
        self.init(domain: error.status == 507 ? .store : .http, code: error.status, message: error.reason)
        neededMemory = error.neededMemory
        if error.status == 507 { isTransient = true }
    }
}
