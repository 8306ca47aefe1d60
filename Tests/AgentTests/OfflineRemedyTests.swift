import Interfaces
import Testing

@testable import Agent

/// Where an operator is sent while a replicator has no connection.
struct OfflineRemedyTests {
    private func remedy(_ error: ReplicationError?) -> String { error.offlineRemedy(of: "http://hub/db") }

    @Test("Where limits.memory of this agent is used up, the remedy is here and not at the peer")
    func ownMemory() {
        var own = ReplicationError(domain: .litecore, code: 13, message: "this agent's limits.memory (8388608 bytes) is used up")
        own.specificRemedy = "raise limits: { memory } of this agent"
        #expect(remedy(own).hasPrefix("raise limits: { memory } of this agent") && !remedy(own).contains("its log"))
        // A Couchbase Lite's own.
        #expect(remedy(ReplicationError(domain: .litecore, code: 13, message: "no memory")).contains("reached"))
    }

    @Test("What the peer reports is to be fixed at the peer")
    func peers() {
        for code in [1012, 1013, 4001] { #expect(remedy(ReplicationError(domain: .websocket, code: code, message: "")).contains("asks to come back later (\(code))")) }
        #expect(remedy(ReplicationError(domain: .http, code: 503, message: "")).contains("answers with 503"))
        #expect(remedy(ReplicationError(domain: .websocket, code: 502, message: "")).contains("answers with 502"))
        #expect(remedy(ReplicationError(network: .timeout, message: "")).contains("its process may hang"))
        #expect(remedy(ReplicationError(network: .refused, message: "")) == "check whether http://hub/db can be reached from here" && remedy(nil) == remedy(ReplicationError(network: .refused, message: "")))
    }
}
