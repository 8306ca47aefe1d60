import Documents
import Glibc
import TestSupport

/// What tests read of an agent's status.
extension AgentProcess {
    func listener(_ name: String) async throws -> JSONValue {
        guard let found = try await status()["listeners"]?.asArray?.first(where: { $0["name"]?.asString == name }) else {
            throw SupportError("no listener \(name)")
        }
        return found
    }

    func database(_ name: String) async throws -> JSONValue {
        guard let found = try await status()["databases"]?.asArray?.first(where: { $0["name"]?.asString == name }) else {
            throw SupportError("no database \(name)")
        }
        return found
    }

    /// Waits until a number of the replicator's status has a value.
    func waits(_ key: String, is value: Int64, replicator: String = "hub") async throws {
        try await waits("\(key) is \(value)", replicator: replicator) { $0[key]?.asInt64 == value }
    }

    /// Waits until the replicator's status is as wanted; says in the error what it was at last.
    func waits(_ what: String, replicator name: String = "hub", _ condition: @escaping @Sendable (JSONValue) -> Bool) async throws {
        do {
            try await eventually("\(name): \(what)") { condition(try await replicator(name)) }
        } catch {
            throw SupportError("\(error)\nstatus: \(try await replicator(name).text)\nlog: \(process.errors.suffix(4000))")
        }
    }

    /// Waits until nothing is left to do.
    func isSettled(replicator: String = "hub") async throws {
        try await waits("idle, nothing pending", replicator: replicator) { $0["activity"]?.asString == "idle" && $0["pending"]?.asInt64 == 0 }
    }

    /// Whether no replicator has anything left to do at this moment.
    func isSettledNow() async throws -> Bool {
        try await (status()["replicators"]?.asArray ?? []).allSatisfy { $0["activity"]?.asString == "idle" && $0["pending"]?.asInt64 == 0 }
    }

    /// Waits until a collection has so many live documents.
    func waits(documents count: Int64, in database: String = "main") async throws {
        do {
            try await eventually("\(database) has \(count) documents") { try await documents(database) == count }
        } catch { throw SupportError("\(error); it has \(try await documents(database))\nlog: \(process.errors.suffix(4000))") }
    }

    /// A request to the admin API that has to succeed.
    @discardableResult
    func post(_ target: String, _ body: String = "") async throws -> HTTPProbe.Answer {
        let answer = try await admin.post(target, body)
        guard answer.status < 300 else { throw SupportError("POST \(target): \(answer)") }
        return answer
    }

    /// Saves a document and gives its revision.
    @discardableResult
    func save(_ id: String, _ json: String, in database: String = "main") async throws -> String {
        let answer = try await put(database, id, json)
        guard answer.status < 300, let rev = try answer.json["rev"]?.asString else { throw SupportError("put \(id): \(answer)") }
        return rev
    }

    /// Imports documents `PREFIX-0000` …, each with `n`; gives how many were saved.
    @discardableResult
    func load(_ prefix: String, _ count: Int, extra: String = "", in database: String = "main") async throws -> Int64 {
        var lines = ""
        for n in 0..<count { lines += "{\"_id\":\"\(prefix)-\(n)\",\"n\":\(n)\(extra)}\n" }
        return try await post("/api/databases/\(database)/import", lines).json["saved"]?.asInt64 ?? 0
    }

    /// Every live document: its id and its revision. One that is edited meanwhile may be listed again; the last row counts.
    func revisions(_ database: String = "main") async throws -> [String: String] {
        let list = try await admin.get("/api/databases/\(database)/documents").json.asArray ?? []
        var all: [String: String] = [:]
        for entry in list {
            guard let id = entry["id"]?.asString, let rev = entry["rev"]?.asString else { continue }
            all[id] = rev
        }
        return all
    }

    /// Whether there is such a document.
    func has(_ id: String, in database: String = "main") async throws -> Bool { try await get(database, id).status == 200 }

    /// A field of a document; nil when there is no such document.
    func field(_ name: String, of id: String, in database: String = "main") async throws -> JSONValue? {
        let answer = try await get(database, id)
        return answer.status == 200 ? try answer.json[name] : nil
    }

    /// Ends it as a power cut would.
    func kill9() async throws {
        process.send(SIGKILL)
        _ = try await process.wait()
    }
}
