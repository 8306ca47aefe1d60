import Documents
import SQLite

/// The result of verifying everything that a database stores.
public struct IntegrityReport: Sendable {
    /// Documents read, with their revision trees; includes tombstones.
    public var documents = 0
    public var blobs = 0
    /// Problems of the file as a whole, in SQLite's words; empty if it is sound.
    public var file: [String] = []
    /// Documents and blobs that are unreadable or missing; at most `StoreLimits.damagedDocuments` of them.
    public var damaged: [String] = []
    /// Number of blobs that are altered, unreadable or missing.
    public var damagedBlobs = 0
    /// Whether there are more than ``damaged`` lists.
    public var isCapped = false

    public var isSound: Bool { file.isEmpty && damaged.isEmpty }

    mutating func add(_ text: String) {
        if damaged.count < StoreLimits.damagedDocuments { damaged.append(text) } else { isCapped = true }
    }
}

extension Database {
    /// Reads everything stored: the file's own structure, each document with its history, each blob against its digest. Changes nothing; writes can
    /// proceed in the meantime. Damaged documents are recorded as if somebody had read them. A database that refuses writes because SQLite found its
    /// file malformed accepts them again if the file is sound.
    public func integrity() async throws -> IntegrityReport {
        var report = IntegrityReport()
        let damages = problems.damages
        report.file = try await fileFaults()
        if report.file.isEmpty, problems.damage != nil, problems.damages == damages {
            // Before writes resume: one of them may find damage again, and set the sign again.
            file.removeDamageMarker()
            _ = problems.fileIsSound(damages)
        }
        for collection in collections {
            var since: SequenceNumber = 0
            while true {
                let start = since
                let (last, count, faults) = try await read { transaction in try transaction.examine(collection, since: start) }
                report.documents += count
                for fault in faults { report.add("collection \(collection.name): \(fault)") }
                guard let last else { break }
                since = last
            }
            for digest in try await read({ try $0.missingBlobs(collection, $0.blobsNamed(collection), of: self.blobs) }) {
                report.add("collection \(collection.name): blob \(digest.text) is not stored, and documents name it")
                report.damagedBlobs += 1
                blobs.noteMissed(digest)
            }
        }
        let digests = try await blobs.perform { try $0.digests() }
        report.blobs = digests.count
        for digest in digests {
            let fault = try await blobs.perform { blobs -> String? in
                do {
                    let reader = try blobs.ownReader(digest)
                    var offset: UInt64 = 0
                    repeat {
                        let bytes = try reader.read(offset: offset, count: 1 << 20)
                        if bytes.isEmpty { break }
                        offset += UInt64(bytes.count)
                    } while offset < reader.size
                    return nil
                } catch StoreError.blobMissing {
                    // A compaction has removed it in the meantime.
                    return nil
                } catch {
                    return "\(error)"
                }
            }
            guard let fault else { continue }
            report.add(fault)
            report.damagedBlobs += 1
        }
        return report
    }

    /// On a connection of its own, so that the readers stay free, and on a blob worker, which may block.
    private func fileFaults() async throws -> [String] {
        let path = folder + "/db.sqlite3"
        return try await blobs.perform { _ in
            do throws(SQLiteError) {
                let connection = try Connection(path: path, mode: .readOnly)
                defer { connection.close() }
                let statement = try connection.prepare("PRAGMA quick_check(20)")
                var faults: [String] = []
                while try statement.step() {
                    let text = statement.text(0)
                    if text != "ok" { faults.append(text) }
                }
                return faults
            } catch {
                return ["\(StoreError(error, path: path))"]
            }
        }
    }
}

extension ReadTransaction {
    /// Examines the next documents.
    /// - Returns: the last sequence (nil if there are no more), how many there were, what is wrong.
    fileprivate func examine(
        _ collection: Collection, since: SequenceNumber
    ) throws(StoreError) -> (last: SequenceNumber?, count: Int, faults: [String]) {
        let rows = try changes(collection, since: since, limit: 500, includeBodies: true)
        var faults: [String] = []
        for row in rows {
            do throws(StoreError) {
                _ = try tree(collection, row.id)
                do { _ = try JSONValue(stored: row.body ?? []) } catch {
                    throw StoreError.documentDamaged(id: row.id, detail: "its body is not JSON: \(error)")
                }
            } catch {
                setAside(collection, error)
                faults.append("\(error)")
            }
        }
        return (rows.last?.sequence, rows.count, faults)
    }

    fileprivate func blobsNamed(_ collection: Collection) throws(StoreError) -> [[UInt8]] {
        let statement = try active().prepare("SELECT DISTINCT digest FROM blobs_\(collection.id)")
        var digests: [[UInt8]] = []
        while try session.step(statement) { digests.append(statement.blob(0)) }
        return digests
    }

    /// Of these blobs, those whose file is missing.
    fileprivate func missingBlobs(_ collection: Collection, _ digests: [[UInt8]], of blobs: BlobStore) -> [BlobDigest] {
        digests.compactMap { BlobDigest(bytes: $0) }.filter { blobs.size($0) == nil }
    }
}
