import Documents
import TestSupport
import Testing

/// A listener's own push filter that fails on a document, for clients of CouchDB's API.
@Suite("A push filter that fails, behind CouchDB's API")
struct FailingFilterTests {
    /// Otherwise one such document would stop the whole push of a client that has it too.
    @Test("a document on which the filter fails counts as missing in _revs_diff, and holds up no other")
    func differences() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/brittle.lua", "return { push_filter = function(doc)\n  if doc.bad then error('innards') end\n  return true\nend }\n")
        let hub = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true\n    push_filter: brittle", plugins: true), in: folder)
        let (bad, good) = (try await hub.save("bad", "{\"bad\":true}"), try await hub.save("good", "{}"))
        let couch = try CouchHTTP(hub)
        let difference = try await couch.ok("POST", "/main/_revs_diff", "{\"bad\":[\"\(bad)\"],\"good\":[\"\(good)\",\"2-a\"],\"new\":[\"1-a\"]}")
        #expect(difference["bad"] == ["missing": [.string(bad)]])
        #expect(difference["good"]?["missing"] == ["2-a"] && difference["good"]?["possible_ancestors"] == [.string(good)])
        #expect(difference["new"] == ["missing": ["1-a"]])
        #expect(try await hub.stop().status == 0)
    }
}
