import Documents
import Glibc

/// A database with the CouchDB API: ours, or the peer's.
struct CouchDatabase: Sendable {
    let address: HTTPAddress
    let name: String
    /// The process that serves it, if known.
    var process: pid_t?

    /// A new connection. On both sides, documents can be accessed without logging in.
    func connect() throws -> HTTPConnection { try HTTPConnection(address, isAnonymous: true) }

    var url: String { "http://\(address.host):\(address.port)/\(name)" }

    /// Stores documents, a thousand per request.
    func load(_ readings: [Reading]) throws {
        let connection = try connect()
        for first in stride(from: 0, to: readings.count, by: 1_000) {
            let batch = readings[first..<min(first + 1_000, readings.count)]
            try connection.request("POST", "/\(name)/_bulk_docs", Self.bulk(batch), expecting: [201])
        }
    }

    /// The body of a `_bulk_docs` request.
    static func bulk(_ readings: some Sequence<Reading>) -> [UInt8] {
        var body = Array("{\"docs\":[".utf8)
        for (index, reading) in readings.enumerated() {
            if index > 0 { body.append(UInt8(ascii: ",")) }
            body += Array("{\"_id\":\"\(reading.id)\",".utf8) + reading.body.dropFirst()
        }
        return body + Array("]}".utf8)
    }

    /// The number of documents in it.
    func count() throws -> Int {
        let answer = try connect().request("GET", "/\(name)", expecting: [200])
        guard let count = try JSONValue(parsing: answer.body)["doc_count"]?.asInt64 else { throw BenchError("\(url) has no doc_count") }
        return Int(count)
    }
}

/// `nightjar run` with a database and one listener.
final class CouchAgent {
    let child: Child
    let database: CouchDatabase
    private let path: String
    private let folder: String

    /// - Parameter plugins: sources by file name.
    init(_ path: String, folder: String, plugins: [String: String] = [:]) throws {
        (self.path, self.folder) = (path, folder)
        try Files.makeFolder(folder)
        try Files.makeFolder("\(folder)/plugins")
        for (name, text) in plugins { try Files.write(text, to: "\(folder)/plugins/\(name)") }
        try Files.write(
            """
            data: \(folder)/data
            plugins: \(folder)/plugins
            admin: { port: 0 }
            log: { level: warning }
            limits: { max_blob_bytes: 8GiB }
            databases:
              plant: {}
            listeners:
              - name: peers
                databases: [ plant ]
                interface: 127.0.0.1
                port: 0
                disable_tls: true
                authenticator: none
                max_connections: 2000
                max_connections_per_address: 2000

            """, to: "\(folder)/agent.yaml")
        child = try Child(path, ["run", "--config", "\(folder)/agent.yaml"])
        let line = try child.line()
        guard line.hasPrefix("ready"), let address = line.split(separator: " ").first(where: { $0.hasPrefix("peers=") }) else {
            throw BenchError("\(path) run says \"\(line)\", not where it listens")
        }
        database = CouchDatabase(address: try HTTPAddress("http://\(address.dropFirst("peers=".count))"), name: "plant", process: child.process)
    }

    /// Stops the agent and removes its data.
    func stop() throws {
        child.terminate()
        let status = child.wait()
        guard status == 0 else { throw BenchError("\(path) run ended with status \(status)") }
        Files.remove(folder)
    }
}

/// An existing CouchDB server.
struct CouchPeer: Sendable {
    let address: HTTPAddress
    /// Its process on this machine, if the user named it.
    var process: pid_t?

    /// Uses a new database that anybody may access, and removes it afterwards.
    func withDatabase<Result>(_ name: String, _ body: (CouchDatabase) async throws -> Result) async throws -> Result {
        let database = CouchDatabase(address: address, name: "nightjar-bench-\(getpid())-\(name)", process: process)
        try request("PUT", "/\(database.name)", expecting: [201, 202])
        try request("PUT", "/\(database.name)/_security", "{\"admins\":{},\"members\":{}}", expecting: [200])
        let result: Result
        do { result = try await body(database) } catch {
            _ = try? request("DELETE", "/\(database.name)", expecting: [200, 202])
            throw error
        }
        try request("DELETE", "/\(database.name)", expecting: [200, 202])
        return result
    }

    /// With the administrator's credentials.
    @discardableResult
    func request(_ method: String, _ path: String, _ body: String = "", expecting statuses: Set<Int>) throws -> HTTPConnection.Answer {
        try HTTPConnection(address).request(method, path, Array(body.utf8), expecting: statuses)
    }

    func version() throws -> String {
        let answer = try request("GET", "/", expecting: [200])
        return try JSONValue(parsing: answer.body)["version"]?.asString ?? "of no version"
    }
}
