import Testing

import Interfaces
@testable import Replication

/// When a replicator tries again, and when it gives up.
struct RetryTests {
    private let refused = ReplicationError(network: .refused, message: "connection refused")

    private func delays(_ machine: inout RetryMachine, _ error: ReplicationError, _ count: Int) -> [Int] {
        var delays: [Int] = []
        for _ in 0..<count {
            guard case .retry(let seconds) = machine.failed(error) else { break }
            delays.append(seconds)
        }
        return delays
    }

    @Test func delaysDoubleUpToFiveMinutesAndAOneShotGivesUpAfterNineRetries() {
        var machine = RetryMachine(settings: .init(), isContinuous: false)
        #expect(delays(&machine, refused, 100) == [2, 4, 8, 16, 32, 64, 128, 256, 300])
        #expect(machine.failed(refused) == .stop)
    }

    @Test func aContinuousReplicatorNeverGivesUp() {
        var machine = RetryMachine(settings: .init(), isContinuous: true)
        let all = delays(&machine, refused, 500)
        #expect(all.count == 500)
        #expect(Array(all.prefix(10)) == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
        #expect(all.suffix(400).allSatisfy { $0 == 300 })
    }

    @Test func aConnectionStartsTheCountAnew() {
        var machine = RetryMachine(settings: .init(), isContinuous: false)
        _ = delays(&machine, refused, 5)
        machine.connected()
        #expect(machine.retries == 0)
        #expect(machine.failed(refused) == .retry(afterSeconds: 2))
    }

    @Test func theSettingsBoundAttemptsAndDelays() {
        var once = RetryMachine(settings: .init(maximumAttempts: 1), isContinuous: true)
        #expect(once.failed(refused) == .stop)
        var three = RetryMachine(settings: .init(maximumAttempts: 3, maximumWaitSeconds: 3), isContinuous: true)
        #expect(delays(&three, refused, 100) == [2, 3])
    }

    @Test func permanentErrorsStopAtOnce() {
        for error in [
            ReplicationError(domain: .http, code: 401, message: ""), ReplicationError(domain: .http, code: 403, message: ""),
            ReplicationError(domain: .http, code: 404, message: ""), ReplicationError(domain: .tls, code: 1, message: ""),
            ReplicationError(domain: .websocket, code: 4002, message: ""), ReplicationError(domain: .litecore, code: 8, message: ""),
            ReplicationError(domain: .websocket, code: 1002, message: ""), ReplicationError(domain: .store, code: 500, message: ""),
        ] {
            var machine = RetryMachine(settings: .init(), isContinuous: true)
            #expect(machine.failed(error) == .stop, "\(error)")
        }
    }

    /// The network may come back: a continuous replicator waits for it, a one-shot one does not.
    @Test func networkDependentErrorsAreRetriedOnlyIfContinuous() {
        for code in [2, 20, 21, 22, 23, 24, 25, 26, 27] {
            let error = ReplicationError(domain: .network, code: code, message: "")
            #expect(!error.isTransient && error.isNetworkDependent, "\(code)")
            var continuous = RetryMachine(settings: .init(), isContinuous: true)
            #expect(continuous.failed(error) == .retry(afterSeconds: 2))
            var oneShot = RetryMachine(settings: .init(), isContinuous: false)
            #expect(oneShot.failed(error) == .stop)
        }
    }

    @Test func transientErrorsAreTheFieldsOnes() {
        let transient: [ReplicationError.Domain: Set<Int>] = [
            .http: [408, 429, 500, 502, 503, 504], .websocket: [1001, 1006, 1012, 1013, 4001, 408, 429, 502, 503, 504],
            .network: [1, 3, 16, 17, 18, 19],
        ]
        for domain in [ReplicationError.Domain.http, .websocket, .network, .tls, .blip, .litecore, .plugin, .store] {
            for code in Array(0...600) + [1000, 1001, 1002, 1003, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 4001, 4002] {
                let error = ReplicationError(domain: domain, code: code, message: "")
                #expect(error.isTransient == (transient[domain]?.contains(code) ?? false), "\(domain) \(code)")
            }
        }
    }

    @Test func publicCodesAreTheFieldsOnes() {
        #expect(ReplicationError(domain: .http, code: 401, message: "").publicCode == 10401)
        #expect(ReplicationError(domain: .websocket, code: 1006, message: "").publicCode == 11006)
        #expect(ReplicationError(network: .refused, message: "").publicCode == 5019)
        #expect(ReplicationError(domain: .tls, code: 11, message: "").publicCode == 5011)
    }
}
