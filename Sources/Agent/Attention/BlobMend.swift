import Documents
import DocumentStore
import Encodings

/// Texts about blobs whose bytes are missing or damaged.
package enum BlobMend {
    /// The remedy.
    package static func text(database: String) -> String {
        "store it again from a copy: nightjar blob put \(database) FILE, for example from the folder blobs of a backup; or let a peer send it again"
    }
}

extension StoreError {
    /// The problem of a database, for the log.
    func problem(of database: String) -> String {
        guard case .blobMissing = self else { return "database \(database): \(self)" }
        return "database \(database): \(self), and a document names it: \(BlobMend.text(database: database))"
    }
}

extension LostBlob {
    /// What is wrong, and which documents wait for the blob.
    var text: String {
        isMissing ? "the file of blob \(digest) is gone (\(path)): \(namedBy)" : "the bytes of blob \(digest) were altered on disk (\(path)): \(namedBy)"
    }

    private var namedBy: String {
        guard let first = names.first else { return "no document names it" }
        let document = "document \(first.id) of \(first.collection)"
        let end = "to no peer until it is \(isMissing ? "there" : "right") again"
        guard names.count > 1 else { return "\(document) names it, and goes \(end)" }
        let others = "\(Plural.count(names.count - 1, "other document", "other documents"))\(hasMoreNames ? " and more" : "")"
        return "\(document) and \(others) name it, and go \(end)"
    }
}

extension LostBlobs {
    /// What is wrong, for a document that refers to the blobs.
    var text: String {
        var parts: [String] = []
        if let first = altered.first {
            parts.append("the bytes of \(Plural.count(altered.count, "blob")) that it names were altered on disk, such as \(first)")
        }
        if let first = missing.first { parts.append("it names \(Plural.count(missing.count, "blob")) that this database does not have, such as \(first)") }
        return parts.joined(separator: "; ")
    }
}
