import Documents
import DocumentStore
import Interfaces
import NIOCore
import Testing

@testable import Replication

/// What a peer makes us hold is counted at its real cost, however small the bodies are, and whatever was added is subtracted again.
@Suite struct HeldBytesTests {
    private static let ancestors = RevisionHistory((1...1_000).reversed().map { rev("\($0)-" + String(repeating: "ab", count: 40)) })

    @Test(arguments: [true, false]) func ancestorsAreCounted(_ isStored: Bool) {
        var pull = PullRun(passive: true)
        var revision = received(1, "a", "1001-ab")
        revision.history = Self.ancestors
        pull.arrive(revision)
        #expect(pull.machine.bufferedBytes > 1_000 * 82)
        var known = checked(1, "a", "1001-ab", blobs: [BlobReference(digest: digest(1), length: 1, contentType: String(repeating: "t", count: 5_000))])
        known.history = Self.ancestors
        let before = pull.machine.bufferedBytes
        pull.on(.checked(pull.batch, [isStored ? .checked(known) : .refused(revision, http(400))]))
        guard isStored else { return #expect(pull.machine.bufferedBytes == 0) }
        #expect(pull.machine.bufferedBytes > before + 5_000)
        pull.on(.blobsFetched(pull.fetch, nil))
        pull.on(.stored(pull.batch, [.stored(.alreadyPresent)]))
        #expect(pull.machine.bufferedBytes == 0 && pull.machine.isDrained)
    }

    @Test func namesOfBlobsAreCountedAndLookedUpAFewAtATime() {
        var limits = ReplicationLimits()
        limits.blobLookUps = 3
        var machine = BlobMachine(limits)
        var looks: [BlobTransfer] = []
        func on(_ event: BlobEvent) -> Int {
            var actions: [BlobAction] = []
            machine.handle(event, &actions)
            let new = actions.compactMap { if case .look(let it) = $0 { it } else { nil } }
            looks += new
            return new.count
        }
        for number in 1...2 {
            let names = (0..<10).map { BlobReference(digest: digest(UInt8(number * 20 + $0)), length: 1, contentType: nil) }
            let new = on(.needed(BlobWaiter(slot: 0, fetch: FetchID(number: number)), doc("d"), names, known: .some(Set(names.map(\.digest)))))
            #expect(new == (number == 1 ? 3 : 0))
            #expect(machine.bytes >= number * 10 * (HeldBytes.transfer + HeldBytes.need))
        }
        // One fails, and so do those of the same revision that have not been looked up; then it is the others' turn.
        _ = on(.failed(looks[0], http(503)))
        var next = 1
        while next < looks.count {
            #expect(looks.count - next <= 3)
            _ = on(.looked(looks[next], isHere: true))
            next += 1
        }
        #expect(looks.count == 13 && machine.isIdle && machine.bytes == 0)
    }

    @Test func thousandsOfBlobsOfADocumentAreFetchedAFewAtATime() {
        var machine = BlobMachine(ReplicationLimits())
        let names = (0..<9_990).map { number in
            BlobReference(digest: BlobDigest(bytes: (0..<20).map { UInt8(truncatingIfNeeded: $0 < 8 ? number >> ($0 * 8) : 0) }) ?? digest(0), length: 1, contentType: nil)
        }
        var (actions, looks, told, most) = ([BlobAction](), 0, 0, 0)
        machine.handle(.needed(BlobWaiter(slot: 0, fetch: FetchID(number: 1)), doc("d"), names, known: .all), &actions)
        while let action = actions.popLast() {
            most = max(most, machine.bytes)
            switch action {
            case .look(let transfer):
                looks += 1
                machine.handle(.looked(transfer, isHere: true), &actions)
            case .tell(_, let error): told += error == nil ? 1 : 100
            default: Issue.record("\(action)")
            }
        }
        #expect(looks == 9_990 && told == 1 && machine.isIdle && machine.bytes == 0)
        // That is 64 of them, and not six megabytes.
        #expect(most < 100 * (HeldBytes.transfer + HeldBytes.need), "\(most)")
    }

    @Test func waitingRequestsCountUntilTheyAreServed() {
        var requests = PassiveRequests()
        for _ in 1...2 { requests.append(.setCheckpoint(nil, id: "c", body: Array(repeating: 0, count: 10_000), expectedRevision: nil)) }
        #expect(requests.bytes > 20_000)
        _ = requests.next()
        #expect(requests.bytes > 20_000)
        requests.served()
        #expect(requests.bytes > 10_000 && requests.bytes < 20_000)
        _ = requests.next()
        requests.served()
        #expect(requests.bytes == 0 && requests.isEmpty)
    }

    @Test func rowsDoneAfterAnOpenRowTakeNoRoom() {
        var tracker = RemoteSequenceTracker(from: nil)
        let long = String(repeating: "x", count: 4_000)
        tracker.begin(RemoteSequence(json: "1"))
        for number in 2...1_000 {
            tracker.begin(RemoteSequence(json: "\(number)\(long)"))
            tracker.complete(RemoteSequence(json: "\(number)\(long)"))
        }
        #expect(tracker.outstanding == 1 && tracker.bytes < 10_000 && tracker.completedThrough == nil && tracker.offeredAgain == 999)
        tracker.complete(RemoteSequence(json: "1"))
        #expect(tracker.bytes == 0 && tracker.offeredAgain == 0 && tracker.completedThrough?.json == "1000\(long)")
    }

    @Test func openRowsTakeTheRoomOfOne() {
        var tracker = RemoteSequenceTracker(from: nil)
        for number in 1...1_000 {
            tracker.begin(RemoteSequence(json: "\(number)"))
            tracker.leave(RemoteSequence(json: "\(number)"))
        }
        #expect(tracker.outstanding == 1 && tracker.bytes < 10_000 && tracker.completedThrough == nil && tracker.offeredAgain == 1_000)
    }

    @Test func aSequenceThatIsTooLongIsRefusedByName() {
        let limits = ReplicationLimits()
        let long = String(repeating: "s", count: limits.maximumSequenceBytes)
        #expect { try ChangeRows.readChanges(Array(#"[["\#(long)","d","1-aa"]]"#.utf8), limits: limits) } throws: {
            ($0 as? MessageError)?.code == 413 && ($0 as? MessageError)?.message.contains("max_sequence_bytes") == true
        }
        let fits = long.dropLast(2)
        #expect(throws: Never.self) { try ChangeRows.readChanges(Array(#"[["\#(fits)","d","1-aa"]]"#.utf8), limits: limits) }
    }
}
