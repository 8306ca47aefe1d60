import Environment
import Logging
import NIOCore
import Testing

@testable import CouchDBServer
@testable import HTTPServer

/// What anybody may request is not built again for each request.
@Suite struct DescriptionTests {
    @Test("requests for the description of the API share one text")
    func shared() async throws {
        let nobody = HTTPError(401, "nobody")
        let host = CouchHost(
            version: "1", uuid: "u", environment: .system, logger: Logger(label: "test"), memory: AnswerMemory(.unlimited, time: SystemTime()),
            databases: ["main"], admit: { _, _ in throw nobody }, authenticate: { _ in throw nobody }, session: { _ in throw nobody },
            filter: { _, _ in throw nobody })
        let server = CouchServer(host)
        var places: Set<UnsafeRawPointer> = []
        var kept: [HTTPResponse] = []
        for _ in 0..<3 {
            let request = HTTPRequest(
                method: "GET", uri: "/_openapi.json", headers: [:],
                body: RequestBody(pipe: nil, declaredLength: nil, limit: .unlimited),
                connection: ConnectionInfo(remoteAddress: "127.0.0.1", origin: "127.0.0.1", drain: DrainSignal()))
            let answer = try await server.respond(to: request)
            guard case .buffer(let text) = answer.body else {
                Issue.record("\(answer.status)")
                return
            }
            #expect(answer.status == 200 && text.readableBytes > 10_000)
            text.withUnsafeReadableBytes { if let place = $0.baseAddress { places.insert(place) } }
            kept.append(answer)
        }
        #expect(places.count == 1)
        withExtendedLifetime(kept) {}
    }
}
