import DocumentStore
import Interfaces
import Testing

@testable import Replication

/// When a replicator tries again, and when it gives up.
struct RetryTests {
    private let refused = ReplicationError(network: .refused, message: "connection refused")

    private func delays(_ machine: inout RetryMachine, _ error: ReplicationError, _ count: Int) -> [Int] {
        var delays: [Int] = []
        for _ in 0..<count {
            guard case .retry(let milliseconds) = machine.failed(error) else { break }
            delays.append(milliseconds / 1_000)
        }
        return delays
    }

    @Test func delaysDoubleUpToFiveMinutesAndAOneShotGivesUpAfterNineRetries() {
        var machine = RetryMachine(settings: .init(), isContinuous: false)
        #expect(delays(&machine, refused, 100) == [2, 4, 8, 16, 32, 64, 128, 256, 300])
        #expect(machine.failed(refused) == .stop)
        // As in the configuration: max_attempts counts attempts, and the default for a one-shot run is 10.
        var ten = RetryMachine(settings: .init(maximumAttempts: 10), isContinuous: false)
        #expect(delays(&ten, refused, 100).count == 9 && RetryMachine(settings: .init(maximumAttempts: 10), isContinuous: true).maximumRetries == 9)
    }

    /// What a peer cannot send is requested again on another connection.
    @Test func reconnectingForNothingMakesTheNextWaitLonger() {
        let delay = RetryDelay(first: 30, longest: 300)
        #expect([0, 1, 2, 3, 4, 1_000].map { delay.seconds(after: $0) } == [30, 60, 120, 240, 300, 300])
    }

    /// Whatever protocol the peer speaks, space may be made on a full disk.
    @Test func aFullDiskIsRetried() {
        let full = StoreError.diskFull(path: "db", detail: "no space left")
        for error in [ReplicationError(store: full), ReplicationError(couch: full)] {
            #expect(error.isTransient && error.domain == .store && error.code == 507)
        }
        #expect(!ReplicationError(couch: StoreError.notADatabase(path: "db", detail: "text")).isTransient)
    }

    @Test func aContinuousReplicatorNeverGivesUp() {
        var machine = RetryMachine(settings: .init(), isContinuous: true)
        let all = delays(&machine, refused, 500)
        #expect(all.count == 500)
        #expect(Array(all.prefix(10)) == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
        #expect(all.suffix(400).allSatisfy { $0 == 300 })
    }

    @Test func dataThatFlowedRestartsTheCount() {
        var machine = RetryMachine(settings: .init(), isContinuous: false)
        _ = delays(&machine, refused, 5)
        machine.flowed()
        #expect(machine.retries == 0)
        #expect(machine.failed(refused) == .retry(afterMilliseconds: 2_000))
    }

    /// Data flows each time, and is lost each time.
    @Test func aRemoteThatKeepsGoingBackIsRetriedMoreSlowly() {
        var machine = RetryMachine(settings: .init(), isContinuous: true)
        let delays = (1...12).map { times -> RetryMachine.Decision in
            machine.flowed()
            return machine.failed(refused, setbacks: times)
        }
        #expect(delays == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300].map { .retry(afterMilliseconds: $0 * 1_000) })
        // A run that does not get to notice that proves nothing.
        machine.flowed()
        #expect(machine.failed(refused) == .retry(afterMilliseconds: 2_000))
    }

    @Test func aFleetDoesNotReconnectAllAtOnce() {
        var delays: Set<Int> = []
        for chance in stride(from: UInt64(0), to: UInt64.max - 1 << 60, by: 1 << 60) {
            var machine = RetryMachine(settings: .init(), isContinuous: true)
            for _ in 0..<20 { _ = machine.failed(refused) }
            guard case .retry(let delay) = machine.failed(refused, chance: chance) else { continue }
            #expect((150_000...300_000).contains(delay))
            delays.insert(delay)
        }
        #expect(delays.count > 10)
    }

    @Test func aPeersRetryTimeIsFollowedWithinReason() {
        for (asked, given) in [(7, 7_000), (1, 2_000), (1_000_000, 3_600_000), (-5, 2_000)] {
            var error = ReplicationError(domain: .http, code: 503, message: "busy")
            error.retryAfterSeconds = asked
            var machine = RetryMachine(settings: .init(), isContinuous: false)
            #expect(machine.failed(error) == .retry(afterMilliseconds: given))
        }
    }

    @Test func theSettingsLimitAttemptsAndDelays() {
        var once = RetryMachine(settings: .init(maximumAttempts: 1), isContinuous: true)
        #expect(once.failed(refused) == .stop)
        var three = RetryMachine(settings: .init(maximumAttempts: 3, maximumWaitSeconds: 3), isContinuous: true)
        #expect(delays(&three, refused, 100) == [2, 3])
    }

    /// Somebody may fix it: a continuous replicator keeps trying slowly, and a one-shot one ends.
    @Test func errorsThatNeedFixingAreRetriedSlowly() {
        for error in [
            ReplicationError(domain: .http, code: 401, message: ""), ReplicationError(domain: .http, code: 403, message: ""),
            ReplicationError(domain: .http, code: 404, message: ""), ReplicationError(domain: .http, code: 407, message: ""),
            ReplicationError(domain: .http, code: 302, message: ""), ReplicationError(domain: .tls, code: 11, message: ""),
            ReplicationError(domain: .websocket, code: 1002, message: ""), ReplicationError(network: .unknownInterface, message: ""),
            ReplicationError(domain: .websocket, code: 1006, message: "", remedy: "use wss:"),
            ReplicationError(domain: .litecore, code: 8, message: ""),
        ] {
            var oneShot = RetryMachine(settings: .init(), isContinuous: false)
            #expect(oneShot.failed(error) == .stop, "\(error)")
            var continuous = RetryMachine(settings: .init(), isContinuous: true)
            #expect(delays(&continuous, error, 8) == [60, 120, 240, 480, 960, 1_920, 3_600, 3_600], "\(error)")
            #expect((error.remedy != nil) == (error.domain != .litecore), "\(error)")
            continuous.conditionsChanged()
            #expect(delays(&continuous, error, 2) == [60, 120])
            // Temporary errors have delays of their own, even after such an error.
            continuous.flowed()
            #expect(delays(&continuous, refused, 2) == [2, 4])
        }
    }

    @Test func aPeerThatForbidsReconnectingIsObeyed() {
        var machine = RetryMachine(settings: .init(), isContinuous: true)
        #expect(machine.failed(ReplicationError(domain: .websocket, code: 4002, message: "")) == .stop)
    }

    /// A closed or broken database stays so on the next connection; on a full disk, space may be made.
    @Test func aBrokenLocalDatabaseEndsAContinuousReplicatorForGood() {
        for error in [StoreError.closed(database: "a"), .corrupt(path: "a", detail: "")] {
            var machine = RetryMachine(settings: .init(), isContinuous: true)
            #expect(machine.failed(ReplicationError(store: error)) == .stop)
        }
        var machine = RetryMachine(settings: .init(), isContinuous: true)
        #expect(machine.failed(ReplicationError(store: StoreError.diskFull(path: "a", detail: ""))) == .retry(afterMilliseconds: 2_000))
    }

    @Test func aOneShotsAttemptsKeepCountingWhateverChanges() {
        var machine = RetryMachine(settings: .init(), isContinuous: false)
        for _ in 0..<9 {
            _ = machine.failed(refused)
            machine.conditionsChanged()
        }
        #expect(machine.failed(refused) == .stop)
    }

    @Test func theSameErrorsAreTransientAsInOtherProducts() {
        let transient: [ReplicationError.Domain: Set<Int>] = [
            .http: [408, 429, 500, 502, 503, 504, 507], .websocket: [1001, 1006, 1011, 1012, 1013, 4001, 408, 429, 502, 503, 504],
            .blip: [1011], .litecore: [13],
            .network: Set([1, 2, 3] + Array(16...26)),
        ]
        for domain in [ReplicationError.Domain.http, .websocket, .network, .tls, .blip, .litecore, .plugin, .store] {
            for code in Array(0...600) + [1000, 1001, 1002, 1003, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 4001, 4002] {
                let error = ReplicationError(domain: domain, code: code, message: "")
                #expect(error.isTransient == (transient[domain]?.contains(code) ?? false), "\(domain) \(code)")
            }
        }
    }

    @Test func publicCodesAreThoseOfOtherProducts() {
        #expect(ReplicationError(domain: .http, code: 401, message: "").publicCode == 10401)
        #expect(ReplicationError(domain: .websocket, code: 1006, message: "").publicCode == 11006)
        #expect(ReplicationError(network: .refused, message: "").publicCode == 5019)
        #expect(ReplicationError(domain: .tls, code: 11, message: "").publicCode == 5011)
    }
}
