import NIOCore
import Testing

@testable import HTTPServer

@Suite("Routes", .timeLimit(.minutes(10)))
struct RouterTests {
    private static func echo(_ name: String, _ parameters: String...) -> HTTPListener.Responder {
        { request in
            let values = try parameters.map { try request.parameters.require($0) }
            return .json("\(name)(\(values.joined(separator: "|")))")
        }
    }

    private static let router = Router([
        .get("", echo("root")),
        .get(":db", echo("db", "db")),
        .put(":db", echo("create", "db")),
        .get(":db/_all_docs", echo("all", "db")),
        .get(":db/:doc", echo("doc", "db", "doc")),
        .get(":db/_design/:doc", echo("design", "db", "doc")),
        .get(":db/:doc/*file", echo("file", "db", "doc", "file")),
        .get("api/status", echo("status")),
        .post("api/status", bodyLimit: NamedLimit("status_bytes", 3)) { .json(String(buffer: try await $0.body.collect())) },
    ])

    private func request(_ method: String, _ uri: String, length: Int? = 0) -> HTTPRequest {
        HTTPRequest(
            method: method, uri: uri, headers: [:], body: RequestBody(pipe: nil, declaredLength: length, limit: .unlimited),
            connection: ConnectionInfo(remoteAddress: "", origin: "", drain: DrainSignal()))
    }

    private func text(_ method: String, _ uri: String) async throws -> String {
        guard case .buffer(let bytes) = try await Self.router.respond(to: request(method, uri)).body else { return "" }
        return String(buffer: bytes)
    }

    @Test("the most specific pattern answers, with decoded names", arguments: [
        ("/", "root()"), ("/sensors", "db(sensors)"), ("/sensors/", "db(sensors)"), ("/a%2Fb", "db(a/b)"), ("/sensors/_all_docs?x=/y", "all(sensors)"),
        ("/s/%5Fall_docs", "all(s)"), ("/s/one", "doc(s|one)"), ("/s/_design/views", "design(s|views)"), ("/s/_design", "doc(s|_design)"),
        ("/s/one/a/b%20c", "file(s|one|a/b c)"), ("/api/status", "status()"), ("/api/other", "doc(api|other)"), ("/api/status/x", "file(api|status|x)"),
        ("/s/%C3%A4", "doc(s|ä)"), ("/s/+", "doc(s|+)"),
    ])
    func match(uri: String, answer: String) async throws {
        #expect(try await text("GET", uri) == answer)
        #expect(try await text("HEAD", uri) == answer)
    }

    @Test("what does not exist is 404, what is malformed 400", arguments: [("//", 404), ("/s//x/", 404), ("/s/%", 400), ("/s/%zz", 400), ("/s/%ff", 400), ("/%00%", 400)])
    func refused(uri: String, status: Int) async {
        let error = await #expect(throws: HTTPError.self) { try await text("GET", uri) }
        #expect(error?.status == status, "\(uri): \(String(describing: error))")
    }

    @Test("another method is 405, and the answer lists the allowed ones")
    func methods() async {
        let error = await #expect(throws: HTTPError.self) { try await text("DELETE", "/sensors") }
        #expect(error?.status == 405)
        #expect(error?.headers.first("Allow") == "GET, HEAD, PUT")
    }

    @Test("a body that is declared too long never reaches the route")
    func bodyLimit() async {
        let error = await #expect(throws: HTTPError.self) { try await Self.router.respond(to: request("POST", "/api/status", length: 4)) }
        #expect(error?.status == 413)
        #expect(error?.reason.contains("status_bytes (3)") == true)
    }

    @Test("values of the query are decoded", arguments: [
        ("a=b", "b"), ("x=1&a=%2B+c", "+ c"), ("a", ""), ("a=", ""), ("b=a", nil), ("%61=z", "z"), ("a=1&a=2", "1"), ("a=x=y", "x=y"), ("", nil),
    ])
    func query(query: String, value: String?) throws {
        #expect(try request("GET", "/?\(query)").queryValue("a") == value)
        #expect(throws: HTTPError.self) { try request("GET", "/?a=%f").queryValue("a") }
    }

    @Test("keys of the query are decoded, whatever their values", arguments: [
        ("a=b", ["a"]), ("x=1&a%2Bb+c=%f&y", ["x", "a+b c", "y"]), ("&&a=1&a=2&", ["a", "a"]), ("=1", [""]), ("", []),
    ])
    func keys(query: String, keys: [String]) throws {
        #expect(try request("GET", "/?\(query)").queryKeys() == keys)
        #expect(throws: HTTPError.self) { try request("GET", "/?a=1&%f=2").queryKeys() }
    }
}
