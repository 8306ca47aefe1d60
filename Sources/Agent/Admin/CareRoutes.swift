import Documents
import DocumentStore
import Glibc
import HTTPServer

/// `/api/databases/DB/check`, `compact`, `backup` and `resync`: maintenance of one database.
struct CareRoutes: Sendable {
    let agent: Agent

    var routes: [Route] {
        [
            .post("api/databases/:db/check") { request in Answer.json(DatabaseCare.report(try await database(request).integrity())) },
            .post("api/databases/:db/compact") { request in Answer.json(DatabaseCare.report(try await database(request).compact())) },
            .post("api/databases/:db/backup") { request in
                guard let folder = try request.value(.to), folder.hasPrefix("/") else {
                    throw AgentError(.invalid, "\"to\" names the folder to be made, by its whole path")
                }
                return Answer.json(DatabaseCare.report(try await Self.backUp(try database(request), to: folder)), status: 201)
            },
            .get("api/databases/:db/resync") { request in
                let name = try database(request).name
                guard let resync = await agent.resyncs.report(name) else {
                    throw AgentError(.notFound, "there was no resync of database \(name) since the agent's start")
                }
                return Answer.json(resync.json)
            },
            .post("api/databases/:db/resync") { request in Answer.json(try await agent.resyncs.start(try await resync(request)).json, status: 202) },
        ]
    }

    /// This process makes the folder, not the caller: an error says whose permission is missing.
    private static func backUp(_ database: Database, to folder: String) async throws -> BackupFacts {
        do { return try await database.backUp(to: folder) } catch StoreError.folder(let path, EEXIST, let detail) {
            throw AgentError(.conflict, "cannot use folder \(path): \(detail)")
        } catch StoreError.folder(let path, let number, let detail)
            where [EACCES, EPERM, EROFS].contains(number)
        {
            let above = folder.split(separator: "/").dropLast().joined(separator: "/")
            let user = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } ?? "\(geteuid())"
            throw AgentError(
                .failed,
                "cannot use folder \(path): \(detail). The agent makes it, as user \(user): let that user write in /\(above), and where systemd runs the agent, name it in "
                    + "ReadWritePaths= of the service (systemctl edit nightjar); the package's service may write in /var/backups/nightjar")
        }
    }

    private func resync(_ request: HTTPRequest) async throws -> ResyncRequest {
        let database = try database(request)
        let collection = try DocumentAccess.parse(try request.parameters.require("db")).collection
        var wanted = ResyncRequest(database: database.name, collection: collection.isDefault ? nil : collection)
        wanted.isTrial = try request.flag(.dryRun)
        if let name = try request.value(.collection) {
            do { wanted.collection = try CollectionName(parsing: name) } catch { throw AgentError(.invalid, "collection: \(error)") }
        }
        guard let id = try request.value(.document) else { return wanted }
        let access = try DocumentAccess(database, collection: wanted.collection ?? .default)
        let document = try access.documentID(id)
        wanted.collection = access.collection.name
        wanted.document = document
        guard try await database.read({ try $0.document(access.collection, document) }) != nil else {
            throw AgentError(.notFound, "there is no document \"\(id)\" in collection \(access.collection.name)")
        }
        return wanted
    }

    private func database(_ request: HTTPRequest) throws -> Database {
        let name = try DocumentAccess.parse(try request.parameters.require("db")).database
        guard let database = agent.database(name) else { throw AgentError(.notFound, "there is no database \"\(name)\"") }
        return database
    }
}

/// Reports on the maintenance of a database.
package enum DatabaseCare {
    /// `damaged_blobs_shown`: how many of the blobs missing from a backup are named.
    private static let shownBlobs = 100

    package static func report(_ report: IntegrityReport) -> JSONValue {
        JSONOutput.object([
            "sound": .bool(report.isSound), "documents": JSONOutput.number(report.documents), "blobs": JSONOutput.number(report.blobs),
            "file": .array(report.file.map { .string($0) }), "damaged": .array(report.damaged.map { .string($0) }), "more": .bool(report.isCapped),
            // Included in the damage: blobs that are altered, unreadable or missing.
            "damaged_blobs": JSONOutput.number(report.damagedBlobs),
        ])
    }

    package static func report(_ report: CompactionReport) -> JSONValue {
        JSONOutput.object([
            "blobs_removed": JSONOutput.number(report.blobsRemoved),
            "blob_bytes_freed": JSONOutput.number(report.blobBytesFreed),
            // Unreferenced, but too new to be collected.
            "blobs_waiting": JSONOutput.number(report.blobsWaiting),
            "blob_bytes_waiting": JSONOutput.number(report.blobBytesWaiting),
            "blobs_wait_until": JSONOutput.text(report.blobsWaitUntil.map { Timestamp.format($0) }),
            "bodies_removed": JSONOutput.number(report.bodiesRemoved),
            "bytes_freed": JSONOutput.number(report.fileBytesFreed),
        ])
    }

    package static func report(_ facts: BackupFacts) -> JSONValue {
        JSONOutput.object([
            "database": .string(facts.database), "made_at": .string(Timestamp.format(facts.madeAt)), "documents": JSONOutput.number(facts.documents),
            "blobs": JSONOutput.number(facts.blobs), "bytes": JSONOutput.number(Int64(clamping: facts.bytes &+ facts.blobBytes)),
            // Of these, the bytes of blobs.
            "blob_bytes": JSONOutput.number(Int64(clamping: facts.blobBytes)),
            // Those that documents refer to and that the backup does not contain intact.
            "damaged_blobs": .array(
                facts.damagedBlobs.prefix(Self.shownBlobs).map { blob in
                    JSONOutput.object(["digest": .string(blob.digest.text), "problem": .string(blob.problem)])
                }),
            "more_damaged_blobs": JSONOutput.number(max(0, facts.damagedBlobs.count - Self.shownBlobs)),
        ])
    }
}
