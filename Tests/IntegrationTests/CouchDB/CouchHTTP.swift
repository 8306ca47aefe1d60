import Documents
import TestSupport
import Testing

/// A client of CouchDB that says nothing but what it is told.
struct CouchHTTP {
    let probe: HTTPProbe
    var headers: [(String, String)] = [("Accept", "application/json")]

    init(_ agent: AgentProcess, login: String? = nil, port: String = "edge") throws {
        probe = .tcp(port: try agent.port(port))
        if let login { headers.append(("Authorization", "Basic \(login)")) }
    }

    func send(_ method: String, _ target: String, _ json: String? = nil, _ more: [(String, String)] = []) async throws -> HTTPProbe.Answer {
        let type = json == nil || more.contains { $0.0 == "Content-Type" } ? [] : [("Content-Type", "application/json")]
        return try await probe.request(method, target, headers: headers + type + more, body: json.map { Array($0.utf8) })
    }

    /// The JSON of an answer that has to have this status.
    @discardableResult
    func ok(_ method: String, _ target: String, _ json: String? = nil, status: Int = 200, _ more: [(String, String)] = []) async throws -> JSONValue {
        let answer = try await send(method, target, json, more)
        try #require(answer.status == status, "\(method) \(target): \(answer)")
        return try answer.json
    }

    /// What an answer says that went wrong.
    func problem(_ method: String, _ target: String, _ json: String? = nil, _ more: [(String, String)] = []) async throws -> String {
        let answer = try await send(method, target, json, more)
        return "\(answer.status) \(try answer.json["error"]?.asString ?? "-")"
    }

    func changes(_ query: String = "") async throws -> (ids: [String], last: String) {
        let answer = try await ok("GET", "/main/_changes?\(query)")
        return ((answer["results"]?.asArray ?? []).compactMap { $0["id"]?.asString }, answer["last_seq"]?.text ?? "")
    }
}
